"""Whether intervals cover the truth as often as they say, and the rank test rejects as seldom."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.calibration_studies import KINDS, LEVEL, SEEDS, draw, shown, slack
from offpiste.analysis import stats
from offpiste.analysis.findings import MARGIN
from offpiste.seeding import stream


def check_intervals(draws: int, bootstraps: int) -> Iterator[str]:
    """Print the coverage of every interval and yield the exact ones that miss."""
    print(f"coverage of 95% intervals, with {', '.join(map(str, SEEDS))} seeds (– where so few give none)")
    for kind in KINDS:
        for name, cover in EXACT.items():
            found = {seeds: covered(cover, kind, seeds, draws, name) for seeds in SEEDS}
            print(f"  {name:<40} {kind:<8} exact      {shown(found)}")
            for seeds, share in found.items():
                if share is not None and share < 1 - LEVEL - slack(LEVEL, draws):
                    yield f"{name} ({kind}, {seeds} seeds) covers {share:.1%}"
    for kind in KINDS:
        for name in BOOTSTRAP:
            found = {seeds: bootstrap_covered(name, kind, seeds, bootstraps) for seeds in SEEDS}
            print(f"  {name:<40} {kind:<8} bootstrap  {shown(found)}")


def covered(
    cover: Callable[[np.random.Generator, str, int], bool | None], kind: str, seeds: int, draws: int, name: str
) -> float | None:
    """Return how often an interval holds the truth, or None where there is no interval."""
    generator = stream(seeds, f"calibration {name} {kind}")
    held = [cover(generator, kind, seeds) for _ in range(draws)]
    return None if None in held else sum(map(bool, held)) / draws


def proportion(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the chance of a score above a level holds it."""
    chance = {"normal": 0.5, "bimodal": 0.2, "unequal": 0.9}[kind]
    interval = stats.proportion_interval(int(generator.binomial(seeds, chance)), seeds)
    return interval.low <= chance <= interval.high


def median(generator: np.random.Generator, kind: str, seeds: int) -> bool | None:
    """Whether the interval of a median holds it; that of a two-valued score is anything between."""
    interval = stats.median_interval(draw(generator, kind, seeds, jumping=True))
    true = {"normal": 0.0, "bimodal": 0.005 * 0.31864, "unequal": 0.0}[kind]  # 0.2 of the mass lies far above
    return None if interval is None else interval.low <= true <= interval.high


def improvement(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the probability of improvement holds it, with ties."""
    first = draw(generator, kind, seeds, jumping=False).round(2)
    found = stats.compare([first - draw(generator, kind, seeds, jumping=True).round(2)], MARGIN)
    return found.probability_interval.low <= 0.5 <= found.probability_interval.high


def pooled_difference(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the median difference over six unlike games, half of them above it, holds it."""
    groups = [
        draw(generator, kind, seeds, jumping=False) - draw(generator, kind, seeds, jumping=True) + shift
        for shift in (-0.3, -0.1, -0.02, 0.02, 0.1, 0.3)
    ]
    interval = stats.compare(groups, MARGIN).difference_interval
    return interval is not None and interval.low <= 0.0 <= interval.high


def bounded_mean(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of a mean of scores between 0 and 1 holds it."""
    middle = {"normal": 0.85, "bimodal": 0.1, "unequal": 0.5}[kind]
    shares = middle + 0.8 * draw(generator, kind, seeds, jumping=True)
    interval = stats.mean_interval(shares, generator, draws=1000)
    return interval.low <= middle + 0.08 * (kind == "bimodal") <= interval.high


EXACT: dict[str, Callable[[np.random.Generator, str, int], bool | None]] = {
    "chance of a score above a level": proportion,
    "median score": median,
    "probability of improvement": improvement,
    "median difference over six games": pooled_difference,
    "mean of scores between 0 and 1": bounded_mean,
}


def bootstrap_covered(name: str, kind: str, seeds: int, draws: int) -> float:
    """Return how often a bootstrap interval over six games holds the truth."""
    statistic = BOOTSTRAP[name]
    generator = stream(seeds, f"calibration {name} {kind}")
    true = float(statistic(two_methods(stream(0, f"truth {name} {kind}"), kind, 4_000)))
    held = 0
    for _ in range(draws):
        interval = stats.bootstrap(two_methods(generator, kind, seeds), statistic, generator, resamples=400)
        held += interval.low <= true <= interval.high
    return held / draws


def two_methods(generator: np.random.Generator, kind: str, seeds: int) -> list[stats.Array]:
    """Return the runs of one method on six games, then those of another."""
    return [
        0.5 + 0.1 * game + draw(generator, kind, seeds, jumping=second) for second in (False, True) for game in range(6)
    ]


def probability_of_improvement(first: stats.Groups, second: stats.Groups) -> stats.Array:
    """Return the mean over games of the chance that a run of the first beats a run of the second, a tie being half."""
    chances = []
    for a, b in zip(first, second, strict=True):
        left, right = a[..., :, None], b[..., None, :]
        chances.append(((left > right) + 0.5 * (left == right)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(chances, axis=0))


BOOTSTRAP: dict[str, Callable[[stats.Groups], stats.Array]] = {
    "IQM": lambda groups: stats.iqm(groups[6:]),
    "median of means": lambda groups: stats.median_of_means(groups[6:]),
    "optimality gap": lambda groups: stats.optimality_gap(groups[6:]),
    "mean (band of a curve)": lambda groups: groups[6].mean(axis=-1),
    "improvement over six games": lambda groups: probability_of_improvement(groups[:6], groups[6:]),
    "gain over six games": lambda groups: stats.mean_gain(groups[:6], groups[6:]),
}


def check_rank_test(draws: int) -> Iterator[str]:
    """Print how often the rank test rejects at 5% where no method is better, and yield where it may not."""
    print("rank test of three games: how often it finds a difference at 5% where neither method is better")
    for kind in KINDS:
        alike = kind != "unequal"
        shares = {}
        for seeds in SEEDS:
            generator = stream(seeds, f"calibration rank test {kind}")
            rejected = 0
            for _ in range(draws):
                first = [draw(generator, kind, seeds, jumping=False) for _ in range(3)]
                second = [draw(generator, kind, seeds, jumping=True) for _ in range(3)]
                rejected += rank_test(first, second) <= LEVEL
            shares[seeds] = rejected / draws
            if alike and shares[seeds] > LEVEL + slack(LEVEL, draws):
                yield f"rank test rejects {shares[seeds]:.1%} ({kind}, {seeds} seeds)"
        note = "" if alike else "  (why verdicts do not use it)"
        print(
            f"  {'distributions alike' if alike else 'unequal spreads':<40} {kind:<8}            {shown(shares)}{note}"
        )


def rank_test(first: stats.Groups, second: stats.Groups) -> float:
    """Return the exact p-value of the first being greater, if both were alike within each game.

    The statistic is the sum over games of rank sums (Mann and Whitney's), its distribution that of all ways to deal the
    runs of each game to the two methods. It is not a test of medians: two methods of equal median and unequal spread
    differ, and are found to.
    """
    observed = 0
    chances = np.ones(1)
    for a, b in zip(first, second, strict=True):
        ranks = stats.doubled_ranks(np.concatenate([a, b]))
        observed += int(ranks[: a.size].sum())
        chances = np.convolve(chances, rank_sum_chances(ranks, a.size))
    return min(1.0, float(chances[observed:].sum()))


def rank_sum_chances(ranks: NDArray[np.int64], chosen: int) -> stats.Array:
    """Return the chance of each sum of that many ranks drawn without replacement."""
    ways = np.zeros((chosen + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return np.asarray(ways[chosen] / math.comb(ranks.size, chosen))
