"""Exact tests of seeds against seeds, one-sided, for what the second edition asks of the small worlds.

D_s is what a seed says of a finding, a mean over bonuses and worlds. The sign-flip test takes all sign patterns of the
D_s to be equally likely where nothing differs: exact where each D_s is symmetric around 0, as the difference of two
methods with one distribution of scores is. It says nothing about medians or means of lopsided differences, which sign
tests are for. McNemar's test is the sign test of pairs that solve a world or not.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import special

from offpiste.analysis import stats
from offpiste.analysis.stats import LEVEL, Array

Solved = NDArray[np.bool_]
"""By seed, whether a run solves its world."""
GAIN = 0.25
"""A gain in the share of solved runs that is worth having."""
_ROUNDING = 1e-9
"""By how much sums and differences may differ that are equal."""


def sign_flip(differences: Array) -> float:
    """Return the chance of a sum of differences like this or larger, over all patterns of their signs."""
    half = differences.size // 2
    first, second = (_sums(part) for part in (differences[:half], differences[half:]))
    missing = differences.sum() - _ROUNDING - first  # what the second half has to add to each sum of the first
    large_enough = second.size - np.searchsorted(np.sort(second), missing)
    return float(large_enough.sum() / (first.size * second.size))


def mcnemar(first: Solved, second: Solved) -> float:
    """Return the chance of so many pairs that only the first solves, were either as likely to be alone."""
    return sign(int((first & ~second).sum()), int((second & ~first).sum()))


def sign(wins: int, losses: int) -> float:
    """Return the chance of so many wins or more among fair tosses, ties left out."""
    return stats.sign_tail(wins, wins + losses)


def above(differences: Array, margin: float) -> float:
    """Return the p-value of a sign test that the median difference is above a margin; what is equal counts against."""
    wins = int((differences > margin + _ROUNDING).sum())
    return sign(wins, differences.size - wins)


def gains_less(first: Solved, second: Solved, gain: float = GAIN) -> float:
    """Return the chance of so few pairs that only the first solves, were its gain as much as that.

    If the first solves a world more often by the gain, then it alone solves it in at least that share of the pairs.
    For worlds that runs solve or not; the median difference of such scores is 0 or 1, so the margin of `stats.compare`
    calls a bonus that solves one run in four no better than one that never does.
    """
    return float(special.bdtr(int((first & ~second).sum()), first.size, gain)) if first.size else 1.0


def min_pairs(gain: float = GAIN) -> int:
    """Return the number of pairs below which `gains_less` cannot show anything."""
    return int(np.ceil(np.log(LEVEL) / np.log(1 - gain)))


def holm(values: Mapping[str, float], tests: int = 0) -> dict[str, bool]:
    """Return by name which hypotheses `stats.holm` rejects."""
    return dict(zip(values, stats.holm([*values.values()], tests), strict=True))


def _sums(differences: Array) -> Array:
    """Return the sums of all patterns of signs."""
    sums = np.zeros(1)
    for difference in np.abs(differences):
        sums = np.concatenate([sums + difference, sums - difference])
    return sums
