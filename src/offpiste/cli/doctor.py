"""`offpiste doctor`: check whether this machine can train, with advice if it cannot."""

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
    """Check what training needs: Python, the emulator and its games, torch, memory, disk, and optional packages. Exit
    code 0: training can start, whatever the notes say; 1: something required is missing.
    """

    out: str = "runs"
    """Where to write runs: a folder or s3:// URL; it is tested by writing one object."""


@dataclass(frozen=True)
class Diagnosis:
    """One line of the output."""

    mark: Mark
    what: str
    message: str


def main(arguments: Arguments) -> int:
    """Run all checks, print them, and return 1 if one failed."""
    failed = False
    for check in (_python, _emulator, _torch, _bfloat16, _gpu, _memory, lambda: _store(arguments.out), _extras):
        for diagnosis in _safely(check):
            failed |= diagnosis.mark == "FAILED"
            print(f"{diagnosis.mark:<7} {diagnosis.what:<10} {diagnosis.message}", flush=True)
    return 1 if failed else 0


def _safely(check: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    try:
        yield from check()
    except Exception as error:  # so that the other checks run
        name = getattr(check, "__name__", "store").strip("_").replace("<lambda>", "store")
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
        message = f"ale-py {version('ale-py')} lacks {', '.join(missing)}; pip install --force-reinstall ale-py"
        yield Diagnosis("FAILED", "games", message)
    else:
        yield Diagnosis(
            "ok",
            "games",
            f"ale-py {version('ale-py')}: {len(known_games())} games, the twelve of the paper among them",
        )


def _torch() -> Iterator[Diagnosis]:
    import torch

    yield Diagnosis("ok", "torch", f"{torch.__version__}, {os.cpu_count()} processors; a run uses --machine.threads 1")


def _bfloat16() -> Iterator[Diagnosis]:
    flags = processor_flags()
    if flags & BFLOAT16_FLAGS:
        found = ", ".join(sorted(flags & BFLOAT16_FLAGS))
        yield Diagnosis(
            "ok", "bf16", f"supported by this processor ({found}): --agent.precision bf16 is faster than fp32"
        )
    else:
        yield Diagnosis("note", "bf16", "not supported by this processor; fp32, the default, is faster")


def processor_flags() -> set[str]:
    """Return the processor's flags from /proc/cpuinfo; empty if there is none."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:  # noqa: PTH123 (not a file of ours)
            return next((set(line.split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()


def _gpu() -> Iterator[Diagnosis]:
    import torch

    count = torch.cuda.device_count()
    if not count:
        yield Diagnosis("note", "gpu", "none that torch can use; training runs on the CPU")
    for number in range(count):
        gpu = torch.cuda.get_device_properties(number)
        message = f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB; use it with --machine.device cuda:{number}"
        yield Diagnosis("ok", "gpu", message)


def _memory() -> Iterator[Diagnosis]:
    free = available_gigabytes()
    needed = cost(RunConfig(), "all").memory_gb
    if free is None:
        yield Diagnosis("note", "memory", f"unknown here; one run needs about {needed:.1f} GB")
    elif free < needed:
        message = f"{free:.1f} GB free, one run needs about {needed:.1f}; lower --agent.replay-capacity or free some"
        yield Diagnosis("FAILED", "memory", message)
    else:
        yield Diagnosis("ok", "memory", f"{free:.1f} GB free: {int(free / needed)} runs at {needed:.1f} GB each fit")


def available_gigabytes() -> float | None:
    """Return the memory available to new processes, from /proc/meminfo; None if there is none."""
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
            "FAILED", "store", f"{folder.location} must return what was written, got {read!r}; choose another --out"
        )
    elif folder.local_path is None:
        yield Diagnosis("ok", "store", f"{folder.location} is writable and readable")
    else:
        free = shutil.disk_usage(folder.local_path).free / 1e9
        if new:
            folder.local_path.rmdir()
        needed = cost(RunConfig(), "all").kept_gb
        enough = free >= needed
        advice = "" if enough else f"; a run needs {needed:.1f} GB: free some, or choose another --out"
        yield Diagnosis("ok" if enough else "FAILED", "store", f"{free:.0f} GB free in {folder.location}{advice}")


def _extras() -> Iterator[Diagnosis]:
    for extra, modules, what in (("cluster", ("ray",), "studies on a Ray cluster"), ("report", NEEDED, "reports")):
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            message = f"{', '.join(missing)} not installed; pip install 'offpiste[{extra}]' for {what}"
            yield Diagnosis("note", extra, message)
        else:
            yield Diagnosis("ok", extra, f"installed: {what}")
