"""What a finished run leaves: finished-N.json and the tables at that moment, written once; and often no replay."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from offpiste.errors import CheckpointError, Damaged
from offpiste.rows import utc_now
from offpiste.store import documents, layout
from offpiste.store.documents import checksum
from offpiste.store.manifests import manifest_names, read_manifest
from offpiste.store.storage import Folder

_FINISHED = re.compile(r"finished-(\d{12,18})\.json")
_FINISHED_TABLE = re.compile(layout.FINISHED_TABLES + r"/[0-9a-z-]+\.parquet")


@dataclass(frozen=True)
class TableFile:
    """A table of a run's folder."""

    name: str
    """Of its file, below the folder."""
    blake2b: str | None = None
    """Its checksum, where it was recorded; not while the run is under way, and its table is from an earlier stop."""


def mark_finished(
    folder: Folder, identity: Mapping[str, str], frames: int, attempt: str, step: int, tables: Mapping[str, bytes]
) -> None:
    """Record once that a run reached this many frames, with its tables at that moment; again if these are damaged.

    A late writer may overwrite the run's status and tables with older ones, but never these objects.
    """
    with suppress(Damaged):
        marked = finished_tables(folder, frames, identity)
        if marked and not any(damage(folder, table) for table in marked.values()):
            return
    names = {table: f"{layout.FINISHED_TABLES}/{step:012d}-{attempt}-{table}.parquet" for table in tables}
    for table, data in tables.items():
        folder.put(names[table], data)
    sums = {table: checksum(data) for table, data in tables.items()}
    about = {**identity, "frames": frames, "attempt": attempt, "at": utc_now(), "tables": names, "checksums": sums}
    documents.write(folder, finished_file(frames), about, indent=1)


def finished_file(frames: int) -> str:
    """Return the name of the file which says that a run reached this many frames."""
    return f"finished-{frames:012d}.json"


def finished_frames(names: Iterable[str]) -> int:
    """Return the frames at which a run finished, from the names in its folder; -1 if it has not."""
    return max(finished_frames_all(names), default=-1)


def finished_frames_all(names: Iterable[str]) -> list[int]:
    """Return all frames at which a run finished, each time that it was asked for more."""
    found = (_FINISHED.fullmatch(name) for name in names)
    return [int(mark[1]) for mark in found if mark]


def finished_tables(folder: Folder, frames: int, identity: Mapping[str, str]) -> dict[str, TableFile]:
    """Return the tables that a run had when it finished at this many frames; none if it is not known to have.

    Raises `Damaged` if that cannot be read, or is of another run.
    """
    name = finished_file(frames)
    values = documents.read(folder, name)
    if values is None:
        return {}
    try:
        plain = documents.unsigned(values)
        if other := documents.differing(plain, identity):
            raise ValueError(f"it belongs to another run: {other}")
        if plain.get("frames") != frames:
            raise ValueError(f"it is not that of a run at {frames:,} frames, but {plain.get('frames')!r:.100}")
        tables, sums = plain["tables"], plain["checksums"]
        wrong = [name for name in tables.values() if not (isinstance(name, str) and _FINISHED_TABLE.fullmatch(name))]
        if wrong:
            raise ValueError(f"a table must be in {layout.FINISHED_TABLES}/, got {wrong[0]!r:.100}")
        return {table: TableFile(name, sums[table]) for table, name in tables.items()}
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise Damaged(f"{name} in {folder.location} is damaged: {error}; restore it from a backup") from None


def damage(folder: Folder, table: TableFile) -> str:
    """Return what is wrong with the file of a table, or an empty string; without its checksum, whether it is there."""
    try:
        read_table(folder, table)
    except ValueError as error:
        return str(error)
    return ""


def read_table(folder: Folder, table: TableFile) -> bytes:
    """Return the file of a table; ValueError if it is missing or its checksum differs."""
    data = folder.get(table.name, layout.MAX_TABLE_BYTES + 1)
    if data is None:
        raise ValueError("it is missing")
    if table.blake2b not in (None, checksum(data)):
        raise ValueError("its checksum differs")
    return data


def holds_only_results(folder: Folder) -> bool:
    """Return whether the replay of a finished run was dropped, or is being dropped."""
    names = manifest_names(folder)
    try:
        return bool(names) and layout.REPLAY not in read_manifest(folder, names[-1])["objects"]
    except CheckpointError:
        return False  # restoring falls back to an older checkpoint


def refuse_results_only(folder: Folder) -> None:
    """Raise CheckpointError if only the results of the run were kept."""
    if holds_only_results(folder):
        raise CheckpointError(
            f"the run in {folder.location} cannot resume without its replay: only the results were kept; "
            'train it again in another folder, or in a study with keep = "all"'
        )
