"""What checks of code that users wrote come to: a bonus, a world; each has a list of checks of its own."""

import shutil
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeVar

Check = TypeVar("Check", bound=StrEnum)


@dataclass(frozen=True)
class Result(Generic[Check]):
    """The result of one check."""

    check: Check
    outcome: Literal["ok", "FAILED", "skipped"]
    message: str = ""
    """What is wrong and what to do about it, why it was skipped, or what was measured."""


@dataclass(frozen=True)
class Report(Generic[Check]):
    """The results of all checks; `str` of it is what the command prints."""

    subject: str
    """The name of what was checked."""
    results: tuple[Result[Check], ...]

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
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * 9) for line in (self.subject, *lines))


class Failed(Exception):
    """A check failed; the message says what is wrong and what to do about it."""

    def __init__(self, message: str, stops: str | None = None) -> None:
        super().__init__(message)
        self.stops = stops
        """Why no further check is possible, if none is."""


class Skipped(Exception):
    """A check was not made; the message says why."""
