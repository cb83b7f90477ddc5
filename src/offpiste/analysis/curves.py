"""Curves over frames of the runs of each method on each game: training return, and cells found.

Both come from the iterations. Runs of few iterations, which would be a curve of a few points, are drawn from the
windows of `scalars`, some hundred to an iteration. An old bundle has dropped windows of some runs: their returns are
drawn by iterations all the same, with the episodes that it kept beside them.

Windows are joined into fewer, wider ones, for bundles and for curves of a few dozen points alike. A row of a wider
window says what the run would have recorded of it: the cells at its end, the mean return of all episodes that ended in
it, its max intrinsic reward. Quantiles alone cannot be had from quantiles; theirs is the mean.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpiste.analysis import stats
from offpiste.analysis.records import Records
from offpiste.analysis.runs import Run
from offpiste.analysis.summary import finished_iterations
from offpiste.rows import MAX_COUNT, window_steps
from offpiste.seeding import stream

MAX_WINDOWS = 50
"""Of one run in a bundle, and points of a curve that is drawn from windows."""
EPISODES, WINDOWS = "episodes", "windows"
"""The scalars that say of how many episodes a return is the mean, and how many windows of the run a row stands for."""
_WINDOW = ("run", "end_step")
_BAND_RESAMPLES = 500
Rule = Literal["mean", "mean over episodes", "mean over time", "max", "sum", "last"]
JOINED: Mapping[str, Rule] = {
    "loss": "mean",
    "max_q": "mean",
    "target_mass_low": "mean",
    "target_mass_high": "mean",
    "return": "mean over episodes",
    EPISODES: "sum",
    WINDOWS: "sum",
    "intrinsic/mean": "mean",
    "intrinsic/q05": "mean",
    "intrinsic/q50": "mean",
    "intrinsic/q95": "mean",
    "intrinsic/max": "max",
    "clipped_share": "mean",
    "cells": "last",
    "rooms": "last",
    "epsilon": "last",
    "steps_per_second": "mean over time",
}
"""What the values of joined windows become, by name; what a bonus logs is that of its last step, hence the last."""
MIN_ITERATIONS = 5
"""Below which a curve is drawn from finer windows, where the runs have recorded them."""


@dataclass(frozen=True)
class Thinned:
    """What is left of the returns of one run in a bundle that dropped windows."""

    windows: tuple[int, int]
    """That are there, and that there were."""
    episodes: tuple[int, int]
    """Of training, likewise."""
    returned: tuple[float, float]
    """The sum of their returns, likewise."""
    rewarded: tuple[tuple[float, float], ...]
    """Frame at its end, and return, of each episode with a reward that is there."""


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
    thinned: Mapping[str, Thinned] = field(default_factory=dict)
    """By name, the runs that would be drawn from windows if these were all there."""

    @property
    def mean(self) -> stats.Array:
        """The mean of the runs that have come so far, [points]."""
        known = np.isfinite(self.values)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(known, self.values, 0.0).sum(axis=0) / known.sum(axis=0))

    def interval(self) -> stats.Array:
        """Return the ends of the 95% bootstrap interval of the mean at each point, [2, points]; it only describes."""
        values = np.where(np.isfinite(self.values), self.values, np.nan)
        values = values[np.isfinite(values).any(axis=1)]  # a seed without a single number only blurs the band
        known = np.isfinite(values).any(axis=0) if values.size else np.zeros(self.frames.size, bool)
        ends = np.full((2, self.frames.size), np.nan)
        if len(values) > 1:
            generator = stream(0, f"report band {self.runs[0].game} {self.runs[0].arm}")
            ends[:, known] = stats.curve_band(values[:, known], generator, _BAND_RESAMPLES)
        return ends


Points = Mapping[str, Mapping[int, float]]
"""By name of the run and number of the point, from 1."""


def return_curves(records: Records) -> dict[tuple[str, str], Curves]:
    """Return the training returns of each game and arm, in the order of the store."""
    names, iterations, returns = finished_iterations(records)[:3]
    return _curves(records, _points(names, iterations, returns), "return")


def cell_curves(records: Records) -> dict[tuple[str, str], Curves]:
    """Return the cells that the runs of each game and arm have found so far."""
    names, iterations, _, _, cells = finished_iterations(records)
    return _curves(records, _points(names, iterations, cells), "cells")


def evaluation_curves(records: Records) -> dict[tuple[str, str], Curves]:
    """Return the mean returns of whole evaluations of each game and arm, at the frames after which they were made."""
    columns = records.columns(
        "SELECT run, iteration, return_mean FROM iterations WHERE phase = 'evaluation' AND complete"
    )
    points = _points(*columns)
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in records.runs:
        groups[run.game, run.arm].append(run)
    return {key: _from_iterations(group, points) for key, group in groups.items() if _length(points, group)}


def joined_windows(window_count: int) -> int:
    """Return how many windows of a run one row stands for where there are so many."""
    return max(1, -(-window_count // MAX_WINDOWS))


def join(rows: pa.Table, ends: NDArray[np.int64]) -> pa.Table:
    """Return rows of `scalars`, in the order of their steps, as rows of wider windows, given the end of that of each.

    Where it was not recorded how many episodes ended in a window, windows count alike.
    """
    keys = [name for name in rows.column_names if name not in ("end_step", "value")]
    value, weight = rows.column("value").to_numpy().astype(np.float64), _weights(rows)
    table = rows.select(keys).append_column("end_step", pa.array(ends))
    with np.errstate(all="ignore"):
        parts = {"value": value, "weight": weight, "weighted": weight * value, "inverse": 1.0 / value}
    for name, part in parts.items():
        table = table.append_column(name, pa.array(part))
    wanted = [("value", "last"), ("value", "max"), ("value", "sum"), ("value", "count")]
    wanted += [("weighted", "sum"), ("weight", "sum"), ("inverse", "sum")]
    found = table.group_by([*keys, "end_step"], use_threads=False).aggregate(wanted)  # threads would change last bits
    last, maximum, total, count, weighted, weights, inverse = (
        found.column(f"{name}_{what}").to_numpy().astype(np.float64) for name, what in wanted
    )
    with np.errstate(all="ignore"):
        joined: Mapping[Rule, NDArray[np.float64]] = {
            "mean": weighted / weights,
            "mean over episodes": weighted / weights,
            "mean over time": count / inverse,
            "max": maximum,
            "sum": total,
        }
    rules = _rules(found)
    values = np.select([rules == rule for rule in joined], list(joined.values()), default=last)
    columns = {name: found.column(name) for name in (*keys, "end_step")} | {"value": pa.array(values)}
    return pa.table([columns[name] for name in rows.column_names], schema=rows.schema)


def _curves(records: Records, by_iteration: Points, scalar: str) -> dict[tuple[str, str], Curves]:
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in records.runs:
        groups[run.game, run.arm].append(run)
    short = [key for key, group in groups.items() if _length(by_iteration, group) < MIN_ITERATIONS]
    rows = _windows(records, scalar) if short else None
    # Cells so far are right in any window; a mean return needs all of them.
    thinned = _thinned(records, [run for key in short for run in groups[key]]) if scalar == "return" else {}
    found = {}
    for key, group in groups.items():
        found[key] = _from_iterations(group, by_iteration)
        lacking = {run.name: thinned[run.name] for run in group if run.name in thinned}
        if lacking:
            found[key] = replace(found[key], thinned=lacking)
        elif key in short and rows is not None:
            own = rows.filter(pc.is_in(rows.column("run"), pa.array((run.name for run in group), pa.string())))
            if len(own):
                found[key] = max(found[key], _from_windows(group, own), key=lambda curves: curves.frames.size)
    return found


def _from_iterations(runs: Sequence[Run], points: Points) -> Curves:
    length = _length(points, runs)
    ends = runs[0].iteration_frames * np.arange(1.0, length + 1)
    return Curves(tuple(runs), np.minimum(ends, max(run.frames for run in runs)), _values(runs, points, length))


def _from_windows(runs: Sequence[Run], rows: pa.Table) -> Curves:
    """Return curves of some dozen points, each of which joins windows as a bundle joins them."""
    ends = rows.column("end_step").to_numpy()
    window, last = int(np.gcd.reduce(ends)), int(ends.max())
    size = window * joined_windows(last // window)
    joined = join(rows, -(-ends // size) * size)
    joined = joined.filter(pc.not_equal(joined.column("name"), EPISODES))
    points = _points(
        joined.column("run").to_pylist(),
        (joined.column("end_step").to_numpy() // size).tolist(),
        joined.column("value").to_pylist(),
    )
    length = _length(points, runs)
    frames = runs[0].settings["world.frame_skip"] * np.minimum(size * np.arange(1.0, length + 1), last)
    return Curves(tuple(runs), frames, _values(runs, points, length), windows=True)


def _windows(records: Records, scalar: str) -> pa.Table:
    """Return a scalar over the windows of all runs, with the number of episodes that ended in each."""
    return records.query(
        f"SELECT run, end_step, name, value FROM scalars WHERE name IN ('{scalar}', '{EPISODES}') "  # noqa: S608 (ours)
        "AND end_step > 0 AND isfinite(value) ORDER BY run, end_step"
    )


def _thinned(records: Records, runs: Sequence[Run]) -> dict[str, Thinned]:
    """Return what is left of those runs of which some windows are there, and others are not."""
    sql = (
        "SELECT run, count(DISTINCT end_step) + coalesce(sum(value - 1) FILTER "  # noqa: S608 (names of ours)
        f"(WHERE name = '{WINDOWS}' AND value BETWEEN 1 AND {MAX_COUNT}), 0) FROM scalars GROUP BY run"
    )
    windows = dict(zip(*records.columns(sql), strict=True)) if runs else {}
    expected = {run.name: _window_count(run) for run in runs}
    lacking = {run.name: run for run in runs if windows.get(run.name, np.inf) < expected[run.name]}
    if not lacking:
        return {}
    totals = {
        name: (episodes, returned)
        for name, episodes, returned in zip(
            *records.columns(
                "SELECT run, sum(episodes)::BIGINT, sum(return_mean * episodes) FROM iterations "
                "WHERE phase = 'train' AND isfinite(return_mean) GROUP BY run"
            ),
            strict=True,
        )
    }
    kept: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name, step, value in zip(
        *records.columns(
            "SELECT run, end_step, game_return FROM episodes WHERE phase = 'train' AND isfinite(game_return) "
            "ORDER BY run, end_step"
        ),
        strict=True,
    ):
        if name in lacking:
            kept[name].append((step, value))
    return {
        name: Thinned(
            windows=(int(windows[name]), expected[name]),
            episodes=(len(kept[name]), totals.get(name, (0, 0.0))[0]),
            returned=(sum(value for _, value in kept[name]), totals.get(name, (0, 0.0))[1]),
            rewarded=tuple((step * run.settings["world.frame_skip"], value) for step, value in kept[name] if value),
        )
        for name, run in lacking.items()
    }


def _window_count(run: Run) -> int:
    """Return how many windows a run has recorded by now."""
    steps = run.frames // run.settings["world.frame_skip"]
    return int(steps // window_steps(run.settings["schedule.iteration_steps"]))


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


def _rules(rows: pa.Table) -> NDArray[np.object_]:
    return np.array([JOINED.get(name, "last") for name in rows.column("name").to_pylist()], dtype=object)


def _weights(rows: pa.Table) -> NDArray[np.float64]:
    """Return for each row the episodes that its value is a mean over, or 1 for a window as such."""
    windows = list(zip(*(rows.column(name).to_pylist() for name in rows.column_names if name in _WINDOW), strict=True))
    names, values = rows.column("name").to_pylist(), rows.column("value").to_pylist()
    episodes = {window: value for window, name, value in zip(windows, names, values, strict=True) if name == EPISODES}
    return np.where(_rules(rows) == "mean over episodes", [episodes.get(window, 1.0) for window in windows], 1.0)
