"""The folder of a run: which run it holds, whether that is finished, and whether it can be resumed."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from offpiste.config import (
    RESULTS_VERSION,
    RunConfig,
    check_name,
    fingerprint,
    identity,
    method_settings,
    protocol_settings,
)
from offpiste.errors import CheckpointError, ConfigError, Damaged, RunMismatch, StoreError
from offpiste.parsing import to_dict
from offpiste.rows import utc_now
from offpiste.store import documents, layout
from offpiste.store.attempts import DISCARDING, begin_attempt
from offpiste.store.documents import StoredRun, checksum, parse_run, read_run
from offpiste.store.manifests import manifest_names, read_manifest
from offpiste.store.storage import Folder

_FINISHED = re.compile(r"finished-(\d{12,18})\.json")
_FINISHED_TABLE = re.compile(layout.FINISHED_TABLES + r"/[0-9a-z-]+\.parquet")


def about(config: RunConfig, bonus_source: str | None = None) -> dict[str, Any]:
    """Return the content of run.json; `bonus_source` is the hash of the file of a bonus that is not built in."""
    return {
        "format": layout.FORMAT,
        "run_id": config.run_id,
        "config": to_dict(config),
        "protocol_fingerprint": fingerprint(protocol_settings(config)),
        "method_fingerprint": fingerprint(method_settings(config)),
        "results_version": RESULTS_VERSION,
        "offpiste": version("offpiste"),
        "bonus_source": bonus_source,
    }


def claim(
    folder: Folder, config: RunConfig, bonus_source: str | None = None, *, accept_version: bool = False
) -> StoredRun:
    """Write run.json, or raise RunMismatch if the folder already holds another run; return what it says."""
    stored = read_run(folder)
    sources = {config.bonus.name: bonus_source}
    if stored is None:
        check_name(config)
        _refuse_without_run(folder)
    if stored is None or may_restart(folder, stored, config, sources):
        content = about(config, bonus_source)
        folder.put(layout.RUN, json.dumps(documents.signed(content), indent=1).encode())
        return parse_run(content)
    if found := mismatch(stored, config, sources, accept_version=accept_version):
        own_name = "" if config.bonus.name == "none" else "--method NAME, "
        raise RunMismatch(
            f"{folder.location} holds {found}. Resume that run with its own settings, or store this one elsewhere: "
            f"--variant NAME while you tune, {own_name}or another --out"
        )
    return stored


def _refuse_without_run(folder: Folder) -> None:
    """Raise CheckpointError where a run has left something, but not its run.json, which is written before all else."""
    names = folder.list()
    parts = (layout.MANIFESTS, layout.OBJECTS) + (() if layout.DISCARDED in names else (layout.ATTEMPTS,))
    left = [name for name in parts if folder.list(name)]
    left += [name for name in names if name == layout.CHECKPOINTED or _FINISHED.fullmatch(name)]
    if left:
        raise CheckpointError(
            f"{folder.location} holds {', '.join(left)} of a run, but no {layout.RUN}, so nothing says of which; "
            f"restore {layout.RUN} from a backup, or train in another folder"
        )


def has_recorded(folder: Folder) -> bool:
    """Return whether a run has left a checkpoint or results in this folder."""
    names = folder.list()
    return layout.CHECKPOINTED in names or finished_frames(names) >= 0 or bool(manifest_names(folder))


def may_restart(
    folder: Folder, stored: StoredRun, wanted: RunConfig, bonus_sources: Mapping[str, str | None] | None
) -> bool:
    """Return whether a run may begin anew in its folder: its code or its bonus's changed before it recorded anything.

    A process that still works on it is superseded by the new attempt, and its checkpoints carry the old bonus's hash.
    """
    return (
        bool(mismatch(stored, wanted, bonus_sources))
        and not mismatch(stored, wanted, bonus_sources, accept_version=True)
        and not has_recorded(folder)
    )


def mismatch(
    stored: StoredRun,
    wanted: RunConfig,
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> str:
    """Return how the run of a stored run.json differs from the wanted one, or "" if it is the same run.

    `bonus_sources` maps a bonus's name to the hash of its file; without it, files are not compared.
    """
    try:
        differing = [] if _has_settings(stored, wanted) else differences(stored.settings, wanted)
    except ConfigError as error:
        return f"a run with settings unknown to this version: {error}"
    if differing:
        return f"another run: {'; '.join(differing)}"
    if accept_version:
        return ""
    if stored.results_version != RESULTS_VERSION:
        return (
            f"a run started by offpiste {stored.offpiste} (results version {stored.results_version}); "
            f"this is {version('offpiste')} (results version {RESULTS_VERSION}), whose numbers differ; "
            "--accept-version mixes them knowingly"
        )
    if bonus_sources is not None and stored.bonus_source != bonus_sources[wanted.bonus.name]:
        return (
            f"a run of the bonus {wanted.bonus.name} from before its file was changed, and perhaps its numbers; "
            "--accept-version mixes them knowingly"
        )
    return ""


def _has_settings(stored: StoredRun, wanted: RunConfig) -> bool:
    """Return whether run.json names the very settings; if not, they may still say the same."""
    ours = to_dict(wanted)
    del ours["machine"]
    return stored.config | {"frames": wanted.frames} == ours


def discard(folder: Folder) -> None:
    """Delete all that a run has left in its folder, so that it begins anew.

    The attempts stay, and one is added to them: a process that works on the run, or wakes up late, stops.
    """
    begin_attempt(folder, {"note": DISCARDING})
    folder.put(layout.DISCARDED, json.dumps({"at": utc_now()}).encode())
    folder.delete(layout.RUN)  # first, so that nobody takes the rest for a run
    delete_below(folder)


def delete_below(folder: Folder, prefix: str = "") -> None:
    """Delete all objects below a prefix of a run's folder but what `discard` keeps; of a link, no more than itself."""
    names, folders = folder.entries(prefix)
    for name in names:
        if prefix or name != layout.DISCARDED:
            folder.delete(f"{prefix}/{name}" if prefix else name)
    for name in folders:
        path = f"{prefix}/{name}" if prefix else name
        if folder.is_link(path):
            folder.delete(path)
        elif prefix or name != layout.ATTEMPTS:
            delete_below(folder, path)


def differences(stored: RunConfig, wanted: RunConfig) -> list[str]:
    """Return one line per setting that makes the stored run another than the wanted one."""
    before, now = identity(stored), identity(wanted)
    return [
        f"{key} is {before.get(key)!r} there and {now.get(key)!r} here"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


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
    folder.put(finished_file(frames), json.dumps(documents.signed(about), indent=1).encode())


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


def read_config(folder: Folder) -> RunConfig:
    """Return the configuration of the run in a folder, with `machine` at its defaults."""
    stored = read_run(folder)
    if stored is None:
        raise StoreError(f"{folder.location} holds no run: there is no {layout.RUN} in it; give the folder of a run")
    return stored.settings


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
