"""One hash of a run's state and records: two runs are the same if their digests are equal."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.run.parts import new_replay
from offpiste.seeding import stream
from offpiste.store import arrays, layout
from offpiste.store.checkpoints import newest_whole, older_used, refuse_unfit
from offpiste.store.records import read_records
from offpiste.store.rows import REPRODUCIBLE
from offpiste.store.run_folder import read_config, refuse_results_only
from offpiste.store.storage import Folder


def digest(folder: Folder, warn: Callable[[str], None] = warnings.warn) -> str:
    """Return one hash of all that is reproducible in a run's newest whole checkpoint; `warn` says if it is an old one.

    That is weights, optimiser, decompressed frames, priorities, generators, the emulator, coverage, the bonus model and
    the rows of the reproducible tables; wall clock, rates and attempts are left out.
    """
    config = read_config(folder)
    refuse_results_only(folder)
    restored = newest_whole(folder)
    if restored is None:
        raise StoreError(f"{folder.location} has no checkpoint yet; train the run first")
    if restored.broken:
        warn(older_used(restored.step, restored.broken))
    with refuse_unfit(folder):
        return _digest(config, restored.objects)


def _digest(config: RunConfig, objects: Mapping[str, bytes]) -> str:
    hasher = hashlib.sha256()
    for key in (layout.LOOP, layout.COVERAGE, layout.AGENT, layout.BONUS):
        if key in objects:
            _hash_values(hasher, arrays.unpack(objects[key]))
    state = arrays.unpack(objects[layout.REPLAY])
    if (held := len(state["tree/leaves"])) != config.agent.replay_capacity:  # before as much memory is asked for
        raise ValueError(
            f"the replay has {held:,} entries, and agent.replay_capacity is {config.agent.replay_capacity:,}"
        )
    replay = new_replay(config, stream(0, "unused"))
    replay.load_state(state, layout.of_kinds(objects, *layout.REPLAY_KINDS))
    decoded = replay.decoded()
    _hash_values(hasher, decoded)
    for piece in np.array_split(decoded["numbers"], len(decoded["numbers"]) // 4096 + 1):
        hasher.update(replay.frames_of(piece).tobytes())
    records = read_records(objects)
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
