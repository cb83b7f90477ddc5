"""Keep the weights, bonus models and tables of a finished run, and drop the replay, without which it cannot resume.

Three steps, after each of which the process may die; calling again continues:
1. Write a manifest of the newest attempt that lists only what is kept, over that attempt's last manifest if it has one.
2. Delete all objects that this manifest does not list.
3. Write results.json.

Concurrent attempts are safe. One that begins before step 1 is detected before step 2, and nothing is deleted. One that
begins later finds the new manifest and refuses to train (`offpiste.run.train`). An older one that wakes in its last
save finds the manifest of a newer attempt and deletes nothing.
"""

import json
from typing import Any

from offpiste import arrays
from offpiste.errors import CheckpointError, Damaged, Superseded
from offpiste.store import layout
from offpiste.store.attempts import attempt_names
from offpiste.store.checkpoints import delete_unneeded, stop_if_superseded
from offpiste.store.documents import checksum
from offpiste.store.finished import damage, finished_frames, finished_tables
from offpiste.store.identity import read_run
from offpiste.store.manifests import list_manifests, read_manifest, read_object, refuse_foreign, write_manifest
from offpiste.store.status import read_status
from offpiste.store.storage import Folder


def keep_results(folder: Folder) -> None:
    """Drop what a finished run needs only to resume; do nothing if another attempt has begun since it finished.

    All that is kept is verified first: CheckpointError, and nothing is dropped, if any of it is damaged.
    """
    status, attempts = read_status(folder), attempt_names(folder)
    if status.state != "finished" or status.attempt not in attempts[-1:]:
        return
    attempt, (names, missing) = status.attempt, list_manifests(folder)
    if not names:
        raise CheckpointError(f"{folder.location} holds no checkpoint to keep results of; train the run first")
    newest, manifest = names[-1], _verified(folder, names[-1], missing)
    if layout.REPLAY in manifest["objects"]:
        manifest = _only_results(folder, manifest, attempt)
        newest = f"{manifest['step']:012d}-{attempt}.json"
        write_manifest(folder, newest, manifest)
    try:
        stop_if_superseded(folder, attempt)
    except Superseded:
        return
    delete_unneeded(folder, attempt, newest, {newest: manifest["objects"]})
    folder.put(layout.RESULTS, json.dumps({"step": manifest["step"], "kept": sorted(manifest["objects"])}).encode())


def _verified(folder: Folder, name: str, missing: str) -> dict[str, Any]:
    """Return the newest manifest; CheckpointError if what is to be kept of its checkpoint or the tables is damaged."""
    try:
        if missing:
            raise CheckpointError(missing)
        manifest = read_manifest(folder, name)
        stored = read_run(folder)
        identity = {} if stored is None else stored.identity
        refuse_foreign(folder, name, manifest, identity)
        for entry in layout.of_kinds(manifest["objects"], *layout.RESULT_KINDS, layout.AGENT).values():
            read_object(folder, entry)
        frames = finished_frames(folder.list())
        for table in finished_tables(folder, frames, identity).values() if frames >= 0 else ():
            if wrong := damage(folder, table):
                raise CheckpointError(f"{table.name} is damaged: {wrong}")
    except (CheckpointError, Damaged) as error:
        raise CheckpointError(
            f"nothing of the run in {folder.location} was dropped, since what is to be kept is damaged: {error}; "
            "restore it from a backup"
        ) from None
    return manifest


def _only_results(folder: Folder, manifest: dict[str, Any], attempt: str) -> dict[str, Any]:
    """Return the manifest of what is kept; writes the online weights, without target network and optimiser."""
    objects = layout.of_kinds(manifest["objects"], *layout.RESULT_KINDS)
    agent = arrays.unpack(read_object(folder, manifest["objects"][layout.AGENT]))
    weights = arrays.pack({key: value for key, value in agent.items() if key.startswith(layout.ONLINE)})
    name = f"{layout.OBJECTS}/{manifest['step']:012d}-{attempt}-weights"
    folder.put(name, weights)
    objects[layout.AGENT] = {"name": name, "bytes": len(weights), "blake2b": checksum(weights)}
    return {**manifest, "attempt": attempt, "objects": objects}
