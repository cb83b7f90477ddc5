"""The attempts of a run: each process that works on it describes itself in an object of its own.

The number of an attempt is a fencing token: a newer attempt has a larger one, and stops the older ones, as does whoever
discards the run. The name of its process shows others on the same machine whether it still runs.
"""

import functools
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from offpiste.errors import ConfigError, Damaged
from offpiste.parsing import from_dict, known
from offpiste.rows import AttemptRow, utc_now
from offpiste.store import documents, layout
from offpiste.store.storage import Folder

_ATTEMPT = re.compile(r"(?:\d+-)?(\d{6,})-([0-9a-z]{6})(?:$|[-.])")
"""The name of an attempt, which follows the step in names of manifests and objects."""
_BOOT, _PIDS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
_PROCESSES = Path("/proc")
DISCARDING = "discarded"
"""The note of an attempt that deletes what a run has left."""


def attempt_order(name: str) -> tuple[int, str]:
    """Return the sort key of an attempt, number and suffix, from its name or that of a manifest or object it wrote."""
    found = _ATTEMPT.match(name)
    return (int(found[1]), found[2]) if found else (0, "")


def newest_attempt(folder: Folder) -> str:
    """Return the name of the newest attempt at the run in this folder, or ""."""
    return next(reversed(attempt_names(folder)), "")


def begin_attempt(folder: Folder, about: Mapping[str, Any]) -> str:
    """Register a new attempt at the run in this folder and return its name."""
    number = 1 + max((attempt_order(name)[0] for name in attempt_names(folder)), default=0)
    attempt = f"{number:06d}-{secrets.token_hex(3)}"
    describe_attempt(folder, attempt, about)
    return attempt


def describe_attempt(folder: Folder, attempt: str, about: Mapping[str, Any]) -> None:
    """Write the description of an attempt, replacing an older one."""
    documents.write(folder, layout.attempt(attempt), {**about, "attempt": attempt})


def withdraw_attempt(folder: Folder, attempt: str) -> None:
    """Unregister an attempt that ended before it wrote anything."""
    folder.delete(layout.attempt(attempt))


def read_attempts(folder: Folder, run_id: str = "") -> list[dict[str, Any]]:
    """Return the description of each attempt at a run, oldest first; damaged ones are omitted."""
    rows = []
    for attempt in attempt_names(folder):
        try:
            values = read_attempt(folder, attempt, run_id)
            row = from_dict(AttemptRow, known(AttemptRow, values) | {"attempt": attempt})
        except (Damaged, ConfigError, ValueError):
            continue
        rows.append(vars(row))
    return rows


def read_attempt(folder: Folder, attempt: str, run_id: str = "") -> dict[str, Any]:
    """Return what describes an attempt; `Damaged` or ValueError if that is damaged, or of another attempt or run."""
    values = documents.unsigned(documents.read(folder, layout.attempt(attempt)) or {})
    if "started_at" not in values and values.get("note") != DISCARDING:
        raise ValueError("it does not describe an attempt")
    named = run_id and values.get("note") != DISCARDING  # what deletes a run may not know which it was
    if other := documents.differing(values, {"run_id": run_id} if named else {}):
        raise ValueError(f"it belongs to another run: {other}")
    if values.get("attempt") != attempt:
        raise ValueError(f"it is that of the attempt {values.get('attempt')!r:.100}")
    return values


def attempt_names(folder: Folder) -> list[str]:
    """Return the names of all attempts at the run in this folder, oldest first."""
    names = (name.removesuffix(".json") for name in folder.list(layout.ATTEMPTS))
    return sorted((name for name in names if _ATTEMPT.fullmatch(name)), key=attempt_order)


def discard(folder: Folder) -> None:
    """Delete all that a run has left in its folder, so that it begins anew.

    The attempts stay, and one is added to them: a process that works on the run, or wakes up late, stops.
    """
    begin_attempt(folder, {"note": DISCARDING})
    folder.put(layout.DISCARDED, json.dumps({"at": utc_now()}).encode())
    folder.delete(layout.RUN)  # first, so that nobody takes the rest for a run
    _delete_below(folder)


def _delete_below(folder: Folder, prefix: str = "") -> None:
    """Delete all objects below a prefix of a run's folder but what `discard` keeps; of a link, no more than itself."""
    names, folders = folder.entries(prefix)
    for name in names:
        if prefix or name != layout.DISCARDED:
            folder.delete(f"{prefix}/{name}" if prefix else name)
    for name in folders:
        path = f"{prefix}/{name}" if prefix else name
        if folder.is_link(path):
            folder.delete(path)
        elif prefix or name != layout.ATTEMPTS:
            _delete_below(folder, path)


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
