"""The comparisons of the ablation of RND on studies made up: how often one is shown, and how often any wrongly.

Runs solve their world with a probability. Where arms differ, one comparison does, and the others share its arms.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.validation.calibration_studies import LEVEL, shown, slack
from offpiste.analysis.rnd_ablation import ARMS, COMPARISONS, judge, worlds_of
from offpiste.seeding import stream

SEEDS = (10, 20)
BASE = 0.4
"""The probability with which runs of all arms but one solve a world."""


@dataclass(frozen=True)
class Truth:
    """By how much the probability of one arm differs, and in how many of its comparison's worlds."""

    name: str
    arm: str
    label: str
    gain: float
    worlds: int


TRUTHS = (
    *(
        Truth(
            f"gains {gain:g} in {worlds} of 4 worlds", "rnd_next_frame", "rnd_next_frame beats rnd_base", gain, worlds
        )
        for gain, worlds in ((0.25, 4), (0.5, 4), (0.5, 2))
    ),
    *(
        Truth(f"gains {gain:g} in both worlds that end", "rnd_endless", "rnd_endless beats rnd_heads_99", gain, 2)
        for gain in (0.25, 0.5)
    ),
)


def check_rnd_ablation(studies: int) -> list[str]:
    """Print how often a comparison is shown, and return what is wrong too often."""
    missed = []
    print(f"\nablation of RND: comparisons shown, with {' and '.join(map(str, SEEDS))} seeds")
    for truth in TRUTHS:
        shares = {seeds: _shown(truth, seeds, studies) for seeds in SEEDS}
        print(f"  {truth.name:<44} shown {shown(shares)}")
    wrong = {seeds: _any_wrong(seeds, studies) for seeds in SEEDS}
    print(f"  {'nothing differs':<44} any wrong {shown(wrong)}")
    if max(wrong.values()) > 2 * LEVEL + slack(2 * LEVEL, studies):  # 5% in each direction
        missed.append(f"the ablation of RND is answered wrongly in {max(wrong.values()):.1%}")
    return missed


def _shown(truth: Truth, seeds: int, studies: int) -> float:
    generator = stream(seeds, f"calibration rnd ablation {truth.name}")
    (worlds,) = (each.worlds for each in COMPARISONS if each.label == truth.label)
    better = {(truth.arm, world): BASE + truth.gain for world in worlds[: truth.worlds]}
    answers = (judge(_made_up(generator, better, seeds), range(seeds))[truth.label] for _ in range(studies))
    return float(np.mean([answer == "yes" for answer in answers]))


def _any_wrong(seeds: int, studies: int) -> float:
    generator = stream(seeds, "calibration rnd ablation: nothing differs")
    found = (judge(_made_up(generator, {}, seeds), range(seeds)).values() for _ in range(studies))
    return float(np.mean([{*answers} != {"inconclusive"} for answers in found]))


def _made_up(
    generator: np.random.Generator, better: dict[tuple[str, str], float], seeds: int
) -> dict[tuple[str, str], dict[int, tuple[float, float]]]:
    return {
        (arm, world): {
            seed: (float(solved), 0.0)
            for seed, solved in enumerate(generator.random(seeds) < better.get((arm, world), BASE))
        }
        for arm in ARMS
        for world in worlds_of(arm)
    }
