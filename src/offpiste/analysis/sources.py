"""Where records are read from: the folder of one run, whatever state it is in, or a bundle of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offpiste import arrays
from offpiste.analysis.reference import Published
from offpiste.analysis.runs import LoadWarning, Run
from offpiste.errors import CheckpointError
from offpiste.rows import LOGGED
from offpiste.store import layout
from offpiste.store.attempts import read_attempts
from offpiste.store.bundle import Bundle
from offpiste.store.documents import checksum, read_run
from offpiste.store.manifests import list_manifests, read_manifest, read_object, refuse_foreign
from offpiste.store.parquet import check_parquet, conform, read_parquet
from offpiste.store.records import cells_table, schema
from offpiste.store.run_folder import TableFile, read_table
from offpiste.store.storage import Folder

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
class Opened:
    """What one store or bundle holds."""

    location: str
    runs: Sequence[Run]
    warnings: Sequence[LoadWarning]
    sources: Mapping[str, Source] = field(default_factory=dict)
    """By name of the run, in a store."""
    published: Sequence[Published] = ()
    bundle: BundleSource | None = None
