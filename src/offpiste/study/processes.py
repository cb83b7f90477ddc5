"""The workers of one machine: a process for each slot (`offpiste.study.child`), and the run that it trains."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from offpiste.config import RunConfig
from offpiste.run.stopping import StopSignal
from offpiste.study.task import Outcome, Task
from offpiste.study.workers import Pulse

ERROR_BYTES = 4_000
"""What is kept of the standard error of a process that died."""
WAIT_SECONDS = 0.5
"""How long a signal may go unnoticed."""


class Processes:
    """Makes attempts in processes of this machine."""

    queued_per_slot = 0

    def __init__(self, gpus: list[str | None], stop: StopSignal) -> None:
        """Take the CUDA_VISIBLE_DEVICES of each slot, and what a signal to this process sets."""
        self._slots = [_Slot(of_slot) for of_slot in gpus]
        self._stop = stop

    def slots(self) -> int:
        """Return how many attempts can run at once."""
        return len(self._slots)

    def start(self, run: RunConfig, task: Task) -> None:
        """Start an attempt in a free slot."""
        next(slot for slot in self._slots if not slot.run_id).start(run.run_id, task)

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Wait until an attempt ends, a signal comes or the time is over; return all that ended."""
        deadline, before, ended = time.monotonic() + seconds, self._stop.number, self._ended()
        while not ended and self._stop.number == before and (left := deadline - time.monotonic()) > 0:
            select.select([slot.child for slot in self._busy() if slot.child], [], [], min(left, WAIT_SECONDS))
            ended = self._ended()
        return ended

    def progress(self) -> dict[str, Pulse]:
        """Return how far the attempts are."""
        return {slot.run_id: slot.pulse for slot in self._busy()}

    def stop(self) -> None:
        """Let all attempts save a checkpoint and end."""
        for slot in self._slots:
            if slot.child is not None:
                slot.child.stop()

    def kill(self, run_id: str) -> None:
        """End an attempt at once."""
        for slot in self._busy():
            if slot.run_id == run_id and slot.child is not None:
                slot.child.kill()

    def close(self) -> None:
        """End all processes at once; their attempts have ended before, unless something went wrong here."""
        for slot in self._slots:
            slot.close()

    def _busy(self) -> "list[_Slot]":
        return [slot for slot in self._slots if slot.run_id]

    def _ended(self) -> list[tuple[str, Outcome]]:
        ended = []
        for slot in self._busy():
            if (outcome := slot.poll()) is not None:
                ended.append((slot.run_id, outcome))
                slot.run_id = ""
        return ended


class _Slot:
    """Trains one run at a time; its process is started with its first run, and again after any that went wrong."""

    def __init__(self, gpus: str | None = None) -> None:
        self.run_id = ""
        self.pulse = Pulse()
        self.child: Child | None = None
        self._environment = os.environ | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})

    def start(self, run_id: str, task: Task) -> None:
        """Begin an attempt."""
        self.run_id, self.pulse = run_id, Pulse()
        if self.child is None or self.child.has_ended():
            self.close()
            self.child = Child(self._environment)
        self.child.send(asdict(task))

    def poll(self) -> Outcome | None:
        """Return how the attempt ended, or None while it continues; does not wait."""
        if self.child is None:
            return None
        ended = self.child.has_ended()  # before reading, so that nothing it wrote is missed
        for message in self.child.receive():
            if "outcome" in message:
                outcome = Outcome(**message["outcome"])
                if outcome.state not in ("finished", "paused"):  # what it holds may be old, broken or large
                    self.close()
                return outcome
            self.pulse = Pulse(**message)
        if not ended:
            return None
        return Outcome("failed", self.child.cause(), self.child.errors())

    def close(self) -> None:
        """End the process at once."""
        if self.child is not None:
            self.child.close()
            self.child = None


class Child:
    """A process that reads and writes lines of JSON."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        theirs, self._to = os.pipe()
        self._from, answers = os.pipe()
        os.set_blocking(self._from, False)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`; no name, so a kill leaves nothing
        self._received = b""
        self._process = subprocess.Popen(
            # -P: no file in the current folder shadows a library.
            [sys.executable, "-P", "-m", "offpiste.study.child", str(os.getpid())],
            stdin=theirs,
            stdout=answers,
            stderr=self._errors,
            env=dict(environment),
            process_group=0,  # Ctrl-C is for the driver, which then stops the process
        )
        self.pid = self._process.pid
        for descriptor in (theirs, answers):
            os.close(descriptor)

    def fileno(self) -> int:
        """Return the descriptor of what the process writes, for `select`."""
        return self._from

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line; a process that has died reads none."""
        with suppress(OSError):
            os.write(self._to, f"{json.dumps(message)}\n".encode())

    def receive(self) -> list[dict[str, Any]]:
        """Return the lines written since the last call."""
        with suppress(BlockingIOError):
            while data := os.read(self._from, 65_536):
                self._received += data
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def cause(self) -> str:
        """Return how the process ended."""
        code = self._process.returncode
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def errors(self) -> str:
        """Return the end of what the process wrote to its standard error."""
        file = self._errors.fileno()
        return os.pread(file, ERROR_BYTES, max(0, os.fstat(file).st_size - ERROR_BYTES)).decode(errors="replace")

    def stop(self) -> None:
        """Ask the process to save a checkpoint and end."""
        self._close_input()
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """End the process at once, and free what belongs to it."""
        self._close_input()
        self._process.kill()
        self._process.wait()
        os.close(self._from)
        self._errors.close()

    def _close_input(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1
