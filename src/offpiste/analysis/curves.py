"""Curves over frames of the runs of each method on each game: training return, and cells found.

Both come from the iterations. Runs of few iterations, which would be a curve of a few points, are drawn from the
windows of `scalars`, some hundred to an iteration.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpiste.analysis import stats
from offpiste.analysis.results import Results
from offpiste.analysis.runs import Run
from offpiste.analysis.summary import finished_iterations

MIN_ITERATIONS = 5
"""Below which a curve is drawn from finer windows, where the runs have recorded them."""
MAX_POINTS = 50
"""Of a curve from windows; several are averaged into one where there are more."""


@dataclass(frozen=True)
class Curves:
    """All runs of one arm on one game, point by point."""

    runs: tuple[Run, ...]
    frames: stats.Array
    """[points]"""
    values: stats.Array
    """[runs, points]; NaN where a run has not come so far, or no episode ended."""
    windows: bool = False
    """Whether points are windows of some thousand steps, and not iterations."""


Points = Mapping[str, Mapping[int, float]]
"""By name of the run and number of the point, from 1."""


def return_curves(results: Results) -> dict[tuple[str, str], Curves]:
    """Return the training returns of each game and arm, in the order of the store."""
    names, iterations, returns = finished_iterations(results)[:3]
    return _curves(results, _points(names, iterations, returns), "return")


def cell_curves(results: Results) -> dict[tuple[str, str], Curves]:
    """Return the cells that the runs of each game and arm have found so far."""
    names, iterations, _, _, cells = finished_iterations(results)
    return _curves(results, _points(names, iterations, cells), "cells")


def _curves(results: Results, by_iteration: Points, scalar: str) -> dict[tuple[str, str], Curves]:
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results.runs:
        groups[run.game, run.arm].append(run)
    short = [runs for runs in groups.values() if _length(by_iteration, runs) < MIN_ITERATIONS]
    by_window = _windows(results, scalar) if short else {}
    found = {}
    for key, runs in groups.items():
        found[key] = _from_iterations(runs, by_iteration)
        if runs in short and any(run.name in by_window for run in runs):
            finer = _from_windows(runs, by_window)
            found[key] = max(found[key], finer, key=lambda curves: curves.frames.size)
    return found


def _from_iterations(runs: Sequence[Run], points: Points) -> Curves:
    length = _length(points, runs)
    ends = runs[0].iteration_frames * np.arange(1.0, length + 1)
    return Curves(tuple(runs), np.minimum(ends, max(run.frames for run in runs)), _values(runs, points, length))


def _from_windows(runs: Sequence[Run], by_window: Mapping[str, Mapping[int, float]]) -> Curves:
    """Return curves of at most so many points; a point is the mean of the windows in it that have a number."""
    ends = [step for run in runs for step in by_window.get(run.name, ())]
    size = max(min(ends), -(-max(ends) // MAX_POINTS))
    points: dict[str, dict[int, float]] = {}
    for run in runs:
        gathered: dict[int, list[float]] = defaultdict(list)
        for step, value in by_window.get(run.name, {}).items():
            gathered[-(-step // size)].append(value)
        points[run.name] = {number: float(np.mean(values)) for number, values in gathered.items()}
    length = _length(points, runs)
    skip = runs[0].settings["world.frame_skip"]
    return Curves(tuple(runs), skip * size * np.arange(1.0, length + 1), _values(runs, points, length), windows=True)


def _windows(results: Results, scalar: str) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = defaultdict(dict)
    sql = f"SELECT run, end_step, value FROM scalars WHERE name = '{scalar}' AND isfinite(value)"  # noqa: S608 (ours)
    for name, step, value in zip(*results.columns(sql), strict=True):
        found[name][step] = value
    return found


def _points(names: Sequence[str], numbers: Sequence[int], values: Sequence[float | None]) -> Points:
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for name, number, value in zip(names, numbers, values, strict=True):
        found[name][number] = np.nan if value is None else value
    return found


def _length(points: Points, runs: Sequence[Run]) -> int:
    return max((max(points.get(run.name, ()), default=0) for run in runs), default=0)


def _values(runs: Sequence[Run], points: Points, length: int) -> stats.Array:
    rows = [[points.get(run.name, {}).get(number, np.nan) for number in range(1, length + 1)] for run in runs]
    return np.array(rows, dtype=np.float64)
