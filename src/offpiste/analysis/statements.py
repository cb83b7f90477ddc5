"""What findings are made of: comparisons of methods as parts, joined; and the statements that more than
one benchmark makes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from offpiste.analysis.findings import BASELINE, MARGIN, Benchmark, Part, Scores
from offpiste.analysis.stats import LEVEL, Array, Comparison, compare, mean_ranks, rank_correlation
from offpiste.worlds.scores import reference_scores


@dataclass(frozen=True)
class Relation:
    """What may be said of one method beside another, and by which p-values of their comparison."""

    verb: str
    shown_by: str
    refuted_by: str


BEATS = Relation("beats", "p_better", "p_not_better")
DOES_NOT_BEAT = Relation("does not beat", "p_not_better", "p_better")
LOSES_TO = Relation("loses to", "p_worse", "p_not_worse")
DOES_NOT_LOSE_TO = Relation("does not lose to", "p_not_worse", "p_worse")


# Comparisons


def paired(scores: Scores, game: str, methods: Sequence[str]) -> Array:
    """Return the runs of methods on a game, [methods, pairs]: equal seeds side by side, then the rest in order."""
    runs = [scores.get(game, {}).get(method, {}) for method in methods]
    keys = paired_keys(scores, game, methods)
    return np.array([[run[key] for key in own] for run, own in zip(runs, keys, strict=True)], dtype=np.float64)


def paired_keys(scores: Scores, game: str, methods: Sequence[str]) -> list[list[Hashable]]:
    """Return by what the runs of each method that stand side by side are known."""
    runs = [scores.get(game, {}).get(method, {}) for method in methods]
    common: set[Hashable] = set.intersection(*(set(run) for run in runs))
    count = min(len(run) for run in runs)
    return [(sorted(common) + sorted(set(run) - common))[:count] for run in runs]  # type: ignore[type-var]


def compare_methods(
    scores: Scores,
    games: Sequence[str],
    first: str,
    second: str = BASELINE,
    margin: float = MARGIN,
    tie: float = 0.0,
) -> Comparison:
    """Compare any two methods over games, in normalised score (in points on a game without reference scores)."""
    return compare([_differences(scores, game, first, second, tie) for game in games], margin)


def compared(
    benchmark: Benchmark, scores: Scores, margin: float, first: str, relation: Relation, second: str, game: str
) -> Part:
    """Return the statement that a method stands in a relation to another on a game."""
    differences = _differences(scores, game, first, second, benchmark.tie)
    return weighed(differences, margin, relation, f"{first} {relation.verb} {second} on {game}")


def weighed(differences: Array, margin: float, relation: Relation, label: str) -> Part:
    """Return a statement about seed-by-seed differences."""
    found = compare([differences], margin)
    p_for, p_against = getattr(found, relation.shown_by), getattr(found, relation.refuted_by)
    if not differences.size:
        p_for = p_against = 1.0
    return Part(label, p_for, p_against, differences.size, comparison=found)


def at_least(needed: int, parts: Sequence[Part], label: str) -> Part:
    """Join parts of which so many must hold: as many as that hold, or so many fail that they cannot."""
    count = len(parts)
    spare = count - needed + 1
    p_for = sorted(part.p_for for part in parts)[needed - 1]
    p_against = sorted(part.p_against for part in parts)[spare - 1]
    return Part(
        label,
        min(1.0, spare * p_for),
        min(1.0, needed * p_against),
        min(part.seeds for part in parts),
        spare * max(part.shares_for for part in parts),
        needed * max(part.shares_against for part in parts),
        min(part.games for part in parts),
        parts=tuple(parts),
        needed=needed,
    )


# Statements


def every_bonus_beats_baseline(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    """State that on the tuned game every bonus beats the baseline."""
    parts = [
        compared(benchmark, scores, margin, bonus, BEATS, benchmark.baseline, benchmark.tuned)
        for bonus in benchmark.bonuses
    ]
    return at_least(len(parts), parts, "every bonus beats ε-greedy")


def ranking_does_not_carry_over(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    """Look for two methods in one order on the tuned game and in the other over the hard ones.

    The contrary, that the rankings are alike, is shown as if the methods were drawn at random from some larger set.
    """
    tuned, hard, methods = benchmark.tuned, benchmark.hard, benchmark.ranked
    label = f"mean rank correlation of {tuned} with the hard {benchmark.noun}"
    seeds = min(len(scores.get(game, {}).get(method, {})) for game in (tuned, *hard) for method in methods)
    if not seeds:
        return Part(label, 1.0, 1.0, 0)
    runs = {game: paired(scores, game, methods) / reference_scores(game).span for game in (tuned, *hard)}
    reversals = []
    for a, b in combinations(range(len(methods)), 2):
        there = compare([without_ties(runs[tuned][a] - runs[tuned][b], benchmark.tie)], margin)
        elsewhere = compare([without_ties(runs[game][a] - runs[game][b], benchmark.tie) for game in hard], margin)
        reversals += [max(there.p_better, elsewhere.p_worse), max(there.p_worse, elsewhere.p_better)]
    ranks = [mean_ranks([scores_of(scores, game, method) for method in methods]) for game in (tuned, *hard)]
    correlation, p_against = rank_correlation(ranks[0], np.array(ranks[1:]))
    return Part(
        label,
        p_for=min(1.0, len(reversals) * min(reversals)),
        p_against=p_against,
        seeds=seeds,
        correlation=correlation,
        shares_for=len(reversals),
        shares_against=2 * LEVEL,  # exchanging methods takes one run of each
    )


def bonuses_hurt_on_easy_games(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    """Ask of each seed whether most bonuses are below the baseline: no more than chance if all are alike.

    If all are alike, more than half of an even number of bonuses are below it with a chance under one half. The
    contrary is that fewer than half are, by the margin.
    """
    half = len(benchmark.bonuses) // 2
    upper, lower, middle = [], [], []
    for game in benchmark.easy:
        baseline, *bonuses = (
            paired(scores, game, (benchmark.baseline, *benchmark.bonuses)) / reference_scores(game).span
        )
        ordered = np.sort(bonuses, axis=0) - baseline
        upper.append(ordered[half])
        lower.append(ordered[half - 1])
        middle.append(np.median(ordered, axis=0))
    label = f"{half + 1} of {len(benchmark.bonuses)} bonuses are below ε-greedy"
    seeds = min(group.size for group in middle)
    p_for, p_against = (compare(upper, margin).p_worse, compare(lower, margin).p_not_worse) if seeds else (1.0, 1.0)
    return Part(label, p_for, p_against, seeds, games=len(benchmark.easy), comparison=compare(middle, margin))


def without_ties(differences: Array, tie: float) -> Array:
    """Return normalised differences with 0 for those that count as none."""
    return np.where(np.abs(differences) <= tie, 0.0, differences)


def _differences(scores: Scores, game: str, first: str, second: str, tie: float) -> Array:
    runs = paired(scores, game, (first, second))
    return without_ties((runs[0] - runs[1]) / reference_scores(game).span, tie)


def scores_of(scores: Scores, game: str, method: str) -> Array:
    """Return the scores of a method on a game, one of each run."""
    return np.array(list(scores.get(game, {}).get(method, {}).values()), dtype=np.float64)
