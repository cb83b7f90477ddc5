"""What the driver of a study asks of the workers that make its attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from offpiste.config import RunConfig
from offpiste.study.task import AttemptOutcome, Task


@dataclass(frozen=True)
class Pulse:
    """How far an attempt is."""

    steps: int = -1
    """Agent steps of training and evaluation together; -1 before the first."""
    frames: int = 0
    longest_pause: float = 0.0
    """The longest time between two steps, in seconds, where it is known: that of a checkpoint."""


class Workers(Protocol):
    """Make attempts: processes of this machine, Ray, or a fake in tests."""

    queued_per_slot: int
    """Attempts that wait for a slot there."""

    def slots(self) -> int:
        """Return how many attempts can run at once."""

    def start(self, run: RunConfig, task: Task) -> None:
        """Start, or queue, an attempt at a run."""

    def wait(self, seconds: float) -> list[tuple[str, AttemptOutcome]]:
        """Wait until something happens or the time is over; return all attempts that ended, by run id."""

    def progress(self) -> Mapping[str, Pulse]:
        """Return how far the attempts are that have begun, by run id."""

    def stop(self) -> None:
        """Let all attempts save a checkpoint and end."""

    def kill(self, run_id: str) -> None:
        """End an attempt at once."""
