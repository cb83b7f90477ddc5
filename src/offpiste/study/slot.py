"""One slot of a worker: a child process (`offpiste.study.child`) and the run that it trains."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from offpiste.config import RunConfig
from offpiste.parsing import to_dict
from offpiste.study.attempt import Outcome

ERROR_BYTES = 4_000
"""What is kept of the standard error of a process that died."""


class Slot:
    """Trains one run at a time; its process is started with its first run, and again if it has died."""

    def __init__(self, shared: Mapping[str, Any], gpus: str | None = None) -> None:
        """Take what `offpiste.study.child` is sent first, and its CUDA_VISIBLE_DEVICES, if any."""
        self.run: RunConfig | None = None
        self.manifest_before = ""
        """The newest manifest of the run when it was started."""
        self.advanced_at = 0.0
        """When the process last said that its run has advanced, or was started."""
        self.longest_pause = 0.0
        """The longest time between two steps of any run so far, in seconds: that of a checkpoint."""
        self.frames = -1
        """How far the run is, as the process last said; -1 before that."""
        self.child: Child | None = None
        self._shared = dict(shared)
        self._environment = os.environ | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})

    def start(self, run: RunConfig, manifest_before: str) -> None:
        """Begin an attempt at a run."""
        self.run, self.manifest_before, self.frames = run, manifest_before, -1
        self.advanced_at = time.monotonic()
        if self.child is None or self.child.has_ended():
            self.close()
            self.child = Child(self._environment)
            self.child.send(self._shared)
        self.child.send(to_dict(run))

    def poll(self) -> Outcome | None:
        """Return how the attempt ended, or None while it continues; does not wait."""
        if self.child is None:
            return None
        ended = self.child.has_ended()  # before reading, so that nothing it wrote is missed
        for message in self.child.receive():
            if "outcome" in message:
                self.run = None
                return Outcome(**message["outcome"])
            self.longest_pause = max(self.longest_pause, message["longest"])
            if message["frames"] > self.frames:
                self.frames, self.advanced_at = message["frames"], time.monotonic()
        if not ended:
            return None
        self.run = None
        return Outcome("failed", self.child.cause(), self.child.errors())

    def stop(self) -> None:
        """Ask the process to save a checkpoint and end."""
        if self.child is not None:
            self.child.stop()

    def kill(self) -> None:
        """End the process at once."""
        if self.child is not None:
            self.child.kill()

    def close(self) -> None:
        """End the process and wait for that."""
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
            process_group=0,  # Ctrl-C is for the worker, which then stops the process
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
        """Stop the process, wait until it has ended, and free what belongs to it."""
        self.stop()
        self._process.wait()
        os.close(self._from)
        self._errors.close()

    def _close_input(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1
