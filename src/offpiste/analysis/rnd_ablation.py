"""Which part of RND in full does the work? Its arms, what each is held beside, and their tests, before the first run.

Burda et al. (2019) ran RND with six things that benchmarks of it leave out. An arm adds one of them to RND alone, or
takes one from RND in full; each arm has a β of its own, so that none is held beside another at a β that suits only one.
D_s is what one seed says of an arm: the mean over worlds of its own score minus that of its reference. Each direction
is a sign-flip test at 5%, corrected for all comparisons (Holm). Ten seeds are described; the verdict is that of twenty.

How often a difference is shown: benchmarks/validation/calibration.py.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from offpiste.analysis.choice import Point, smoothed
from offpiste.analysis.seed_tests import holm, sign_flip
from offpiste.analysis.stats import Array
from offpiste.analysis.which_beta import Runs

WORLDS = ("deep_sea_12", "four_rooms", "noisy_tv", "museum")
ENDING = ("four_rooms_ends", "catch")
"""Where episodes end; elsewhere a limit truncates them, returns bootstrap there, and *endless* changes nothing."""
CHOOSING_SEEDS, SEEDS = (100, 101), tuple(range(20))


@dataclass(frozen=True)
class Comparison:
    """An arm and what it is held beside."""

    arm: str
    reference: str
    question: str
    worlds: tuple[str, ...] = WORLDS

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.arm} beats {self.reference}"


COMPARISONS = (
    Comparison("rnd_next_frame", "rnd_base", "Does it help to pay for the frame that a step led to?"),
    Comparison("rnd_return_std", "rnd_base", "Does it help to divide rewards by the deviation of their return?"),
    Comparison("rnd_divergence", "rnd_base", "Do priorities by divergence help, with one head?"),
    Comparison("rnd_sampled", "rnd_base", "Does it help to pay when a step is sampled, and not on entry?"),
    Comparison("rnd_heads_97", "rnd_return_std", "Does a head of its own help, with the discount of the game's?"),
    Comparison("rnd_heads_99", "rnd_heads_97", "Does a longer horizon of the second head help?"),
    Comparison("rnd_endless", "rnd_heads_99", "Does a return that does not end with episodes help?", ENDING),
    Comparison("rnd_all", "rnd_base", "Does all of it together help?"),
    Comparison("rnd_all", "rnd_no_warm_up", "Do statistics of pixels from random play help?"),
    Comparison("rnd_all", "rnd_no_next_frame", "Does the next frame help, beside all else?"),
    Comparison("rnd_all", "rnd_no_return_std", "Does the normalisation help, beside all else?"),
    Comparison("rnd_all", "rnd_no_divergence", "Do priorities by divergence help, beside all else?"),
    Comparison("rnd_all", "rnd_no_horizon", "Does the longer horizon help, beside all else?"),
    Comparison("rnd_all", "rnd_no_endless", "Does the endless return help, beside all else?", ENDING),
    Comparison("rnd_no_endless", "rnd_no_heads", "Does the second head help, beside all else that one head can have?"),
)
ARMS = tuple(dict.fromkeys(name for each in COMPARISONS for name in (each.reference, each.arm)))
"""Names of methods."""

Answer = Literal["yes", "no", "inconclusive"]
Scored = Mapping[tuple[str, str], Runs]
"""By arm and world, the runs with the arm's own β for that world."""


def worlds_of(arm: str) -> tuple[str, ...]:
    """Return the worlds that the comparisons of an arm need."""
    wanted = {world for each in COMPARISONS if arm in (each.arm, each.reference) for world in each.worlds}
    return tuple(world for world in (*WORLDS, *ENDING) if world in wanted)


def differences(scored: Scored, comparison: Comparison, seeds: Collection[int] = SEEDS) -> Array | None:
    """Return D_s of a comparison, by seed, or None while a run is missing."""
    found = []
    for world in comparison.worlds:
        both = [scored.get((name, world), {}) for name in (comparison.arm, comparison.reference)]
        if any(seed not in runs for runs in both for seed in seeds):
            return None
        found.append([both[0][seed][0] - both[1][seed][0] for seed in seeds])
    by_seed: Array = np.mean(found, axis=0)
    return by_seed


def judge(scored: Scored, seeds: Collection[int] = SEEDS) -> dict[str, Answer]:
    """Return the answer to each comparison whose runs are there; all are corrected for all of them."""
    found = {each.label: differences(scored, each, seeds) for each in COMPARISONS}
    there = {label: values for label, values in found.items() if values is not None}
    shown, refuted = (
        holm({label: sign_flip(way * values) for label, values in there.items()}, len(COMPARISONS)) for way in (1, -1)
    )
    return {label: "yes" if shown[label] else "no" if refuted[label] else "inconclusive" for label in there}


def over_beta(points: Mapping[Point, Runs]) -> float:
    """Return the mean over k of the smoothed scores on the seeds that choose: how little an arm hangs on its β.

    It describes and is not tested: few seeds choose.
    """
    scores = {point: [runs[seed] for seed in CHOOSING_SEEDS if seed in runs] for point, runs in points.items()}
    return float(np.mean([score for score, _ in smoothed(scores).values()]))
