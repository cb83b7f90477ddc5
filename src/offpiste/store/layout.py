"""What lies where in a run's folder, and under which key in its checkpoints: the one place that spells these names.

run.json        configuration, fingerprints and version; written once
attempts/       one object per process that worked on the run
manifests/      one per checkpoint, the last two kept     objects/  what they list
status.json     how far the run is, renewed every half minute
finished-N.json the run has come to N frames; written once, so that no late status takes it back
tables/         the tables as they were then, one file each; written once
*.parquet       the tables as of the last time that a process finished or was told to stop
tensorboard/    curves while training, where the folder is on a local disk
results.json    only the results of the finished run were kept
quarantine.json a study does not try the run again until someone lifts this
"""

from collections.abc import Mapping
from typing import TypeVar

RUN, STATUS, RESULTS, QUARANTINE = "run.json", "status.json", "results.json", "quarantine.json"
BUNDLE = "manifest.json"
"""Makes a folder a bundle (`offpiste.store.bundle`)."""
ATTEMPTS, MANIFESTS, OBJECTS, FINISHED_TABLES = "attempts", "manifests", "objects", "tables"

LOOP, COVERAGE, AGENT, REPLAY, BONUS = "loop", "coverage", "agent", "replay", "bonus"
SCALARS, CELLS = "scalars", "cells"
STATE = (LOOP, COVERAGE, SCALARS, CELLS, AGENT, REPLAY, BONUS)
"""Objects that hold the loop's state, written anew with every checkpoint."""
RECORDS = "records"
"""The rows since the last part; written anew with every checkpoint."""
PART, CHUNK, DICTIONARY, MILESTONE = "part", "chunk", "dictionary", "kept"
"""Kinds of objects that never change once they exist; the kind is what stands before the first slash of a key."""
REPLAY_KINDS = (CHUNK, DICTIONARY)
RESULT_KINDS = (MILESTONE, BONUS)
"""What stays of a finished run where only results are kept, beside the weights of the agent."""
ONLINE = "online/"
"""Begins the names of the weights in the agent's object."""
MILESTONES = (1, 10, 50, 100, 150, 200)
"""Iterations after which weights and bonus model are kept for good."""

_Value = TypeVar("_Value")


def chunk(number: int) -> str:
    """Return the key of a chunk of the replay."""
    return f"{CHUNK}/{number:08d}"


def dictionary(number: int) -> str:
    """Return the key of a dictionary that chunks are compressed with."""
    return f"{DICTIONARY}/{number:08d}"


def part(table: str, iteration: int) -> str:
    """Return the key of the rows that an iteration added to a table."""
    return f"{parts(table)}{iteration:06d}"


def parts(table: str) -> str:
    """Return how the keys of all parts of a table begin."""
    return f"{PART}/{table}/"


def milestone(iteration: int, what: str) -> str:
    """Return the key of what is kept for good after an iteration: weights or bonus."""
    return f"{MILESTONE}/{iteration:06d}-{what}"


def table_file(table: str) -> str:
    """Return the file of a table in a run's folder."""
    return f"{table}.parquet"


def kind(key: str) -> str:
    """Return the kind of an object by its key."""
    return key.partition("/")[0]


def of_kinds(objects: Mapping[str, _Value], *kinds: str) -> dict[str, _Value]:
    """Return the objects of these kinds."""
    return {key: value for key, value in objects.items() if kind(key) in kinds}
