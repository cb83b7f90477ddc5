"""The folder of a run: whose run it is, whether it is finished, and what can still be done with it."""

import json
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from offpiste.config import RESULTS_VERSION, RunConfig, fingerprint, identity, method_settings, protocol_settings
from offpiste.errors import CheckpointError, ConfigError, RunMismatch, StoreError
from offpiste.parsing import from_dict, to_dict
from offpiste.store import arrays, layout
from offpiste.store.checkpoints import read_manifest
from offpiste.store.records import RecordLog, utc_now
from offpiste.store.storage import Folder

_FINISHED = re.compile(r"finished-(\d{12,})\.json")
_FINISHED_TABLE = re.compile(layout.FINISHED_TABLES + r"/[0-9a-z-]+\.parquet")


def about(config: RunConfig, bonus_source: str | None = None) -> dict[str, Any]:
    """Return what run.json says; a bonus that is not ours is known by the hash of its file."""
    return {
        "run_id": config.run_id,
        "config": to_dict(config),
        "protocol_fingerprint": fingerprint(protocol_settings(config)),
        "method_fingerprint": fingerprint(method_settings(config)),
        "results_version": RESULTS_VERSION,
        "offpiste": version("offpiste"),
        "bonus_source": bonus_source,
    }


def claim(folder: Folder, config: RunConfig, bonus_source: str | None = None, *, accept_version: bool = False) -> None:
    """Make the folder this run's, or check that it already is."""
    data = folder.get(layout.RUN)
    if data is None:
        folder.put(layout.RUN, json.dumps(about(config, bonus_source), indent=1).encode())
        return
    sources = {config.bonus.name: bonus_source}
    if why := mismatch(json.loads(data), config, sources, accept_version=accept_version):
        raise RunMismatch(
            f"{folder.location} holds {why}. Ask for what it was begun with to continue it, or give this one a place "
            "of its own: --variant NAME while you tune, --method NAME, or another --out"
        )


def mismatch(
    there: Mapping[str, Any],
    asked: RunConfig,
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> str:
    """Return what a run.json tells of instead of the run asked for, or nothing where it tells of that one.

    `bonus_sources` has the hash of each bonus's file by the name of the bonus; without it, files are not compared.
    """
    try:
        differing = differences(from_dict(RunConfig, there.get("config", {})), asked)
    except ConfigError as error:
        return f"a run with settings that this version does not know: {error}"
    if differing:
        return f"another run: {'; '.join(differing)}"
    if accept_version:
        return ""
    if there.get("results_version") != RESULTS_VERSION:
        return (
            f"a run that was begun by offpiste {there.get('offpiste')} (results version "
            f"{there.get('results_version')}); this is {version('offpiste')} (results version {RESULTS_VERSION}), "
            "whose numbers differ; --accept-version mixes the two knowingly"
        )
    if bonus_sources is not None and there.get("bonus_source") != bonus_sources[asked.bonus.name]:
        return (
            f"a run of the bonus {asked.bonus.name} from before its file was changed, and perhaps its numbers with it; "
            "--accept-version mixes the two knowingly"
        )
    return ""


def differences(there: RunConfig, asked: RunConfig) -> list[str]:
    """Return in words in what the run of a folder is not the one asked for."""
    one, other = identity(there), identity(asked)
    return [
        f"{key} is {one.get(key)!r} there and {other.get(key)!r} here"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def mark_finished(folder: Folder, frames: int, attempt: str, step: int, tables: Mapping[str, bytes]) -> None:
    """Say, once and for good, that a run has come to this many frames, with the tables as they were then.

    A late writer can put older tables and an older status in the place of newer ones, but not of these objects.
    """
    if finished_tables(folder, frames):
        return
    names = {table: f"{layout.FINISHED_TABLES}/{step:012d}-{attempt}-{table}.parquet" for table in tables}
    for table, data in tables.items():
        folder.put(names[table], data)
    about = {"frames": frames, "attempt": attempt, "at": utc_now(), "tables": names}
    folder.put(f"finished-{frames:012d}.json", json.dumps(about, indent=1).encode())


def finished_frames(names: Iterable[str]) -> int:
    """Return the frames to which a run has been finished, by the names in its folder; -1 where it has not."""
    found = (_FINISHED.fullmatch(name) for name in names)
    return max((int(mark[1]) for mark in found if mark), default=-1)


def finished_tables(folder: Folder, frames: int) -> dict[str, str]:
    """Return where the tables lie that a run had when it was finished at this many frames; nothing where unknown."""
    try:
        tables = json.loads(folder.get(f"finished-{frames:012d}.json") or b"")["tables"]
    except (ValueError, KeyError, TypeError):
        return {}
    if not isinstance(tables, dict):
        return {}
    return {table: name for table, name in tables.items() if isinstance(name, str) and _FINISHED_TABLE.fullmatch(name)}


def read_config(folder: Folder) -> RunConfig:
    """Return the configuration of the run in a folder."""
    data = folder.get(layout.RUN)
    if data is None:
        raise StoreError(f"{folder.location} holds no run: there is no {layout.RUN} in it")
    return from_dict(RunConfig, json.loads(data)["config"])


def holds_only_results(folder: Folder) -> bool:
    """Tell whether the replay of a finished run was dropped, or is about to be."""
    names = folder.list(layout.MANIFESTS)
    try:
        return bool(names) and layout.REPLAY not in read_manifest(folder, names[-1])["objects"]
    except CheckpointError:
        return False  # whoever restores it goes back to an older checkpoint


def refuse_results_only(folder: Folder) -> None:
    """Refuse a run of which only the results were kept, for whoever needs all of it."""
    if holds_only_results(folder):
        raise CheckpointError(
            f"of the run in {folder.location} only the results were kept, and it cannot go on without its replay; "
            'train it anew in another folder, or in a study with keep = "all"'
        )


def read_records(objects: Mapping[str, bytes]) -> RecordLog:
    """Return the rows that a checkpoint holds."""
    records = RecordLog()
    records.load_state(arrays.unpack(objects[layout.RECORDS]), layout.of_kinds(objects, layout.PART))
    return records
