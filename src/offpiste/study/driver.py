"""Drive a study: start its runs on workers, try those again that fail, quarantine those that cannot succeed.

An attempt is one execution of a run in a worker's process; it resumes from the newest checkpoint if there is one. How
it ended decides what follows:

finished        The run is done.
paused          The process was stopped and saved a checkpoint. The run is started again, not counted as failed.
lost            The machine died. The same. (A process that dies alone has failed.)
superseded      Somebody else works on the run. It is started again if that stops before it finishes.
failed          The run is started again: at once if the attempt saved a checkpoint, otherwise after 15 s, then 60 s.
                The third such failure in a row quarantines the run.
not_retryable   Another attempt would fail the same way. The run is quarantined at once.
machine         The machine cannot train. The run is started again, not counted as anything; the driver ends once three
                attempts in a row ended like this and no run advances.

The driver keeps no state of its own: all of it, the counts of tries included, is in the run folders. Before each start
it reads the folder, so drivers of one study, `offpiste train` beside them and whatever was killed do not disturb one
another. It may be killed and started again at any time.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from offpiste.errors import MachineError, StoreError
from offpiste.parsing import to_dict
from offpiste.run.stopping import StopSignal
from offpiste.store import layout
from offpiste.store.attempts import has_ended, newest_attempt
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.marks import Marks, read_status
from offpiste.study.plan import Study
from offpiste.study.status import RunStatus
from offpiste.study.task import AttemptOutcome, Task, stop_seconds
from offpiste.study.timing import TimeLeft, Walltime
from offpiste.study.tries import check_writable, count_failure
from offpiste.study.workers import Pulse, Workers

POLL_SECONDS = 1.0
"""How long a signal may go unnoticed."""
LOOK_SECONDS = 60.0
"""Between two looks at how far the runs are, and for quarantine files that were deleted."""
HUNG_LOOKS = 30
"""A run whose steps were the same in so many looks is hung. Looks are counted, not seconds: a machine may sleep."""
HELD_SECONDS = 30.0
"""Between two looks at a run that somebody else works on, and until one is started again after the store failed."""
SAVING_SECONDS = 600.0
"""How long runs that were stopped may take to save, before they are killed."""
FAILING_SECONDS = 3_600.0
"""How long the store may fail while no run is at work, before that is an error."""
MACHINE_ERRORS = 3
"""Attempts in a row that a machine could not make, after which nothing is started until a run advances."""

Reason = Literal["nothing is left", "the study was asked to stop", "interrupted by a signal", "time is up"]


@dataclass(frozen=True)
class StudySummary:
    """Counts of runs when the driver ended."""

    done: int
    failed: int
    """Quarantined, or skipped because their folder belongs to another configuration, or to a shorter run of which only
    results were kept."""
    unfinished: int
    """The rest: the study was stopped before they ended."""
    reason: Reason = "nothing is left"
    """Why the driver ended."""


@dataclass(frozen=True)
class Terms:
    """How to drive a study."""

    hours: float | None = None
    """When this machine is taken away, from now on; the runs save before."""
    accept_version: bool = False


def drive(
    study: Study, location: str, workers: Workers, log: Callable[[str], None], stop: StopSignal, terms: Terms
) -> StudySummary:
    """Run a study until each run is done, quarantined or skipped, or until it is stopped.

    Raises `MachineError` or `StoreError` if no run can advance.
    """
    driver = _Driver(study, location, workers, log, stop, terms)
    driver.read_store()
    while driver.in_flight or (driver.ready_at and not driver.reason):
        driver.check_for_stop()
        driver.start_runs()
        driver.collect()
        driver.look()
        driver.raise_trouble()
    log(f"{driver.reason or 'nothing is left'}; {driver.summary_line()}")
    return driver.summary()


@dataclass
class _Driver:
    """Each run id is in exactly one of `ready_at`, `in_flight`, `done`, `quarantined` and `skipped`."""

    study: Study
    location: str
    """That of the store, with its keys."""
    workers: Workers
    log: Callable[[str], None]
    stop: StopSignal
    terms: Terms
    ready_at: dict[str, float] = field(default_factory=dict)
    """Runs to be started, in the order of the queue, each with its earliest time (monotonic)."""
    in_flight: set[str] = field(default_factory=set)
    """Runs that were handed to the workers, running or queued."""
    done: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    """Runs whose folder belongs to another configuration, or keeps only results of a shorter run."""
    reason: Reason | None = None
    """Why nothing more is started."""

    def __post_init__(self) -> None:
        now = time.monotonic()
        self._store = Folder(self.location)
        self._runs = {run.run_id: run for run in self.study.runs}
        self._marks = Marks(self._store, self.study, accept_version=self.terms.accept_version)
        self._walltime = Walltime(self.terms.hours)
        self._held_by: dict[str, str] = {}
        """The process of somebody else that works on a run, by run."""
        self._ended: dict[str, str] = {}
        """The newest attempt at a run when ours at it ended."""
        self._pulses: Mapping[str, Pulse] = {}
        """How far the runs were at the last look."""
        self._longest_pause = 0.0
        self._still: dict[str, int] = {}
        """In how many looks in a row a run was at the same step."""
        self._next_look, self._next_stop_check = now + LOOK_SECONDS, now
        self._has_told, self._deadline = False, float("inf")
        """Whether the workers know that they are to stop, and when those that still save are killed."""
        self._advanced = False
        """Whether any run has advanced since the driver began."""
        self._machine_errors: list[str] = []
        """In a row, while no run advanced."""
        self._failing: dict[str, float] = {}
        """Since when machines have failed, by name."""
        self._store_failing: tuple[float, str] | None = None
        """Since when the store has failed, and how, while no run advanced and no failure could be counted."""

    # What there is

    def read_store(self) -> None:
        """Sort the runs by what their folders say; runs with progress are queued before new ones."""
        found = read_status(self._store, self.study, accept_version=self.terms.accept_version)
        for seen in found:
            self._sort(seen)
        marked = self._marks.done()
        self._marks.mark_done(*(run_id for run_id in self.done if run_id not in marked))
        resumable = [seen.run_id for seen in found if seen.run_id in self.ready_at and seen.frames]
        self.ready_at = dict.fromkeys([*resumable, *self.ready_at], 0.0)
        new = len(self.ready_at) - len(resumable)
        self.log(
            f"study {self.study.name}: {len(self._runs)} runs, {len(self.done)} done, {len(resumable)} to resume, "
            f"{new} new"
        )
        targets = {run_id: run.frames for run_id, run in self._runs.items()}
        before = {seen.run_id: targets[seen.run_id] if seen.run_id in self.done else seen.frames for seen in found}
        self._time_left = TimeLeft(targets, before)

    def _sort(self, seen: RunStatus) -> None:
        """Put a run where its folder says that it belongs."""
        run_id = seen.run_id
        self.ready_at.pop(run_id, None)
        if seen.mended and status.lift_quarantine(self._store.below(run_id)):
            self.log(f"{run_id} {status.MENDED}")
        if seen.quarantined:
            self.quarantined.add(run_id)
            self.log(f"{run_id} is quarantined: {seen.note}")
        elif seen.state == "failed":
            self.skipped.add(run_id)
            self.log(f"{run_id} is skipped: {seen.note}")
        elif seen.is_complete(self.study.keep):
            self.done.add(run_id)
        else:  # also one that is done but has its replay still: its attempt drops that
            self.ready_at[run_id] = 0.0

    # Start

    def start_runs(self) -> None:
        """Start runs that are ready, up to the limit in flight, unless the driver is to end."""
        now = time.monotonic()
        if self.reason or len(self._machine_errors) >= MACHINE_ERRORS or not self._walltime.may_start():
            return
        free = max(1, (1 + self.workers.queued_per_slot) * self.workers.slots()) - len(self.in_flight)
        if free <= 0:
            return
        ready = [run_id for run_id, earliest in self.ready_at.items() if earliest <= now or self._is_given_up(run_id)]
        if ready:
            with ThreadPoolExecutor(status.readers(self._store)) as pool:
                for run_id, found in zip(ready[:free], pool.map(self._read, ready[:free]), strict=True):
                    self._start(run_id, found)

    def _read(self, run_id: str) -> tuple[RunStatus, str, status.AtWork | None] | StoreError:
        """Return what the folder of a run says, the newest attempt, and who else works on it."""
        run, sources, accept = self._runs[run_id], self.study.bonus_sources, self.terms.accept_version
        try:
            newest = newest_attempt(self._store.below(run_id))
            is_ours = newest == self._ended.get(run_id)
            elsewhere = None if is_ours else status.at_work(self._store.below(run_id), newest)
            # Last, so that a run which was finished just now is seen to be done.
            return status.read_one(self._store, run, sources, accept_version=accept), newest, elsewhere
        except StoreError as error:
            return error

    def _is_given_up(self, run_id: str) -> bool:
        """Return whether the process that worked on a run has ended on this machine."""
        return run_id in self._held_by and has_ended(self._held_by[run_id])

    def _start(self, run_id: str, found: tuple[RunStatus, str, status.AtWork | None] | StoreError) -> None:
        """Start a run, unless what its folder says is against it."""
        if isinstance(found, StoreError):
            self._hold_while_store_fails(run_id, "cannot be read", found)
            return
        held_before, (seen, newest, elsewhere) = self._held_by.pop(run_id, None), found
        if elsewhere and seen.state in ("running", "stale", "waiting"):
            if held_before is None:
                self.log(f"{run_id} {elsewhere.note}")
            self._held_by[run_id] = elsewhere.process
            self._store_failing = None  # it takes the news of somebody
            self.ready_at[run_id] = time.monotonic() + HELD_SECONDS
            return
        self._sort(seen)
        if run_id in self.done:
            self._note_done(run_id)
        if self.ready_at.pop(run_id, None) is not None:
            self.log(f"{run_id} resumes at {seen.frames:,} frames" if seen.frames else f"{run_id} begins")
            self.in_flight.add(run_id)
            self.workers.start(self._runs[run_id], self._task(run_id, newest))

    def _task(self, run_id: str, newest: str) -> Task:
        run, now = self._runs[run_id], time.monotonic()
        return Task(
            settings=to_dict(run),
            store=self.location,
            study=self.study.name,
            keep=self.study.keep,
            bonus_source=self.study.source_of(run),
            accept_version=self.terms.accept_version,
            newest=newest,
            failing={host: now - since for host, since in self._failing.items()},
        )

    # What became of them

    def collect(self) -> None:
        """Wait for attempts to end, and act on their outcomes."""
        for run_id, outcome in self.workers.wait(POLL_SECONDS):
            self.in_flight.discard(run_id)
            still = self._still.pop(run_id, 0)
            if outcome.state == "failed" and still >= HUNG_LOOKS:
                outcome = replace(outcome, error=f"it made no step in {HUNG_LOOKS} looks, a minute apart")
            self._act_on(run_id, outcome)

    def _act_on(self, run_id: str, outcome: AttemptOutcome) -> None:
        if outcome.state != "machine":
            self._failing.pop(outcome.host, None)
        if outcome.state in ("finished", "paused"):
            self._note_advance()
        if outcome.state not in ("finished", "superseded"):
            with suppress(StoreError):
                self._ended[run_id] = newest_attempt(self._store.below(run_id))
        self.ready_at[run_id] = time.monotonic()
        if outcome.state == "finished":
            self._note_done(run_id)
        elif outcome.state == "not_retryable":
            self._quarantine(run_id, outcome)
        elif outcome.state == "failed" and not self.reason:  # a process that is stopped may die before it listens
            self._count_failure(run_id, outcome)
        elif outcome.state == "machine":
            self._note_machine_error(run_id, outcome)
        elif outcome.state == "superseded":
            self.log(f"{run_id} was taken over: {outcome.error}")
        else:
            self.log(f"{run_id} will resume: {outcome.error or 'its worker was stopped'}")

    def _note_done(self, run_id: str) -> None:
        self.ready_at.pop(run_id, None)
        self.done.add(run_id)
        self._marks.mark_done(run_id)
        self.log(f"{run_id} is done, {len(self.done)} of {len(self._runs)}")

    def _count_failure(self, run_id: str, outcome: AttemptOutcome) -> None:
        try:
            tries = count_failure(self._store.below(run_id))
        except StoreError as error:  # which may be why the run failed
            self._hold_while_store_fails(run_id, f"failed ({outcome.error}), which could not be counted", error)
            return
        self._store_failing = None
        if tries.in_vain:
            self._quarantine(run_id, outcome)
            return
        self.log(f"{run_id} failed, next try {tries.soon}: {outcome.error}")
        self.ready_at[run_id] = time.monotonic() + tries.delay

    def _quarantine(self, run_id: str, outcome: AttemptOutcome) -> None:
        try:
            source = self.study.source_of(self._runs[run_id])
            status.quarantine(self._store.below(run_id), outcome.error, outcome.details, source)
        except StoreError as error:  # which may be why the run failed
            self._hold_while_store_fails(run_id, f"failed ({outcome.error}) and could not be quarantined", error)
            return
        self._store_failing = None
        del self.ready_at[run_id]
        self.quarantined.add(run_id)
        self.log(f"{run_id} is quarantined: {outcome.error}")

    def _hold_while_store_fails(self, run_id: str, what: str, error: StoreError) -> None:
        now = time.monotonic()
        self.log(f"{run_id} {what}: {error}")
        self._held_by.pop(run_id, None)  # or it would be asked for at once, again and again
        self.ready_at[run_id] = now + HELD_SECONDS
        self._store_failing = (self._store_failing or (now, ""))[0], str(error)

    def _note_machine_error(self, run_id: str, outcome: AttemptOutcome) -> None:
        self.log(f"{run_id} was not started, which counts as no try: {outcome.error}")
        self._failing.setdefault(outcome.host, time.monotonic())
        self._machine_errors.append(outcome.error)

    def _note_advance(self) -> None:
        self._advanced = True
        self._machine_errors = []
        self._store_failing = None

    # What goes on

    def look(self) -> None:
        """Once a minute, kill runs that are hung, take up those whose quarantine was lifted, and log a summary."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        before, self._pulses = self._pulses, self.workers.progress()
        for run_id, pulse in self._pulses.items():
            made = pulse.steps - before.get(run_id, pulse).steps
            if made > 0:
                self._note_advance()
            self._still[run_id] = 0 if made else self._still.get(run_id, 0) + 1
            if self._still[run_id] == HUNG_LOOKS:
                self._kill_hung(run_id)
            self._longest_pause = max(self._longest_pause, pulse.longest_pause)
        self._take_up_lifted()
        self.log(self.summary_line())

    def _kill_hung(self, run_id: str) -> None:
        """Kill a run that makes no step, unless the store, by which Ray knows of its steps, takes no news of it."""
        try:
            check_writable(self._store.below(run_id))
        except StoreError as error:
            self._still[run_id] = 0
            self.log(f"{run_id} makes no step, or the store takes no news of it: {error}")
        else:
            self.workers.kill(run_id)

    def _take_up_lifted(self) -> None:
        for run_id in sorted(self.quarantined):
            with suppress(StoreError):
                if layout.QUARANTINE not in self._store.below(run_id).list():
                    self.quarantined.discard(run_id)
                    self.ready_at[run_id] = 0.0

    def check_for_stop(self) -> None:
        """See whether there is a reason to stop; if so, let all runs save, and kill those that take too long."""
        now = time.monotonic()
        if self.reason is None:
            self.reason = self._reason_to_stop(now)
            if self.reason is None:
                return
            self._deadline = now + SAVING_SECONDS
            if self.in_flight:
                self.log(f"{self.reason}: {len(self.in_flight)} runs in flight save a checkpoint")
        if not self._has_told:
            try:
                self.workers.stop()
                self._has_told = True
            except StoreError as error:
                self.log(f"cannot stop yet: {error}")  # the runs could not save either
        if now >= self._deadline:
            self._deadline = float("inf")
            for run_id in self.in_flight:
                self.workers.kill(run_id)

    def _reason_to_stop(self, now: float) -> Reason | None:
        if self.stop.number is not None:
            return "interrupted by a signal"
        if self._walltime.is_up(self._longest_pause) or not (self.in_flight or self._walltime.may_start()):
            return "time is up"
        if now >= self._next_stop_check:
            self._next_stop_check = now + stop_seconds(self._store)
            if status.stop_requested(self._store, self.study.name):
                return "the study was asked to stop"
        return None

    def raise_trouble(self) -> None:
        """Raise the error because of which no run can advance, if there is one."""
        if self.in_flight or not self.ready_at:
            return
        in_vain = self.reason == "time is up" and not self._advanced
        if len(self._machine_errors) >= (1 if in_vain else MACHINE_ERRORS) and self.reason in (None, "time is up"):
            raise MachineError(f"no run could be started, and none advanced: {self._machine_errors[-1]}")
        if self._store_failing:
            since, error = self._store_failing
            seconds = time.monotonic() - since
            if in_vain or (self.reason is None and seconds > FAILING_SECONDS):
                raise StoreError(f"no run has advanced for {seconds / 60:.0f} minutes: {error}")

    def summary_line(self) -> str:
        """Return how many runs are in which state, and the time left, as one line; each run is in one."""
        left_out = f", {len(self.skipped)} skipped" if self.skipped else ""
        in_flight = {run_id: pulse.frames for run_id, pulse in self._pulses.items() if run_id in self.in_flight}
        return (
            f"{len(self.done)} done, {len(self.in_flight)} in flight, {len(self.ready_at)} waiting, "
            f"{len(self.quarantined)} quarantined{left_out} of {len(self._runs)} runs"
            f"{self._time_left.text(self.done, [*self.ready_at, *self.in_flight], in_flight)}"
        )

    def summary(self) -> StudySummary:
        """Return the counts of runs."""
        failed = len(self.quarantined) + len(self.skipped)
        unfinished = len(self._runs) - len(self.done) - failed
        return StudySummary(len(self.done), failed, unfinished, self.reason or "nothing is left")
