"""Checkpoints made of objects that never change, with a manifest written last.

Every object is named by step and attempt, so no attempt ever writes over another's. A manifest lists its objects with
their sizes and checksums; it counts only if all of them verify. The newest that does is restored; if there are
manifests but none verifies, the run stops and says which files are broken: it never starts again from zero in silence.

Attempts are numbered, and the number is a fence. A process may sleep for hours and wake after another attempt has
finished the run, so no delete hangs on what was true when it was decided: see `delete_unneeded`.
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
"""Objects of an older attempt that no manifest names are deleted after this long: it may still be writing them."""
_ATTEMPT = re.compile(r"(?:\d+-)?(\d{6,})-([0-9a-z]{6})(?:$|[-.])")
"""The name of an attempt, after the step in the name of a manifest or an object."""


@dataclass(frozen=True)
class Restored:
    """A whole checkpoint."""

    manifest: str
    """The name of its manifest."""
    step: int
    objects: dict[str, bytes]
    named: dict[str, dict[str, Any]]
    """Name, size and checksum of each object."""
    broken: list[str]
    """What was wrong with newer checkpoints, if they had to be passed over."""


@dataclass(frozen=True)
class Saved:
    """What one checkpoint wrote."""

    written_bytes: int
    written_objects: int


class Checkpoints:
    """The checkpoints of one run, seen by one attempt at it."""

    def __init__(self, folder: Folder, attempt: str) -> None:
        self._folder = folder
        self._attempt = attempt
        self._named: dict[str, dict[str, Any]] = {}
        """The objects of the newest manifest, by key."""
        self._newest: str | None = None
        """That manifest: the one restored from, then the last one saved."""

    def save(self, step: int, mutable: Mapping[str, bytes], immutable: Mapping[str, Callable[[], bytes]]) -> Saved:
        """Write a checkpoint: `changing` anew, and of `lasting` only what the checkpoint before did not have."""
        self.stop_if_superseded()
        named: dict[str, dict[str, Any]] = {}
        written: set[str] = set()
        for key, give in [
            *((key, lambda data=data: data) for key, data in mutable.items()),
            *immutable.items(),
        ]:
            if key in immutable and key in self._named:
                named[key] = self._named[key]
                continue
            data = give()
            name = f"{layout.OBJECTS}/{step:012d}-{self._attempt}-{key.replace('/', '-')}"
            self._folder.put(name, data)
            named[key] = {"name": name, "bytes": len(data), "blake2b": checksum(data)}
            written.add(key)
        self.stop_if_superseded()  # writing the objects may have taken minutes
        manifest = f"{step:012d}-{self._attempt}.json"
        write_manifest(
            self._folder, manifest, {"format": FORMAT, "step": step, "attempt": self._attempt, "objects": named}
        )
        # An attempt that begins after this check restores from the manifest above, which keeps all that it names.
        self.stop_if_superseded()
        objects = self._folder.stat(layout.OBJECTS)
        self._refuse_unless_whole(step, named, written, objects)
        kept = {manifest: named} if self._newest is None else {self._newest: self._named, manifest: named}
        self._named, self._newest = named, manifest
        delete_unneeded(self._folder, self._attempt, manifest, kept, objects)
        return Saved(sum(named[key]["bytes"] for key in written), len(written))

    def restore(self) -> Restored | None:
        """Return the newest whole checkpoint, or None where the run has none yet."""
        for prefix in ("", layout.ATTEMPTS, layout.MANIFESTS, layout.OBJECTS):
            self._folder.sweep(prefix, ORPHAN_SECONDS)
        try:
            restored = newest_whole(self._folder)
        finally:
            self.stop_if_superseded()  # what was found, or was not, may be a newer attempt's doing
        if restored is not None:
            self._named, self._newest = restored.named, restored.manifest
        return restored

    def stop_if_superseded(self) -> None:
        """Raise Superseded if a newer attempt has begun."""
        stop_if_superseded(self._folder, self._attempt)

    def _refuse_unless_whole(
        self,
        step: int,
        named: Mapping[str, dict[str, Any]],
        written: Collection[str],
        found: Mapping[str, Stat],
    ) -> None:
        """Raise StoreError unless the store holds what a manifest names: sizes by a listing, checksums on a disk."""
        missing = {
            key
            for key, entry in named.items()
            if (stat := found.get(entry["name"].removeprefix(f"{layout.OBJECTS}/"))) is None
            or stat.bytes != entry["bytes"]
        }
        if not missing and self._folder.local_path is not None:
            missing = {key for key in written if not _is_whole(self._folder, named[key])}
        if missing:
            self.stop_if_superseded()  # a newer attempt no longer needs it, and has deleted it
            self._named = {key: entry for key, entry in self._named.items() if key not in missing}  # write them again
            raise StoreError(
                f"{self._folder.location} lost what was just written for step {step:,}: {', '.join(sorted(missing))}; "
                "the checkpoints before it were kept"
            )


def delete_unneeded(
    folder: Folder,
    attempt: str,
    own: str,
    kept: Mapping[str, Mapping[str, dict[str, Any]]],
    objects: Mapping[str, Stat] | None = None,
) -> None:
    """Delete the manifests but those in `kept`, and the objects but those that these name, as far as an attempt may.

    Whoever calls has written the manifest `own`, seen all of it in the store, and then seen that no newer attempt had
    begun. Deleted are only manifests of attempts up to this one, the objects that they name, objects of this attempt,
    and unnamed objects of older attempts after an hour by the store's own clock; nothing of a newer attempt, and
    nothing at all once `own` is gone, for then somebody else decides.
    """
    manifests = folder.stat(layout.MANIFESTS)
    ours = [name for name in manifests if attempt_order(name) <= attempt_order(attempt)]
    if own not in manifests or len(ours) < len(manifests):
        return
    needed = {entry["name"] for named in kept.values() for entry in named.values()}
    released: set[str] = set()
    for name in ours:
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
    """Return what attempts sort by, from the name of an attempt, or of a manifest or an object of its."""
    found = _ATTEMPT.match(name)
    return (int(found[1]), found[2]) if found else (0, "")


def begin_attempt(folder: Folder, about: Mapping[str, Any]) -> str:
    """Announce a new attempt at the run in this folder and return its name."""
    number = 1 + max((attempt_order(name)[0] for name in attempt_names(folder)), default=0)
    attempt = f"{number:06d}-{secrets.token_hex(3)}"
    describe_attempt(folder, attempt, about)
    return attempt


def describe_attempt(folder: Folder, attempt: str, about: Mapping[str, Any]) -> None:
    """Write down, or replace, what is known of an attempt."""
    folder.put(f"{layout.ATTEMPTS}/{attempt}.json", json.dumps(dict(about)).encode())


def withdraw_attempt(folder: Folder, attempt: str) -> None:
    """Take back the announcement of an attempt that ended before it wrote anything."""
    folder.delete(f"{layout.ATTEMPTS}/{attempt}.json")


def read_attempts(folder: Folder) -> list[dict[str, Any]]:
    """Return what is known of each attempt, oldest first, without those whose description is damaged."""
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
    """Return the newest whole checkpoint, or None where there is none yet; changes nothing."""
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
            f"Restore the files from a copy, or begin anew in another folder: {'; '.join(broken)}"
        )
    return None


def read_manifest(folder: Folder, name: str) -> dict[str, Any]:
    """Return one manifest."""
    data = folder.get(f"{layout.MANIFESTS}/{name}")
    try:
        manifest = json.loads(data or b"")
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict):
        raise CheckpointError(f"manifests/{name} is cut short or damaged")
    if manifest.get("format") not in READABLE_FORMATS:
        formats = " and ".join(map(str, READABLE_FORMATS))
        raise CheckpointError(f"manifests/{name} has format {manifest.get('format')}; this version reads {formats}")
    found = manifest.pop("blake2b", None)
    if found != checksum(json.dumps(manifest).encode()):
        raise CheckpointError(f"manifests/{name} is damaged: its checksum differs")
    return manifest


def write_manifest(folder: Folder, name: str, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with a checksum of itself."""
    sealed = {**manifest, "blake2b": checksum(json.dumps(manifest).encode())}
    folder.put(f"{layout.MANIFESTS}/{name}", json.dumps(sealed).encode())


def newest_object(folder: Folder, key: str) -> bytes:
    """Return one object of the newest checkpoint in which it is whole; KeyError where that has no such object."""
    broken: list[str] = []
    for name in reversed(folder.list(layout.MANIFESTS)):
        try:
            return read_object(folder, read_manifest(folder, name)["objects"][key])
        except CheckpointError as error:
            broken.append(str(error))
    raise CheckpointError("; ".join(broken) or f"{folder.location} holds no checkpoint; is it the folder of a run?")


def checksum(data: bytes) -> str:
    """Return the checksum that manifests carry."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _object_names(folder: Folder, manifest: str) -> set[str]:
    """Return the names of the objects of a manifest, or nothing where it cannot be read."""
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
    """Return an object that a manifest names, if it is whole."""
    data = folder.get(entry["name"])
    if data is None:
        raise CheckpointError(f"{entry['name']} is missing")
    if len(data) != entry["bytes"]:
        raise CheckpointError(f"{entry['name']} has {len(data):,} bytes instead of {entry['bytes']:,}")
    if checksum(data) != entry["blake2b"]:
        raise CheckpointError(f"{entry['name']} is damaged: its checksum differs")
    return data
