"""The checks of a bonus, and the report of their results."""

import shutil
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Outcome = Literal["ok", "FAILED", "skipped"]


class Check(StrEnum):
    """What a bonus promises, in the order of the report."""

    OPTIONS = "options are a frozen dataclass"
    MAKING = "can be made"
    NUMBER = "observe returns a number"
    FINITE = "bonuses are finite"
    SIGN = "bonuses are not negative"
    SEED = "same seed, same bonuses"
    STATE = "state can be saved"
    RESUME = "a restored bonus continues identically"
    INPUTS = "inputs are not changed"
    GENERATORS = "global generators are not drawn from"
    LEARN = "learns from a batch"
    SCALARS = "scalars are finite and change nothing"
    VISITS = "falls as a frame is visited again"
    SCOPE = "scope is as declared"
    PAYS_FOR = "pays for the state that it declares"
    SMALL = "works on small frames, one a state"
    COST = "cost"


@dataclass(frozen=True)
class Result:
    """The result of one check."""

    check: Check
    outcome: Outcome
    message: str = ""
    """What is wrong and what to do about it, why it was skipped, or what was measured."""


@dataclass(frozen=True)
class CheckReport:
    """The results of all checks; `str` of it is what `offpiste check-bonus` prints."""

    bonus: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> dict[Check, str]:
        """The message of each check that failed."""
        return {result.check: result.message for result in self.results if result.outcome == "FAILED"}

    def __str__(self) -> str:
        width = shutil.get_terminal_size((120, 24)).columns
        lines = [
            f"{result.outcome:<9}{result.check}{result.message and ': '}{result.message}" for result in self.results
        ]
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * 9) for line in (self.bonus, *lines))


class Failed(Exception):
    """A check failed; the message says what is wrong and what to do about it."""

    def __init__(self, message: str, stops: str | None = None) -> None:
        super().__init__(message)
        self.stops = stops
        """Why no further check is possible, if none is."""


class Skipped(Exception):
    """A check was not made; the message says why."""
