"""Statistics of few, skewed, bimodal scores: pure functions of arrays, with an explicit generator where they draw.

What a verdict rests on is exact for any distribution of scores at any number of seeds: sign tests of seed-by-seed
differences, Clopper–Pearson and order-statistic intervals. No valid test that the one of two methods is not the better
can give less than 2**-n with n seeds: the other's scores may be two-valued around the first's. A rank test is
sharper only because it supposes that the two distributions are the same, spread and all:
benchmarks/validation/calibration.py shows how unequal spreads deceive it. Bootstrap intervals describe.

A group is an array of runs of one game along its last axis; several groups are several games. Groups that were
resampled have the resamples along their first axis, and all statistics of groups take them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Groups = Sequence[Array]

LEVEL = 0.05
"""Chance of a wrong verdict, and of an interval that misses."""
_ENDS = (LEVEL / 2, 1 - LEVEL / 2)


@dataclass(frozen=True)
class Interval:
    """Where a quantity lies, at 95%."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of one method beside runs of another, pair by pair."""

    differences: Array
    """First minus second, of the seed-by-seed pairs of all games."""
    p_better: float
    """Chance of pairs like these, were the first better in half of them at most."""
    p_worse: float
    """The same with the two exchanged."""
    p_not_better: float
    """Chance of pairs like these, were the median difference as much as the margin."""
    p_not_worse: float
    """Chance of pairs like these, were it as little as minus the margin."""

    @property
    def pairs(self) -> int:
        """How many there are."""
        return self.differences.size

    @property
    def probability(self) -> float:
        """Share of pairs in which the first does better, a tie being half: the probability of improvement."""
        return float(((self.differences > 0) + 0.5 * (self.differences == 0)).mean()) if self.pairs else math.nan

    @property
    def probability_interval(self) -> Interval:
        """Exact interval of that probability; a tie counts as neither end likes it."""
        low = proportion_interval(int((self.differences > 0).sum()), self.pairs).low
        return Interval(low, proportion_interval(int((self.differences >= 0).sum()), self.pairs).high)

    @property
    def difference(self) -> float:
        """Median difference."""
        return float(np.median(self.differences)) if self.pairs else math.nan

    @property
    def difference_interval(self) -> Interval | None:
        """Exact interval of the median difference; None with fewer than six pairs."""
        return median_interval(self.differences)


# Across games


def iqm(groups: Groups) -> Array:
    """Return the mean of the middle half of all runs, each counting once."""
    pooled = np.sort(np.concatenate(groups, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return np.asarray(pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1))


def median_of_means(groups: Groups) -> Array:
    """Return the median over games of the mean over runs."""
    return np.asarray(np.median(np.stack([group.mean(axis=-1) for group in groups]), axis=0))


def optimality_gap(groups: Groups) -> Array:
    """Return by how much runs miss 1 on average, a human's score; what lies above it does not make up for it."""
    pooled = np.concatenate(groups, axis=-1)
    return np.asarray(1.0 - np.minimum(pooled, 1.0).mean(axis=-1))


def performance_profile(groups: Groups, thresholds: Array) -> Array:
    """Return the share of runs above each threshold, along the last axis."""
    pooled = np.concatenate(groups, axis=-1)
    return np.asarray((pooled[..., None, :] > thresholds[:, None]).mean(axis=-1))


def mean_gain(first: Groups, second: Groups) -> Array:
    """Return the mean over games of the difference of mean scores."""
    return np.asarray(np.mean([a.mean(axis=-1) - b.mean(axis=-1) for a, b in zip(first, second, strict=True)], axis=0))


# Intervals that only describe


def bootstrap(
    groups: Groups,
    statistic: Callable[[Groups], Array],
    generator: np.random.Generator,
    resamples: int = 2000,
) -> Interval:
    """Return the percentile interval of a statistic when the runs of each game are drawn again."""
    low, high = bootstrap_band(groups, statistic, generator, resamples)
    return Interval(float(low), float(high))


def bootstrap_band(
    groups: Groups,
    statistic: Callable[[Groups], Array],
    generator: np.random.Generator,
    resamples: int = 2000,
) -> Array:
    """Return lower and upper ends for a statistic that is an array, for example a performance profile."""
    drawn = [group[generator.integers(group.size, size=(resamples, group.size))] for group in groups]
    return np.asarray(np.quantile(statistic(drawn), _ENDS, axis=0))


def curve_band(curves: Array, generator: np.random.Generator, resamples: int = 1000) -> Array:
    """Return the bootstrap band [2, iterations] of the mean curve of seeds [seeds, iterations].

    Iterations that a seed has not reached are NaN; the mean there is that of the others.
    """
    reached = np.isfinite(curves)
    values = np.where(reached, curves, 0.0)
    seeds = len(curves)
    weights = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ values) / (weights @ reached)
    quantile = np.quantile if reached.all() else np.nanquantile
    return np.asarray(quantile(means, _ENDS, axis=0))


# Intervals and tests that hold at any number of seeds


def proportion_interval(successes: int, trials: int) -> Interval:
    """Return the Clopper–Pearson interval of a probability."""
    low = float(special.betaincinv(successes, trials - successes + 1, LEVEL / 2)) if successes > 0 else 0.0
    high = float(special.betaincinv(successes + 1, trials - successes, 1 - LEVEL / 2)) if successes < trials else 1.0
    return Interval(low, high)


def above(scores: Array, threshold: float) -> tuple[float, Interval]:
    """Return the share of runs above a threshold and the exact interval of that probability."""
    count = int((scores > threshold).sum())
    return count / scores.size, proportion_interval(count, scores.size)


def median_interval(values: Array) -> Interval | None:
    """Return the order-statistic interval of a median, or None where so few values give none (six do at 95%).

    It holds for values of several distributions too, for the median of their equal mixture (Hoeffding, 1956).
    """
    count = values.size
    below = np.arange(count // 2 + 1)
    rank = int((special.bdtr(below, count, 0.5) <= LEVEL / 2).sum())  # how many values may lie outside on each side
    if rank == 0:
        return None
    ordered = np.sort(values)
    return Interval(float(ordered[rank - 1]), float(ordered[count - rank]))


def mean_interval(values: Array, generator: np.random.Generator, draws: int = 4000) -> Interval:
    """Return an interval of the mean of values that lie between 0 and 1, or were seen beyond (Gaffke, 2005).

    Where all are 0 or 1 it is that of Clopper and Pearson, so it has a width even where all are equal. For other values
    nobody has proved it, nor seen it fail; benchmarks/validation/calibration.py tries it.
    """
    weights = generator.dirichlet(np.ones(values.size + 1), draws)  # the last goes to a value that was not seen
    low, high = (np.append(values, unseen) for unseen in (min(0.0, values.min()), max(1.0, values.max())))
    return Interval(float(np.quantile(weights @ low, _ENDS[0])), float(np.quantile(weights @ high, _ENDS[1])))


def compare(differences: Groups, margin: float) -> Comparison:
    """Weigh seed-by-seed differences, one array per game, by sign tests at zero and at plus and minus the margin.

    Within one game ties are left out, as a sign test may. Over several games they count against what is to be shown:
    the hypothesis is then about the mean over games, and a sum of unlike trials has lighter tails than the binomial of
    their mean (Hoeffding, 1956).
    """
    values = np.concatenate(differences)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    trials = wins + losses if len(differences) == 1 else values.size
    return Comparison(
        values,
        p_better=sign_tail(wins, trials),
        p_worse=sign_tail(losses, trials),
        p_not_better=sign_tail(int((values < margin).sum()), values.size),
        p_not_worse=sign_tail(int((values > -margin).sum()), values.size),
    )


# Rankings of methods


def mean_ranks(runs: Sequence[Array]) -> Array:
    """Return the mean rank of each method's runs among all runs of a game; the best has the highest.

    Runs lie along the last axis, and so do the methods of what is returned.
    """
    ranks = doubled_ranks(np.concatenate(runs, axis=-1)) / 2
    ends = np.cumsum([run.shape[-1] for run in runs])
    return np.stack([part.mean(axis=-1) for part in np.split(ranks, ends[:-1], axis=-1)], axis=-1)


def mean_spearman(ranks: Array, others: Array) -> Array:
    """Return the mean of Spearman's correlation of one game with others; 0 with a game on which all are equal.

    Methods lie along the last axis, and the others along the first of `others`.
    """
    return np.asarray(np.vecdot(_standardised_ranks(ranks), _standardised_ranks(others).mean(axis=0)))


def rank_correlation(ranks: Array, others: Array) -> tuple[float, float]:
    """Return the mean rank correlation of one game with others, and the p-value of its being above zero.

    `ranks` is [methods], `others` is [games, methods]. The p-value comes from exchanging the methods on the one game in
    every possible way, of which six methods have 720.
    """
    values = _standardised_ranks(ranks)[_all_orders(ranks.size)] @ _standardised_ranks(others).mean(axis=0)
    slack = 1e-12
    return float(values[0]), float((values >= values[0] - slack).mean())


# Planning


def seeds_needed(probability: float, comparisons: int = 1, power: float = 0.8, most: int = 2000) -> int | None:
    """Return the least number of seeds with which a sign test sees such a probability of improvement, or None.

    Exact; `comparisons` is by how many tests the level is shared.
    """
    seeds = np.arange(min_seeds(comparisons), most + 1)
    wins = _critical_wins(comparisons, most)[seeds]
    enough = special.bdtrc(wins - 1.0, seeds, probability) >= power
    return int(seeds[enough.argmax()]) if enough.any() else None


def min_seeds(comparisons: float = 1, games: int = 1) -> int:
    """Return the number of seeds below which sign tests cannot show anything, whatever the scores."""
    return math.ceil(math.log2(comparisons / LEVEL) / games)


def sign_tail(wins: int, trials: int) -> float:
    """Return the chance of so many wins or more among fair tosses."""
    return float(special.bdtrc(wins - 1, trials, 0.5)) if wins > 0 else 1.0


def holm(values: Sequence[float], tests: int = 0) -> list[bool]:
    """Return which hypotheses are rejected so that any wrong rejection has a chance of 5% at most (Holm, 1979).

    `tests` is how many there are where some have no p-value yet, which count as not rejected.
    """
    p, rejected = np.array(values), [False] * len(values)
    for done, index in enumerate(np.argsort(p, kind="stable")):
        if p[index] > LEVEL / (max(tests, p.size) - done):
            break
        rejected[int(index)] = True
    return rejected


def improvement_after(scores: Array, difference: float) -> float:
    """Return the chance that a run raised by a difference beats another run of the same method."""
    raised, other = (scores + difference)[:, None], scores[None, :]
    wins = (raised > other) + 0.5 * (raised == other)
    pairs = ~np.eye(scores.size, dtype=bool)
    return float(wins[pairs].mean()) if scores.size > 1 else math.nan


def doubled_ranks(values: Array) -> NDArray[np.int64]:
    """Return twice the rank of each value along the last axis, so that ranks shared by ties are whole numbers too."""
    distinct, numbers = np.unique(values, return_inverse=True)
    numbers = numbers.reshape(-1, values.shape[-1])
    rows = np.arange(len(numbers))[:, None]
    counts = np.bincount((rows * distinct.size + numbers).ravel(), minlength=len(rows) * distinct.size)
    counts = counts.reshape(-1, distinct.size)
    ranks = np.take_along_axis(2 * counts.cumsum(axis=-1) - counts + 1, numbers, axis=-1)
    return np.asarray(ranks.reshape(values.shape), dtype=np.int64)


@cache
def _critical_wins(comparisons: int, most: int) -> NDArray[np.int64]:
    """Return, for each number of seeds from 0 to the most, the wins from which on a sign test sees a difference."""
    found, wins = [], 0
    for seeds in range(most + 1):
        while special.bdtrc(wins - 1, seeds, 0.5) > LEVEL / comparisons:
            wins += 1
        found.append(wins)
    return np.array(found)


@cache
def _all_orders(count: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(count))))  # the first is the order as it is


def _standardised_ranks(values: Array) -> Array:
    ranks = doubled_ranks(values)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    lengths = np.sqrt(np.vecdot(centred, centred))[..., None]
    return np.asarray(centred / np.where(lengths > 0, lengths, 1.0))
