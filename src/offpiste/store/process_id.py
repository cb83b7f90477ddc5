"""Names for processes, from which others on the same machine can see whether a process still runs."""

import functools
import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

_BOOT, _PIDS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
_PROCESSES = Path("/proc")


def this_process() -> str:
    """Return the name of this process: its machine, its id there, and when it started."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_start_time(pid)}"


def has_ended(process: str) -> bool:
    """Return whether a process ran on this machine and has ended; False for one on another machine."""
    machine, pid, started = (process.split("-", 2) + [""] * 3)[:3]
    if machine != _machine() or not (pid.isascii() and pid.isdecimal()):
        return False
    return not _is_alive(int(pid)) or _start_time(int(pid)) != started


@functools.cache
def _machine() -> str:
    """Return a name for this machine since it was started; containers that do not share process ids differ."""
    name = socket.gethostname().encode()
    with suppress(OSError):  # macOS has no /proc
        name = _BOOT.read_bytes() + str(_PIDS.readlink()).encode()
    return hashlib.blake2b(name, digest_size=4).hexdigest()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return _state_and_start(pid)[0] not in ("Z", "X")


def _start_time(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; "" where the system does not say."""
    return _state_and_start(pid)[1]


def _state_and_start(pid: int) -> tuple[str, str]:
    with suppress(OSError):
        fields = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    return "", ""
