"""The records of many runs, as tables in DuckDB; each is read when a query first names it."""

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from offpiste.analysis.reference import Published
from offpiste.analysis.runs import LoadWarning, Run
from offpiste.analysis.sources import THREADS, BundleSource, Source
from offpiste.errors import StoreError
from offpiste.rows import MAX_COUNT, TABLES
from offpiste.store.parquet import read_parquet
from offpiste.store.records import check_values, schema

_SQL_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN"}
_SETTINGS = pa.map_(pa.string(), pa.string())
"""All settings of a run as text, by dotted name."""
_RUN_COLUMNS = (
    "game",
    "method",
    "variant",
    "seed",
    "frames",
    "target_frames",
    "complete",
    "state",
    "protocol",
    "store",
)


class Tables:
    """`runs`, and the tables of `offpiste.store.records` with the name of the run in the column `run`.

    What they are made of lies in a schema of its own, so that SHOW TABLES lists the tables alone.
    """

    def __init__(self, runs: Sequence[Run], sources: Mapping[str, Source], bundles: Sequence[BundleSource]) -> None:
        self.warnings: list[LoadWarning] = []
        """Of files that could not be read; more may come with each table that is opened."""
        self._runs = tuple(runs)
        self._sources = sources
        self._bundles = bundles
        self._scratch = Path(tempfile.mkdtemp(prefix="offpiste-"))
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._database = duckdb.connect()
        with suppress(duckdb.InvalidInputException):  # in a notebook that could not show it anyway
            self._database.execute("SET enable_progress_bar = false")  # it would appear on standard output
        self._database.execute("CREATE SCHEMA source")
        self._files: dict[str, dict[str, str]] = {}
        """By table and file, the name of the run; of the tables that are open."""
        self._bundled: dict[str, pa.Table] = {}
        """By table, the rows of bundles."""
        for table in TABLES:  # known from the start, without rows until a query names them
            columns = ", ".join(f"{field.name} {_SQL_TYPES[field.type]}" for field in schema(table))
            self._database.execute(f"CREATE TABLE source.{table} (run VARCHAR, {columns})")
            self._database.execute(f"CREATE VIEW {table} AS FROM source.{table}")
        self._made: dict[str, Callable[[], pa.Table]] = {}
        """By name, how to make the tables that are computed when a query first names them."""
        self.keep(runs)

    def offer(self, name: str, columns: pa.Schema, make: Callable[[], pa.Table]) -> None:
        """Have a table that is computed when a query first names it."""
        self._put(name, columns.empty_table())
        self._database.execute(f"CREATE OR REPLACE VIEW {name} AS FROM source.{name}")
        self._made[name] = make

    def keep(self, runs: Sequence[Run]) -> None:
        """Have no other runs than these, as they are given here."""
        dropped = {run.name for run in self._runs} - {run.name for run in runs}
        self._runs = tuple(runs)
        columns = {name: [getattr(run, name) for run in runs] for name in _RUN_COLUMNS}
        settings = pa.array([[(key, str(value)) for key, value in run.settings.items()] for run in runs], _SETTINGS)
        self._put("runs", pa.table({"run": [run.name for run in runs], **columns, "settings": settings}))
        self._database.execute("CREATE OR REPLACE VIEW runs AS FROM source.runs")
        for table, files in self._files.items() if dropped else ():
            self._files[table] = {file: run for file, run in files.items() if run not in dropped}
            self._attach(table)

    def query(self, sql: str) -> pa.Table:
        """Return the answer to a query in SQL."""
        for table in self._named_in(sql):
            if table in TABLES:
                self._open(table)
            elif table in self._made:
                self._put(table, self._made.pop(table)())
        try:
            return self._database.sql(sql).to_arrow_table()
        except duckdb.Error:
            if not self._drop_unreadable():
                raise
        return self._database.sql(sql).to_arrow_table()

    def runs_with(self, table: str) -> set[str]:
        """Return the names of the runs that have this table."""
        bundled = {name for bundle in self._bundles for name in bundle.runs_with(table)}
        return {*self.files(table), *(bundled & {run.name for run in self._runs})}

    def files(self, table: str) -> dict[str, Path]:
        """Return a Parquet file of this table for each run of a store that has it, by name of the run."""
        self._open(table)
        return {run: Path(file) for file, run in self._files[table].items()}

    def _named_in(self, sql: str) -> list[str]:
        """Return the tables that a query names; all of them where DuckDB does not know them, as for PIVOT."""
        ((tree,),) = self._database.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        parsed = json.loads(tree)
        if parsed.get("error_type") == "parser":
            return []  # the query will fail with DuckDB's message
        named = set(_table_names(parsed))
        return [table for table in (*TABLES, *self._made) if table in named or parsed.get("error")]

    def _open(self, table: str) -> None:
        if table in self._files:
            return

        def fetch(run: Run) -> tuple[Path | None, list[LoadWarning]]:
            warnings: list[LoadWarning] = []
            try:
                return self._sources[run.name].file(table, self._scratch, warnings), warnings
            except StoreError as error:
                return None, [*warnings, LoadWarning("not readable", run.name, str(error))]

        inside = [run for run in self._runs if run.name in self._sources]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(fetch, inside))
        self.warnings += [warning for _, warnings in found for warning in warnings]
        self._files[table] = {str(path): run.name for run, (path, _) in zip(inside, found, strict=True) if path}
        bundled = [rows for bundle in self._bundles for rows in bundle.rows(table)]
        nothing = schema(table).insert(0, pa.field("run", pa.string())).empty_table()
        self._bundled[table] = pa.concat_tables([nothing, *bundled])
        try:
            self._attach(table)
            if table == "iterations":  # which would be as many points of a curve
                self._database.execute(
                    "SELECT error('not numbered from 1') FROM iterations GROUP BY run "
                    "HAVING min(iteration) < 1 OR max(iteration) > count(*)"
                )
        except duckdb.Error:
            if not self._drop_unreadable():
                raise

    def _attach(self, table: str) -> None:
        """Let the name of a table stand for the rows of its files and of bundles."""
        files, bundled = self._files[table], self._bundled[table]
        kept = pa.array((run.name for run in self._runs), pa.string())
        self._put(f"{table}_bundled", bundled.filter(pc.is_in(bundled.column("run"), kept)))
        selected = [f"SELECT * FROM source.{table}_bundled"]  # noqa: S608 (names of ours, here and below)
        if files:
            self._put(f"{table}_files", pa.table({"filename": list(files), "run": list(files.values())}))
            paths = [_escaped(file) for file in files]
            present = self._database.read_parquet(paths, union_by_name=True, hive_partitioning=False).columns
            columns = ", ".join(_column(field, field.name in present) for field in schema(table))
            options = "filename = true, union_by_name = true, hive_partitioning = false"
            rows = f"read_parquet([{', '.join(map(_quoted, paths))}], {options})"
            selected.append(f"SELECT run, {columns} FROM {rows} JOIN source.{table}_files USING (filename)")  # noqa: S608
        rows = " UNION ALL ".join(selected)
        if table == "iterations":  # small, and asked for again and again
            self._database.execute(f"CREATE OR REPLACE TABLE source.iterations AS {rows}")
            rows = "FROM source.iterations"
        self._database.execute(f"CREATE OR REPLACE VIEW {table} AS {rows}")

    def _put(self, name: str, rows: pa.Table) -> None:
        self._database.register("rows_to_copy", rows)
        self._database.execute(f"CREATE OR REPLACE TABLE source.{name} AS FROM rows_to_copy")
        self._database.unregister("rows_to_copy")

    def _drop_unreadable(self) -> bool:
        """Leave out files whose inside is damaged, with a warning; return whether there were any."""
        dropped = False
        for table, files in self._files.items():
            for file, run in list(files.items()):
                try:
                    rows = read_parquet(Path(file).read_bytes(), schema(table))
                    check_values(table, rows.append_column("run", pa.repeat(run, len(rows))))
                except (OSError, ValueError, pa.ArrowException) as error:
                    del files[file]
                    self.warnings.append(LoadWarning("damaged table", run, f"{table} cannot be read: {error}"))
                    dropped = True
            if dropped:
                self._attach(table)
        return dropped


@dataclass(frozen=True, eq=False)
class Records:
    """Runs, and the tables of their records. Tables are Arrow's; rows of a run carry its name in the column `run`."""

    runs: tuple[Run, ...]
    """Every run that could be read."""
    published: tuple[Published, ...]
    """Curves that were imported, as those of Dopamine."""
    stores: Mapping[str, str]
    """By location, in the order of precedence: store or bundle."""
    tables: Tables

    @property
    def warnings(self) -> list[LoadWarning]:
        """What could not be read, or counts twice; more may come with each table that is opened."""
        return self.tables.warnings

    def query(self, sql: str) -> pa.Table:
        """Return the answer to a query in SQL over `runs` and the tables of their records."""
        return self.tables.query(sql)

    def columns(self, sql: str) -> list[list[Any]]:
        """Return the columns of an answer as lists."""
        return [column.to_pylist() for column in self.query(sql).columns]

    def iterations(self) -> pa.Table:
        """Return the iterations of all runs."""
        return self.query("FROM iterations")

    def episodes(self) -> pa.Table:
        """Return the episodes of all runs."""
        return self.query("FROM episodes")

    def scalars(self) -> pa.Table:
        """Return loss, Q, intrinsic reward and whatever else was logged, a row for each name and window of steps."""
        return self.query("FROM scalars")

    def cells(self) -> pa.Table:
        """Return the cells that were visited in training, with first step and visits."""
        return self.query("FROM cells")

    def coverage(self) -> pa.Table:
        """Return the rooms and cells that each run had found at the end of each iteration of training."""
        return self.query(
            "SELECT run, game, method, variant, seed, end_frame, rooms_total, cells_total FROM iterations JOIN runs "
            "USING (run) WHERE phase = 'train' ORDER BY game, method, variant, seed, end_frame"
        )

    def runs_with(self, table: str) -> set[str]:
        """Return the names of the runs that have this table."""
        return self.tables.runs_with(table)

    def files(self, table: str) -> dict[str, Path]:
        """Return a Parquet file of this table for each run of a store that has it, by name of the run."""
        return self.tables.files(table)


def _table_names(node: Any) -> Iterator[str]:
    """Yield the names of all tables in the syntax tree of a query."""
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield node["table_name"].lower()
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from _table_names(inner)


def _column(field: pa.Field, present: bool) -> str:
    """Return a column in SQL. A value that must not be read, because it is empty or sums overflow, is an error.

    A column that an older version did not write is empty; one of another type fails here, not as a string.
    """
    name, kind = field.name, _SQL_TYPES[field.type]
    value = f"{name}::{kind}" if present else f"NULL::{kind}"
    if field.type == pa.int64() and present:
        value = f"CASE WHEN abs({value}) > {MAX_COUNT} THEN error('{name} is out of range')::{kind} ELSE {value} END"
    if not field.nullable:
        value = f"coalesce({value}, error('{name} is empty')::{kind})"
    return f"{value} AS {name}"


def _escaped(file: str) -> str:
    """Return a path in which no character is a wildcard to DuckDB."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in file)


def _quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
