"""Checkpoints: objects that are written once, and a manifest, written last, that lists them.

Object names hold step and attempt, so attempts never overwrite each other. A manifest lists the size and checksum of
each object; a checkpoint is whole if all of them match. The newest whole checkpoint is restored. If there are manifests
but no whole checkpoint, that is an error which names the broken files, never a silent restart from step 0; and so it is
if manifests are missing once a first checkpoint was completed. A manifest names its run, as run.json does: another
run's checkpoints are refused.

The attempt number is a fencing token: a process may sleep for hours and wake after a newer attempt has finished the
run. Hence no delete relies on what an earlier check saw: see `delete_unneeded`.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from offpiste.errors import CheckpointError, OffpisteError, StoreError, Superseded
from offpiste.store import layout
from offpiste.store.attempts import attempt_names, attempt_order
from offpiste.store.documents import checksum
from offpiste.store.identity import read_run
from offpiste.store.manifests import (
    is_whole,
    list_manifests,
    object_names,
    read_manifest,
    read_object,
    refuse_foreign,
    write_manifest,
)
from offpiste.store.storage import Folder, Stat

ORPHAN_SECONDS = 3600.0
"""Age at which objects of an older attempt that no manifest lists are deleted; before, it may still be writing them."""


@dataclass(frozen=True)
class Checkpoint:
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

    def __init__(self, folder: Folder, attempt: str, identity: Mapping[str, str] | None = None) -> None:
        """Save and restore checkpoints of the run with this identity, as `StoredRun.identity` has it."""
        self._folder = folder
        self._attempt = attempt
        self._identity = dict(identity or {})
        self._marked = False
        self._newest: str | None = None
        """The manifest restored from, then the last one saved."""
        self._entries: dict[str, dict[str, Any]] = {}
        """Its entries: name, size and checksum of each object, by key."""

    def save(self, step: int, mutable: Mapping[str, bytes], immutable: Mapping[str, Callable[[], bytes]]) -> Saved:
        """Write a checkpoint: all of `mutable`, and of `immutable` only the keys that the previous checkpoint lacks."""
        self.stop_if_superseded()
        entries, written = self._write_objects(step, mutable, immutable)
        self.stop_if_superseded()  # writing the objects may have taken minutes
        manifest = f"{step:012d}-{self._attempt}.json"
        about = {"format": layout.FORMAT, "step": step, "attempt": self._attempt, **self._identity}
        write_manifest(self._folder, manifest, {**about, "objects": entries})
        # An attempt that begins after this check restores from the manifest above, whose objects are all kept.
        self.stop_if_superseded()
        found = self._folder.stat(layout.OBJECTS)
        self._refuse_unless_whole(step, entries, written, found)
        self._mark_checkpointed(step)
        kept = {manifest: entries} if self._newest is None else {self._newest: self._entries, manifest: entries}
        self._newest, self._entries = manifest, entries
        delete_unneeded(self._folder, self._attempt, manifest, kept, found)
        return Saved(sum(entries[key]["bytes"] for key in written), len(written))

    def restore(self) -> Checkpoint | None:
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

    def _write_objects(
        self, step: int, mutable: Mapping[str, bytes], immutable: Mapping[str, Callable[[], bytes]]
    ) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """Return the entries of a new checkpoint, and the keys among them that were written."""
        entries = {key: self._entries[key] for key in immutable if key in self._entries}
        written: set[str] = set()
        try:
            for key, make in [*((key, lambda data=data: data) for key, data in mutable.items()), *immutable.items()]:
                if key not in entries:
                    data = make()
                    name = f"{layout.OBJECTS}/{step:012d}-{self._attempt}-{key.replace('/', '-')}"
                    self._folder.put(name, data)
                    entries[key] = {"name": name, "bytes": len(data), "blake2b": checksum(data)}
                    written.add(key)
        except StoreError:
            with suppress(StoreError):  # else attempts to save would fill the last of a disk, and no status fit
                for key in written:
                    self._folder.delete(entries[key]["name"])
            raise
        return entries, written

    def _mark_checkpointed(self, step: int) -> None:
        """Record once that a first checkpoint is complete."""
        if not self._marked and self._folder.get(layout.CHECKPOINTED, 1) is None:
            self._folder.put(layout.CHECKPOINTED, json.dumps({"step": step, "attempt": self._attempt}).encode())
        self._marked = True

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
            missing = {key for key in written if not is_whole(self._folder, entries[key])}
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
            released |= object_names(folder, name)
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


def newest_whole(folder: Folder) -> Checkpoint | None:
    """Return the newest whole checkpoint, or None if there is none yet; read-only."""
    broken: list[str] = []
    for name, manifest in _manifests(folder, broken):
        entries = manifest["objects"]
        needed, memory = sum(entry["bytes"] for entry in entries.values()), memory_bytes()
        if needed > memory:
            raise CheckpointError(f"{name} must fit into {memory:,} bytes of memory, got {needed:,}")
        try:
            objects = {key: read_object(folder, entry) for key, entry in entries.items()}
        except CheckpointError as error:
            broken.append(str(error))
            continue
        return Checkpoint(name, manifest["step"], objects, entries, broken)
    if broken:
        raise _none_whole(folder, broken)
    return None


def newest_objects(folder: Folder, keys: Collection[str], warn: Callable[[str], None]) -> dict[str, bytes]:
    """Return objects from the newest checkpoint in which all of them are whole; `warn` says if it is an older one.

    Raises KeyError if a manifest lists no such key.
    """
    broken: list[str] = []
    for _, manifest in _manifests(folder, broken):
        try:
            found = {key: read_object(folder, manifest["objects"][key]) for key in keys}
        except CheckpointError as error:
            broken.append(str(error))
            continue
        if broken:
            warn(older_used(manifest["step"], broken))
        return found
    if broken:
        raise _none_whole(folder, broken)
    raise CheckpointError(f"{folder.location} holds no checkpoint; give the folder of a run")


def older_used(step: int, broken: Collection[str]) -> str:
    """Return the message that an older checkpoint is used, since newer ones are broken."""
    return f"the checkpoint of step {step:,} is used, since a newer one is broken: {'; '.join(broken)}"


def _none_whole(folder: Folder, broken: Collection[str]) -> CheckpointError:
    return CheckpointError(
        f"no checkpoint in {folder.location} is whole; no file of it was changed. "
        f"Restore the files from a backup, or start over in another folder: {'; '.join(broken)}"
    )


def _manifests(folder: Folder, broken: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and content of the manifests in this folder, newest first; what is wrong with others goes to `broken`.

    Raises Foreign at a manifest of another run, so that nobody continues with what is left of this one.
    """
    names, missing = list_manifests(folder)
    if missing:
        broken.append(missing)
    stored = read_run(folder) if names else None
    for name in reversed(names):
        try:
            manifest = read_manifest(folder, name)
        except CheckpointError as error:
            broken.append(str(error))
            continue
        refuse_foreign(folder, name, manifest, {} if stored is None else stored.identity)
        yield name, manifest


@contextmanager
def refuse_unfit(folder: Folder) -> Iterator[None]:
    """Turn any error of restoring from objects that are whole into a CheckpointError.

    They are as they were written, but perhaps not by offpiste, or not for these settings.
    """
    try:
        yield
    except OffpisteError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint in {folder.location} is whole, but cannot be restored by this version with the settings "
            f"in {layout.RUN}: {error!r:.300}; no file of it was changed. Restore the files from a backup, or use the "
            "version of offpiste that wrote them"
        ) from error


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
