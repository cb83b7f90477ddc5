"""The records of a run: six tables, each a dataclass whose fields are the columns, and their Parquet form.

`episodes`, `iterations`, `cells` and `scalars` are reproducible to the bit, except the scalar `steps_per_second`. What
depends on the machine is in `timing` (wall clock and rates) and `attempts` (each process that worked on the run).
"""

import dataclasses
import functools
import io
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from offpiste.store import layout


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
MAX_TABLE_BYTES, MAX_DECOMPRESSED_BYTES, MAX_ROWS = 2**28, 2**30, 10**7
"""Limits of the file of a table."""
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


def row_schema(kind: type[Any]) -> pa.Schema:
    """Return the Arrow schema of a row's dataclass."""
    hints = typing.get_type_hints(kind)
    return pa.schema([_field(field.name, hints[field.name]) for field in dataclasses.fields(kind)])


def conform(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with exactly the wanted columns; a column that an older version did not write is empty.

    Raises ValueError if a column has another type, or if a required one is missing or has empty values.
    """
    columns = []
    for field in wanted:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
        elif rows.schema.field(field.name).type != field.type:
            raise ValueError(f"{field.name} must be {field.type}, got {rows.schema.field(field.name).type}")
        else:
            columns.append(rows.column(field.name))
        if not field.nullable and columns[-1].null_count:
            raise ValueError(f"{field.name} must be present and without empty values")
    return pa.Table.from_arrays(columns, schema=wanted)


def check_parquet(source: Path | io.BytesIO, wanted: pa.Schema) -> None:
    """Raise ValueError, or an error of pyarrow, for a file that is not of this table or would fill the memory."""
    if isinstance(source, Path) and not source.is_file():  # a pipe would never end
        raise ValueError("it is no file")
    size = source.stat().st_size if isinstance(source, Path) else source.getbuffer().nbytes
    if size > MAX_TABLE_BYTES:
        raise ValueError(f"it must have <= {MAX_TABLE_BYTES:,} bytes, got {size:,}")
    with pq.ParquetFile(source) as file:
        metadata, columns = file.metadata, file.schema_arrow
    _check_columns(columns, wanted)
    if metadata.num_rows > MAX_ROWS:
        raise ValueError(f"it must have <= {MAX_ROWS:,} rows, got {metadata.num_rows:,}")
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    needed = sum(group.total_byte_size for group in groups)
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    texts = {field.name for field in wanted if field.type == pa.string()} & {*metadata.schema.names}
    long = (chunk for chunk in chunks if chunk.num_values * chunk.total_uncompressed_size > MAX_DECOMPRESSED_BYTES)
    if needed <= MAX_DECOMPRESSED_BYTES and texts & {chunk.path_in_schema for chunk in long}:
        # A text that many rows share is in the file once, so only its length says what they take.
        found = pq.ParquetFile(source, read_dictionary=[*texts]).read([*texts], use_threads=False)
        needed += sum(map(text_bytes, found.columns))
    if needed > MAX_DECOMPRESSED_BYTES:
        raise ValueError(f"it must take <= {MAX_DECOMPRESSED_BYTES:,} bytes of memory, got {needed:,}")


def _check_columns(found: pa.Schema, wanted: pa.Schema) -> None:
    """Raise ValueError for columns of another type, and for those that readers add themselves."""
    names = [name.casefold() for name in found.names]  # as DuckDB compares them
    if len({*names}) < len(names) or {*names} & {"run", "filename"}:
        raise ValueError("columns must have different names, and neither run nor filename")
    for field in wanted:
        if field.name not in found.names:
            if not field.nullable:
                raise ValueError(f"{field.name} is missing")
            continue
        kind = found.field(field.name).type
        if kind not in (field.type, pa.null()) and not (is_encoded_text(kind) and field.type == pa.string()):
            raise ValueError(f"{field.name} must be {field.type}, got {kind}")


def read_parquet(data: bytes, wanted: pa.Schema) -> pa.Table:
    """Return the table in a Parquet file, with exactly the wanted columns; errors as of `check_parquet`."""
    check_parquet(io.BytesIO(data), wanted)
    return conform(pq.ParquetFile(io.BytesIO(data)).read(use_threads=False), wanted)


def text_bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of all texts in a dictionary-encoded column, each counted as often as it occurs."""
    if not is_encoded_text(column.type):
        return 0
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(each).as_py() or 0 for each in lengths)


def is_encoded_text(kind: pa.DataType) -> bool:
    """Return whether a column holds texts, dictionary-encoded."""
    return bool(pa.types.is_dictionary(kind) and kind.value_type == pa.string())


def to_parquet(table: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    return _parquet(pa.Table.from_pylist(list(rows), schema(table)))


def cells_table(columns: Mapping[str, NDArray[np.int64]]) -> pa.Table:
    """Return the table `cells` from arrays by column; a missing column is empty, and so is a value of -1."""
    empty = np.full(len(columns["cell"]), UNKNOWN)
    filled = [columns.get(name, empty) for name in schema("cells").names]
    return pa.Table.from_arrays([pa.array(column, mask=column == UNKNOWN) for column in filled], schema=schema("cells"))


def cells_parquet(columns: Mapping[str, NDArray[np.int64]]) -> bytes:
    """Return the table `cells` as the bytes of a Parquet file."""
    return _parquet(cells_table(columns))


def from_parquet(data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file."""
    # Without threads: pyarrow's sometimes abort a process that ends soon after.
    rows: list[dict[str, Any]] = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False).to_pylist()
    return rows


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _field(name: str, hint: Any) -> pa.Field:
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(part for part in parts if part is not types.NoneType)
    return pa.field(name, kinds[kind], nullable=types.NoneType in parts)
