"""The process of one slot: it makes one attempt after the other, since a process takes long to start.

Its parent (`offpiste.study.processes`) writes tasks to its standard input, as lines of JSON. It answers with lines of
JSON: progress while it trains, then the outcome. It saves a checkpoint and stops on SIGTERM, and when its parent ends:
Linux sends SIGTERM then, and elsewhere it sees that it has another parent.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from offpiste.run.stopping import stop_on_signals
from offpiste.study.task import Task, perform

if TYPE_CHECKING:
    from offpiste.run.progress import Progress

ANSWER_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Make attempts until standard input ends or a signal stops the process."""
    parent = int(sys.argv[1])
    end_with(parent)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a bonus prints is no answer

    def answer(message: dict[str, Any]) -> None:
        with suppress(OSError):  # a parent that is gone reads none
            answers.write(f"{json.dumps(message)}\n")

    with stop_on_signals() as stop:

        def reason_to_stop() -> str:
            if os.getppid() != parent:
                return "its driver is gone"
            return "its driver was stopped" if stop.number is not None else ""  # the signal came before training began

        while stop.number is None and (line := sys.stdin.readline()):
            answer({"outcome": asdict(perform(Task(**json.loads(line)), reason_to_stop, PulseSender(answer)))})
    return 0


class PulseSender:
    """Says how far the run is, and the longest time between two steps, which is that of a checkpoint."""

    def __init__(self, answer: Callable[[dict[str, Any]], None]) -> None:
        self._answer = answer
        self._last: float | None = None
        self._longest = 0.0
        self._next = 0.0

    def __call__(self, progress: "Progress") -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        self._longest = max(self._longest, now - (self._last or now))
        self._last = now
        if now >= self._next:
            self._answer({"steps": progress.steps, "frames": progress.frames, "longest_pause": self._longest})
            self._next = now + ANSWER_SECONDS


def end_with(parent: int) -> None:
    """Let Linux send SIGTERM to this process when its parent ends; end now if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
