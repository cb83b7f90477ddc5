"""A worker of a study: it claims runs from the store and trains them, one in each of its slots, without Ray.

Workers share nothing but the store, and any of them may vanish at any moment: its leases become void, and others resume
its runs from their checkpoints. SIGTERM, SIGINT, SIGUSR1, a request to stop and the end of the given time all mean the
same, twice the same as once: claim nothing more, let every run save a checkpoint, wait, and delete the leases.
"""

import random
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from offpiste.errors import StoreError
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.attempt import Outcome
from offpiste.study.claims import Claims, new_worker_id
from offpiste.study.driver import SUMMARY_SECONDS, StudySummary
from offpiste.study.ledger import LOOK_SECONDS, Ledger
from offpiste.study.marks import Marks
from offpiste.study.plan import Study
from offpiste.study.resources import gpus_of_slot, visible_gpus
from offpiste.study.slot import Slot

POLL_SECONDS = 0.5
STOP_SECONDS, LOCAL_STOP_SECONDS = 30.0, 5.0
"""How often to look for a request to stop, in an object store and on a disk."""
PATIENCE_SECONDS = 600.0
"""How long a worker without any run looks, before it ends."""
FAILING_SECONDS = 3_600.0
"""How long a worker without any run tries to claim one from a store that fails, before it ends with an error."""
CLAIM_AHEAD_SECONDS = 60.0
"""If runs are shorter than this, as many as fit into it are claimed before a slot is free."""
NO_ADVANCE_SECONDS = 300.0
"""A lease is renewed only if the run has advanced within this time."""
HUNG_SECONDS = 1_800.0
"""A process whose run has not advanced for so long is killed."""
SAVING_SECONDS = 600.0
"""How long a stopped worker waits for its runs to save before it kills them."""
LAST_CLAIM_SECONDS = 600.0
"""Before the end of its time, in which a worker claims nothing more; a tenth of a shorter time."""
MIN_MARGIN_SECONDS = 120.0
"""Before the end of its time, when a worker lets its runs save; a quarter of a shorter time."""
START_SECONDS = 5.0
"""A worker on a cluster begins after a random part of this, since others begin at the same moment."""

Reason = Literal[
    "",
    "nothing is left",
    "the rest is claimed by others",
    "the study was asked to stop",
    "interrupted by a signal",
    "time is up",
]


@dataclass(frozen=True)
class Terms:
    """How a worker works."""

    slots: int | None = None
    """Runs at once; None for as many as fit on the machine."""
    hours: float | None = None
    """When its machine is taken away, from now on."""
    share: tuple[int, int] | None = None
    """Its index among so many workers, if known."""
    alone: bool = False
    """Whether it is to finish the study by itself: it takes runs in order, and waits for those that others claimed."""
    accept_version: bool = False


def work(
    study: Study, store: Folder, location: str, terms: Terms, log: Callable[[str], None]
) -> tuple[StudySummary, Reason]:
    """Train runs of a study until none is left, or until the worker is stopped; return what is left, and why it ended.

    `location` is that of the store, with its keys.
    """
    with _stop_signals() as interrupted:
        worker = _Worker(study, store, location, terms, log, interrupted)
        if not terms.alone:
            interrupted.wait(random.uniform(0.0, START_SECONDS))  # noqa: S311
        try:
            worker.run()
        finally:
            worker.close()
        return worker.ledger.summary(), worker.reason


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM, SIGINT and SIGUSR1 set."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.signal(number, lambda *_: interrupted.set()) for number in numbers}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Walltime:
    """The time that a worker has."""

    def __init__(self, hours: float | None) -> None:
        self._seconds = float("inf") if hours is None else 3_600.0 * hours
        self._start = time.monotonic()

    def may_claim(self) -> bool:
        """Return whether it is worth while to begin a run."""
        return self._left() > min(LAST_CLAIM_SECONDS, self._seconds / 10)

    def is_up(self, slowest_checkpoint: float) -> bool:
        """Return whether the runs have to save now."""
        return self._left() <= max(min(MIN_MARGIN_SECONDS, self._seconds / 4), 3 * slowest_checkpoint)

    def _left(self) -> float:
        return self._start + self._seconds - time.monotonic()


class _Worker:
    def __init__(
        self,
        study: Study,
        store: Folder,
        location: str,
        terms: Terms,
        log: Callable[[str], None],
        interrupted: threading.Event,
    ) -> None:
        self.reason: Reason = ""
        self._study, self._store, self._terms, self._log, self._interrupted = study, store, terms, log, interrupted
        marks = Marks(store, study, accept_version=terms.accept_version)
        claims = Claims(marks, new_worker_id(), terms.share, in_order=terms.alone)
        self.ledger = Ledger(study, store, claims, marks, log, terms.accept_version)
        shared = {"store": location, "keep": study.keep, "accept_version": terms.accept_version}
        gpus = visible_gpus()
        self._slots = [Slot(shared, gpus_of_slot(slot, study.resources.gpus, gpus)) for slot in range(terms.slots or 1)]
        self._queue: list[str] = []
        """Runs claimed, and not begun."""
        self._began_at: dict[str, float] = {}
        self._ahead = 0
        """Runs to claim before a slot is free, if runs are short."""
        self._walltime = Walltime(terms.hours)
        self._stop_seconds = LOCAL_STOP_SECONDS if store.local_path is not None else STOP_SECONDS
        self._next_stop_check = 0.0
        self._next_summary = time.monotonic() + SUMMARY_SECONDS
        self._idle_since: float | None = None
        self._failing_since: float | None = None

    def run(self) -> None:
        """Work until there is a reason to end, then let all runs save."""
        if self._terms.alone:
            self.ledger.survey()
        while not self.reason:
            self._check_for_stop()
            if not self.reason:
                self._collect()
                self._renew_leases()
                self._fill_slots()
                self._log_summary()
                self._end_if_nothing_is_left()
                self._wait()
        self._let_runs_save()
        self.ledger.release_all()
        self._log(f"{self.reason}; {self.ledger.summary_line({})}")

    def close(self) -> None:
        """End the processes, which saves their runs if that has not happened."""
        for slot in self._slots:
            slot.close()

    def _busy(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.run is not None]

    def _wait(self) -> None:
        if children := [slot.child for slot in self._busy() if slot.child is not None]:
            select.select(children, [], [], POLL_SECONDS)
        elif not self.reason:
            self._interrupted.wait(POLL_SECONDS)

    def _check_for_stop(self) -> None:
        now = time.monotonic()
        if self._interrupted.is_set():
            self.reason = "interrupted by a signal"
        elif self._walltime.is_up(max(slot.longest_pause for slot in self._slots)):
            self.reason = "time is up"
        elif now >= self._next_stop_check:
            self._next_stop_check = now + self._stop_seconds
            if status.stop_requested(self._store, self._study.name):
                self.reason = "the study was asked to stop"

    def _end_if_nothing_is_left(self) -> None:
        now = time.monotonic()
        if self._busy() or self._queue:
            self._idle_since = self._failing_since = None
        elif self.ledger.proposed:
            self._idle_since = None
        elif not self.ledger.left:
            self.reason = "nothing is left"
        elif not self._walltime.may_claim():
            self.reason = "time is up"
        elif self.ledger.failures:
            self._idle_since, self._failing_since = None, self._failing_since or now
            if now - self._failing_since > FAILING_SECONDS:
                why = next(iter(self.ledger.failures.values()))
                raise StoreError(f"no run could be claimed or begun for {FAILING_SECONDS / 60:.0f} minutes: {why}")
        else:
            self._failing_since = None
            if not self._terms.alone and not self.ledger.not_before:
                self._idle_since = self._idle_since or now
                if now - self._idle_since > PATIENCE_SECONDS:
                    self.reason = "the rest is claimed by others"

    def _let_runs_save(self) -> None:
        if self._busy():
            self._log(f"{self.reason}: {len(self._busy())} runs save a checkpoint")
        for slot in self._slots:
            slot.stop()
        deadline = time.monotonic() + SAVING_SECONDS
        while self._busy():
            if time.monotonic() > deadline:
                for slot in self._busy():
                    slot.kill()
            self._collect()
            self._renew_leases()
            self._wait()

    def _fill_slots(self) -> None:
        ledger = self.ledger
        self._queue += ledger.decide()
        free = [slot for slot in self._slots if slot.run is None]
        needed = len(free) - len(self._queue)
        if needed <= 0 and not self._queue:
            needed = self._ahead
        if needed > 0 and not ledger.proposed and time.monotonic() >= ledger.next_claim and self._walltime.may_claim():
            ledger.propose(max(needed, self._ahead))
        for slot in free:
            while self._queue and slot.run is None:
                self._begin(slot, self._queue.pop(0))

    def _begin(self, slot: Slot, run_id: str) -> None:
        tries = self.ledger.count_attempt(run_id)
        if tries is not None:
            self._began_at[run_id] = time.monotonic()
            slot.start(self.ledger.runs[run_id], tries.manifest)

    def _collect(self) -> None:
        for slot in self._busy():
            run = slot.run
            outcome = slot.poll()
            if outcome is not None and run is not None:
                self._act_on(run.run_id, outcome, slot.manifest_before)

    def _act_on(self, run_id: str, outcome: Outcome, manifest_before: str) -> None:
        per_slot = CLAIM_AHEAD_SECONDS / max(1.0, time.monotonic() - self._began_at.pop(run_id))
        self._ahead = int(per_slot * len(self._slots))
        if outcome.state == "finished":
            self.ledger.finish(run_id)
        elif outcome.state == "not_retryable":
            self.ledger.quarantine(run_id, outcome)
        elif outcome.state == "failed" and not self.reason:  # a process that is stopped may die before it listens
            self.ledger.fail(run_id, outcome, manifest_before)
        elif outcome.state == "superseded":
            self.ledger.retry(run_id, LOOK_SECONDS, f"was taken over: {outcome.error}")
        else:
            self.ledger.retry(run_id, 0.0, f"will resume: {outcome.error or 'its process was stopped'}")

    def _renew_leases(self) -> None:
        now = time.monotonic()
        for slot in self._busy():
            if now - slot.advanced_at > HUNG_SECONDS:
                slot.kill()
        stuck = {slot.run.run_id for slot in self._slots if slot.run and now - slot.advanced_at > NO_ADVANCE_SECONDS}
        self.ledger.renew_leases(stuck)

    def _log_summary(self) -> None:
        if time.monotonic() >= self._next_summary:
            self._next_summary = time.monotonic() + SUMMARY_SECONDS
            in_flight = {slot.run.run_id: slot.frames for slot in self._slots if slot.run is not None}
            self._log(self.ledger.summary_line(in_flight, alone=self._terms.alone))
