"""Open a store or a bundle: the runs that it holds, and where the records of each are read from.

A run that is under way is there too, from its newest checkpoint, and marked. Whatever cannot be read becomes a warning
with the name of the run: nothing fails because of one bad file, and nothing is left out in silence.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offpiste import arrays
from offpiste.analysis.reference import Published, read_imported
from offpiste.analysis.runs import LoadWarning, Run, run_of
from offpiste.config import RunConfig, fingerprint, method_settings, protocol_settings
from offpiste.errors import CheckpointError, ConfigError, Damaged, StoreError
from offpiste.rows import LOGGED, TABLES
from offpiste.store import layout
from offpiste.store.attempts import read_attempts
from offpiste.store.bundle import RUNS, Bundle
from offpiste.store.documents import checksum, parse
from offpiste.store.finding import find_runs
from offpiste.store.finished import TableFile, finished_frames, finished_tables, read_table
from offpiste.store.identity import StoredRun, parse_run, read_run
from offpiste.store.manifests import list_manifests, read_manifest, read_object, refuse_foreign
from offpiste.store.parquet import check_parquet, conform, read_parquet
from offpiste.store.records import cells_table, schema
from offpiste.store.status import StoredStatus, read_status
from offpiste.store.storage import Folder

THREADS = 16
"""That read files at a time: in an object store, each waits most of its time."""
_CURRENT = ("finished", "paused")
"""States in which the tables in a run's folder are as new as its checkpoints."""
_UNFIT = (CheckpointError, KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError)
"""What objects may raise that are whole, but not ours."""


@dataclass(frozen=True)
class Source:
    """Where the records of one run lie."""

    name: str
    folder: Folder
    tables: Mapping[str, TableFile]
    """The Parquet file of each table that there is."""
    state: str

    def file(self, table: str, scratch: Path, warnings: list[LoadWarning]) -> Path | None:
        """Return a local Parquet file of a table, made if need be from a copy, a checkpoint or the attempts."""
        kept = scratch / f"{checksum(self.name.encode())}.{table}.parquet"  # the name itself may be too long for one
        made = self._from_checkpoint(table, warnings) if self.state not in _CURRENT else None
        if made is None and table in self.tables:
            try:
                return self._own(self.tables[table], table, kept)
            except (ValueError, OSError, pa.ArrowException) as error:
                what = f"{self.tables[table].name} is cut short or damaged: {error!s:.200}"
                warnings.append(LoadWarning("damaged table", self.name, what))
        if made is None and self.state in _CURRENT:
            made = self._from_checkpoint(table, warnings)
        if made is None and table == "attempts":
            made = pa.Table.from_pylist(read_attempts(self.folder, self._identity().get("run_id", "")), schema(table))
        if made is None:
            return None
        pq.write_table(made, kept)
        return kept

    def _identity(self) -> dict[str, str]:
        """Return what the run's files repeat of its run.json."""
        stored = read_run(self.folder)
        return {} if stored is None else stored.identity

    def _own(self, of: TableFile, table: str, kept: Path) -> Path:
        """Return the file of a table, or a copy of one that is not on a disk; ValueError unless it can be read."""
        path = None if self.folder.local_path is None else self.folder.local_path / of.name
        if path is not None and of.blake2b is None:
            check_parquet(path, schema(table))
            return path
        data = read_table(self.folder, of)
        if path is None:
            path = kept
            path.write_bytes(data)
        check_parquet(path, schema(table))
        return path

    def _from_checkpoint(self, table: str, warnings: list[LoadWarning]) -> pa.Table | None:
        if table not in (*LOGGED, "cells"):
            return None
        key = layout.CELLS if table == "cells" else layout.RECORDS
        names, missing = list_manifests(self.folder)
        if missing:
            warnings.append(LoadWarning("damaged checkpoint", self.name, missing))
        identity = self._identity() if names else {}
        for name in reversed(names):
            try:
                manifest = read_manifest(self.folder, name)
                refuse_foreign(self.folder, name, manifest, identity)
                objects = manifest["objects"]
                found = arrays.unpack(read_object(self.folder, objects[key]))
                if table == "cells":
                    return conform(cells_table(found), schema(table))
                wanted = [key for key in sorted(objects) if key.startswith(layout.parts(table))]
                parts = [read_object(self.folder, objects[key]) for key in wanted]
                open_rows = found["open"][table]
                tables = [read_parquet(part, schema(table)) for part in parts]
                return conform(
                    pa.concat_tables([*tables, pa.Table.from_pylist(open_rows, schema(table))]), schema(table)
                )
            except (*_UNFIT, pa.ArrowException) as error:
                warnings.append(LoadWarning("damaged checkpoint", self.name, f"{name}: {error!s:.500}"))
        return None


@dataclass(frozen=True)
class BundleSource:
    """The records of the runs of a bundle."""

    bundle: Bundle
    names: Mapping[str, str]
    """By its name in the bundle, the name by which a run is known here; of the runs that are read."""

    def runs_with(self, table: str) -> set[str]:
        """Return the runs that have this table: all of them, or none."""
        return set(self.names.values()) if table in self.bundle.tables else set()

    def rows(self, table: str) -> list[pa.Table]:
        """Return the rows of a table, those of runs that are not read without a name; nothing where there are none."""
        if table not in self.bundle.tables:
            return []
        rows = self.bundle.rows(table)
        positions = pc.index_in(rows.column("run"), pa.array(self.names, pa.string()))
        return [rows.set_column(0, "run", pa.array(self.names.values(), pa.string()).take(positions))]


@dataclass(frozen=True)
class OpenedStore:
    """What one store or bundle holds."""

    location: str
    runs: Sequence[Run]
    warnings: Sequence[LoadWarning]
    sources: Mapping[str, Source] = field(default_factory=dict)
    """By name of the run, in a store."""
    published: Sequence[Published] = ()
    bundle: BundleSource | None = None


def read_bundle(bundle: Bundle, named: Callable[[str], str]) -> OpenedStore:
    """Return what a bundle holds; `named` gives the name by which a run is known from its name in the bundle."""
    rows = {row["run"]: row for row in bundle.rows(RUNS).to_pylist()}
    runs: dict[str, Run] = {}
    warnings: list[LoadWarning] = []
    for listed in bundle.manifest.runs:
        about = (
            asdict(listed)
            | rows[listed.name]
            | {"run_id": listed.name, "results_version": bundle.manifest.results_version}
        )
        try:
            stored = parse_run(about | {"config": parse(about["config"].encode())})
            check_fingerprints(stored)
            run = run_of(named(listed.name), bundle.folder.location, stored, bundle.manifest.suite_version)
        except (ValueError, ConfigError) as error:
            what = f"this version cannot use its settings: {error!s:.200}"
            warnings.append(LoadWarning("damaged run.json", named(listed.name), what))
        else:
            runs[listed.name] = replace(run, target_frames=listed.frames, state="finished")
    names = {name: run.name for name, run in runs.items()}
    return OpenedStore(bundle.folder.location, [*runs.values()], warnings, bundle=BundleSource(bundle, names))


def check_fingerprints(stored: StoredRun) -> RunConfig:
    """Return the settings of a run, all known and in range; ValueError where its fingerprints are not theirs."""
    config = stored.settings
    protocol = protocol_settings(config, stored.results_version)
    for key, found, of_settings in (
        ("protocol_fingerprint", stored.protocol_fingerprint, fingerprint(protocol)),
        ("method_fingerprint", stored.method_fingerprint, fingerprint(method_settings(config))),
    ):
        if found != of_settings:
            raise ValueError(f"{key} is {found}, and that of its settings is {of_settings}")
    return config


def read_store(root: Folder, named: Callable[[str], str]) -> OpenedStore:
    """Return what a store holds; `named` gives the name by which a run is known from its folder below the store."""
    with ThreadPoolExecutor(THREADS) as pool:
        paths, skipped = find_runs(root, pool)
        found = list(pool.map(lambda path: _open_run(root, path, named(path or ".")), paths))
    opened = [pair for pair, _ in found if pair is not None]
    warnings = [
        LoadWarning(each.kind, named(each.path) if each.path else root.location, each.message) for each in skipped
    ]
    warnings += [warning for _, noted in found for warning in noted]
    published, unread = read_imported(root)
    warnings += [LoadWarning("damaged import", named(name), message) for name, message in unread.items()]
    sources = {run.name: source for run, source in opened}
    return OpenedStore(root.location, [run for run, _ in opened], warnings, sources, published)


def _open_run(root: Folder, path: str, name: str) -> tuple[tuple[Run, Source] | None, list[LoadWarning]]:
    folder = root.below(path) if path else root
    warnings: list[LoadWarning] = []
    try:
        files = folder.list()
        stored = read_run(folder)
        if stored is None:
            raise Damaged(f"{layout.RUN} is gone")
        run = run_of(name, root.location, stored)
        usable = _usable_status(folder, stored.identity, name, warnings)
        finished = finished_frames(files)
        tables: dict[str, TableFile] = {}
        if finished >= 0:
            tables = _usable_tables(folder, stored.identity, finished, name, warnings)
    except Damaged as error:
        return None, [LoadWarning("damaged run.json", name, str(error))]
    except StoreError as error:
        return None, [LoadWarning("not readable", name, str(error))]
    status = usable or StoredStatus()
    if status.state:
        target = run.target_frames if status.target_frames is None else status.target_frames
        run = replace(run, target_frames=target, state=status.state)
    if finished >= run.target_frames:
        run = replace(run, target_frames=finished, state="finished")
    else:
        tables = {}  # it has been resumed since, towards more frames
    sums = status.tables or {}
    current = {
        table: TableFile(file, sums.get(file)) for table in TABLES if (file := layout.table_file(table)) in files
    }
    # Without a status nothing says that the other tables are those of this run, so its checkpoint comes first.
    return (run, Source(name, folder, current | tables, run.state if usable or tables else "unknown")), warnings


def _usable_status(
    folder: Folder, identity: Mapping[str, str], name: str, warnings: list[LoadWarning]
) -> StoredStatus | None:
    try:
        return read_status(folder, identity)
    except Damaged as error:  # a watcher's file; what it says is in the records too
        warnings.append(LoadWarning("damaged status.json", name, str(error)))
        return None


def _usable_tables(
    folder: Folder, identity: Mapping[str, str], finished: int, name: str, warnings: list[LoadWarning]
) -> dict[str, TableFile]:
    try:
        return finished_tables(folder, finished, identity)
    except Damaged as error:
        warnings.append(LoadWarning("damaged mark", name, str(error)))
        return {}
