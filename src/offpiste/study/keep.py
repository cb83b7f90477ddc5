"""Keep of a finished run its weights, bonus models and tables, and drop the replay that it cannot resume without.

A manifest of the newest attempt is written that names less than that of the last checkpoint, or replaces it where that
attempt wrote it; then what it does not name is deleted, and a mark is written. Each of these may be the last thing that
a process does; calling again continues from there. An attempt that begins before the manifest was written is seen after
that, and nothing is deleted; one that begins later sees the new manifest and refuses to train (`offpiste.run.train`).
An older attempt that wakes in the middle of its last save sees a manifest of a newer one, and deletes nothing.
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
    """Drop all that a finished run needs only to resume; do nothing if another attempt has begun since it finished."""
    status = json.loads(folder.get(layout.STATUS) or b"{}")
    attempt = status.get("attempt")
    if status.get("state") != "finished" or attempt != attempt_names(folder)[-1]:
        return
    names = folder.list(layout.MANIFESTS)
    if not names:
        raise CheckpointError(f"{folder.location} holds no checkpoint, so there is nothing to keep")
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
    """Return an attempt's manifest of what is kept; the weights are written anew, without target and optimiser."""
    objects = layout.of_kinds(manifest["objects"], *layout.RESULT_KINDS)
    agent = arrays.unpack(read_object(folder, manifest["objects"][layout.AGENT]))
    weights = arrays.pack({key: value for key, value in agent.items() if key.startswith(layout.ONLINE)})
    name = f"{layout.OBJECTS}/{manifest['step']:012d}-{attempt}-weights"
    folder.put(name, weights)
    objects[layout.AGENT] = {"name": name, "bytes": len(weights), "blake2b": checksum(weights)}
    return {**manifest, "attempt": attempt, "objects": objects}
