"""Compare all that a run's folder holds with its checksums: run.json, both checkpoints, marks and tables."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from offpiste.errors import CheckpointError, Damaged
from offpiste.rows import TABLES
from offpiste.store import documents, layout, parquet, records
from offpiste.store.attempts import attempt_names, read_attempt
from offpiste.store.documents import checksum
from offpiste.store.finished import TableFile, finished_file, finished_frames_all, finished_tables
from offpiste.store.identity import StoredRun, read_run
from offpiste.store.manifests import list_manifests, read_manifest, read_object, refuse_foreign
from offpiste.store.status import read_status
from offpiste.store.storage import Folder


@dataclass
class Verified:
    """What was compared, and what was found to be damaged."""

    files: int = 0
    bytes: int = 0
    damage: list[str] = field(default_factory=list)


def verify_run(folder: Folder) -> Verified:
    """Return what is damaged in the folder of a run."""
    found = Verified()
    stored = _verify_run_json(folder, found)
    _verify_checkpoints(folder, stored, found)
    _verify_tables(folder, {} if stored is None else stored.identity, found)
    for name in (layout.RESULTS, layout.QUARANTINE):
        try:
            found.files += documents.read(folder, name) is not None
        except Damaged as error:
            found.damage.append(f"{name} is damaged: {error}")
    for attempt in attempt_names(folder):
        found.files += 1
        try:
            read_attempt(folder, attempt, "" if stored is None else stored.run_id)
        except (Damaged, ValueError) as error:
            found.damage.append(f"{layout.attempt(attempt)} is damaged: {error}")
    return found


def _verify_run_json(folder: Folder, found: Verified) -> StoredRun | None:
    found.files += 1
    try:
        stored = read_run(folder)
    except Damaged as error:
        found.damage.append(str(error))
        return None
    if stored is None:
        found.damage.append(f"{layout.RUN} is missing")
    return stored


def _verify_checkpoints(folder: Folder, stored: StoredRun | None, found: Verified) -> None:
    names, missing = list_manifests(folder)
    if missing:
        found.damage.append(missing)
    if names and not attempt_names(folder):
        found.damage.append(f"{layout.ATTEMPTS}/ is empty, and checkpoints were written by attempts")
    whole: set[str] = set()
    for name in names:
        found.files += 1
        damage = list(_checkpoint_damage(folder, name, stored, found, whole))
        if damage and name in folder.list(layout.MANIFESTS):  # not deleted meanwhile, as a run that trains does
            found.damage += damage


def _checkpoint_damage(
    folder: Folder, name: str, stored: StoredRun | None, found: Verified, whole: set[str]
) -> Iterator[str]:
    """Yield what is damaged in one checkpoint; objects in `whole` were compared with another one's manifest."""
    try:
        manifest = read_manifest(folder, name)
        refuse_foreign(folder, name, manifest, {} if stored is None else stored.identity)
    except CheckpointError as error:
        yield str(error)
        return
    for entry in manifest["objects"].values():
        if entry["name"] in whole:
            continue
        found.files += 1
        found.bytes += entry["bytes"]
        try:
            read_object(folder, entry)
            whole.add(entry["name"])
        except CheckpointError as error:
            yield str(error)


def _verify_tables(folder: Folder, identity: Mapping[str, str], found: Verified) -> None:
    names = folder.list()
    tables: list[tuple[str, TableFile]] = []
    for frames in finished_frames_all(names):
        found.files += 1
        try:
            tables += finished_tables(folder, frames, identity).items()
        except Damaged as error:
            found.damage.append(str(error))
    sums: dict[str, str] = {}
    try:
        status = read_status(folder, identity)
        sums = status.tables or {}
        if (
            status.state == "finished"
            and folder.list(layout.FINISHED_TABLES)
            and not finished_frames_all(folder.list())
        ):
            found.damage.append(f"the mark of a run that finished is missing, {finished_file(status.frames)}")
    except Damaged as error:
        found.damage.append(str(error))
    current = ((table, layout.table_file(table)) for table in TABLES)
    tables += [(table, TableFile(file, sums.get(file))) for table, file in current if file in names or file in sums]
    for table, file in tables:
        try:
            _compare(folder, table, file, found)
        except (ValueError, OSError, pa.ArrowException) as error:
            found.damage.append(f"{file.name} is damaged: {error!s:.200}")


def _compare(folder: Folder, table: str, file: TableFile, found: Verified) -> None:
    """Raise ValueError, or an error of pyarrow, if a table is not as it was written, or is no table."""
    found.files += 1
    data = folder.get(file.name, layout.MAX_TABLE_BYTES + 1)
    if data is None:
        raise ValueError("it is missing")
    found.bytes += len(data)
    if file.blake2b is not None:
        if checksum(data) != file.blake2b:
            with suppress(Damaged):  # written anew meanwhile?
                if checksum(data) == (read_status(folder).tables or {}).get(file.name):
                    return
            raise ValueError("its checksum differs")
    elif table in TABLES:
        parquet.read_parquet(data, records.schema(table))
