"""The studies of the ablation of RND: seven β of each arm, then the one that each world chose, on other seeds.

Arms are methods with names of their own, all of the bonus `rnd_full`, whose mean of squares `rnd` differs from by a
factor that β takes up. β₀ of each is by the rule of calibration, on Deep Sea.
"""

from collections.abc import Mapping
from typing import Any

from offpiste.analysis.choice import Point, best_first
from offpiste.analysis.rnd_ablation import ARMS, CHOOSING_SEEDS, worlds_of
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.which_beta import Key, Runs
from offpiste.methods import METHODS
from offpiste.study.plan import make_study
from offpiste.study.which_beta import Content, Grid, bonus_grid, key_of, scales_around

BONUS = "rnd_full"
_ALONE = {
    "heads": 1,
    "ends_with_episode": True,
    "normalise": "none",
    "pays_for": "state",
    "discount": 0.99,
    "options": {"warm_up_steps": 0},
}
"""RND without what Burda et al. added; the rest of the row of `rnd_full` stays."""
_TWO_HEADS = {"heads": 2, "normalise": "return_std"}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "rnd_base": _ALONE,
    "rnd_next_frame": _ALONE | {"pays_for": "next_state"},
    "rnd_return_std": _ALONE | {"normalise": "return_std"},
    "rnd_divergence": _ALONE | {"priorities": "divergence"},
    "rnd_sampled": _ALONE | {"when": "sample"},
    "rnd_heads_97": _ALONE | _TWO_HEADS | {"discount": 0.97},
    "rnd_heads_99": _ALONE | _TWO_HEADS,
    "rnd_endless": _ALONE | _TWO_HEADS | {"ends_with_episode": False},
    "rnd_all": {},
    "rnd_no_warm_up": {"options": {"warm_up_steps": 0}},
    "rnd_no_next_frame": {"pays_for": "state"},
    "rnd_no_return_std": {"normalise": "none"},
    "rnd_no_divergence": {"priorities": "loss"},
    "rnd_no_horizon": {"discount": 0.97},
    "rnd_no_endless": {"ends_with_episode": True},
    "rnd_no_heads": {"heads": 1, "ends_with_episode": True},
}
"""By arm, what its bonus has otherwise than the row of `rnd_full`."""
MIDDLES: Mapping[str, float] = {
    "rnd_base": 2.8,
    "rnd_next_frame": 2.5,
    "rnd_return_std": 4.1,
    "rnd_divergence": 2.8,
    "rnd_sampled": 2.8,
    "rnd_heads_97": 1.6,
    "rnd_heads_99": 4.1,
    "rnd_endless": 4.1,
    "rnd_all": 4.1,
    "rnd_no_warm_up": 3.6,
    "rnd_no_next_frame": 4.7,
    "rnd_no_return_std": 2.6,
    "rnd_no_divergence": 4.1,
    "rnd_no_horizon": 1.6,
    "rnd_no_endless": 4.1,
    "rnd_no_heads": 4.1,
}
"""By arm, β₀ in small worlds, as `calibrated` has it."""
ATARI = ("montezuma_revenge", "gravitar", "venture")
"""Games of the Atari form, of hard exploration."""
ATARI_SEEDS = (0, 1, 2, 3, 4)
ATARI_ARMS = ("rnd_all", "rnd_no_divergence", "rnd_no_endless", "rnd_no_heads")
"""Arms that pay what RND in full does, and so have its β there."""


def grid(arm: str) -> Grid:
    """Return the seven β of an arm."""
    return bonus_grid(scales_around(MIDDLES[arm]))


def entry(arm: str, scales: list[float], games: list[str]) -> Content:
    """Return an arm with some β as a table of a study's file."""
    axes = {"beta": {"setting": "bonus.scale", "values": scales}}
    changes = {"settings": {"bonus": dict(CHANGES[arm])}} if CHANGES[arm] else {}
    return {"name": arm, "bonus": BONUS, "games": games} | changes | {"grid": axes}


def first() -> Content:
    """Return the study that chooses β: seven of each arm, on the worlds of its comparisons."""
    entries = [entry(arm, [each["bonus.scale"] for each in grid(arm).values()], [*worlds_of(arm)]) for arm in ARMS]
    return {"seeds": [*CHOOSING_SEEDS], "methods": entries, "keep": "results"}


def atari() -> Content:
    """Return the Atari form: the arms that pay alike, with the β of calibration on Montezuma's Revenge."""
    entries = [entry(arm, [METHODS[BONUS].bonus.scale], [*ATARI]) for arm in ATARI_ARMS]
    return {"seeds": [*ATARI_SEEDS], "methods": entries, "keep": "results"}


def own(points: Mapping[Point, Runs]) -> Point:
    """Return the point that a world chooses for an arm, by the seeds that choose."""
    scores = {point: [runs[seed] for seed in CHOOSING_SEEDS if seed in runs] for point, runs in points.items()}
    return best_first(scores, SMALL_WORLDS.tie, {point: point for point in scores})[0]


def result(tables: Mapping[str, Mapping[str, Mapping[Point, Runs]]], seeds: range) -> Content:
    """Return the study of what was chosen, by the tables of all arms, on seeds that chose nothing."""
    entries = [
        entry(arm, [grid(arm)[own(tables[arm][world])]["bonus.scale"]], [world])
        for arm in ARMS
        for world in worlds_of(arm)
    ]
    return {"seeds": [*seeds], "methods": entries, "keep": "results"}


def places() -> dict[Key, Point]:
    """Return the point of every run of the first study, by method and fingerprints."""
    point_of = {(arm, settings["bonus.scale"]): point for arm in ARMS for point, settings in grid(arm).items()}
    return {key_of(run): point_of[run.method, run.bonus.scale] for run in make_study("first", first()).runs}
