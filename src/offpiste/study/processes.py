"""The workers of one machine: a process for each slot (`offpiste.study.child`)."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict

from offpiste.config import RunConfig
from offpiste.study.task import AttemptOutcome, Task
from offpiste.study.workers import Pulse

ERROR_BYTES = 4_000
"""What is kept of the standard error of a process that died."""


class Processes:
    """Makes attempts in processes of this machine; each makes one after the other, until one goes wrong."""

    queued_per_slot = 0

    def __init__(self, gpus: list[str | None]) -> None:
        """Take the CUDA_VISIBLE_DEVICES of each slot."""
        self._gpus = gpus
        self._busy: dict[int, Child] = {}
        """By slot."""
        self._idle: dict[int, Child] = {}

    def slots(self) -> int:
        """Return how many attempts can run at once."""
        return len(self._gpus)

    def start(self, run: RunConfig, task: Task) -> None:
        """Start an attempt in a free slot."""
        slot = next(slot for slot in range(len(self._gpus)) if slot not in self._busy)
        child = self._idle.pop(slot, None)
        if child is not None and child.has_ended():
            child.close()
            child = None
        self._busy[slot] = child or Child(self._gpus[slot])
        self._busy[slot].start(run.run_id, task)

    def wait(self, seconds: float) -> list[tuple[str, AttemptOutcome]]:
        """Wait until an attempt has something to say or the time is over; return all that ended."""
        select.select(list(self._busy.values()), [], [], seconds)
        ended = []
        for slot, child in list(self._busy.items()):
            if (outcome := child.outcome()) is not None:
                ended.append((child.run_id, outcome))
                del self._busy[slot]
                if outcome.state in ("finished", "paused"):
                    self._idle[slot] = child
                else:  # what it holds may be old, broken or large
                    child.close()
        return ended

    def progress(self) -> dict[str, Pulse]:
        """Return how far the attempts are."""
        return {child.run_id: child.pulse for child in self._busy.values()}

    def stop(self) -> None:
        """Let all attempts save a checkpoint and end."""
        for child in (*self._busy.values(), *self._idle.values()):
            child.stop()

    def kill(self, run_id: str) -> None:
        """End an attempt at once."""
        for child in self._busy.values():
            if child.run_id == run_id:
                child.kill()

    def close(self) -> None:
        """End all processes at once; their attempts have ended before, unless something went wrong here."""
        for child in (*self._busy.values(), *self._idle.values()):
            child.close()


class Child:
    """A process that makes attempts, and reads and writes lines of JSON."""

    def __init__(self, gpus: str | None) -> None:
        """Start it with this CUDA_VISIBLE_DEVICES, or with that of its parent."""
        self.run_id, self.pulse = "", Pulse()
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
            env=os.environ | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}),
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

    def start(self, run_id: str, task: Task) -> None:
        """Begin an attempt; a process that has died reads no task."""
        self.run_id, self.pulse = run_id, Pulse()
        with suppress(OSError):
            os.write(self._to, f"{json.dumps(asdict(task))}\n".encode())

    def outcome(self) -> AttemptOutcome | None:
        """Return how the attempt ended, or None while it continues; does not wait."""
        ended = self.has_ended()  # before reading, so that nothing it wrote is missed
        with suppress(BlockingIOError):
            while data := os.read(self._from, 65_536):
                self._received += data
        *lines, self._received = self._received.split(b"\n")
        for message in map(json.loads, lines):
            if "outcome" in message:
                return AttemptOutcome(**message["outcome"])
            self.pulse = Pulse(**message)
        return AttemptOutcome("failed", self._cause(), self._end_of_errors()) if ended else None

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

    def _cause(self) -> str:
        code = self._process.returncode
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def _end_of_errors(self) -> str:
        file = self._errors.fileno()
        return os.pread(file, ERROR_BYTES, max(0, os.fstat(file).st_size - ERROR_BYTES)).decode(errors="replace")

    def _close_input(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1
