"""Which of several settings is best, and how sure that is: how often each would be, were the seeds drawn anew.

One rule chooses the constants of a study and of a trial, and counts in a report. Settings are tied with the best when
their mean score over seeds is lower by no more than the study's margin of equality (`Benchmark.tie`); of those, the one
with the largest mean area under the training curve is the best.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
_ROUNDING = 1e-9
"""By how much means may differ because their seeds were summed in another order."""


def best_first(scores: Mapping[str, Collection[tuple[float, float]]], tie: float) -> list[str]:
    """Return the variants, the best first: those tied with it by their area, then the others by their score.

    `scores` has, per variant, a pair of score and area under the curve for each seed; a variant without any is last.
    Scores that differ by no more than `tie` are equal.
    """
    scored = [name for name, pairs in scores.items() if pairs]
    without = [name for name in scores if name not in scored]
    if not scored:
        return without
    score, area = np.transpose([np.mean(list(scores[name]), axis=0) for name in scored])
    return [*(scored[index] for index in _order(score, area, tie)), *without]


def shares_of_resamples(
    scores: Mapping[str, Mapping[int, tuple[float, float]]], tie: float, generator: np.random.Generator
) -> dict[str, float]:
    """Return by variant in which share of bootstrap resamples of the seeds it is the best.

    A resample draws seeds, the same for all variants, of those that every variant has; without any, nothing is known
    and the result is empty.
    """
    seeds = sorted(set.intersection(*map(set, scores.values()))) if scores else []
    if not seeds:
        return {}
    pairs = np.array([[own[seed] for seed in seeds] for own in scores.values()])  # [variants, seeds, 2]
    drawn = generator.integers(len(seeds), size=(RESAMPLES, len(seeds)))
    score, area = np.moveaxis(pairs[:, drawn].mean(axis=2), -1, 0)  # [variants, resamples] each
    counts = np.bincount(_order(score, area, tie)[0], minlength=len(scores))
    return {variant: count / RESAMPLES for variant, count in zip(scores, counts.tolist(), strict=True)}


def _order(score: NDArray[Any], area: NDArray[Any], tie: float) -> NDArray[np.intp]:
    """Return the order of the variants along the first axis, the best first."""
    tied = score >= score.max(axis=0) - tie - _ROUNDING
    return np.lexsort((-np.where(tied, area, score), ~tied), axis=0)
