"""The records of a run: six tables, each a dataclass whose fields are the columns, and their Parquet form.

`episodes`, `iterations`, `cells` and `scalars` are reproducible to the bit, except the scalar `steps_per_second`. What
depends on the machine is in `timing` (wall clock and rates) and `attempts` (each process that worked on the run).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpiste.store import layout
from offpiste.store.parquet import from_parquet, parquet_bytes, row_schema


@dataclass(frozen=True)
class EpisodeRow:
    """One episode, training or evaluation."""

    iteration: int
    """Counted from 1."""
    phase: str
    """train or evaluation."""
    episode: int
    """Counted from 1 within its phase, over the whole run."""
    end_step: int
    """Agent steps of training when it ended."""
    steps: int
    """Its length in agent steps."""
    game_return: float
    """Sum of the game's own rewards, unclipped."""
    clipped_return: float
    """Sum of rewards clipped to [-1, 1]."""
    ended: str
    """terminated by the game, or truncated at the time limit."""
    first_reward_step: int | None
    """Step within the episode of the first reward > 0."""
    rooms_visited: int | None
    """Rooms visited in this episode, where the RAM has the room."""
    rooms_new: int | None
    """Of these, rooms not visited before in this run."""
    cells_visited: int | None
    """Cells (coarse positions, or coarse frames where the position is not known) visited in this episode."""
    cells_new: int | None
    """Of these, cells not visited before in this run."""
    bonus_sum: float | None
    """Sum of the unscaled intrinsic reward."""
    bonus_max: float | None
    """Max unscaled intrinsic reward."""
    clipped_share: float | None
    """Share of steps on which the sum of extrinsic and intrinsic reward was clipped."""


@dataclass(frozen=True)
class IterationRow:
    """One iteration of training, or the evaluation after it."""

    iteration: int
    """Counted from 1."""
    phase: str
    """train or evaluation."""
    complete: bool
    """False for the last row if the run ended, or was stopped, within an iteration."""
    end_step: int
    """Agent steps of training at its end."""
    end_frame: int
    """The same in emulator frames, at the nominal frames per step."""
    steps: int
    """Agent steps within it."""
    episodes: int
    """Episodes that ended within it."""
    return_mean: float | None
    """Mean unclipped return of these episodes: the curve of the paper."""
    return_min: float | None
    """Min return."""
    return_max: float | None
    """Max return."""
    epsilon: float | None
    """ε at its end."""
    updates: int
    """Gradient steps within it."""
    loss_mean: float | None
    """Mean loss, before importance weights."""
    greatest_q_mean: float | None
    """Mean of the target network's max Q-value, n steps after the sampled states."""
    target_mass_low: float | None
    """Mean target probability on the lowest atom, -10 by default."""
    target_mass_high: float | None
    """Mean target probability on the highest atom, +10 by default."""
    rooms_total: int | None
    """Rooms visited so far in the run."""
    cells_total: int | None
    """Cells visited so far in the run."""
    bonus_mean: float | None
    """Mean unscaled intrinsic reward."""
    bonus_q05: float | None
    """5% quantile of the unscaled intrinsic reward."""
    bonus_q50: float | None
    """Median of the unscaled intrinsic reward."""
    bonus_q95: float | None
    """95% quantile of the unscaled intrinsic reward."""
    bonus_max: float | None
    """Max unscaled intrinsic reward."""
    clipped_share: float | None
    """Share of steps on which the sum of extrinsic and intrinsic reward was clipped."""


@dataclass(frozen=True)
class ScalarRow:
    """One scalar over a window of training, 2,500 agent steps by default; no row where the window has no value."""

    end_step: int
    """Agent steps of training at the end of the window."""
    name: str
    """What it is, as listed below."""
    value: float
    """The number."""


@dataclass(frozen=True)
class CellRow:
    """One cell that was visited in training."""

    room: int | None
    """Its room plus 256 times the level, where the RAM has the room."""
    x: int | None
    """Its min x in units of the RAM, a multiple of 8; empty where the RAM has no x."""
    y: int | None
    """Its min y, likewise."""
    cell: int
    """Its number, as `cells_total` counts cells."""
    first_step: int | None
    """Agent steps of training when it was first visited; empty if that was before this table was recorded."""
    visits: int
    """Agent steps that ended in it, and episodes that started in it, since this table was recorded."""


@dataclass(frozen=True)
class TimingRow:
    """The speed of one iteration; not reproducible, hence a table of its own."""

    iteration: int
    """Counted from 1."""
    attempt: str
    """The attempt that finished it."""
    finished_at: str
    """UTC, ISO 8601."""
    seconds: float
    """Wall clock of this attempt within the iteration."""
    steps: int
    """Agent steps of this attempt within the iteration."""
    steps_per_second: float
    """Their ratio."""


@dataclass(frozen=True)
class AttemptRow:
    """One process that worked on the run."""

    attempt: str
    """Number and random suffix."""
    started_at: str
    """UTC, ISO 8601."""
    start_step: int
    """Agent step from which it resumed the run."""
    host: str
    """Name of the machine."""
    hardware: str
    """Processor and, if used, GPU."""
    threads: int
    """Threads of the network."""
    versions: str
    """Versions of Python and of the libraries that the numbers depend on."""
    note: str
    """Anything unusual, for example that an older checkpoint had to be restored."""


TABLES: dict[str, type[Any]] = {
    "episodes": EpisodeRow,
    "iterations": IterationRow,
    "scalars": ScalarRow,
    "cells": CellRow,
    "timing": TimingRow,
    "attempts": AttemptRow,
}
REPRODUCIBLE = ("episodes", "iterations")
"""Tables that the digest of a run covers."""
LOGGED = ("episodes", "iterations", "scalars", "timing")
"""Tables that a run appends rows to; an attempt is an object of its own instead, and all cells are another."""
MAX_COUNT = 2**53
"""Limit of any integer in a table that is read, so that sums cannot overflow."""
UNKNOWN = -1
"""An empty value in the arrays of `cells`."""


class RecordLog:
    """The rows of a run so far: sealed parts, which are immutable, and the open rows since the last of them."""

    def __init__(self) -> None:
        self._open: dict[str, list[dict[str, Any]]] = {table: [] for table in LOGGED}
        self._parts: dict[str, bytes] = {}

    def add(self, table: str, row: Any) -> None:
        """Append one row."""
        self._open[table].append(dataclasses.asdict(row))

    def seal(self, number: int) -> None:
        """Turn the open rows into one numbered part per table."""
        for table, rows in self._open.items():
            if rows:
                self._parts[layout.part(table, number)] = to_parquet(table, rows)
            self._open[table] = []

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table, in the order added."""
        parts = (self._parts[key] for key in sorted(self._parts) if key.startswith(layout.parts(table)))
        return [row for part in parts for row in from_parquet(part)] + self._open[table]

    def state(self) -> dict[str, Any]:
        """Return the open rows."""
        return {"open": self._open}

    def immutable(self) -> dict[str, Callable[[], bytes]]:
        """Return the sealed parts by key, each as a function that returns its bytes."""
        return {key: lambda part=part: part for key, part in self._parts.items()}  # type: ignore[misc]

    def load_state(self, state: Mapping[str, Any], immutable: Mapping[str, bytes]) -> None:
        """Restore from `state()` and the bytes of `immutable()`."""
        self._open = {table: state["open"].get(table, []) for table in LOGGED}  # format 1 has no scalars
        self._parts = dict(immutable)


def utc_now() -> str:
    """Return the current time as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return row_schema(TABLES[table])


def to_parquet(table: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    return parquet_bytes(pa.Table.from_pylist(list(rows), schema(table)))


def check_values(table: str, rows: pa.Table) -> None:
    """Raise ValueError for rows, with their run in the column `run`, that would fill the memory or overflow sums."""
    for name in rows.column_names:
        if rows.schema.field(name).type == pa.int64() and len(rows):
            found = pc.min_max(rows.column(name)).as_py()
            if found["min"] is not None and not -MAX_COUNT <= found["min"] <= found["max"] <= MAX_COUNT:
                raise ValueError(f"{name} must be within ±{MAX_COUNT}, got {found['min']} to {found['max']}")
    if table != "iterations":
        return
    by_run = rows.group_by("run").aggregate([("iteration", "min"), ("iteration", "max"), ("iteration", "count")])
    for run in by_run.to_pylist():  # a curve has as many points as its last iteration's number
        first, last, count = run["iteration_min"], run["iteration_max"], run["iteration_count"]
        if not 1 <= first <= last <= count:
            raise ValueError(f"the {count} iterations of {run['run']!r} must be numbered from 1, got {first} to {last}")


def cells_table(columns: Mapping[str, NDArray[np.int64]]) -> pa.Table:
    """Return the table `cells` from arrays by column; a missing column is empty, and so is a value of -1."""
    empty = np.full(len(columns["cell"]), UNKNOWN)
    filled = [columns.get(name, empty) for name in schema("cells").names]
    return pa.Table.from_arrays([pa.array(column, mask=column == UNKNOWN) for column in filled], schema=schema("cells"))


def cells_parquet(columns: Mapping[str, NDArray[np.int64]]) -> bytes:
    """Return the table `cells` as the bytes of a Parquet file."""
    return parquet_bytes(cells_table(columns))
