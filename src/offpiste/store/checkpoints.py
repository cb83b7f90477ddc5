"""Checkpoints: objects that are written once, and a manifest, written last, that lists them.

Object names hold step and attempt, so attempts never overwrite each other. A manifest lists the size and checksum of
each object; a checkpoint is whole if all of them match. The newest whole checkpoint is restored. If there are manifests
but no whole checkpoint, that is an error which names the broken files, never a silent restart from step 0.

The attempt number is a fencing token: a process may sleep for hours and wake after a newer attempt has finished the
run. Hence no delete relies on what an earlier check saw: see `delete_unneeded`.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from offpiste.errors import CheckpointError, StoreError, Superseded
from offpiste.store import layout
from offpiste.store.storage import Folder, Stat

FORMAT = 2
READABLE_FORMATS = (1, 2)
"""Format 1 has no objects `scalars` and `cells`, and no scalars among the records."""
ORPHAN_SECONDS = 3600.0
"""Age at which objects of an older attempt that no manifest lists are deleted; before, it may still be writing them."""
_ATTEMPT = re.compile(r"(?:\d+-)?(\d{6,})-([0-9a-z]{6})(?:$|[-.])")
"""The name of an attempt, which follows the step in names of manifests and objects."""


@dataclass(frozen=True)
class Restored:
    """A whole checkpoint, read from the store."""

    manifest: str
    """The name of its manifest."""
    step: int
    objects: dict[str, bytes]
    """Bytes of each object, by key."""
    entries: dict[str, dict[str, Any]]
    """Name, size and checksum of each object, by key."""
    broken: list[str]
    """Why newer checkpoints were skipped."""


@dataclass(frozen=True)
class Saved:
    """How much a checkpoint wrote."""

    written_bytes: int
    written_objects: int


class Checkpoints:
    """The checkpoints of one run, as one attempt reads and writes them."""

    def __init__(self, folder: Folder, attempt: str) -> None:
        self._folder = folder
        self._attempt = attempt
        self._newest: str | None = None
        """The manifest restored from, then the last one saved."""
        self._entries: dict[str, dict[str, Any]] = {}
        """Its entries: name, size and checksum of each object, by key."""

    def save(self, step: int, mutable: Mapping[str, bytes], immutable: Mapping[str, Callable[[], bytes]]) -> Saved:
        """Write a checkpoint: all of `mutable`, and of `immutable` only the keys that the previous checkpoint lacks."""
        self.stop_if_superseded()
        entries: dict[str, dict[str, Any]] = {}
        written: set[str] = set()
        for key, make in [
            *((key, lambda data=data: data) for key, data in mutable.items()),
            *immutable.items(),
        ]:
            if key in immutable and key in self._entries:
                entries[key] = self._entries[key]
                continue
            data = make()
            name = f"{layout.OBJECTS}/{step:012d}-{self._attempt}-{key.replace('/', '-')}"
            self._folder.put(name, data)
            entries[key] = {"name": name, "bytes": len(data), "blake2b": checksum(data)}
            written.add(key)
        self.stop_if_superseded()  # writing the objects may have taken minutes
        manifest = f"{step:012d}-{self._attempt}.json"
        write_manifest(
            self._folder, manifest, {"format": FORMAT, "step": step, "attempt": self._attempt, "objects": entries}
        )
        # An attempt that begins after this check restores from the manifest above, whose objects are all kept.
        self.stop_if_superseded()
        found = self._folder.stat(layout.OBJECTS)
        self._refuse_unless_whole(step, entries, written, found)
        kept = {manifest: entries} if self._newest is None else {self._newest: self._entries, manifest: entries}
        self._newest, self._entries = manifest, entries
        delete_unneeded(self._folder, self._attempt, manifest, kept, found)
        return Saved(sum(entries[key]["bytes"] for key in written), len(written))

    def restore(self) -> Restored | None:
        """Return the newest whole checkpoint, or None if the run has none yet."""
        for prefix in ("", layout.ATTEMPTS, layout.MANIFESTS, layout.OBJECTS):
            self._folder.sweep(prefix, ORPHAN_SECONDS)
        try:
            restored = newest_whole(self._folder)
        finally:
            self.stop_if_superseded()  # a newer attempt may have written or deleted what was just read
        if restored is not None:
            self._newest, self._entries = restored.manifest, restored.entries
        return restored

    def stop_if_superseded(self) -> None:
        """Raise Superseded if a newer attempt has begun."""
        stop_if_superseded(self._folder, self._attempt)

    def _refuse_unless_whole(
        self,
        step: int,
        entries: Mapping[str, dict[str, Any]],
        written: Collection[str],
        found: Mapping[str, Stat],
    ) -> None:
        """Raise StoreError unless the store holds all entries: sizes from a listing; on a disk, also checksums."""
        missing = {
            key
            for key, entry in entries.items()
            if (stat := found.get(entry["name"].removeprefix(f"{layout.OBJECTS}/"))) is None
            or stat.bytes != entry["bytes"]
        }
        if not missing and self._folder.local_path is not None:
            missing = {key for key in written if not _is_whole(self._folder, entries[key])}
        if missing:
            self.stop_if_superseded()  # a newer attempt may have deleted what it no longer needs
            # The next save writes the missing objects again.
            self._entries = {key: entry for key, entry in self._entries.items() if key not in missing}
            raise StoreError(
                f"{self._folder.location} lost what was just written for step {step:,}: {', '.join(sorted(missing))}; "
                "the previous checkpoints were kept"
            )


def delete_unneeded(
    folder: Folder,
    attempt: str,
    own: str,
    kept: Mapping[str, Mapping[str, dict[str, Any]]],
    objects: Mapping[str, Stat] | None = None,
) -> None:
    """Delete all manifests but those in `kept`, by name with their entries, and all objects that these do not list.

    The caller has written the manifest `own`, verified its objects in the store, and only then checked that no newer
    attempt had begun. Deleted are: manifests of this and older attempts, the objects they list, other objects of this
    attempt, and orphans of older attempts after an hour by the store's clock. Nothing is deleted once a newer attempt
    has a manifest or `own` is gone, for then that attempt decides.
    """
    manifests = folder.stat(layout.MANIFESTS)
    if own not in manifests or any(attempt_order(name) > attempt_order(attempt) for name in manifests):
        return
    needed = {entry["name"] for entries in kept.values() for entry in entries.values()}
    released: set[str] = set()
    for name in manifests:
        if name not in kept:
            released |= _object_names(folder, name)
            folder.delete(f"{layout.MANIFESTS}/{name}")
    now = manifests[own].modified
    for name, stat in (folder.stat(layout.OBJECTS) if objects is None else objects).items():
        path, author = f"{layout.OBJECTS}/{name}", attempt_order(name)
        if path in needed or author > attempt_order(attempt):
            continue
        if path in released or author == attempt_order(attempt) or now - stat.modified > ORPHAN_SECONDS:
            folder.delete(path)


def stop_if_superseded(folder: Folder, attempt: str) -> None:
    """Raise Superseded if an attempt newer than this one has begun."""
    newest = max(attempt_names(folder), default=attempt, key=attempt_order)
    if attempt_order(newest) > attempt_order(attempt):
        raise Superseded(f"attempt {newest} has taken over this run; attempt {attempt} stops")


def attempt_order(name: str) -> tuple[int, str]:
    """Return the sort key of an attempt, number and suffix, from its name or that of a manifest or object it wrote."""
    found = _ATTEMPT.match(name)
    return (int(found[1]), found[2]) if found else (0, "")


def begin_attempt(folder: Folder, about: Mapping[str, Any]) -> str:
    """Register a new attempt at the run in this folder and return its name."""
    number = 1 + max((attempt_order(name)[0] for name in attempt_names(folder)), default=0)
    attempt = f"{number:06d}-{secrets.token_hex(3)}"
    describe_attempt(folder, attempt, about)
    return attempt


def describe_attempt(folder: Folder, attempt: str, about: Mapping[str, Any]) -> None:
    """Write the description of an attempt, replacing an older one."""
    folder.put(f"{layout.ATTEMPTS}/{attempt}.json", json.dumps(dict(about)).encode())


def withdraw_attempt(folder: Folder, attempt: str) -> None:
    """Unregister an attempt that ended before it wrote anything."""
    folder.delete(f"{layout.ATTEMPTS}/{attempt}.json")


def read_attempts(folder: Folder) -> list[dict[str, Any]]:
    """Return the description of each attempt, oldest first; damaged ones are omitted."""
    rows = []
    for attempt in attempt_names(folder):
        try:
            rows.append(json.loads(folder.get(f"{layout.ATTEMPTS}/{attempt}.json") or b"") | {"attempt": attempt})
        except (ValueError, TypeError):
            continue
    return rows


def attempt_names(folder: Folder) -> list[str]:
    """Return the names of all attempts at the run in this folder, oldest first."""
    names = (name.removesuffix(".json") for name in folder.list(layout.ATTEMPTS))
    return sorted((name for name in names if _ATTEMPT.fullmatch(name)), key=attempt_order)


def newest_whole(folder: Folder) -> Restored | None:
    """Return the newest whole checkpoint, or None if there is none yet; read-only."""
    broken: list[str] = []
    for name in reversed(folder.list(layout.MANIFESTS)):
        try:
            manifest = read_manifest(folder, name)
            objects = {key: read_object(folder, entry) for key, entry in manifest["objects"].items()}
        except CheckpointError as error:
            broken.append(str(error))
            continue
        return Restored(name, manifest["step"], objects, manifest["objects"], broken)
    if broken:
        raise CheckpointError(
            f"no checkpoint in {folder.location} is whole; nothing was changed. "
            f"Restore the files from a backup, or start over in another folder: {'; '.join(broken)}"
        )
    return None


def read_manifest(folder: Folder, name: str) -> dict[str, Any]:
    """Return a manifest; CheckpointError if it is damaged or of an unknown format."""
    data = folder.get(f"{layout.MANIFESTS}/{name}")
    try:
        manifest = json.loads(data or b"")
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict):
        raise CheckpointError(f"manifests/{name} is truncated or damaged")
    if manifest.get("format") not in READABLE_FORMATS:
        formats = " or ".join(map(str, READABLE_FORMATS))
        raise CheckpointError(f"manifests/{name} must have format {formats}, got {manifest.get('format')}")
    found = manifest.pop("blake2b", None)
    if found != checksum(json.dumps(manifest).encode()):
        raise CheckpointError(f"manifests/{name} is damaged: its checksum differs")
    return manifest


def write_manifest(folder: Folder, name: str, manifest: Mapping[str, Any]) -> None:
    """Write a manifest, with its own checksum."""
    signed = {**manifest, "blake2b": checksum(json.dumps(manifest).encode())}
    folder.put(f"{layout.MANIFESTS}/{name}", json.dumps(signed).encode())


def newest_object(folder: Folder, key: str) -> bytes:
    """Return an object from the newest checkpoint in which it is whole; KeyError if the manifest lists no such key."""
    broken: list[str] = []
    for name in reversed(folder.list(layout.MANIFESTS)):
        try:
            return read_object(folder, read_manifest(folder, name)["objects"][key])
        except CheckpointError as error:
            broken.append(str(error))
    raise CheckpointError("; ".join(broken) or f"{folder.location} holds no checkpoint; give the folder of a run")


def checksum(data: bytes) -> str:
    """Return the checksum used in manifests."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _object_names(folder: Folder, manifest: str) -> set[str]:
    """Return the names of the objects that a manifest lists; none if it cannot be read."""
    try:
        return {entry["name"] for entry in read_manifest(folder, manifest)["objects"].values()}
    except CheckpointError:
        return set()


def _is_whole(folder: Folder, entry: Mapping[str, Any]) -> bool:
    try:
        read_object(folder, entry)
    except CheckpointError:
        return False
    return True


def read_object(folder: Folder, entry: Mapping[str, Any]) -> bytes:
    """Return the object of a manifest's entry; CheckpointError unless size and checksum match."""
    data = folder.get(entry["name"])
    if data is None:
        raise CheckpointError(f"{entry['name']} is missing")
    if len(data) != entry["bytes"]:
        raise CheckpointError(f"{entry['name']} must have {entry['bytes']:,} bytes, got {len(data):,}")
    if checksum(data) != entry["blake2b"]:
        raise CheckpointError(f"{entry['name']} is damaged: its checksum differs")
    return data
