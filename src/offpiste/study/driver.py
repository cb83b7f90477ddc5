"""Run a study on a cluster: submit its runs to workers, retry those that fail, quarantine those that cannot succeed.

An attempt is one execution of a run in a worker process; it resumes from the newest checkpoint if there is one. Two
attempts are submitted per slot, one running and one queued, so that no slot idles. How an attempt ended decides what
follows:

finished        The run is done.
paused          The worker was stopped and saved a checkpoint. The run is submitted again, not counted as failed.
lost            The worker's machine died. The same. (A worker process that dies alone has failed.)
superseded      An attempt of another driver took over. The run is submitted again if that stops before it finishes.
failed          The run is submitted again: at once if the attempt saved a checkpoint, otherwise after 15 s, then 60 s.
                The third such failure in a row quarantines the run.
not_retryable   Another attempt would fail the same way. The run is quarantined at once.

A quarantined run is not tried again until `offpiste study retry` deletes its quarantine file; a driver that is still
running sees that within seconds. The driver keeps no state of its own: all of it, the counts of failures included, is
in the run folders, so it can be killed and restarted at any time.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.store import layout
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.attempt import Outcome
from offpiste.study.marks import Marks, lift_quarantine, read_status
from offpiste.study.plan import Study
from offpiste.study.tries import count_failure, newest_manifest

IN_FLIGHT_PER_SLOT = 2
POLL_SECONDS = 5.0
"""Between two looks for a stop request and for quarantine files that were deleted."""
SUMMARY_SECONDS = 60.0
"""Between two summaries in the log."""
RECHECK_SECONDS = status.STALE_SECONDS / 10
"""Between two looks at a run that another driver's attempt has taken over."""
UNREACHABLE_SECONDS = 60.0
"""Until a run is submitted again that failed while the store could not be reached."""


class Workers(Protocol):
    """Executes attempts: Ray, or a fake in tests."""

    def slots(self) -> int:
        """Return how many attempts can run at once."""

    def start(self, run: RunConfig) -> None:
        """Submit an attempt at a run."""

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Wait up to `seconds` for an attempt to end; return all that have, as run id and outcome."""


@dataclass(frozen=True)
class StudySummary:
    """Counts of runs when the driver ended."""

    done: int
    failed: int
    """Quarantined, or skipped because their folder belongs to another configuration, or to a shorter run of which only
    results were kept."""
    unfinished: int
    """The rest: the study was stopped before they ended."""


def drive(
    study: Study,
    store: Folder,
    workers: Workers,
    log: Callable[[str], None],
    should_stop: Callable[[], bool],
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Run a study until every run is done, quarantined or skipped, or until `should_stop`.

    Workers look for the same stop request, in the store, and save a checkpoint by themselves.
    """
    driver = _Driver(study, store, workers, log, accept_version)
    driver.read_store()
    next_poll, next_summary = 0.0, time.monotonic() + SUMMARY_SECONDS
    stopping = False
    while driver.ready_at or driver.in_flight:
        now = time.monotonic()
        if now >= next_poll:
            if not stopping and should_stop():
                stopping = True
                log(f"stopping: waiting for {len(driver.in_flight)} runs in flight, which save a checkpoint")
            driver.resubmit_lifted()
            next_poll = now + POLL_SECONDS
        if stopping and not driver.in_flight:
            break
        if not stopping:
            driver.submit(now)
        driver.collect()
        if now >= next_summary:
            log(driver.summary_line())
            next_summary = now + SUMMARY_SECONDS
    log(driver.summary_line())
    return driver.summary()


def counts_line(done: int, in_flight: int, waiting: int, quarantined: int, skipped: int) -> str:
    """Return how many runs of a study are in which state, as one line; each is in one."""
    runs = done + in_flight + waiting + quarantined + skipped
    left_out = f", {skipped} skipped" if skipped else ""
    return f"{done} done, {in_flight} in flight, {waiting} waiting, {quarantined} quarantined{left_out} of {runs} runs"


def time_left(seconds: float, done: int, left: int, longest: float = 0.0) -> str:
    """Return how long the frames left take at the rate of those done in these seconds, once there are some.

    That is at least as long as the run which takes longest.
    """
    if not done or not left:
        return ""
    minutes = max(seconds * left / done, longest) / 60
    return f"; about {minutes:,.0f} min left" if minutes < 180 else f"; about {minutes / 60:,.0f} h left"


@dataclass
class _Driver:
    """Each run id is in exactly one of `ready_at`, `in_flight`, `done`, `quarantined` and `skipped`."""

    study: Study
    store: Folder
    workers: Workers
    log: Callable[[str], None]
    accept_version: bool
    ready_at: dict[str, float] = field(default_factory=dict)
    """Runs waiting to be submitted, in the order of the queue, each with its earliest time (monotonic)."""
    in_flight: dict[str, str] = field(default_factory=dict)
    """Runs submitted, running or queued, each with its newest manifest then, to see later whether it progressed."""
    done: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    """Runs whose folder belongs to another configuration, or keeps only results of a shorter run."""
    superseded: set[str] = field(default_factory=set)
    """Runs that another driver's attempt had taken over when they were last looked at."""
    started: float = 0.0
    """When this driver started."""
    last_done: float = 0.0
    """When a run was last seen to be done."""
    frames_before: int = 0
    """Frames of the runs already done when this driver started."""

    def __post_init__(self) -> None:
        self.runs = {run.run_id: run for run in self.study.runs}
        self.marks = Marks(self.store, self.study, accept_version=self.accept_version)

    def read_store(self) -> None:
        """Sort the runs by what their folders say; at the start, runs with progress are queued before new ones."""
        resumable: list[str] = []
        new: list[str] = []
        found = read_status(self.store, self.study, accept_version=self.accept_version)
        for run_id in lift_quarantine(self.store, self.study, [seen.run_id for seen in found if seen.mended]):
            self.log(f"{run_id} {status.MENDED}")
        for seen in found:
            if seen.quarantined:
                self.quarantined.add(seen.run_id)
                self.log(f"{seen.run_id} is quarantined: {seen.note}")
            elif seen.state == "failed":
                self.skipped.add(seen.run_id)
                self.log(f"{seen.run_id} is skipped: {seen.note}")
            elif seen.is_complete(self.study.keep):
                self.done.add(seen.run_id)
            else:  # also one that is done but has its replay still: its attempt drops that
                (resumable if seen.frames else new).append(seen.run_id)
        self.marks.mark_done(*self.done - self.marks.marked_done())
        self.ready_at = dict.fromkeys([*resumable, *new], 0.0)
        self.started, self.frames_before = time.monotonic(), self._frames(self.done)
        self.log(
            f"study {self.study.name}: {len(self.runs)} runs, {len(self.done)} done, {len(resumable)} to resume, "
            f"{len(new)} new"
        )

    def submit(self, now: float) -> None:
        """Submit runs that are ready, up to the limit in flight."""
        free = max(1, IN_FLIGHT_PER_SLOT * self.workers.slots()) - len(self.in_flight)
        for run_id in [run_id for run_id, earliest in self.ready_at.items() if earliest <= now][: max(0, free)]:
            if run_id in self.superseded and self._is_taken_over(run_id, now):
                continue
            del self.ready_at[run_id]
            self.in_flight[run_id] = self._newest_manifest(run_id)
            self.workers.start(self.runs[run_id])

    def collect(self) -> None:
        """Wait for attempts to end, and act on their outcomes."""
        if not self.in_flight:
            time.sleep(min(1.0, POLL_SECONDS))
            return
        for run_id, outcome in self.workers.wait(POLL_SECONDS):
            manifest_before = self.in_flight.pop(run_id)
            if outcome.state == "finished":
                self._note_done(run_id)
                self.marks.mark_done(run_id)
                self.log(f"{run_id} is done, {len(self.done)} of {len(self.runs)}")
            elif outcome.state == "not_retryable":
                self._quarantine(run_id, outcome)
            elif outcome.state == "failed":
                self._retry_or_quarantine(run_id, outcome, manifest_before)
            else:
                self.log(f"{run_id} will resume: {outcome.error or 'its worker was stopped'}")
                self.ready_at[run_id] = time.monotonic()
                if outcome.state == "superseded":
                    self.superseded.add(run_id)

    def resubmit_lifted(self) -> None:
        """Put runs back into the queue whose quarantine file is gone."""
        for run_id in sorted(self.quarantined):
            try:
                lifted = layout.QUARANTINE not in self.store.below(run_id).list()
            except StoreError:
                continue
            if lifted:
                self.quarantined.discard(run_id)
                self.ready_at[run_id] = 0.0

    def summary_line(self) -> str:
        """Return the counts of runs, and the time left, as one line."""
        waiting, failed = len(self.ready_at), (len(self.quarantined), len(self.skipped))
        return counts_line(len(self.done), len(self.in_flight), waiting, *failed) + self._time_left()

    def summary(self) -> StudySummary:
        """Return the counts of runs."""
        failed = len(self.quarantined) + len(self.skipped)
        return StudySummary(len(self.done), failed, len(self.runs) - len(self.done) - failed)

    def _time_left(self) -> str:
        done, left = self._frames(self.done) - self.frames_before, self._frames({*self.ready_at, *self.in_flight})
        return time_left(self.last_done - self.started, done, left)

    def _frames(self, run_ids: Iterable[str]) -> int:
        return sum(self.runs[run_id].frames for run_id in run_ids)

    def _retry_or_quarantine(self, run_id: str, outcome: Outcome, manifest_before: str) -> None:
        try:
            tries = count_failure(self.store.below(run_id), manifest_before)
        except StoreError as error:  # the store is unreachable, which may be why the run failed
            self.log(f"{run_id} failed ({outcome.error}), which could not be counted: {error}")
            self.ready_at[run_id] = time.monotonic() + UNREACHABLE_SECONDS
            return
        if tries.in_vain:
            self._quarantine(run_id, outcome)
            return
        self.log(f"{run_id} failed, next try {tries.soon}: {outcome.error}")
        self.ready_at[run_id] = time.monotonic() + tries.delay

    def _quarantine(self, run_id: str, outcome: Outcome) -> None:
        try:
            source = self.study.source_of(self.runs[run_id])
            status.quarantine(self.store.below(run_id), outcome.error, outcome.details, source)
        except StoreError as error:  # the store is unreachable, which may be why the run failed
            self.log(f"{run_id} failed ({outcome.error}) and could not be quarantined: {error}")
            self.ready_at[run_id] = time.monotonic() + UNREACHABLE_SECONDS
            return
        self.quarantined.add(run_id)
        self.marks.mark_quarantined(run_id)
        self.log(f"{run_id} is quarantined: {outcome.error}")

    def _is_taken_over(self, run_id: str, now: float) -> bool:
        """Return whether to hold a superseded run back: it runs elsewhere, is done, or the store cannot be read."""
        later = now + RECHECK_SECONDS
        try:
            run = self.runs[run_id]
            seen = status.read_one(self.store, run, self.study.bonus_sources, accept_version=self.accept_version)
        except StoreError:  # the store is unreachable for now
            self.ready_at[run_id] = later
            return True
        if seen.state == "running":
            self.ready_at[run_id] = later
            return True
        self.superseded.discard(run_id)
        if not seen.is_complete(self.study.keep):
            return False  # what is done but has its replay still is completed by an attempt of ours
        del self.ready_at[run_id]
        self._note_done(run_id)
        return True

    def _note_done(self, run_id: str) -> None:
        self.done.add(run_id)
        self.last_done = time.monotonic()

    def _newest_manifest(self, run_id: str) -> str:
        try:
            return newest_manifest(self.store.below(run_id))
        except StoreError:
            return ""
