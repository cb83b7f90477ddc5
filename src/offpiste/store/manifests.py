"""Manifests: the objects of a checkpoint with size and checksum, and the run that they belong to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from offpiste.errors import CheckpointError, ConfigError, Damaged
from offpiste.parsing import Pattern, Range, from_dict
from offpiste.store import documents, layout
from offpiste.store.attempts import attempt_order
from offpiste.store.documents import checksum
from offpiste.store.storage import Folder

MAX_MANIFEST_BYTES = 2**26
MAX_OBJECT_BYTES = 2**31
MAX_STEP = 10**13
_STEP = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class Entry:
    """An object that a manifest lists."""

    name: Annotated[str, Pattern(rf"{layout.OBJECTS}/(?!\.)[\w.-]{{1,255}}", f"a name in {layout.OBJECTS}/")]
    bytes: Annotated[int, Range(min=0, max=MAX_OBJECT_BYTES)]
    blake2b: Annotated[str, Pattern("[0-9a-f]{32}", "32 hexadecimal digits")]


class Foreign(CheckpointError):
    """A checkpoint belongs to another run than its folder does."""


def manifest_names(folder: Folder) -> list[str]:
    """Return the names of all manifests in this folder, oldest first."""
    return sorted((name for name in folder.list(layout.MANIFESTS) if name.endswith(".json")), key=_manifest_order)


def list_manifests(folder: Folder) -> tuple[list[str], str]:
    """Return the names of all manifests, oldest first, and a message if one is missing that must be there.

    Once a first checkpoint was complete there is one; and of a run that finished, there is one of that step or later.
    The mark and the tables that say so are written after the manifest, and hence read before it is looked for.
    """
    finished = max(map(_step, folder.list(layout.FINISHED_TABLES)), default=-1)
    had_any = finished >= 0 or folder.get(layout.CHECKPOINTED, 1) is not None
    names = manifest_names(folder)
    if not names:
        return names, "all manifests are missing" if had_any else ""
    if _step(names[-1]) < finished:
        return names, f"the run finished at step {finished:,}, and the manifest of that checkpoint is missing"
    return names, ""


def _manifest_order(name: str) -> tuple[int, tuple[int, str]]:
    return _step(name), attempt_order(name)


def _step(name: str) -> int:
    step = _STEP.match(name)
    return int(step[0]) if step else -1


def refuse_foreign(folder: Folder, name: str, manifest: Mapping[str, Any], identity: Mapping[str, str]) -> None:
    """Raise Foreign if a manifest names another run than run.json does."""
    if other := documents.differing(manifest, identity):
        raise Foreign(
            f"manifests/{name} in {folder.location} belongs to another run than {layout.RUN}: {other}; no file of it "
            "was changed. Restore the files of one of the two from a backup, or train in another folder"
        )


def read_manifest(folder: Folder, name: str) -> dict[str, Any]:
    """Return a manifest; CheckpointError if it is damaged or of an unknown format."""
    try:
        manifest = documents.read(folder, f"{layout.MANIFESTS}/{name}", MAX_MANIFEST_BYTES)
    except Damaged:
        manifest = None
    if manifest is None:
        raise CheckpointError(f"manifests/{name} is truncated or damaged")
    if manifest.get("format") != layout.FORMAT:
        raise CheckpointError(f"manifests/{name} must have format {layout.FORMAT}, got {manifest.get('format')!r:.100}")
    try:
        manifest = documents.unsigned(manifest)
        step, objects = manifest.get("step"), manifest.get("objects")
        if type(step) is not int or not 0 <= step <= MAX_STEP or not isinstance(objects, dict):
            raise ValueError("step and objects must be a count and a table")
        if step != _step(name):
            raise ValueError(f"it is that of step {step:,}")
        manifest["objects"] = {key: vars(from_dict(Entry, entry, f"{key}.")) for key, entry in objects.items()}
    except (ValueError, ConfigError) as error:
        raise CheckpointError(f"manifests/{name} is damaged: {error!s:.300}") from None
    return manifest


def write_manifest(folder: Folder, name: str, manifest: Mapping[str, Any]) -> None:
    """Write a manifest, with its own checksum."""
    documents.write(folder, f"{layout.MANIFESTS}/{name}", manifest)


def object_names(folder: Folder, manifest: str) -> set[str]:
    """Return the names of the objects that a manifest lists; none if it cannot be read."""
    try:
        return {entry["name"] for entry in read_manifest(folder, manifest)["objects"].values()}
    except CheckpointError:
        return set()


def is_whole(folder: Folder, entry: Mapping[str, Any]) -> bool:
    """Return whether an object is there with the size and checksum that a manifest gives."""
    try:
        read_object(folder, entry)
    except CheckpointError:
        return False
    return True


def read_object(folder: Folder, entry: Mapping[str, Any]) -> bytes:
    """Return the object of a manifest's entry; CheckpointError unless size and checksum match."""
    data = folder.get(entry["name"], entry["bytes"] + 1)
    if data is None:
        raise CheckpointError(f"{entry['name']} is missing")
    if len(data) != entry["bytes"]:
        found = "more" if len(data) > entry["bytes"] else f"{len(data):,}"
        raise CheckpointError(f"{entry['name']} must have {entry['bytes']:,} bytes, got {found}")
    if checksum(data) != entry["blake2b"]:
        raise CheckpointError(f"{entry['name']} is damaged: its checksum differs")
    return data
