"""The parts of a study: the jobs of a scheduler each run one."""

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from offpiste.errors import ConfigError, Damaged
from offpiste.store import documents
from offpiste.store.storage import Folder
from offpiste.study.plan import Study
from offpiste.study.status import RunStatus

T = TypeVar("T")
_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class StudyPart:
    """One of the parts into which the runs of a study are divided, in their order."""

    number: int
    """From 1."""
    count: int

    def of(self, runs: Sequence[T]) -> Sequence[T]:
        """Return what belongs to its runs; sizes of parts differ by at most one."""
        return runs[(self.number - 1) * len(runs) // self.count : self.number * len(runs) // self.count]


def part_of(text: str) -> StudyPart:
    """Return the part that is written as I/N, from 1/N to N/N."""
    found = _PART.fullmatch(text)
    part = StudyPart(int(found[1]), int(found[2])) if found else StudyPart(0, 0)
    if not 1 <= part.number <= part.count:
        raise ConfigError(f"--part must be I/N, from 1/N to N/N, got {text!r}")
    return part


def parts_left(study: Study, found: Sequence[RunStatus], count: int) -> list[int]:
    """Return the numbers of the parts in which a run is to be trained, by the status of all runs."""
    return [
        number
        for number in range(1, count + 1)
        if any(
            not (seen.is_complete(study.keep) or seen.state == "failed") for seen in StudyPart(number, count).of(found)
        )
    ]


def numbers_text(numbers: Iterable[int]) -> str:
    """Return ascending numbers as Slurm writes them: 1-3,7."""
    texts = []
    for _, group in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        texts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(texts)


def put_count(store: Folder, study: str, count: int) -> None:
    """Note into how many parts a study was divided last, for `line`."""
    store.put(_file(study), json.dumps({"parts": count}).encode())


def line(store: Folder, study: Study, found: Sequence[RunStatus]) -> str:
    """Return how far the parts of a study are, by the status of its runs; "" if it was not divided."""
    try:
        count = (documents.read(store, _file(study.name)) or {}).get("parts")
    except Damaged:
        return ""
    if not isinstance(count, int) or not 1 <= count <= len(found):
        return ""
    left = parts_left(study, found, count)
    idle = [
        number for number in left if not any(seen.state == "running" for seen in StudyPart(number, count).of(found))
    ]
    text = f"{count} parts: {count - len(left)} done, {len(left) - len(idle)} at work, {len(idle)} not"
    return f"{text}: {numbers_text(idle)}" if idle else text


def _file(study: str) -> str:
    return f"studies/{study}/parts.json"
