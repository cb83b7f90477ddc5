"""Comparisons beyond the findings: each method beside ε-greedy, aggregates over games, gains, and rankings.

Calls beside ε-greedy are corrected (Holm) among the published methods, and among all others: a method that somebody
adds moves no call of a published one. Each family has a level of its own. A method with too few pairs to be called
whatever its scores is in neither: it would only cost the others power.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from offpiste.analysis import stats
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import BASELINE, Benchmark
from offpiste.analysis.names import ordered_games, title, unused
from offpiste.analysis.paper import HARD, MONTEZUMA
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.statements import compare_methods
from offpiste.analysis.stats import Array, Comparison, Interval
from offpiste.seeding import stream
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import SUITES

SUITE_TITLES = {
    "montezuma": title(MONTEZUMA),
    "hard": "other hard games",
    "training": "training games",
    "all": "paper’s games together",
}
RESAMPLES = 1_000
Call = Literal["better", "worse", "not shown", "not decidable"]
Family = Literal["published", "others"]


@dataclass(frozen=True, eq=False)
class Contrast:
    """One method beside ε-greedy on a set of games."""

    suite: str
    """Its heading, or the title of a single game."""
    method: str
    games: tuple[str, ...]
    """Those of the set on which both have scores."""
    comparison: Comparison
    family: Family
    """The methods among which its call is corrected."""
    call: Call = "not shown"
    """Better or worse only where that still holds after correction for its family."""
    area: Comparison | None = None
    """The same pairs by the area under their training curve, where that counts too."""

    @property
    def is_shown(self) -> bool:
        """Whether it is called better or worse."""
        return self.call in ("better", "worse")


@dataclass(frozen=True)
class Aggregate:
    """One method over a set of games on the human-normalised scale."""

    method: str
    runs: int
    values: dict[str, tuple[float, Interval]]
    """By name of the statistic."""


@dataclass(frozen=True)
class Correlation:
    """How alike two rankings of the methods are."""

    game: str
    """The game, or empty for the mean over the other hard games."""
    methods: int
    value: float
    interval: Interval


STATISTICS = {
    "IQM": stats.iqm,
    "median of game means": stats.median_of_means,
    "optimality gap": stats.optimality_gap,
}


def against_baseline(evidence: Evidence) -> list[Contrast]:
    """Return each method beside ε-greedy on each set of games, called by exact sign tests at 5% for each family.

    The sets are the paper's, and each game alone that belongs to no benchmark.
    """
    suites = SUITES | {"all": tuple(GAMES)}
    sets = {heading: suites[suite] for suite, heading in SUITE_TITLES.items()}
    for game in ordered_games(evidence.scores):
        if evidence.benchmark(game) is None:
            sets[unused(title(game), sets)] = (game,)
    rows = []
    for suite, wanted in sets.items():
        for method in evidence.methods:
            games = tuple(
                game for game in wanted if evidence.finals(game, method).size and evidence.finals(game, BASELINE).size
            )
            more_than_a_suite = suite != SUITE_TITLES["all"] or len({GAMES[game].suite for game in games}) > 1
            if method != BASELINE and games and more_than_a_suite:
                comparison = compare_methods(evidence.scores, games, method)
                rows.append(Contrast(suite, method, games, comparison, _family(evidence, games, method)))
    return with_calls(rows, ("better", "worse"))


def against_baseline_by_game(evidence: Evidence, benchmark: Benchmark) -> list[Contrast]:
    """Return each method beside the baseline on each game of a benchmark, called better at 5% for a family there."""
    rows = []
    for game in benchmark.games:
        if not evidence.finals(game, benchmark.baseline).size:
            continue
        of_game = []
        for method in evidence.methods:
            if method != benchmark.baseline and evidence.finals(game, method).size:
                comparison = compare_methods(evidence.scores, (game,), method, benchmark.baseline, tie=benchmark.tie)
                area = compare_methods(evidence.areas, (game,), method, benchmark.baseline)
                family = _family(evidence, (game,), method)
                of_game.append(Contrast(title(game), method, (game,), comparison, family, area=area))
        rows += with_calls(of_game, ("better",))
    return rows


def with_calls(rows: Sequence[Contrast], calls: Sequence[Literal["better", "worse"]]) -> list[Contrast]:
    """Return the rows with a call each, of those that are tested for, corrected for the tests of each family."""
    decidable = [row for row in rows if row.comparison.pairs >= min_pairs(calls)]
    called: dict[Contrast, Call] = dict.fromkeys(decidable, "not shown")
    for family in ("published", "others"):
        tests = [(row, call) for row in decidable if row.family == family for call in calls]
        rejected = stats.holm([getattr(row.comparison, f"p_{call}") for row, call in tests])
        called |= {row: call for (row, call), shown in zip(tests, rejected, strict=True) if shown}
    return [replace(row, call=called.get(row, "not decidable")) for row in rows]


def min_pairs(calls: Sequence[str]) -> int:
    """Return the number of pairs below which no such call is possible, even of a single method that always wins."""
    return stats.min_seeds(len(calls))


def _family(evidence: Evidence, games: Sequence[str], method: str) -> Family:
    return "published" if all(evidence.is_published(game, method) for game in games) else "others"


def every_comparison(evidence: Evidence) -> list[Contrast]:
    """Return the comparisons on sets of games, and those on each game of the small worlds if there are runs of it."""
    by_game = against_baseline_by_game(evidence, SMALL_WORLDS) if SMALL_WORLDS in evidence.benchmarks else []
    return [*against_baseline(evidence), *by_game]


def common_games(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return games and methods of which every pair has scores, as many of such pairs as can be.

    Averages over unlike sets of games are not comparable, so a method that lacks a game of these is left out of them.
    """
    having = {
        method: frozenset(game for game in GAMES if evidence.finals(game, method).size) for method in evidence.methods
    }
    best: tuple[list[str], list[str]] = ([], [])
    for games in sorted({games & others for games in having.values() for others in having.values()}, key=len)[::-1]:
        methods = [method for method, own in having.items() if games <= own]
        if len(games) * len(methods) > len(best[0]) * len(best[1]):
            best = (ordered_games(games), methods)
    return best


def aggregates(evidence: Evidence) -> list[Aggregate]:
    """Return the methods' aggregate scores over the games that they share, if several, with bootstrap intervals."""
    games, methods = common_games(evidence)
    found = []
    for method in methods if len(games) > 1 else []:
        groups = [evidence.normalised(game, method) for game in games]
        values = {}
        for name, statistic in STATISTICS.items():
            generator = stream(0, f"report {method} {name}")
            values[name] = (float(statistic(groups)), stats.bootstrap(groups, statistic, generator, RESAMPLES))
        found.append(Aggregate(method, sum(group.size for group in groups), values))
    return found


def performance_profiles(evidence: Evidence) -> tuple[Array, dict[str, tuple[Array, Array]]]:
    """Return thresholds, and by method the share of runs above each with its bootstrap band [2, thresholds].

    Over the games that the methods share, on the human-normalised scale.
    """
    games, methods = common_games(evidence)
    groups = {method: [evidence.normalised(game, method) for game in games] for method in methods}
    pooled = np.concatenate([run for each in groups.values() for run in each])
    thresholds = np.linspace(0.0, max(1.0, float(np.quantile(pooled, 0.98))), 101)

    def profile(runs: stats.Groups) -> Array:
        return stats.performance_profile(runs, thresholds)

    found = {}
    for method, runs in groups.items():
        band = stats.bootstrap_band(runs, profile, stream(0, f"report profile {method}"), resamples=300)
        found[method] = (profile(runs), band)
    return thresholds, found


def gains(evidence: Evidence, suite: str) -> dict[str, tuple[float, Interval]]:
    """Return each method's mean gain over ε-greedy on a suite, human-normalised, over the games that all share."""
    shared, methods = common_games(evidence)
    games = [game for game in SUITES[suite] if game in shared]
    if not games or BASELINE not in methods:
        return {}
    found = {}
    for method in methods:
        if method == BASELINE:
            continue
        groups = [evidence.normalised(game, name) for name in (method, BASELINE) for game in games]

        def gain(groups: stats.Groups) -> Array:
            half = len(groups) // 2
            return stats.mean_gain(groups[:half], groups[half:])

        generator = stream(0, f"report gain {suite} {method}")
        found[method] = (float(gain(groups)), stats.bootstrap(groups, gain, generator, RESAMPLES))
    return found


def correlations(evidence: Evidence) -> list[Correlation]:
    """Return how like Montezuma's ranking of the methods is to that on each other game, and on the hard ones."""
    found = []
    for game in (*(game for game in GAMES if game != MONTEZUMA), ""):
        games = HARD if not game else (game,)
        methods = [
            method
            for method in evidence.methods
            if all(evidence.finals(each, method).size for each in (MONTEZUMA, *games))
        ]
        if len(methods) < 3:
            continue
        groups = [evidence.finals(each, method) for each in (MONTEZUMA, *games) for method in methods]
        statistic = partial(_correlation, methods=len(methods))
        interval = stats.bootstrap(groups, statistic, stream(0, f"report rank correlation {game}"), resamples=400)
        value = float(statistic([group[None] for group in groups])[0])
        found.append(Correlation(game, len(methods), value, interval))
    return found


def _correlation(groups: stats.Groups, methods: int) -> Array:
    """Return the rank correlation of the first game with the others, for each resample."""
    ranks = [stats.mean_ranks(groups[start : start + methods]) for start in range(0, len(groups), methods)]
    return stats.mean_spearman(ranks[0], np.stack(ranks[1:]))
