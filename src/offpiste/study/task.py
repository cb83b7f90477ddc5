"""One attempt at one run of a study, in this process: what a process of this machine or a task of Ray does.

What is wrong with the machine is no failure of the run: such an attempt waits on its machine, the longer the longer
that has failed, before it returns, or a machine without a working GPU would take one run after the other.
"""

import errno
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from offpiste.config import RunConfig
from offpiste.errors import (
    BonusError,
    CheckpointError,
    ConfigError,
    Damaged,
    MachineError,
    NotFinite,
    RunMismatch,
    StoreError,
    Superseded,
)
from offpiste.parsing import from_dict
from offpiste.run.attempt import attempt, keep_compiled_code_on_this_machine
from offpiste.store.attempts import newest_attempt
from offpiste.store.finished import holds_only_results
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.keep import keep_results
from offpiste.study.tries import MAX_ATTEMPTS, count_attempt, note_start, uncount_attempt

if TYPE_CHECKING:
    from offpiste.run.progress import Progress

NOT_RETRYABLE = (BonusError, ConfigError, RunMismatch, NotFinite, CheckpointError, Damaged)
"""Errors that another attempt would raise again."""
MACHINE_ERROR_NUMBERS = (errno.ENOSPC, errno.EMFILE)
"""Of the system, where they come from outside the store."""
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 5.0, 600.0
"""How long an attempt waits on a machine that cannot train: as long as that has failed already, so ever twice as long.
"""
STOP_SECONDS, LOCAL_STOP_SECONDS = 30.0, 5.0
"""How often to look for a request to stop, in an object store and on a disk."""


@dataclass(frozen=True)
class AttemptOutcome:
    """How an attempt at a run ended."""

    state: Literal["finished", "paused", "superseded", "not_retryable", "failed", "lost", "machine"]
    """As in the table of `offpiste.study.driver`."""
    error: str = ""
    """One line."""
    details: str = ""
    """The traceback, if there is one."""
    host: str = ""
    """The machine, where it could still say so."""


@dataclass(frozen=True)
class Task:
    """An attempt to make, as it is sent to the process that makes it."""

    settings: dict[str, Any]
    """Of the run."""
    store: str
    study: str
    keep: Literal["results", "all"]
    bonus_source: str | None = None
    """The hash of the file of its bonus, as the driver has it."""
    accept_version: bool = False
    newest: str = ""
    """The newest attempt at the run when the driver saw that nobody works on it."""
    failing: dict[str, float] = field(default_factory=dict)
    """For how many seconds machines have failed, by name."""


def perform(task: Task, reason_to_stop: Callable[[], str], report: Callable[["Progress"], None]) -> AttemptOutcome:
    """Train the run of a task until it is finished or there is a reason to stop, "" if there is none."""
    host, reason = socket.gethostname(), ""

    def report_and_ask(progress: "Progress") -> None:
        nonlocal reason
        report(progress)
        if not reason and (reason := reason_to_stop()):
            signal.raise_signal(signal.SIGTERM)

    outcome = outcome_of(lambda: _attempt(task, report_and_ask))
    if outcome.state == "machine":
        _wait(max(MIN_PAUSE_SECONDS, task.failing.get(host, 0.0)), reason_to_stop)
    elif outcome.state == "paused":
        outcome = replace(outcome, error=reason)
    return replace(outcome, host=host)


def attempt_of_study(
    run: RunConfig, folder: Folder, keep: str, report: Callable[["Progress"], None], *, accept_version: bool = False
) -> AttemptOutcome:
    """Make an attempt at a run of a study, and drop the replay of a finished run if only results are kept."""
    if keep == "results" and holds_only_results(folder):  # the previous attempt ended while it dropped the replay
        keep_results(folder)
        return AttemptOutcome("finished")
    if count_attempt(folder).in_vain:
        return AttemptOutcome("not_retryable", f"{MAX_ATTEMPTS} attempts made no checkpoint")
    if attempt(run, folder, report, accept_version=accept_version).state != "finished":
        return AttemptOutcome("paused")
    if keep == "results":
        keep_results(folder)
    return AttemptOutcome("finished")


def outcome_of(work: Callable[[], AttemptOutcome]) -> AttemptOutcome:
    """Return the outcome of an attempt; an error decides by its type whether another attempt makes sense."""
    try:
        return work()
    except Superseded as error:
        return AttemptOutcome("superseded", str(error))
    except MachineError as error:
        return AttemptOutcome("machine", str(error), traceback.format_exc())
    except NOT_RETRYABLE as error:
        return AttemptOutcome("not_retryable", f"{type(error).__name__}: {error}", traceback.format_exc())
    except Exception as error:
        state: Literal["failed", "machine"] = "failed"
        if isinstance(error, OSError) and error.errno in MACHINE_ERROR_NUMBERS:
            state = "machine"
        return AttemptOutcome(state, f"{type(error).__name__}: {error}", traceback.format_exc())


def every(seconds: float, ask: Callable[[], str]) -> Callable[[], str]:
    """Return a function that asks this often at most, and otherwise repeats the answer."""
    answer, due = "", time.monotonic()

    def asked() -> str:
        nonlocal answer, due
        if time.monotonic() >= due:
            answer, due = ask(), time.monotonic() + seconds
        return answer

    return asked


def stop_seconds(store: Folder) -> float:
    """Return how often to look into a store for a request to stop."""
    return STOP_SECONDS if store.local_path is None else LOCAL_STOP_SECONDS


def _attempt(task: Task, report: Callable[["Progress"], None]) -> AttemptOutcome:
    store = Folder(task.store)
    status.require_begun(store, task.study)
    run = from_dict(RunConfig, task.settings)
    folder = store.below(run.run_id)
    newest = newest_attempt(folder)
    if newest != task.newest and (elsewhere := status.at_work(folder, newest)):
        return AttemptOutcome("superseded", elsewhere.note)
    note_start(folder)
    _load_code(run, task.bonus_source)
    accept = task.accept_version
    outcome = outcome_of(lambda: attempt_of_study(run, folder, task.keep, report, accept_version=accept))
    if outcome.state == "machine":
        with suppress(StoreError):
            uncount_attempt(folder)
    return outcome


def _load_code(run: RunConfig, bonus_source: str | None) -> None:
    """Import what the run needs; `MachineError` if that fails here, for the driver could, or is other code there."""
    keep_compiled_code_on_this_machine()
    host, name = socket.gethostname(), run.bonus.name
    try:
        import offpiste.run.train  # noqa: F401
        from offpiste.bonuses.registry import find, source_digest

        source = None
        if name != "none":
            find(name)
            source = source_digest(name)
    except (ImportError, OSError, ConfigError) as error:
        raise MachineError(f"{host} cannot load what the run needs: {error}") from error
    if bonus_source is not None and source != bonus_source:
        raise MachineError(
            f"the file of the bonus {name} on {host} is not the one with which the study was started; stop the study, "
            "and start it anew with the same file on every machine"
        )


def _wait(seconds: float, reason_to_stop: Callable[[], str]) -> None:
    end = time.monotonic() + min(seconds, MAX_PAUSE_SECONDS)
    while time.monotonic() < end and not reason_to_stop():
        time.sleep(0.2)
