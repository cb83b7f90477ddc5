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

from offpiste.errors import CheckpointError, Superseded
from offpiste.store import arrays, layout
from offpiste.store.checkpoints import (
    attempt_names,
    checksum,
    delete_unneeded,
    read_manifest,
    read_object,
    stop_if_superseded,
    write_manifest,
)
from offpiste.store.storage import Folder


def keep_results(folder: Folder) -> None:
    """Drop what a finished run needs only to resume; do nothing if another attempt has begun since it finished."""
    status = json.loads(folder.get(layout.STATUS) or b"{}")
    attempt = status.get("attempt")
    if status.get("state") != "finished" or attempt != attempt_names(folder)[-1]:
        return
    names = folder.list(layout.MANIFESTS)
    if not names:
        raise CheckpointError(f"{folder.location} holds no checkpoint to keep results of; train the run first")
    newest, manifest = names[-1], read_manifest(folder, names[-1])
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


def _only_results(folder: Folder, manifest: dict[str, Any], attempt: str) -> dict[str, Any]:
    """Return the manifest of what is kept; writes the online weights, without target network and optimiser."""
    objects = layout.of_kinds(manifest["objects"], *layout.RESULT_KINDS)
    agent = arrays.unpack(read_object(folder, manifest["objects"][layout.AGENT]))
    weights = arrays.pack({key: value for key, value in agent.items() if key.startswith(layout.ONLINE)})
    name = f"{layout.OBJECTS}/{manifest['step']:012d}-{attempt}-weights"
    folder.put(name, weights)
    objects[layout.AGENT] = {"name": name, "bytes": len(weights), "blake2b": checksum(weights)}
    return {**manifest, "attempt": attempt, "objects": objects}
