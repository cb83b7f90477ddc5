"""Hashes of a run's state and records: two runs are the same if theirs are equal."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from offpiste import arrays
from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.rows import REPRODUCIBLE
from offpiste.run.loop import new_replay
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.checkpoints import newest_whole, older_used, refuse_unfit
from offpiste.store.finished import refuse_results_only
from offpiste.store.identity import read_config
from offpiste.store.records import column_digests, one_digest, read_records, to_table
from offpiste.store.storage import Folder

_OBJECTS = (layout.LOOP, layout.COVERAGE, layout.CELLS, layout.SCALARS, layout.AGENT, layout.BONUS)
"""Those of which all is reproducible."""


def digest(folder: Folder, warn: Callable[[str], None] = warnings.warn) -> str:
    """Return one hash of all that is reproducible in a run's newest whole checkpoint, as `digests` has it."""
    return one_digest(digests(folder, warn))


def digests(folder: Folder, warn: Callable[[str], None] = warnings.warn) -> dict[str, str]:
    """Return a hash of each part of a run's newest whole checkpoint; `warn` says if it is an old one.

    Parts are weights, the optimizer's arrays, decompressed frames, priorities, generators, the world, coverage, the
    bonus's arrays, as OBJECT/NAME, and columns of the reproducible tables, as TABLE.COLUMN. Wall clock, rates and
    attempts are left out.
    """
    config = read_config(folder)
    refuse_results_only(folder)
    restored = newest_whole(folder)
    if restored is None:
        raise StoreError(f"{folder.location} has no checkpoint yet; train the run first")
    if restored.broken:
        warn(older_used(restored.step, restored.broken))
    with refuse_unfit(folder):
        return _digests(config, restored.objects)


def _digests(config: RunConfig, objects: Mapping[str, bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in _OBJECTS:
        if key in objects:
            found |= {f"{key}/{name}": _hash(value) for name, value in arrays.unpack(objects[key]).items()}
    state = arrays.unpack(objects[layout.REPLAY])
    if (held := len(state["tree/leaves"])) != config.agent.replay_capacity:  # before as much memory is asked for
        raise ValueError(
            f"the replay has {held:,} entries, and agent.replay_capacity is {config.agent.replay_capacity:,}"
        )
    replay = new_replay(config, stream(0, "unused"))
    replay.load_state(state, layout.of_kinds(objects, *layout.REPLAY_KINDS))
    decoded = replay.decoded()
    found |= {f"{layout.REPLAY}/{name}": _hash(value) for name, value in decoded.items()}
    frames = hashlib.sha256()
    for piece in np.array_split(decoded["numbers"], len(decoded["numbers"]) // 4096 + 1):
        frames.update(replay.frames_of(piece).tobytes())
    found[f"{layout.REPLAY}/frames"] = frames.hexdigest()
    records = read_records(objects)
    for table in REPRODUCIBLE:
        found |= column_digests(table, to_table(table, records.rows(table)))
    return found


def _hash(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    hasher = hashlib.sha256(f"{value.dtype} {value.shape}".encode())
    hasher.update(np.ascontiguousarray(value).tobytes())
    return hasher.hexdigest()
