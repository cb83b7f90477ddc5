"""File names in a run's folder and object keys in its checkpoints; nothing else spells them.

run.json        configuration, fingerprints and version; written once
attempts/       one object per attempt: a process that worked on the run
manifests/      one per checkpoint, the last two kept     objects/  what they list
checkpointed.json  a first checkpoint was completed: manifests that are missing were lost
status.json     progress, updated every half minute
finished-N.json the run reached N frames; written once, so that no late status can undo it
tables/         the tables at that moment, one file each; written once
*.parquet       the tables when a process last finished or was stopped
tensorboard/    curves while training, if the folder is on a local disk
results.json    only the results of the finished run were kept
quarantine.json the run is quarantined: no study tries it again until this is deleted (`study retry`)
discarded.json  what was recorded here was deleted on request (`study discard`); a run may begin anew
tries.json      how often a study tried the run since its newest checkpoint, and how often it failed
"""

from collections.abc import Mapping
from typing import TypeVar

FORMAT = 3
"""Of a run's folder: the names below, and what is in the objects. Folders of formats 1 and 2 are refused."""
RUN, STATUS, RESULTS, QUARANTINE = "run.json", "status.json", "results.json", "quarantine.json"
CHECKPOINTED, DISCARDED = "checkpointed.json", "discarded.json"
PUBLISHED = "published"
"""The folder in a store that holds what was imported."""
TRIES = "tries.json"
BUNDLE = "manifest.json"
"""Makes a folder a bundle (`offpiste.store.bundle`)."""
ATTEMPTS, MANIFESTS, OBJECTS, FINISHED_TABLES = "attempts", "manifests", "objects", "tables"

LOOP, COVERAGE, AGENT, REPLAY, BONUS = "loop", "coverage", "agent", "replay", "bonus"
SCALARS, CELLS = "scalars", "cells"
STATE = (LOOP, COVERAGE, SCALARS, CELLS, AGENT, REPLAY, BONUS)
"""Mutable objects: the parts of `Loop.state()`, written with every checkpoint."""
RECORDS = "records"
"""The rows since the last part; mutable, too."""
PART, CHUNK, DICTIONARY, MILESTONE = "part", "chunk", "dictionary", "kept"
"""Kinds of immutable objects, written once; the kind is the part of a key before its first slash. Chunks and
dictionaries are named as the replay names them."""
REPLAY_KINDS = (CHUNK, DICTIONARY)
RESULT_KINDS = (MILESTONE, BONUS)
"""Kept of a finished run if only its results are, beside the agent's weights."""
ONLINE = "online/"
"""Prefix of the weights' names in the agent's object."""
MAX_TABLE_BYTES = 2**28
"""Size of the file of a table."""
MILESTONES = (1, 10, 50, 100, 150, 200)
"""Iterations after which weights and bonus model are saved and never deleted."""

_Value = TypeVar("_Value")


def part(table: str, iteration: int) -> str:
    """Return the key of the rows that an iteration added to a table."""
    return f"{parts(table)}{iteration:06d}"


def parts(table: str) -> str:
    """Return the prefix of the keys of a table's parts."""
    return f"{PART}/{table}/"


def milestone(iteration: int, what: str) -> str:
    """Return the key of the weights or the bonus saved after an iteration."""
    return f"{MILESTONE}/{iteration:06d}-{what}"


def table_file(table: str) -> str:
    """Return the file of a table in a run's folder."""
    return f"{table}.parquet"


def attempt(name: str) -> str:
    """Return the file that describes an attempt, in a run's folder."""
    return f"{ATTEMPTS}/{name}.json"


def kind(key: str) -> str:
    """Return the kind of an object, from its key."""
    return key.partition("/")[0]


def of_kinds(objects: Mapping[str, _Value], *kinds: str) -> dict[str, _Value]:
    """Return the objects of these kinds."""
    return {key: value for key, value in objects.items() if kind(key) in kinds}
