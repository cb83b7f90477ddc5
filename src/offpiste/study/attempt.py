"""One attempt at one run, in this process: what Ray's tasks, the workers of a study and `offpiste train` call."""

import os
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from offpiste.config import RunConfig
from offpiste.errors import BonusError, CheckpointError, ConfigError, Damaged, NotFinite, RunMismatch, Superseded
from offpiste.store.run_folder import holds_only_results
from offpiste.store.storage import Folder

if TYPE_CHECKING:
    from offpiste.run.train import Progress

NOT_RETRYABLE = (BonusError, ConfigError, RunMismatch, NotFinite, CheckpointError, Damaged)
"""Errors that another attempt would raise again."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a run ended."""

    state: Literal["finished", "paused", "superseded", "not_retryable", "failed", "lost"]
    """As in the table of `offpiste.study.driver`."""
    error: str = ""
    """One line."""
    details: str = ""
    """The traceback, if there is one."""


def attempt(
    run: RunConfig, folder: Folder, report: Callable[["Progress"], None], *, accept_version: bool = False
) -> "Progress":
    """Train or resume a run until it is finished or stopped; return its last progress, which was reported, too."""
    _keep_compiled_code_on_this_machine()
    from offpiste.run.train import train

    last = train(run, folder, report, accept_version=accept_version)
    report(last)
    return last


def attempt_of_study(
    run: RunConfig, folder: Folder, keep: str, report: Callable[["Progress"], None], *, accept_version: bool = False
) -> Outcome:
    """Make an attempt at a run of a study, and drop the replay of a finished run if only results are kept."""
    from offpiste.study.keep import keep_results

    if keep == "results" and holds_only_results(folder):  # the previous attempt ended while it dropped the replay
        keep_results(folder)
        return Outcome("finished")
    if attempt(run, folder, report, accept_version=accept_version).state != "finished":
        return Outcome("paused")
    if keep == "results":
        keep_results(folder)
    return Outcome("finished")


def outcome_of(work: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of an attempt; an error decides by its type whether another attempt makes sense."""
    try:
        return work()
    except Superseded as error:
        return Outcome("superseded", str(error))
    except NOT_RETRYABLE as error:
        return Outcome("not_retryable", f"{type(error).__name__}: {error}", traceback.format_exc())
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}", traceback.format_exc())


class Watch:
    """Stops the training of this process by SIGTERM once there is a reason to."""

    def __init__(self, reason: Callable[[], str], seconds: float) -> None:
        """Ask every so many seconds for a reason to stop, "" if there is none."""
        self.reason = ""
        self._ask = reason
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self, _: object) -> None:
        """Ask if it is time to; called with every progress of a run."""
        if self.reason or time.monotonic() < self._next:
            return
        self.reason = self._ask()
        if self.reason:
            signal.raise_signal(signal.SIGTERM)
        self._next = time.monotonic() + self._seconds


def _keep_compiled_code_on_this_machine() -> None:
    """Set numba's cache to a local disk: a home folder may be shared by machines with other processors."""
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    folder = Path(tempfile.gettempdir()) / f"offpiste-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)  # only if no other user can put code there
