"""Windows of `scalars` joined into fewer, wider ones, for bundles and for curves of a few dozen points.

A row of a wider window says what the run would have recorded of it: the cells at its end, the mean return of all
episodes that ended in it, its max intrinsic reward. Quantiles alone cannot be had from quantiles; theirs is the mean.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MAX_WINDOWS = 50
"""Of one run in a bundle, and points of a curve that is drawn from windows."""
EPISODES, WINDOWS = "episodes", "windows"
"""The scalars that say of how many episodes a return is the mean, and how many windows of the run a row stands for."""

_WINDOW = ("run", "end_step")
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
    last, greatest, total, count, weighted, weights, inverse = (
        found.column(f"{name}_{what}").to_numpy().astype(np.float64) for name, what in wanted
    )
    with np.errstate(all="ignore"):
        joined: Mapping[Rule, NDArray[np.float64]] = {
            "mean": weighted / weights,
            "mean over episodes": weighted / weights,
            "mean over time": count / inverse,
            "max": greatest,
            "sum": total,
        }
    rules = _rules(found)
    values = np.select([rules == rule for rule in joined], list(joined.values()), default=last)
    columns = {name: found.column(name) for name in (*keys, "end_step")} | {"value": pa.array(values)}
    return pa.table([columns[name] for name in rows.column_names], schema=rows.schema)


def _rules(rows: pa.Table) -> NDArray[np.object_]:
    return np.array([JOINED.get(name, "last") for name in rows.column("name").to_pylist()], dtype=object)


def _weights(rows: pa.Table) -> NDArray[np.float64]:
    """Return for each row the episodes that its value is a mean over, or 1 for a window as such."""
    windows = list(zip(*(rows.column(name).to_pylist() for name in rows.column_names if name in _WINDOW), strict=True))
    names, values = rows.column("name").to_pylist(), rows.column("value").to_pylist()
    episodes = {window: value for window, name, value in zip(windows, names, values, strict=True) if name == EPISODES}
    return np.where(_rules(rows) == "mean over episodes", [episodes.get(window, 1.0) for window in windows], 1.0)
