"""Which of several settings is best, and how sure that is: how often each would be, were the seeds drawn anew.

One rule chooses the constants of a study and of a trial, and counts in a report. Few runs of a setting say little, so
its mean score is smoothed over its neighbours on the grid: with n_j runs of mean ȳ_j at point j,

    ỹ_k = Σ_j κ_kj n_j ȳ_j / Σ_j κ_kj n_j,   κ = 2 for j = k, 1 for a neighbour of k, else 0,

and so is its area under the training curve. Settings are tied with the best when ỹ is lower by no more than the study's
margin of equality (`Benchmark.tie`); of those, the one with the largest area is the best, then the one nearest to the
middle of the grid, then the smaller one. The constants of the first edition were chosen without smoothing: without
`points` no setting has a neighbour, which is that rule.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
_ROUNDING = 1e-9
"""By how much means may differ because their seeds were summed in another order."""

Setting = TypeVar("Setting", bound=Hashable)
Point = tuple[int, ...]
"""A setting by its steps from the middle of the grid, along each axis; neighbours are one step apart."""


def best_first(
    scores: Mapping[Setting, Collection[tuple[float, float]]],
    tie: float,
    points: Mapping[Setting, Point] | None = None,
) -> list[Setting]:
    """Return the settings, the best first: those tied with it by their area, then the others by their score.

    `scores` has, per setting, a pair of score and area under the curve for each run; a setting without any is last.
    Scores that differ by no more than `tie` are equal. With `points`, they are smoothed over neighbours.
    """
    scored = [name for name, pairs in scores.items() if pairs]
    without = [name for name in scores if name not in scored]
    if not scored:
        return without
    means = np.array([np.mean(list(scores[name]), axis=0) for name in scored])
    places = None if points is None else np.array([points[name] for name in scored])
    score, area = (_shares(places, [len(scores[name]) for name in scored]) @ means).T
    return [*(scored[index] for index in _order(score, area, tie, places)), *without]


def smoothed(scores: Mapping[Point, Collection[tuple[float, float]]]) -> dict[Point, tuple[float, float]]:
    """Return score and area of each setting that has any run, smoothed over its neighbours."""
    scored = {point: list(pairs) for point, pairs in scores.items() if pairs}
    if not scored:
        return {}
    means = np.array([np.mean(pairs, axis=0) for pairs in scored.values()])
    found = _shares(np.array([*scored]), [len(pairs) for pairs in scored.values()]) @ means
    return {point: (float(score), float(area)) for point, (score, area) in zip(scored, found, strict=True)}


def shares_of_resamples(
    scores: Mapping[Setting, Mapping[int, tuple[float, float]]],
    tie: float,
    generator: np.random.Generator,
    points: Mapping[Setting, Point] | None = None,
) -> dict[Setting, float]:
    """Return by setting in which share of bootstrap resamples of the seeds it is the best.

    A resample draws seeds, the same for all settings, of those that every setting has; without any, nothing is known
    and the result is empty.
    """
    seeds = sorted(set.intersection(*map(set, scores.values()))) if scores else []
    if not seeds:
        return {}
    pairs = np.array([[own[seed] for seed in seeds] for own in scores.values()])  # [settings, seeds, 2]
    drawn = generator.integers(len(seeds), size=(RESAMPLES, len(seeds)))
    places = None if points is None else np.array([points[name] for name in scores])
    shares = _shares(places, [len(seeds)] * len(scores))
    score, area = (
        shares @ means for means in np.moveaxis(pairs[:, drawn].mean(axis=2), -1, 0)
    )  # [settings, resamples]
    counts = np.bincount(_order(score, area, tie, places)[0], minlength=len(scores))
    return {setting: count / RESAMPLES for setting, count in zip(scores, counts.tolist(), strict=True)}


def points_of(values: Mapping[Setting, Mapping[str, Any]]) -> dict[Setting, Point]:
    """Return where settings lie on the grid of their values: each key whose values differ is an axis.

    Along an axis of numbers they are ordered; other values have no neighbours.
    """
    keys = dict.fromkeys(key for own in values.values() for key in own)
    axes = []
    for key in keys:
        found: dict[str, Any] = {repr(own.get(key)): own.get(key) for own in values.values()}
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in found.values())
        ordered = sorted(found, key=lambda name: found[name]) if numbers else sorted(found)
        step = 1 if numbers else 2
        if len(ordered) > 1:
            axes.append((key, {name: step * (index - (len(ordered) - 1) // 2) for index, name in enumerate(ordered)}))
    return {setting: tuple(axis[repr(own.get(key))] for key, axis in axes) for setting, own in values.items()}


def _shares(places: NDArray[np.intp] | None, counts: Sequence[int]) -> NDArray[np.float64]:
    """Return how much the mean of each setting counts in the smoothed score of each, [settings, settings]."""
    if places is None:
        return np.eye(len(counts))
    steps = np.abs(places[:, None] - places).sum(axis=-1)
    weights = np.select([steps == 0, steps == 1], [2.0, 1.0], 0.0) * counts
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _order(score: NDArray[Any], area: NDArray[Any], tie: float, places: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return the order of the settings along the first axis, the best first."""
    tied = score >= score.max(axis=0) - tie - _ROUNDING
    rank = np.zeros(len(score), np.intp)
    if places is not None:
        keys = (*places.T[::-1], np.abs(places).sum(axis=1))
        rank[np.lexsort(keys)] = np.arange(len(score))
    nearness = np.broadcast_to(rank.reshape(-1, *[1] * (score.ndim - 1)), score.shape)
    return np.lexsort((nearness, -np.where(tied, area, score).round(9), ~tied), axis=0)
