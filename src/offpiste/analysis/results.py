"""The records of many runs as tables that DuckDB answers questions about."""

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offpiste.analysis.reference import Published
from offpiste.analysis.runs import LoadWarning, Run
from offpiste.analysis.sources import BundleSource, Source
from offpiste.errors import StoreError
from offpiste.store.records import TABLES, schema

THREADS = 16
"""That read files at a time: in an object store, each waits most of its time."""
_SQL_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN"}


class Results:
    """What stores hold; `query` answers SQL over runs and the tables of their records (`offpiste.store.records`)."""

    def __init__(
        self,
        runs: Sequence[Run],
        sources: Mapping[str, Source],
        bundles: Sequence[BundleSource],
        published: Sequence[Published],
        warnings: Sequence[LoadWarning],
        stores: Mapping[str, str],
    ) -> None:
        self.runs = tuple(runs)
        self.published = tuple(published)
        self.warnings = list(warnings)
        self.stores = stores
        """By location, in the order of precedence: store or bundle."""
        self._sources = sources
        self._bundles = bundles
        self._scratch = Path(tempfile.mkdtemp(prefix="offpiste-"))
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._database = duckdb.connect()
        self._database.execute("SET enable_progress_bar = false")  # it would appear on standard output
        self._files: dict[str, dict[str, str]] = {}
        """By table and file, the name of the run."""
        self._bundled: dict[str, pa.Table] = {}
        """By table, the rows of bundles."""
        self._open("iterations")
        self._keep(_without_duplicates(_with_progress(self), self))

    def query(self, sql: str) -> pa.Table:
        """Return the answer to a question in SQL; rows of a run carry its name in the column `run`."""
        for table in TABLES:
            if re.search(rf"\b{table}\b", sql, re.IGNORECASE) and table not in self._files:
                self._open(table)
        try:
            return self._database.sql(sql).to_arrow_table()
        except duckdb.Error:
            if not self._drop_unreadable():
                raise
        return self._database.sql(sql).to_arrow_table()

    def columns(self, sql: str) -> list[list[Any]]:
        """Return the columns of an answer as lists."""
        return [column.to_pylist() for column in self.query(sql).columns]

    def runs_with(self, table: str) -> set[str]:
        """Return the names of the runs that have this table."""
        bundled = {name for bundle in self._bundles for name in bundle.runs_with(table)}
        return {*self.files(table), *(bundled & {run.name for run in self.runs})}

    def files(self, table: str) -> dict[str, Path]:
        """Return a Parquet file of this table for each run of a store that has it, by name of the run."""
        if table not in self._files:
            self._open(table)
        return {run: Path(file) for file, run in self._files[table].items()}

    def _keep(self, runs: Sequence[Run]) -> None:
        """Have no other runs than these, as they are given here."""
        dropped = {run.name for run in self.runs} - {run.name for run in runs}
        self.runs = tuple(runs)
        names = (
            "name",
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
        columns = {name: [getattr(run, name) for run in runs] for name in names}
        self._database.register("runs", pa.table({"run": columns.pop("name"), **columns}))
        for table, files in self._files.items() if dropped else ():
            self._files[table] = {file: run for file, run in files.items() if run not in dropped}
            self._attach(table)

    def _open(self, table: str) -> None:
        def fetch(run: Run) -> tuple[Path | None, list[LoadWarning]]:
            warnings: list[LoadWarning] = []
            try:
                return self._sources[run.name].file(table, self._scratch, warnings), warnings
            except StoreError as error:
                return None, [*warnings, LoadWarning("not readable", run.name, str(error))]

        inside = [run for run in self.runs if run.name in self._sources]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(fetch, inside))
        self.warnings += [warning for _, warnings in found for warning in warnings]
        self._files[table] = {str(path): run.name for run, (path, _) in zip(inside, found, strict=True) if path}
        bundled = [rows for bundle in self._bundles for rows in bundle.rows(table)]
        nothing = schema(table).insert(0, pa.field("run", pa.string())).empty_table()
        self._bundled[table] = pa.concat_tables([nothing, *bundled])
        try:
            self._attach(table)
        except duckdb.Error:
            if not self._drop_unreadable():
                raise

    def _attach(self, table: str) -> None:
        """Make the files of a table, and its rows in bundles, answer to its name."""
        files, bundled = self._files[table], self._bundled[table]
        kept = pa.array((run.name for run in self.runs), pa.string())
        self._database.register(f"{table}_bundled", bundled.filter(pc.is_in(bundled.column("run"), kept)))
        selected = [f"SELECT * FROM {table}_bundled"]  # noqa: S608 (names of ours, here and below)
        if files:
            self._database.register(f"{table}_files", pa.table({"filename": list(files), "run": list(files.values())}))
            rows = self._database.read_parquet([_escaped(file) for file in files], filename=True, union_by_name=True)
            rows.create_view(f"{table}_rows", replace=True)
            # A column that an older version did not write is empty; one of another type fails here, not as a string.
            columns = (
                f"{field.name if field.name in rows.columns else 'NULL'}::{_SQL_TYPES[field.type]} AS {field.name}"
                for field in schema(table)
            )
            names = ", ".join(columns)
            selected.append(f"SELECT run, {names} FROM {table}_rows JOIN {table}_files USING (filename)")  # noqa: S608
        kind = "TABLE" if table == "iterations" else "VIEW"  # it is small, and asked for again and again
        self._database.execute(f"CREATE OR REPLACE {kind} {table} AS {' UNION ALL '.join(selected)}")

    def _drop_unreadable(self) -> bool:
        """Leave out files whose inside is damaged, with a warning; return whether there were any."""
        dropped = False
        for table, files in self._files.items():
            for file, run in list(files.items()):
                try:
                    rows = pq.ParquetFile(file).read(use_threads=False)
                    known = [name for name in schema(table).names if name in rows.column_names]
                    rows.select(known).cast(pa.schema([schema(table).field(name) for name in known]))
                except (OSError, ValueError, pa.ArrowException) as error:
                    del files[file]
                    self.warnings.append(LoadWarning("damaged table", run, f"{table} cannot be read: {error}"))
                    dropped = True
            if dropped:
                self._attach(table)
        return dropped


def _with_progress(results: Results) -> list[Run]:
    """Return the runs with the frames that their iterations count for, and warn of what is not there or no number."""
    columns = results.columns(
        "SELECT run, count(*) FILTER (WHERE complete), coalesce(max(steps) FILTER (WHERE NOT complete), 0), "
        "count(*) FILTER (WHERE isnan(return_mean) OR isinf(return_mean)) "
        "FROM iterations WHERE phase = 'train' GROUP BY run"
    )
    progress = {name: rest for name, *rest in zip(*columns, strict=True)}
    runs = []
    for run in results.runs:
        whole, partial_steps, wrong = progress.get(run.name, (0, 0, 0))
        size, skip = run.settings["schedule.iteration_steps"], run.settings["world.frame_skip"]
        runs.append(replace(run, frames=skip * (whole * size + min(partial_steps, size - 1))))
        if not whole and not partial_steps:
            results.warnings.append(LoadWarning("no records", run.name, "not one iteration is recorded yet"))
        if wrong:
            what = f"the return of {wrong} iteration{'s' * (wrong > 1)} is not a finite number"
            results.warnings.append(LoadWarning("not a number", run.name, what))
    return runs


def _without_duplicates(runs: Sequence[Run], results: Results) -> list[Run]:
    """Return the runs without copies of one another, which would count one seed twice.

    Of copies in several stores that of the first store is kept, so that a stranger's runs never displace one's own; of
    copies in one store, the longest.
    """
    ranks = {store: rank for rank, store in enumerate(results.stores)}
    kept: dict[tuple[Any, ...], Run] = {}
    for run in sorted(runs, key=lambda run: (ranks[run.store], -run.frames, run.name)):
        key = (run.game, run.method_fingerprint, run.bonus_source, run.protocol, run.seed, run.arm)
        if key in kept:
            where = "" if kept[key].store == run.store else f" in {kept[key].store}"
            what = f"the same run as {kept[key].name}{where}; left out, or its seed would count twice"
            results.warnings.append(LoadWarning("duplicate run", run.name, what))
        else:
            kept[key] = run
    return sorted(kept.values(), key=lambda run: (ranks[run.store], run.name))


def _escaped(file: str) -> str:
    """Return a path in which no character is a wildcard to DuckDB."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in file)
