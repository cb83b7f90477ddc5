"""Commands in forked processes with limits on memory and time; a part of `fuzz`."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMORY_BYTES = 3 * 2**30
"""That a command may take beyond what was loaded before."""
SECONDS = 120
"""Of processor time; of time by the clock it may take ten times as long, on a machine that does other things, too."""
CRASHED = 70
"""Exit code of a command that ended in an error nobody expected."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Its exit code; negative if a signal ended it."""
    out: str
    err: str
    seconds: float

    @property
    def crash(self) -> str:
        """Why it did not end as a command should; empty if it did."""
        if self.code < 0:
            too_long = self.code == -signal.SIGXCPU or self.seconds >= 10 * SECONDS
            return f"took over {SECONDS} s" if too_long else f"killed by {signal.Signals(-self.code).name}"
        lines = [line for line in self.err.splitlines() if line.strip() and not line.startswith(" ")]
        if self.code == CRASHED or "Traceback (most recent call last)" in self.err:
            return f"traceback: {lines[-1] if lines else ''}"
        return "" if self.code in (0, 1, 75) else f"exit code {self.code}: {lines[-1] if lines else ''}"


def forked(work: Callable[[], int], scratch: Path) -> Ended:
    """Run a function in a child process, in the current folder `scratch`."""
    out, err = scratch / ".out", scratch / ".err"
    started = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become(work, scratch, out, err)
    code = _wait(child, started)
    texts = [path.read_bytes().decode(errors="replace") if path.exists() else "" for path in (out, err)]
    return Ended(code, texts[0], texts[1], time.monotonic() - started)


def _become(work: Callable[[], int], scratch: Path, out: Path, err: Path) -> None:
    """Run the work and end this process."""
    code = CRASHED
    try:
        for path, descriptor in ((out, 1), (err, 2)):
            opened = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(opened, descriptor)
        os.chdir(scratch)
        limit = _virtual_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, resource.RLIM_INFINITY))
        code = work()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, started: float) -> int:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - started > 10 * SECONDS:
            os.kill(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.002)


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
