"""One hash of a run's state and records: two runs are the same if their digests are equal."""

import hashlib
import json
from typing import Any

import numpy as np

from offpiste.errors import StoreError
from offpiste.run.parts import new_replay
from offpiste.seeding import stream
from offpiste.store import arrays, layout
from offpiste.store.checkpoints import newest_whole
from offpiste.store.records import REPRODUCIBLE
from offpiste.store.run_folder import read_config, read_records, refuse_results_only
from offpiste.store.storage import Folder


def digest(folder: Folder) -> str:
    """Return one hash of all that is reproducible in a run's newest checkpoint.

    That is weights, optimiser, decompressed frames, priorities, generators, the emulator, coverage, the bonus model and
    the rows of the reproducible tables; wall clock, rates and attempts are left out.
    """
    config = read_config(folder)
    refuse_results_only(folder)
    restored = newest_whole(folder)
    if restored is None:
        raise StoreError(f"{folder.location} has no checkpoint yet; train the run first")
    hasher = hashlib.sha256()
    for key in (layout.LOOP, layout.COVERAGE, layout.AGENT, layout.BONUS):
        if key in restored.objects:
            _hash_values(hasher, arrays.unpack(restored.objects[key]))
    replay = new_replay(config, stream(0, "unused"))
    replay.load_state(
        arrays.unpack(restored.objects[layout.REPLAY]), layout.of_kinds(restored.objects, *layout.REPLAY_KINDS)
    )
    decoded = replay.decoded()
    _hash_values(hasher, decoded)
    for piece in np.array_split(decoded["numbers"], len(decoded["numbers"]) // 4096 + 1):
        hasher.update(replay.frames_of(piece).tobytes())
    records = read_records(restored.objects)
    for table in REPRODUCIBLE:
        hasher.update(json.dumps(records.rows(table), sort_keys=True).encode())
    return hasher.hexdigest()


def _hash_values(hasher: Any, values: dict[str, Any]) -> None:
    for key in sorted(values):
        value = values[key]
        if isinstance(value, np.ndarray):
            hasher.update(f"{key} {value.dtype} {value.shape}".encode())
            hasher.update(np.ascontiguousarray(value).tobytes())
        else:
            hasher.update(f"{key} {json.dumps(value, sort_keys=True)}".encode())
