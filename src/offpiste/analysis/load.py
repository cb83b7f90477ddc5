"""A store of run folders, on a disk or in an object store, as tables that DuckDB answers questions about.

A run that is under way is there too, from its newest checkpoint, and marked. Whatever cannot be read becomes a warning
with the name of the run: nothing fails because of one bad file, and nothing is left out in silence.
"""

import io
import json
import shutil
import tempfile
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from offpiste.analysis import reference
from offpiste.config import PROTOCOL_TABLES, flatten
from offpiste.errors import CheckpointError, OffpisteError, StoreError
from offpiste.store import arrays
from offpiste.store.checkpoints import read_attempts, read_manifest, read_object
from offpiste.store.records import LOGGED, TABLES, schema
from offpiste.store.storage import Folder

PROTOCOL_KEYS = (*(f"{table}." for table in PROTOCOL_TABLES), "results_version")
"""How the settings begin that every method shares."""
_PARTS_OF_A_RUN = {"attempts", "manifests", "objects", "status.json", *(f"{table}.parquet" for table in TABLES)}
_CURRENT = ("finished", "paused")
"""States in which the tables in a run's folder are as new as its checkpoints."""
_SQL_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN"}
_THREADS = 16


@dataclass(frozen=True)
class LoadWarning:
    """Something in a store that could not be used as it is."""

    kind: str
    """missing run.json, damaged run.json, damaged table, damaged checkpoint, damaged import, not readable, no records,
    not a number or duplicate run."""
    where: str
    message: str


@dataclass(frozen=True)
class Run:
    """One run of a store."""

    name: str
    """Its folder below the store."""
    game: str
    method: str
    variant: str
    """What sets it apart from its method's own constants; empty outside of tuning."""
    seed: int
    protocol: str
    method_fingerprint: str
    settings: dict[str, Any]
    """All of its settings, by dotted names, and the version of results."""
    target_frames: int
    frames: int = 0
    """Done and recorded."""
    state: str = "unknown"
    """As its status says: running, paused, finished or failed."""
    bonus_source: str | None = None
    """Hash of the file of a bonus that is not one of ours."""

    @property
    def complete(self) -> bool:
        """Whether it has got to its end."""
        return self.has_reached(self.target_frames)

    @property
    def arm(self) -> str:
        """What its seeds are averaged over: the method, with the variant where there is one."""
        return f"{self.method} {self.variant}" if self.variant else self.method

    def has_reached(self, frames: int) -> bool:
        """Whether it has come as far as that, in whole steps, for a run cannot end between two."""
        skip = self.settings["world.frame_skip"]
        return bool(self.frames // skip >= frames // skip and frames > 0)

    @property
    def iteration_frames(self) -> int:
        """Frames that count for one iteration."""
        return int(self.settings["schedule.iteration_steps"] * self.settings["world.frame_skip"])


class Results:
    """What a store holds; `query` answers SQL over its tables runs, iterations, episodes, timing and attempts."""

    def __init__(self, runs: Sequence[Run], sources: "Mapping[str, _Source]", warnings: list[LoadWarning]) -> None:
        self.runs = tuple(runs)
        self.published: tuple[reference.Published, ...] = ()
        self.warnings = warnings
        self._sources = sources
        self._scratch = Path(tempfile.mkdtemp(prefix="offpiste-"))
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._database = duckdb.connect()
        self._database.execute("SET enable_progress_bar = false")  # it would appear on standard output
        self._files: dict[str, dict[str, str]] = {}
        """By table and file, the name of the run."""
        self._open("iterations")

    def query(self, sql: str) -> pa.Table:
        """Return the answer to a question in SQL; rows of a run carry its name in the column `run`."""
        for table in TABLES:
            if table in sql and table not in self._files:
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
        if table not in self._files:
            self._open(table)
        return set(self._files[table].values())

    def _set_runs(self, runs: Sequence[Run]) -> None:
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
        )
        columns = {name: [getattr(run, name) for run in runs] for name in names}
        self._database.register("runs", pa.table({"run": columns.pop("name"), **columns}))
        kept = {run.name for run in runs}
        for table, files in self._files.items():
            if not kept.issuperset(files.values()):
                self._files[table] = {file: run for file, run in files.items() if run in kept}
                self._attach(table)

    def _open(self, table: str) -> None:
        def fetch(run: Run) -> tuple[Path | None, list[LoadWarning]]:
            warnings: list[LoadWarning] = []
            try:
                return self._sources[run.name].file(table, self._scratch, warnings), warnings
            except StoreError as error:
                return None, [*warnings, LoadWarning("not readable", run.name, str(error))]

        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(fetch, self.runs))
        self.warnings += [warning for _, warnings in found for warning in warnings]
        self._files[table] = {str(path): run.name for run, (path, _) in zip(self.runs, found, strict=True) if path}
        try:
            self._attach(table)
        except duckdb.Error:
            if not self._drop_unreadable():
                raise

    def _attach(self, table: str) -> None:
        """Make the files of a table answer to its name."""
        files = self._files[table]
        if not files:
            self._database.register(table, schema(table).insert(0, pa.field("run", pa.string())).empty_table())
            return
        self._database.register(f"{table}_files", pa.table({"filename": list(files), "run": list(files.values())}))
        rows = self._database.read_parquet([_escaped(file) for file in files], filename=True, union_by_name=True)
        rows.create_view(f"{table}_rows", replace=True)
        # A column that an older version did not write is empty; one of another kind fails here, and not as a string.
        columns = (
            f"{field.name if field.name in rows.columns else 'NULL'}::{_SQL_TYPES[field.type]} AS {field.name}"
            for field in schema(table)
        )
        kind = "TABLE" if table == "iterations" else "VIEW"  # it is small, and asked for again and again
        self._database.execute(
            f"CREATE OR REPLACE {kind} {table} AS SELECT run, {', '.join(columns)} "  # noqa: S608 (names of ours)
            f"FROM {table}_rows JOIN {table}_files USING (filename)"
        )

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


@dataclass(frozen=True)
class _Source:
    """Where the records of one run lie."""

    name: str
    folder: Folder
    tables: frozenset[str]
    state: str

    def file(self, table: str, scratch: Path, warnings: list[LoadWarning]) -> Path | None:
        """Return a local Parquet file of a table, made if need be from a copy, a checkpoint or the attempts."""
        kept = scratch / f"{quote(self.name, safe='')}.{table}.parquet"
        made = self._from_checkpoint(table, warnings) if self.state not in _CURRENT else None
        if made is None and f"{table}.parquet" in self.tables:
            file = self._own(table, kept)
            if _is_whole(file):
                return file
            warnings.append(LoadWarning("damaged table", self.name, f"{table}.parquet is cut short or damaged"))
        if made is None and self.state in _CURRENT:
            made = self._from_checkpoint(table, warnings)
        if made is None and table == "attempts":
            made = pa.Table.from_pylist(read_attempts(self.folder), schema(table))
        if made is None:
            return None
        pq.write_table(made, kept)
        return kept

    def _own(self, table: str, kept: Path) -> Path:
        if self.folder.local_path is not None:
            return self.folder.local_path / f"{table}.parquet"
        kept.write_bytes(self.folder.get(f"{table}.parquet") or b"")
        return kept

    def _from_checkpoint(self, table: str, warnings: list[LoadWarning]) -> pa.Table | None:
        if table not in LOGGED:
            return None
        for name in reversed(self.folder.list("manifests")):
            try:
                objects = read_manifest(self.folder, name)["objects"]
                wanted = [key for key in sorted(objects) if key.startswith(f"part/{table}/")]
                parts = [read_object(self.folder, objects[key]) for key in wanted]
                open_rows = arrays.unpack(read_object(self.folder, objects["records"]))["open"][table]
                tables = [pq.ParquetFile(io.BytesIO(part)).read(use_threads=False) for part in parts]
                return pa.concat_tables([*tables, pa.Table.from_pylist(open_rows, schema(table))])
            except (CheckpointError, KeyError, ValueError, pa.ArrowException) as error:
                warnings.append(LoadWarning("damaged checkpoint", self.name, f"{name}: {error}"))
        return None


def load(store: str | Path | Folder) -> Results:
    """Read all runs below a folder or URL, finished or not, and what was imported into it."""
    root = store if isinstance(store, Folder) else Folder(store)
    warnings: list[LoadWarning] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda name: _open_run(root, name), _find_runs(root, warnings, pool)))
    opened = [pair for pair in found if not isinstance(pair, LoadWarning)]
    warnings += [pair for pair in found if isinstance(pair, LoadWarning)]
    published = list(_read_published(root, warnings))
    if not opened and not published and not warnings:
        raise StoreError(f"there is no run below {root.location}; is it the folder that runs were written to?")
    runs = [run for run, _ in opened]
    results = Results(runs, {run.name: source for run, source in opened}, warnings)
    results._set_runs(_without_duplicates(_with_progress(results), warnings))
    results.published = tuple(published)
    return results


def differences(runs: Sequence[Run]) -> str:
    """Return why runs may not be drawn or averaged together, with the settings that differ; empty if they may."""
    arms: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        arms[run.arm].append(run)
    differing = _differing(runs, "protocol", PROTOCOL_KEYS)
    for name, arm in arms.items():
        differing |= _differing(arm, "method_fingerprint", ("exploration.", "bonus."))
        if len({run.bonus_source for run in arm}) > 1:
            differing[f"the file of the bonus of {name}"] = [(run.bonus_source or "one of ours")[:12] for run in arm]
    told = "; ".join(f"{key} is {_counted(values)}" for key, values in sorted(differing.items()))
    return f"these runs were not made alike: {told}" if told else ""


def _find_runs(root: Folder, warnings: list[LoadWarning], pool: ThreadPoolExecutor) -> list[str]:
    """Return the run folders below a folder, level by level."""
    runs: list[str] = []
    level = [""]
    while level:
        following: list[str] = []
        for name, (files, folders) in zip(level, pool.map(root.entries, level), strict=True):
            if "run.json" in files:
                runs.append(name)
            elif _PARTS_OF_A_RUN & {*files, *folders}:
                what = "a run folder without run.json: half written, or half deleted"
                warnings.append(LoadWarning("missing run.json", name or root.location, what))
            else:
                inner = (folder for folder in folders if not folder.startswith("."))
                following += [f"{name}/{folder}".lstrip("/") for folder in inner if name or folder != reference.FOLDER]
        level = following
    return sorted(runs)


def _open_run(root: Folder, name: str) -> "tuple[Run, _Source] | LoadWarning":
    folder = root.below(name) if name else root
    name = name or "."
    try:
        data, status_data = folder.get("run.json"), folder.get("status.json")
        files = folder.list()
    except StoreError as error:
        return LoadWarning("not readable", name, str(error))
    try:
        about = json.loads(data or b"")
        config = about["config"]
        settings = flatten({key: value for key, value in config.items() if key != "machine"})
        run = Run(
            name=name,
            game=config["game"],
            method=config["method"],
            variant=config.get("variant", ""),
            seed=int(config["seed"]),
            protocol=about["protocol_fingerprint"],
            method_fingerprint=about["method_fingerprint"],
            settings=settings | {"results_version": about["results_version"]},
            target_frames=int(config["frames"]),
            bonus_source=about.get("bonus_source"),
        )
        if run.iteration_frames <= 0:
            raise ValueError("an iteration has no frames")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return LoadWarning("damaged run.json", name, f"it does not tell what the run is ({error!r})")
    try:
        status = json.loads(status_data or b"{}")
        run = replace(run, target_frames=int(status.get("target_frames", run.target_frames)), state=status["state"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # a watcher's file, which may be torn; what it tells is in the records too
    return run, _Source(name, folder, frozenset(files), run.state)


def _read_published(root: Folder, warnings: list[LoadWarning]) -> Iterable[reference.Published]:
    for name in root.list(reference.FOLDER):
        try:
            yield reference.from_json(root.get(f"{reference.FOLDER}/{name}") or b"")
        except (ValueError, KeyError, TypeError, OffpisteError) as error:
            warnings.append(LoadWarning("damaged import", f"{reference.FOLDER}/{name}", str(error)))


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


def _without_duplicates(runs: Sequence[Run], warnings: list[LoadWarning]) -> list[Run]:
    """Return the runs without copies of one another, which would count one seed twice; the longest is kept."""
    kept: dict[tuple[Any, ...], Run] = {}
    for run in sorted(runs, key=lambda run: (-run.frames, run.name)):
        key = (run.game, run.method_fingerprint, run.bonus_source, run.protocol, run.seed, run.arm)
        if key in kept:
            what = f"the same run as {kept[key].name}; left out, or its seed would count twice"
            warnings.append(LoadWarning("duplicate run", run.name, what))
        else:
            kept[key] = run
    return sorted(kept.values(), key=lambda run: run.name)


def _differing(runs: Sequence[Run], mark: str, prefixes: tuple[str, ...]) -> dict[str, list[Any]]:
    if len({getattr(run, mark) for run in runs}) < 2:
        return {}
    keys = sorted({key for run in runs for key in run.settings if key.startswith(prefixes)})
    found = {key: [run.settings.get(key) for run in runs] for key in keys}
    return {key: values for key, values in found.items() if len({repr(value) for value in values}) > 1}


def _counted(values: Sequence[Any]) -> str:
    return " and ".join(f"{value} in {count}" for value, count in Counter(map(repr, values)).most_common())


def _is_whole(file: Path) -> bool:
    """Return whether a Parquet file has its end, which holds its table of contents."""
    try:
        with file.open("rb") as source:
            size = source.seek(0, io.SEEK_END)
            if size < 12:
                return False
            source.seek(-8, io.SEEK_END)
            end = source.read(8)
    except OSError:
        return False
    return end[4:] == b"PAR1" and int.from_bytes(end[:4], "little") <= size - 12


def _escaped(file: str) -> str:
    """Return a path in which no character is a wildcard to DuckDB."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in file)
