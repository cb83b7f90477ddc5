"""Checkpoints made of objects that never change, with a manifest written last.

Every object is named by step and attempt, so no attempt ever writes over another's. A manifest lists its objects with
their sizes and checksums; it counts only if all of them verify. The newest that does is restored; if there are
manifests but none verifies, the run stops and says which files are broken: it never starts again from zero in silence.
Objects that neither of the last two manifests names are deleted, by the newest attempt only.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from offpiste.errors import CheckpointError, Superseded
from offpiste.store.storage import Folder

FORMAT = 1
_KEPT_MANIFESTS = 2


@dataclass(frozen=True)
class Restored:
    """A whole checkpoint."""

    step: int
    objects: dict[str, bytes]
    named: dict[str, dict[str, Any]]
    """Name, size and checksum of each object."""
    broken: list[str]
    """What was wrong with newer checkpoints, if they had to be passed over."""
    newer: list[str]
    """The manifests of these."""


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

    def save(self, step: int, changing: Mapping[str, bytes], lasting: Mapping[str, Callable[[], bytes]]) -> Saved:
        """Write a checkpoint: `changing` anew, and of `lasting` only what the checkpoint before did not have."""
        self.stop_if_superseded()
        named: dict[str, dict[str, Any]] = {}
        written = 0
        count = 0
        manifest_name = f"{step:012d}-{self._attempt}.json"
        for key, give in [
            *((key, lambda data=data: data) for key, data in changing.items()),
            *lasting.items(),
        ]:
            if key in lasting and key in self._named:
                named[key] = self._named[key]
                continue
            data = give()
            name = f"objects/{step:012d}-{self._attempt}-{key.replace('/', '-')}"
            self._folder.put(name, data)
            named[key] = {"name": name, "bytes": len(data), "blake2b": checksum(data)}
            written += len(data)
            count += 1
        manifest = {"format": FORMAT, "step": step, "attempt": self._attempt, "objects": named}
        self.stop_if_superseded()  # writing the objects may have taken minutes
        write_manifest(self._folder, manifest_name, manifest)
        self._named = named
        self.stop_if_superseded()
        self._delete_old(manifest_name)
        return Saved(written, count)

    def restore(self) -> Restored | None:
        """Return the newest whole checkpoint, or None where the run has none yet, and tidy up after broken ones."""
        restored = newest_whole(self._folder)
        for place in ("", "attempts", "manifests", "objects"):
            self._folder.sweep(place)
        if restored is not None:
            for newer in restored.newer:
                self._folder.delete(f"manifests/{newer}")  # else it would be tried again at the next start
            self._named = restored.named
        return restored

    def stop_if_superseded(self) -> None:
        """Raise Superseded if a newer attempt has begun."""
        newest = max(attempt_names(self._folder), default=self._attempt)
        if newest > self._attempt:
            raise Superseded(f"attempt {newest} has taken over this run; attempt {self._attempt} stops")

    def _delete_old(self, own: str) -> None:
        # What sorts after our own was finished by an attempt that this one had already taken over from.
        ours = [name for name in self._folder.list("manifests") if name <= own]
        delete_all_but(self._folder, ours[-_KEPT_MANIFESTS:])


def begin_attempt(folder: Folder, about: Mapping[str, Any]) -> str:
    """Announce a new attempt at the run in this folder and return its name."""
    number = 1 + max((int(name.partition("-")[0]) for name in attempt_names(folder)), default=0)
    attempt = f"{number:06d}-{secrets.token_hex(3)}"
    describe_attempt(folder, attempt, about)
    return attempt


def describe_attempt(folder: Folder, attempt: str, about: Mapping[str, Any]) -> None:
    """Write down, or replace, what is known of an attempt."""
    folder.put(f"attempts/{attempt}.json", json.dumps(dict(about)).encode())


def read_attempts(folder: Folder) -> list[dict[str, Any]]:
    """Return what is known of each attempt, oldest first, without those whose description is damaged."""
    rows = []
    for attempt in attempt_names(folder):
        try:
            rows.append(json.loads(folder.get(f"attempts/{attempt}.json") or b"") | {"attempt": attempt})
        except (ValueError, TypeError):
            continue
    return rows


def attempt_names(folder: Folder) -> list[str]:
    """Return the names of all attempts at the run in this folder, oldest first."""
    return [name.removesuffix(".json") for name in folder.list("attempts")]


def newest_whole(folder: Folder) -> Restored | None:
    """Return the newest whole checkpoint, or None where there is none yet; changes nothing."""
    broken: list[str] = []
    names = folder.list("manifests")
    for place, name in reversed(list(enumerate(names))):
        try:
            manifest = read_manifest(folder, name)
            objects = {key: read_object(folder, entry) for key, entry in manifest["objects"].items()}
        except CheckpointError as error:
            broken.append(str(error))
            continue
        return Restored(manifest["step"], objects, manifest["objects"], broken, names[place + 1 :])
    if broken:
        raise CheckpointError(
            f"no checkpoint in {folder.location} is whole; nothing was changed. "
            f"Restore the files from a copy, or begin anew in another folder: {'; '.join(broken)}"
        )
    return None


def delete_all_but(folder: Folder, kept: Collection[str]) -> None:
    """Delete all manifests but these, and the objects that none of these names."""
    for name in folder.list("manifests"):
        if name not in kept:
            folder.delete(f"manifests/{name}")
    needed: set[str] = set()
    for name in kept:
        try:
            manifest = read_manifest(folder, name)
        except CheckpointError:
            continue  # it names nothing that could be kept
        needed |= {entry["name"] for entry in manifest["objects"].values()}
    for name in folder.list("objects"):
        if f"objects/{name}" not in needed:
            folder.delete(f"objects/{name}")


def read_manifest(folder: Folder, name: str) -> dict[str, Any]:
    """Return one manifest."""
    data = folder.get(f"manifests/{name}")
    try:
        manifest = json.loads(data or b"")
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict):
        raise CheckpointError(f"manifests/{name} is cut short or damaged")
    if manifest.get("format") != FORMAT:
        raise CheckpointError(f"manifests/{name} has format {manifest.get('format')}; this version reads {FORMAT}")
    found = manifest.pop("blake2b", None)
    if found != checksum(json.dumps(manifest).encode()):
        raise CheckpointError(f"manifests/{name} is damaged: its checksum differs")
    return manifest


def write_manifest(folder: Folder, name: str, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with a checksum of itself."""
    sealed = {**manifest, "blake2b": checksum(json.dumps(manifest).encode())}
    folder.put(f"manifests/{name}", json.dumps(sealed).encode())


def newest_object(folder: Folder, key: str) -> bytes:
    """Return one object of the newest checkpoint in which it is whole; KeyError where that has no such object."""
    broken: list[str] = []
    for name in reversed(folder.list("manifests")):
        try:
            return read_object(folder, read_manifest(folder, name)["objects"][key])
        except CheckpointError as error:
            broken.append(str(error))
    raise CheckpointError("; ".join(broken) or f"{folder.location} holds no checkpoint; is it the folder of a run?")


def checksum(data: bytes) -> str:
    """Return the checksum that manifests carry."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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
