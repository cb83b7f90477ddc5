"""Restore a bonus in a new process, as after a crash, where hash() of strings and the order of sets differ."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offpiste.bonuses.contract.play import OTHER_SEED, ROOMS, SEED, Lengths, rooms, warm_up
from offpiste.bonuses.contract.rollout import roll_out
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, as_in_a_run
from offpiste.bonuses.registry import find, import_path, options_of, seeded_globals
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError

HASH_SEEDS = ("1", "2")
"""The new process takes the one that this process does not have."""
_STATE, _TASK, _ANSWER = ".safetensors", "task.json", "answer.json"


class NotFound(Exception):
    """A new process cannot import the class; the message says why."""


@dataclass(frozen=True)
class Save:
    """A bonus that was saved in a world."""

    game: str
    bonus: SavedBonus


def paid_in_new_process(
    kind: type[Any], options: Mapping[str, Any], saves: Sequence[Save], lengths: Lengths
) -> list[list[float]]:
    """Return what bonuses, restored in a new process, pay for the steps in which bonuses are compared in each world."""
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise NotFound(f"{kind.__qualname__} is not at the top level of a module that can be imported")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        saved = []
        for number, save in enumerate(saves):
            (folder / f"{number}{_STATE}").write_bytes(save.bonus.state)
            saved.append([save.game, save.bonus.generator, save.bonus.observed])
        task = {"name": import_path(kind), "options": dict(options), "lengths": asdict(lengths), "saves": saved}
        (folder / _TASK).write_text(json.dumps(task))
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
    task = json.loads((folder / _TASK).read_text())
    answer: dict[str, Any]
    try:
        with as_in_a_run(), seeded_globals(SEED):
            answer = {"paid": _paid(task, folder)}
    except ConfigError as error:
        answer = {"not found": str(error)}
    except Raised as raised:
        answer = {"raised": str(raised)}
    (folder / _ANSWER).write_text(json.dumps(answer))


def _paid(task: dict[str, Any], folder: Path) -> list[list[float]]:
    kind, lengths, paid = find(task["name"]), Lengths(**task["lengths"]), []
    for number, (game, generator, observed) in enumerate(task["saves"]):
        options = options_of(BonusConfig(task["name"], task["options"]))
        specimen = Specimen(kind, options, OTHER_SEED, game)
        specimen.restore(SavedBonus((folder / f"{number}{_STATE}").read_bytes(), generator, observed))
        rollout = roll_out(specimen, rooms(lengths) if game == ROOMS else warm_up(lengths, lengths.compared))
        if rollout.ended:
            raise Raised(rollout.error)
        paid.append(rollout.paid)
    return paid


if __name__ == "__main__":
    main(sys.argv[1])
