"""Restore a bonus in a new process, as after a crash, where hash() of strings and the order of sets differ."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offpiste.bonuses.contract.play import OTHER_SEED, SEED, Lengths, batch_draws, batch_of, warm_up
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, as_in_a_run
from offpiste.bonuses.registry import find, import_path, options_of, seeded_globals
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError

HASH_SEEDS = ("1", "2")
"""The new process takes the one that this process does not have."""
_STATE, _TASK, _ANSWER = "state.safetensors", "task.json", "answer.json"


class NotFound(Exception):
    """A new process cannot import the class; the message says why."""


@dataclass(frozen=True)
class _Task:
    name: str
    options: dict[str, Any]
    generator: dict[str, Any]
    observed: int
    lengths: dict[str, int]
    learns: bool


def paid_in_new_process(
    kind: type[Any], options: Mapping[str, Any], saved: SavedBonus, lengths: Lengths, *, learns: bool
) -> list[float]:
    """Return what a bonus, restored in a new process, pays for the steps in which bonuses are compared."""
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise NotFound(f"{kind.__qualname__} is not at the top level of a module that can be imported")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / _STATE).write_bytes(saved.state)
        task = _Task(import_path(kind), dict(options), saved.generator, saved.observed, asdict(lengths), learns)
        (folder / _TASK).write_text(json.dumps(asdict(task)))
        other_hashes = next(seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
        ended = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                __name__,
                path,
            ],  # -P: sys.path is this process's, without the current folder first
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": other_hashes},
            capture_output=True,
            check=False,
        )
        if not (folder / _ANSWER).exists():
            last_line = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise Raised(f"the process ended with code {ended.returncode}: {''.join(last_line)}")
        answer = json.loads((folder / _ANSWER).read_text())
    if "not found" in answer:
        raise NotFound(answer["not found"])
    if "raised" in answer:
        raise Raised(answer["raised"])
    return list(answer["paid"])


def main(path: str) -> None:
    """Read the task in a folder, and write the answer there."""
    folder = Path(path)
    task = _Task(**json.loads((folder / _TASK).read_text()))
    answer: dict[str, Any]
    try:
        with as_in_a_run(), seeded_globals(SEED):
            answer = {"paid": _paid(task, (folder / _STATE).read_bytes())}
    except ConfigError as error:
        answer = {"not found": str(error)}
    except Raised as raised:
        answer = {"raised": str(raised)}
    (folder / _ANSWER).write_text(json.dumps(answer))


def _paid(task: _Task, state: bytes) -> list[float]:
    specimen = Specimen(find(task.name), options_of(BonusConfig(task.name, task.options)), OTHER_SEED)
    specimen.restore(SavedBonus(state, task.generator, task.observed))
    lengths = Lengths(**task.lengths)
    steps, draws, paid = warm_up(lengths, lengths.compared), batch_draws(), []
    for number, transition in enumerate(steps):
        batch = batch_of(steps[:number], draws) if task.learns else None
        if number >= task.observed:
            paid.append(specimen.step(transition, batch, writes=False))
    return paid


if __name__ == "__main__":
    main(sys.argv[1])
