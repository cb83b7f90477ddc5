"""The process of one slot of a worker: it makes one attempt after the other, since a process takes long to start.

Its worker (`offpiste.study.slot`) writes lines of JSON to its standard input: first what all attempts share, then the
settings of one run after the other. It answers with lines of JSON: progress while it trains, then the outcome. It saves
a checkpoint and stops on SIGTERM, which the kernel sends if the worker dies.
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

from offpiste.config import RunConfig
from offpiste.parsing import from_dict
from offpiste.run.stopping import StopSignal, stop_on_signals
from offpiste.store.storage import Folder
from offpiste.study.attempt import Outcome, Watch, attempt_of_study, outcome_of

if TYPE_CHECKING:
    from offpiste.run.train import Progress

ANSWER_SECONDS = 2.0
WATCH_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Make attempts until standard input ends or a signal stops the process."""
    worker = int(sys.argv[1])
    end_with(worker)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a bonus prints is no answer
    with stop_on_signals() as stop:
        shared = json.loads(sys.stdin.readline() or "{}")
        while stop.number is None and (line := sys.stdin.readline()):
            outcome = make_attempt(json.loads(line), shared, lambda message: answer(answers, message), stop, worker)
            answer(answers, {"outcome": asdict(outcome)})
    return 0


def make_attempt(
    settings: dict[str, Any],
    shared: dict[str, Any],
    send: Callable[[dict[str, Any]], None],
    stop: StopSignal,
    worker: int,
) -> Outcome:
    """Return the outcome of one attempt."""
    watch = Watch(lambda: reason_to_stop(stop, worker), WATCH_SECONDS)
    pulse = Pulse(send)

    def report(progress: "Progress") -> None:
        watch(progress)
        pulse(progress)

    def work() -> Outcome:
        run, store = from_dict(RunConfig, settings), Folder(shared["store"])
        folder = store.below(run.run_id)
        return attempt_of_study(run, folder, shared["keep"], report, accept_version=shared["accept_version"])

    return outcome_of(work)


class Pulse:
    """Tells the worker how far the run is, and the longest time between two steps, which is that of a checkpoint."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._last: float | None = None
        self._longest = 0.0
        self._next = 0.0

    def __call__(self, progress: "Progress") -> None:
        """Send it, if it is time to."""
        now = time.monotonic()
        self._longest = max(self._longest, now - (self._last or now))
        self._last = now
        if now >= self._next:
            self._send({"frames": progress.frames, "longest": self._longest})
            self._next = now + ANSWER_SECONDS


def reason_to_stop(stop: StopSignal, worker: int) -> str:
    """Return why to stop, or "": a signal may come before training listens to it, and a worker may vanish."""
    if os.getppid() != worker:
        return "its worker is gone"
    return "its worker was stopped" if stop.number is not None else ""


def answer(answers: Any, message: dict[str, Any]) -> None:
    """Write one line to the worker; a worker that is gone reads none."""
    with suppress(OSError):
        answers.write(f"{json.dumps(message)}\n")


def end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent ends; end now if that has happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
