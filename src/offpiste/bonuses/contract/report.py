"""What is promised by a bonus, and what a check of it found."""

import shutil
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Outcome = Literal["ok", "FAILED", "skipped"]


class Check(StrEnum):
    """What is promised by a bonus, in the order of the report."""

    OPTIONS = "options are a frozen dataclass"
    MAKING = "can be made"
    NUMBER = "observe returns a number"
    FINITE = "bonuses are finite"
    SIGN = "bonuses are not negative"
    SEED = "same seed, same bonuses"
    STATE = "state can be saved"
    RESUME = "a restored bonus goes on identically"
    INPUTS = "inputs stay as they were"
    GENERATORS = "global generators stay as they were"
    LEARN = "learns from a batch"
    SCALARS = "scalars are finite and change nothing"
    VISITS = "falls as a picture is visited again"
    SCOPE = "scope is as declared"
    COST = "cost"


@dataclass(frozen=True)
class Result:
    """What one check found."""

    check: Check
    outcome: Outcome
    words: str = ""
    """What is wrong and what to do about it, why it was skipped, or what was measured."""


@dataclass(frozen=True)
class CheckReport:
    """What all checks found; as text it is what `offpiste check-bonus` prints."""

    bonus: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> dict[Check, str]:
        """The checks that failed, and the words of each."""
        return {result.check: result.words for result in self.results if result.outcome == "FAILED"}

    def __str__(self) -> str:
        width = shutil.get_terminal_size((120, 24)).columns
        lines = [f"{result.outcome:<9}{result.check}{result.words and ': '}{result.words}" for result in self.results]
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * 9) for line in (self.bonus, *lines))


class Findings:
    """The results so far; of each check the first one counts."""

    def __init__(self) -> None:
        self.results: dict[Check, Result] = {}

    @property
    def failed(self) -> bool:
        """Whether anything is wrong so far."""
        return any(result.outcome == "FAILED" for result in self.results.values())

    def fail(self, check: Check, words: str) -> None:
        """Say what is wrong and what to do about it."""
        self.results.setdefault(check, Result(check, "FAILED", words))

    def skip(self, check: Check, words: str) -> None:
        """Say why this was not looked at."""
        self.results.setdefault(check, Result(check, "skipped", words))

    def accept(self, check: Check, words: str = "") -> None:
        """Say that nothing was found, and perhaps what was measured."""
        self.results.setdefault(check, Result(check, "ok", words))


class Stop(Exception):
    """Going on is impossible; the message says why."""
