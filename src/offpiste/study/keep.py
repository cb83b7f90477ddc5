"""Keep of a finished run its weights, bonus models and tables, and drop the replay that it cannot go on without.

The manifest of the last checkpoint is replaced by one that names less, then what it no longer names is deleted, and a
mark is written. Each of these may be the last thing that a process does; calling again goes on from there.
"""

import json
from typing import Any

from offpiste.errors import CheckpointError
from offpiste.store import arrays
from offpiste.store.checkpoints import attempt_names, checksum, newest_object, read_manifest
from offpiste.store.storage import Folder
from offpiste.study.status import RESULTS


def dropped_replay(folder: Folder) -> bool:
    """Tell whether only the results of the run in this folder are left, or are about to be."""
    names = folder.list("manifests")
    return bool(names) and "replay" not in read_manifest(folder, names[-1])["objects"]


def keep_results(folder: Folder) -> None:
    """Drop all that a finished run needs only to go on; do nothing if another attempt has begun since it finished."""
    status = json.loads(folder.get("status.json") or b"{}")
    if status.get("state") != "finished" or status.get("attempt") != attempt_names(folder)[-1]:
        return
    names = folder.list("manifests")
    if not names:
        raise CheckpointError(f"{folder.location} holds no checkpoint, so there is nothing to keep")
    manifest = read_manifest(folder, names[-1])
    if "replay" in manifest["objects"]:
        manifest = _only_results(folder, manifest)
        sealed = {**manifest, "blake2b": checksum(json.dumps(manifest).encode())}
        folder.put(f"manifests/{names[-1]}", json.dumps(sealed).encode())
    for name in names[:-1]:
        folder.delete(f"manifests/{name}")
    named = {entry["name"] for entry in manifest["objects"].values()}
    for name in folder.list("objects"):
        if f"objects/{name}" not in named:
            folder.delete(f"objects/{name}")
    folder.put(RESULTS, json.dumps({"step": manifest["step"], "kept": sorted(manifest["objects"])}).encode())


def _only_results(folder: Folder, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of what is kept; the weights are written anew, without target and optimiser."""
    objects = {key: entry for key, entry in manifest["objects"].items() if key.startswith("kept/")}
    agent = arrays.unpack(newest_object(folder, "agent"))
    weights = arrays.pack({key: value for key, value in agent.items() if key.startswith("online/")})
    name = f"objects/{manifest['step']:012d}-{manifest['attempt']}-weights"
    folder.put(name, weights)
    objects["agent"] = {"name": name, "bytes": len(weights), "blake2b": checksum(weights)}
    return {**manifest, "objects": objects}
