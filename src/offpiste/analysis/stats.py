"""Statistics of few, skewed, bimodal scores: pure functions of arrays, with an explicit generator where they draw.

What a verdict rests on is exact for any distribution of scores at any number of seeds: sign tests of seed-by-seed
differences, Clopper–Pearson and order-statistic intervals. No valid test that the one of two methods is not the better
can give less than 2**-n with n seeds: the other's scores may be two-valued around the first's. The rank test is
sharper only because it supposes that the two distributions are the same, spread and all. Bootstrap intervals describe.

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
_MOST_EXACT_METHODS = 8


@dataclass(frozen=True)
class Interval:
    """Where a quantity lies, at 95% unless another level was asked for."""

    low: float
    high: float
    exact: bool
    """Whether it holds at any number of seeds, or only describes."""


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
        return Interval(low, proportion_interval(int((self.differences >= 0).sum()), self.pairs).high, exact=True)

    @property
    def difference(self) -> float:
        """Median difference."""
        return float(np.median(self.differences)) if self.pairs else math.nan

    @property
    def difference_interval(self) -> Interval | None:
        """Exact interval of the median difference; None with fewer than six pairs."""
        return median_interval(self.differences)


def normalise(scores: Array, random_score: float, human_score: float) -> Array:
    """Return scores on the scale on which random play is 0 and a human is 1."""
    return (scores - random_score) / (human_score - random_score)


def final_score(curve: Array, last: int = 10) -> float:
    """Return the mean of a curve's last iterations, or of all where there are fewer."""
    return float(np.mean(curve[-last:]))


def area(curve: Array) -> float:
    """Return the area under a curve over its length, that is its mean: the paper's sample efficiency."""
    return float(np.mean(curve))


# Across games


def iqm(groups: Groups) -> Array:
    """Return the mean of the middle half of all runs, each counting once."""
    pooled = np.sort(np.concatenate(groups, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return np.asarray(pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1))


def median_of_means(groups: Groups) -> Array:
    """Return the median over games of the mean over runs."""
    return np.asarray(np.median(np.stack([group.mean(axis=-1) for group in groups]), axis=0))


def optimality_gap(groups: Groups, target: float = 1.0) -> Array:
    """Return by how much runs miss the target on average; what lies above it does not make up for it."""
    pooled = np.concatenate(groups, axis=-1)
    return np.asarray(target - np.minimum(pooled, target).mean(axis=-1))


def performance_profile(groups: Groups, thresholds: Array) -> Array:
    """Return the share of runs above each threshold, along the last axis."""
    pooled = np.concatenate(groups, axis=-1)
    return np.asarray((pooled[..., None, :] > thresholds[:, None]).mean(axis=-1))


def probability_of_improvement(first: Groups, second: Groups) -> Array:
    """Return the mean over games of the chance that a run of the first beats a run of the second, a tie being half."""
    chances = []
    for a, b in zip(first, second, strict=True):
        left, right = a[..., :, None], b[..., None, :]
        chances.append(((left > right) + 0.5 * (left == right)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(chances, axis=0))


def mean_gain(first: Groups, second: Groups) -> Array:
    """Return the mean over games of the difference of mean scores."""
    return np.asarray(np.mean([a.mean(axis=-1) - b.mean(axis=-1) for a, b in zip(first, second, strict=True)], axis=0))


# Intervals that only describe


def bootstrap(
    groups: Groups,
    statistic: Callable[[Groups], Array],
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = LEVEL,
) -> Interval:
    """Return the percentile interval of a statistic when the runs of each game are drawn again."""
    low, high = bootstrap_band(groups, statistic, generator, resamples, level)
    return Interval(float(low), float(high), exact=False)


def bootstrap_band(
    groups: Groups,
    statistic: Callable[[Groups], Array],
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = LEVEL,
) -> Array:
    """Return lower and upper ends for a statistic that is an array, for example a performance profile."""
    drawn = [group[generator.integers(group.size, size=(resamples, group.size))] for group in groups]
    return np.asarray(np.quantile(statistic(drawn), (level / 2, 1 - level / 2), axis=0))


def curve_band(
    curves: Array, generator: np.random.Generator, resamples: int = 1000, level: float = LEVEL
) -> tuple[Array, Array]:
    """Return the mean curve of seeds [seeds, iterations] and its bootstrap band [2, iterations].

    Iterations that a seed has not reached are NaN; the mean there is that of the others.
    """
    reached = np.isfinite(curves)
    values = np.where(reached, curves, 0.0)
    seeds = len(curves)
    weights = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ values) / (weights @ reached)
        mean = values.sum(axis=0) / reached.sum(axis=0)
    quantile = np.quantile if reached.all() else np.nanquantile
    return mean, np.asarray(quantile(means, (level / 2, 1 - level / 2), axis=0))


# Intervals and tests that hold at any number of seeds


def proportion_interval(successes: int, trials: int, level: float = LEVEL) -> Interval:
    """Return the Clopper–Pearson interval of a probability."""
    low = float(special.betaincinv(successes, trials - successes + 1, level / 2)) if successes > 0 else 0.0
    high = float(special.betaincinv(successes + 1, trials - successes, 1 - level / 2)) if successes < trials else 1.0
    return Interval(low, high, exact=True)


def above(scores: Array, threshold: float) -> tuple[float, Interval]:
    """Return the share of runs above a threshold and the exact interval of that probability."""
    count = int((scores > threshold).sum())
    return count / scores.size, proportion_interval(count, scores.size)


def median_interval(values: Array, level: float = LEVEL) -> Interval | None:
    """Return the order-statistic interval of a median, or None where so few values give none (six do at 95%).

    It holds for values of several distributions too, for the median of their equal mixture (Hoeffding, 1956).
    """
    count = values.size
    below = np.arange(count // 2 + 1)
    rank = int((special.bdtr(below, count, 0.5) <= level / 2).sum())  # how many values may lie outside on each side
    if rank == 0:
        return None
    ordered = np.sort(values)
    return Interval(float(ordered[rank - 1]), float(ordered[count - rank]), exact=True)


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
        p_better=_tail(wins, trials),
        p_worse=_tail(losses, trials),
        p_not_better=_tail(int((values < margin).sum()), values.size),
        p_not_worse=_tail(int((values > -margin).sum()), values.size),
    )


def rank_test(first: Groups, second: Groups) -> tuple[float, float]:
    """Return the exact p-values of the first being greater, and less, if both were alike within each game.

    The statistic is the sum over games of rank sums (Mann and Whitney's), its distribution that of all ways to deal the
    runs of each game to the two methods. It is not a test of medians: two methods of equal median and unequal spread
    differ, and are found to.
    """
    observed = 0
    chances = np.ones(1)
    for a, b in zip(first, second, strict=True):
        ranks = doubled_ranks(np.concatenate([a, b]))
        observed += int(ranks[: a.size].sum())
        chances = np.convolve(chances, _rank_sum_chances(ranks, a.size))
    return min(1.0, float(chances[observed:].sum())), min(1.0, float(chances[: observed + 1].sum()))


# Rankings of methods


def mean_ranks(runs: Sequence[Array]) -> Array:
    """Return the mean rank of each method's runs among all runs of a game; the best has the greatest."""
    ranks = doubled_ranks(np.concatenate(runs)) / 2
    ends = np.cumsum([run.size for run in runs])
    return np.array([part.mean() for part in np.split(ranks, ends[:-1])])


def mean_spearman(ranks: Array, others: Array) -> float:
    """Return the mean of Spearman's correlation of one game with others; 0 with a game on which all are equal."""
    return float(_standardised_ranks(ranks) @ _mean_standardised_ranks(others))


def rank_correlation(
    ranks: Array, others: Array, generator: np.random.Generator | None = None
) -> tuple[float, float, float]:
    """Return the mean rank correlation of one game with others, and the p-values of its being above and below zero.

    `ranks` is [methods], `others` is [games, methods]. The p-values come from exchanging the methods on the one game in
    every possible way; with more than eight methods, from a sample of such ways that the generator draws.
    """
    methods = ranks.size
    if methods <= _MOST_EXACT_METHODS:
        orders = _all_orders(methods)
    elif generator is not None:
        drawn = generator.permuted(np.tile(np.arange(methods), (20_000, 1)), axis=1)
        orders = np.concatenate([np.arange(methods)[None], drawn])
    else:
        raise ValueError(f"{methods} methods have too many orders to try; give a generator")
    values = _standardised_ranks(ranks)[orders] @ _mean_standardised_ranks(others)
    slack = 1e-12
    greater, less = (values >= values[0] - slack).mean(), (values <= values[0] + slack).mean()
    return float(values[0]), float(greater), float(less)


# Planning


def seeds_needed(probability: float, comparisons: int = 1, power: float = 0.8, most: int = 2000) -> int | None:
    """Return the least number of seeds with which a sign test sees such a probability of improvement, or None.

    Exact; `comparisons` is by how many tests the level is shared.
    """
    for seeds in range(fewest_seeds(comparisons), most + 1):
        wins = np.arange(seeds + 1)
        critical = int((special.bdtrc(wins - 1.0, seeds, 0.5) > LEVEL / comparisons).sum())
        if special.bdtrc(critical - 1.0, seeds, probability) >= power:
            return seeds
    return None


def fewest_seeds(comparisons: float = 1, games: int = 1) -> int:
    """Return the number of seeds below which sign tests cannot show anything, whatever the scores."""
    return math.ceil(math.log2(comparisons / LEVEL) / games)


def improvement_after(scores: Array, difference: float) -> float:
    """Return the chance that a run raised by a difference beats another run of the same method."""
    raised, other = (scores + difference)[:, None], scores[None, :]
    wins = (raised > other) + 0.5 * (raised == other)
    pairs = ~np.eye(scores.size, dtype=bool)
    return float(wins[pairs].mean()) if scores.size > 1 else math.nan


def doubled_ranks(values: Array) -> NDArray[np.int64]:
    """Return twice the rank of each value, so that ranks shared by ties are whole numbers too."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((2 * np.cumsum(counts) - counts + 1)[inverse], dtype=np.int64)


def _tail(wins: int, trials: int) -> float:
    """Return the chance of so many wins or more among fair tosses."""
    return float(special.bdtrc(wins - 1, trials, 0.5)) if wins > 0 else 1.0


def _rank_sum_chances(ranks: NDArray[np.int64], chosen: int) -> Array:
    """Return the chance of each sum of that many ranks drawn without replacement."""
    ways = np.zeros((chosen + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return np.asarray(ways[chosen] / math.comb(ranks.size, chosen))


@cache
def _all_orders(count: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(count))))  # the first is the order as it is


def _mean_standardised_ranks(others: Array) -> Array:
    return np.asarray(np.mean([_standardised_ranks(other) for other in others], axis=0))


def _standardised_ranks(values: Array) -> Array:
    ranks = doubled_ranks(values)
    centred = ranks - ranks.mean()
    length = math.sqrt(float(centred @ centred))
    return np.asarray(centred / length if length else centred)
