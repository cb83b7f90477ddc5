"""`offpiste doctor`: whether this machine can train, and what to do where it cannot."""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from offpiste.cli.report import NEEDED
from offpiste.config import RunConfig
from offpiste.errors import OffpisteError
from offpiste.store.storage import Folder
from offpiste.study.cost import cost

OLDEST_PYTHON = (3, 11)
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}

Mark = Literal["ok", "note", "FAILED"]


@dataclass(frozen=True)
class Arguments:
    """Check what training needs: Python, the emulator and its games, torch, memory, disk, and what is optional. Exit
    code 1 when something that is needed is missing; notes do not count.
    """

    out: str = "runs"
    """Where runs are to be written: a folder, or an s3:// URL, which is tried by writing one object."""


@dataclass(frozen=True)
class Diagnosis:
    """One line of the report."""

    mark: Mark
    what: str
    words: str


def main(arguments: Arguments) -> int:
    """Look, print, and return 1 if something is missing."""
    failed = False
    for look in (_python, _emulator, _torch, _bfloat16, _gpu, _memory, lambda: _store(arguments.out), _extras):
        for finding in _safely(look):
            failed |= finding.mark == "FAILED"
            print(f"{finding.mark:<7} {finding.what:<10} {finding.words}", flush=True)
    return 1 if failed else 0


def _safely(look: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    try:
        yield from look()
    except Exception as error:  # a doctor does not fall ill
        name = getattr(look, "__name__", "store").strip("_").replace("<lambda>", "store")
        yield Diagnosis("FAILED", name, f"{type(error).__name__}: {error}")


def _python() -> Iterator[Diagnosis]:
    enough = sys.version_info >= OLDEST_PYTHON
    advice = "" if enough else f"; install {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    yield Diagnosis("ok" if enough else "FAILED", "python", platform.python_version() + advice)


def _emulator() -> Iterator[Diagnosis]:
    from importlib.metadata import version

    from offpiste.worlds.atari import known_games
    from offpiste.worlds.games import GAMES

    missing = sorted(set(GAMES) - set(known_games()))
    if missing:
        words = f"{version('ale-py')} lacks {', '.join(missing)}; pip install --force-reinstall ale-py"
        yield Diagnosis("FAILED", "games", words)
    else:
        yield Diagnosis(
            "ok", "games", f"ale-py {version('ale-py')} with {len(known_games())} games, the paper's twelve too"
        )


def _torch() -> Iterator[Diagnosis]:
    import torch

    yield Diagnosis("ok", "torch", f"{torch.__version__}, {os.cpu_count()} processors; a run uses --machine.threads 1")


def _bfloat16() -> Iterator[Diagnosis]:
    flags = processor_flags()
    if flags & BFLOAT16_FLAGS:
        found = ", ".join(sorted(flags & BFLOAT16_FLAGS))
        yield Diagnosis(
            "ok", "bf16", f"this processor computes in it ({found}): --agent.precision bf16 is faster than fp32"
        )
    else:
        yield Diagnosis(
            "note", "bf16", "this processor does not compute in bfloat16; fp32, the default, is faster here"
        )


def processor_flags() -> set[str]:
    """Return what the processor can do, as Linux tells it; nothing elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:  # noqa: PTH123 (not a file of ours)
            return next((set(line.split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()


def _gpu() -> Iterator[Diagnosis]:
    import torch

    count = torch.cuda.device_count()
    if not count:
        yield Diagnosis("note", "gpu", "none that torch can use; training runs on the processor")
    for number in range(count):
        about = torch.cuda.get_device_properties(number)
        words = f"{about.name}, {about.total_memory / 1e9:.0f} GB; use it with --machine.device cuda:{number}"
        yield Diagnosis("ok", "gpu", words)


def _memory() -> Iterator[Diagnosis]:
    free = available_gigabytes()
    needed = cost(RunConfig(), "all").memory_gb
    if free is None:
        yield Diagnosis("note", "memory", f"unknown here; one run needs about {needed:.1f} GB")
    elif free < needed:
        words = f"{free:.1f} GB free, one run needs about {needed:.1f}; lower --agent.replay-capacity or free some"
        yield Diagnosis("FAILED", "memory", words)
    else:
        yield Diagnosis("ok", "memory", f"{free:.1f} GB free: room for {int(free / needed)} at {needed:.1f} GB a run")


def available_gigabytes() -> float | None:
    """Return the memory that new processes can have, as Linux tells it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 (not a file of ours)
            return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def _store(out: str) -> Iterator[Diagnosis]:
    name = f".doctor-{os.getpid()}"
    try:
        folder = Folder(out)
        new = folder.local_path is not None and not folder.local_path.exists()
        folder.put(name, b"hello")
        read = folder.get(name)
        folder.delete(name)
    except OffpisteError as error:
        yield Diagnosis("FAILED", "store", str(error))
        return
    if read != b"hello":
        yield Diagnosis(
            "FAILED", "store", f"{folder.location} gave back {read!r} for what was written; choose another with --out"
        )
    elif folder.local_path is None:
        yield Diagnosis("ok", "store", f"{folder.location} can be written to and read")
    else:
        free = shutil.disk_usage(folder.local_path).free / 1e9
        if new:
            folder.local_path.rmdir()
        needed = cost(RunConfig(), "all").kept_gb
        enough = free >= needed
        advice = "" if enough else f"; a run needs {needed:.1f} GB: free some, or choose another with --out"
        yield Diagnosis("ok" if enough else "FAILED", "store", f"{free:.0f} GB free in {folder.location}{advice}")


def _extras() -> Iterator[Diagnosis]:
    for extra, modules, what in (("cluster", ("ray",), "studies"), ("report", NEEDED, "reports")):
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            words = f"{', '.join(missing)} not installed; pip install 'offpiste[{extra}]' for {what}"
            yield Diagnosis("note", extra, words)
        else:
            yield Diagnosis("ok", extra, f"installed: {what}")
