"""The records of a run as it adds to them, and their Parquet form; `offpiste.rows` has their columns."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.rows import LOGGED, MAX_COUNT, TABLES, UNKNOWN
from offpiste.store import layout
from offpiste.store.parquet import from_parquet, parquet_bytes, row_schema


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
        self._open = {table: state["open"][table] for table in LOGGED}
        self._parts = dict(immutable)


def read_records(objects: Mapping[str, bytes]) -> RecordLog:
    """Return the records in a checkpoint's objects."""
    records = RecordLog()
    records.load_state(arrays.unpack(objects[layout.RECORDS]), layout.of_kinds(objects, layout.PART))
    return records


@functools.cache
def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return row_schema(TABLES[table])


def to_table(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.Table.from_pylist(list(rows), schema(table))


def to_parquet(table: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    return parquet_bytes(to_table(table, rows))


def column_digests(table: str, rows: pa.Table) -> dict[str, str]:
    """Return a hash of each column, as TABLE.COLUMN; none of an empty one, so a column added later changes nothing."""
    columns = {name: values for name, values in rows.to_pydict().items() if any(value is not None for value in values)}
    return {
        f"{table}.{name}": hashlib.sha256(json.dumps(values).encode()).hexdigest() for name, values in columns.items()
    }


def one_digest(digests: Mapping[str, str]) -> str:
    """Return one hash of hashes by name."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


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
