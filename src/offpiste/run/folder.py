"""The folder of a run: what lies where, whose run it is, and reading it back.

run.json        configuration, fingerprints and version; written once
attempts/       one object per process that worked on the run
manifests/      one per checkpoint, the last two kept     objects/  what they list
status.json     how far the run is, renewed every half minute; for people and tools that watch
*.parquet       the tables, one file each, as of the last time that a process finished or was told to stop
tensorboard/    curves while training, where the folder is on a local disk
"""

import hashlib
import json
from typing import Any

import numpy as np

import offpiste
from offpiste.agent.replay import Replay
from offpiste.config import (
    RESULTS_VERSION,
    RunConfig,
    fingerprint,
    from_dict,
    identity,
    method,
    protocol,
    to_dict,
)
from offpiste.errors import RunMismatch, StoreError
from offpiste.seeding import stream
from offpiste.store import arrays
from offpiste.store.checkpoints import newest_whole
from offpiste.store.records import REPRODUCIBLE, RecordLog
from offpiste.store.storage import Folder
from offpiste.worlds.base import FRAME_SHAPE

KEPT_ITERATIONS = (1, 10, 50, 100, 150, 200)
"""Iterations after which weights and bonus model are kept for good."""
CHANGING = ("loop", "coverage", "agent", "replay", "bonus")
"""Objects of a checkpoint that hold the loop's state; `records` holds the open rows, the rest lasts."""


def claim(folder: Folder, config: RunConfig, *, accept_version: bool = False) -> None:
    """Make the folder this run's, or check that it already is."""
    data = folder.get("run.json")
    if data is None:
        about = {
            "run_id": config.run_id,
            "config": to_dict(config),
            "protocol_fingerprint": fingerprint(protocol(config)),
            "method_fingerprint": fingerprint(method(config)),
            "results_version": RESULTS_VERSION,
            "offpiste": offpiste.__version__,
        }
        folder.put("run.json", json.dumps(about, indent=1).encode())
        return
    about = json.loads(data)
    there, asked = identity(from_dict(RunConfig, about["config"])), identity(config)
    differing = [
        f"{key} is {there.get(key)!r} there and {asked.get(key)!r} here"
        for key in sorted(there.keys() | asked.keys())
        if there.get(key) != asked.get(key)
    ]
    if differing:
        raise RunMismatch(
            f"{folder.location} holds another run: {'; '.join(differing)}. Name another folder with --out, "
            "or ask for the same settings to continue it"
        )
    if about["results_version"] != RESULTS_VERSION and not accept_version:
        raise RunMismatch(
            f"{folder.location} was begun by offpiste {about['offpiste']} (results version "
            f"{about['results_version']}); this is {offpiste.__version__} (results version {RESULTS_VERSION}), "
            "whose numbers differ. "
            "Continue with the older version, or mix the two knowingly with --accept-version"
        )


def read_config(folder: Folder) -> RunConfig:
    """Return the configuration of the run in a folder."""
    data = folder.get("run.json")
    if data is None:
        raise StoreError(f"{folder.location} holds no run: there is no run.json in it")
    return from_dict(RunConfig, json.loads(data)["config"])


def digest(folder: Folder) -> str:
    """Return one hash of all that a run's newest checkpoint holds and that does not depend on the machine.

    Covered are weights, optimiser, decoded pictures, priorities, generators, the emulator, coverage, the bonus model
    and the rows of the reproducible tables; left out are wall clock, rates and attempts.
    """
    config = read_config(folder)
    restored = newest_whole(folder)
    if restored is None:
        raise StoreError(f"{folder.location} holds no checkpoint yet")
    hasher = hashlib.sha256()
    for key in ("loop", "coverage", "agent", "bonus"):
        if key in restored.objects:
            _hash_values(hasher, arrays.unpack(restored.objects[key]))
    replay = Replay(config.agent, config.world, config.bonus, FRAME_SHAPE, stream(0, "unused"))
    replay.load_state(arrays.unpack(restored.objects["replay"]), lasting_of(restored.objects, "chunk", "dictionary"))
    decoded = replay.decoded()
    _hash_values(hasher, decoded)
    for piece in np.array_split(decoded["numbers"], len(decoded["numbers"]) // 4096 + 1):
        hasher.update(replay.frames_of(piece).tobytes())
    records = read_records(restored.objects)
    for table in REPRODUCIBLE:
        hasher.update(json.dumps(records.rows(table), sort_keys=True).encode())
    return hasher.hexdigest()


def lasting_of(objects: dict[str, bytes], *kinds: str) -> dict[str, bytes]:
    """Return the lasting objects of these kinds."""
    return {key: data for key, data in objects.items() if key.partition("/")[0] in kinds}


def read_records(objects: dict[str, bytes]) -> RecordLog:
    """Return the rows that a checkpoint holds."""
    records = RecordLog()
    records.load_state(arrays.unpack(objects["records"]), lasting_of(objects, "part"))
    return records


def _hash_values(hasher: Any, values: dict[str, Any]) -> None:
    for key in sorted(values):
        value = values[key]
        if isinstance(value, np.ndarray):
            hasher.update(f"{key} {value.dtype} {value.shape}".encode())
            hasher.update(np.ascontiguousarray(value).tobytes())
        else:
            hasher.update(f"{key} {json.dumps(value, sort_keys=True)}".encode())
