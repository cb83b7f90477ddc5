"""Which of several settings is best, and how sure that is: how often each would be, were the seeds drawn anew."""

import math
from collections.abc import Collection, Mapping

import numpy as np

DIGITS = 6
"""Decimal digits to which mean scores are compared; ties go to the larger area under the curve."""
RESAMPLES = 2_000


def best_first(scores: Mapping[str, Collection[tuple[float, float]]]) -> list[str]:
    """Return the variants by their mean score over seeds, the best first; of equal ones that with the larger mean area.

    `scores` has, per variant, a pair of score and area under the curve for each seed; a variant without any is last.
    """

    def means(variant: str) -> tuple[float, float]:
        score, area = (math.fsum(values) / len(values) for values in zip(*scores[variant], strict=True))
        return round(score, DIGITS), area

    return sorted(scores, key=lambda each: means(each) if scores[each] else (-math.inf, 0.0), reverse=True)


def shares_of_resamples(
    scores: Mapping[str, Mapping[int, tuple[float, float]]], generator: np.random.Generator
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
    score = score.round(DIGITS)
    best = np.where(score == score.max(axis=0), area, -np.inf).argmax(axis=0)
    counts = np.bincount(best, minlength=len(scores))
    return {variant: count / RESAMPLES for variant, count in zip(scores, counts.tolist(), strict=True)}
