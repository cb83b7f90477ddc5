"""See a study through: hand in its runs, hand them in again when they fail, and set aside what cannot be helped.

About twice as many attempts are handed in as can be under way at once. An attempt that dies costs what it did since its
last checkpoint. A run is set aside (quarantine) when trying again cannot help, or after three failures in a row that
brought no new checkpoint; the others go on. A lost machine is nobody's fault and does not count. Nothing is remembered
but what the run folders say, so another driver can take over at any time.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.store import layout
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import Study

IN_FLIGHT_PER_SLOT = 2
FRUITLESS_ATTEMPTS = 3
POLL_SECONDS = 5.0
"""How often to look whether the study shall stop, and whether runs that were set aside may be tried again."""
SUMMARY_SECONDS = 60.0
FIRST_RETRY_SECONDS = 15.0
RETRY_FACTOR = 4.0


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a run ended."""

    state: Literal["finished", "paused", "superseded", "hopeless", "failed", "lost"]
    """hopeless: another attempt would end the same; failed: it might not; lost: the machine is gone."""
    error: str = ""
    """One line."""
    details: str = ""
    """A traceback, where there is one."""


class Workers(Protocol):
    """Whoever carries out attempts at runs."""

    def slots(self) -> int:
        """Return how many attempts can be under way at once."""

    def start(self, run: RunConfig) -> None:
        """Hand in an attempt at a run."""

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Return, by run, the attempts that have ended, after waiting so long at most for the first of them."""


@dataclass(frozen=True)
class StudySummary:
    """How the runs of a study stood when its driver ended."""

    done: int
    failed: int
    left: int
    """Neither: the study was told to stop before they ended."""


def drive(
    study: Study,
    store: Folder,
    workers: Workers,
    tell: Callable[[str], None],
    stopping: Callable[[], bool],
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Run all that is left of a study; return when nothing more can be done, or when it was told to stop."""
    driver = _Driver(study, store, workers, tell, accept_version)
    driver.take_stock()
    next_look, next_summary = 0.0, time.monotonic() + SUMMARY_SECONDS
    stop = False
    while driver.ready_at or driver.in_flight:
        now = time.monotonic()
        if now >= next_look:
            if not stop and stopping():
                stop = True
                tell(f"told to stop: {len(driver.in_flight)} runs save what they have")
            driver.take_back_lifted()
            next_look = now + POLL_SECONDS
        if stop and not driver.in_flight:
            break
        if not stop:
            driver.hand_in(now)
        driver.settle_ended()
        if now >= next_summary:
            tell(driver.line())
            next_summary = now + SUMMARY_SECONDS
    tell(driver.line())
    return driver.summary()


@dataclass
class _Driver:
    study: Study
    store: Folder
    workers: Workers
    tell: Callable[[str], None]
    accept_version: bool
    ready_at: dict[str, float] = field(default_factory=dict)
    """Runs to be handed in, in this order, and the earliest time for each."""
    in_flight: dict[str, str] = field(default_factory=dict)
    """Runs that were handed in, with the newest manifest that each had then."""
    fruitless: dict[str, int] = field(default_factory=dict)
    """Failures in a row without a new checkpoint."""
    elsewhere: set[str] = field(default_factory=set)
    """Runs that another driver's attempt has taken over."""
    done: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    """Runs in quarantine."""
    foreign: set[str] = field(default_factory=set)
    """Runs whose folder holds another run."""
    begun: float = 0.0
    """When the first run was handed in."""
    frames_before: int = 0
    """Frames of the runs that were done by then."""

    def __post_init__(self) -> None:
        self.runs = {run.run_id: run for run in self.study.runs}

    def take_stock(self) -> None:
        """Learn from the run folders what is left to do."""
        begun: list[str] = []
        new: list[str] = []
        runs = self.runs.values()
        for seen in status.read_all(self.store, runs, self.study.bonus_sources, accept_version=self.accept_version):
            if seen.state == "failed":
                (self.aside if seen.quarantined else self.foreign).add(seen.run_id)
                self.tell(f"{seen.run_id} is left out: {seen.note}")
            elif seen.state == "done" and (seen.only_results or self.study.keep == "all"):
                self.done.add(seen.run_id)
            else:
                (begun if seen.frames else new).append(seen.run_id)
        self.ready_at = dict.fromkeys([*begun, *new], 0.0)
        self.begun, self.frames_before = time.monotonic(), self._frames(self.done)
        self.tell(
            f"study {self.study.name}: {len(self.runs)} runs, {len(self.done)} done, {len(begun)} begun, {len(new)} new"
        )

    def hand_in(self, now: float) -> None:
        """Hand in what there is room for."""
        room = max(1, IN_FLIGHT_PER_SLOT * self.workers.slots()) - len(self.in_flight)
        for run_id in [run_id for run_id, earliest in self.ready_at.items() if earliest <= now][: max(0, room)]:
            if run_id in self.elsewhere and self._left_to_others(run_id, now):
                continue
            del self.ready_at[run_id]
            self.in_flight[run_id] = self._newest_manifest(run_id)
            self.workers.start(self.runs[run_id])

    def settle_ended(self) -> None:
        """Wait for attempts to end, and decide what becomes of their runs."""
        if not self.in_flight:
            time.sleep(min(1.0, POLL_SECONDS))
            return
        for run_id, outcome in self.workers.wait(POLL_SECONDS):
            before = self.in_flight.pop(run_id)
            if outcome.state == "finished":
                self.done.add(run_id)
                self.tell(f"{run_id} is done, {len(self.done)} of {len(self.runs)}")
            elif outcome.state == "hopeless":
                self._quarantine(run_id, outcome)
            elif outcome.state == "failed":
                self._failed(run_id, outcome, before)
            else:
                self.tell(f"{run_id} will go on: {outcome.error or 'its worker was told to stop'}")
                self.ready_at[run_id] = time.monotonic()
                if outcome.state == "superseded":
                    self.elsewhere.add(run_id)

    def take_back_lifted(self) -> None:
        """Try runs again that are no longer in quarantine."""
        for run_id in sorted(self.aside):
            try:
                lifted = layout.QUARANTINE not in self.store.below(run_id).list()
            except StoreError:
                continue
            if lifted:
                self.aside.discard(run_id)
                self.fruitless.pop(run_id, None)
                self.ready_at[run_id] = 0.0

    def line(self) -> str:
        """Return where the study stands."""
        failed = len(self.aside) + len(self.foreign)
        return (
            f"{len(self.done)} done, {len(self.in_flight)} handed in, {len(self.ready_at)} waiting, {failed} left out "
            f"of {len(self.runs)} runs{self._time_left()}"
        )

    def _time_left(self) -> str:
        """Return how long the rest will take at the rate of the runs that were finished, once there are some."""
        done = self._frames(self.done) - self.frames_before
        left = self._frames({*self.ready_at, *self.in_flight})
        if not done or not left:
            return ""
        minutes = (time.monotonic() - self.begun) * left / done / 60
        return f"; about {minutes:,.0f} min left" if minutes < 180 else f"; about {minutes / 60:,.0f} h left"

    def _frames(self, run_ids: Iterable[str]) -> int:
        return sum(self.runs[run_id].frames for run_id in run_ids)

    def summary(self) -> StudySummary:
        """Return the same in numbers."""
        failed = len(self.aside) + len(self.foreign)
        return StudySummary(len(self.done), failed, len(self.runs) - len(self.done) - failed)

    def _failed(self, run_id: str, outcome: Outcome, before: str) -> None:
        count = 0 if self._newest_manifest(run_id) != before else self.fruitless.get(run_id, 0) + 1
        self.fruitless[run_id] = count
        if count >= FRUITLESS_ATTEMPTS:
            self._quarantine(run_id, outcome)
            return
        delay = FIRST_RETRY_SECONDS * RETRY_FACTOR ** (count - 1) if count else 0.0
        self.tell(f"{run_id} failed, next try in {delay:.0f} s: {outcome.error}")
        self.ready_at[run_id] = time.monotonic() + delay

    def _quarantine(self, run_id: str, outcome: Outcome) -> None:
        try:
            status.quarantine(self.store.below(run_id), outcome.error, outcome.details)
        except StoreError as error:  # the store is away, and that may be all that is wrong
            self.tell(f"{run_id} failed ({outcome.error}), and that could not be noted: {error}")
            self.ready_at[run_id] = time.monotonic() + FIRST_RETRY_SECONDS * RETRY_FACTOR
            return
        self.aside.add(run_id)
        self.tell(f"{run_id} is set aside: {outcome.error}")

    def _left_to_others(self, run_id: str, now: float) -> bool:
        """Tell whether another driver still works on a run, or has finished it."""
        later = now + status.STALE_SECONDS / 10
        try:
            run = self.runs[run_id]
            seen = status.read_one(self.store, run, self.study.bonus_sources, accept_version=self.accept_version)
        except StoreError:  # the store is away for a while
            self.ready_at[run_id] = later
            return True
        if seen.state == "done":
            del self.ready_at[run_id]
            self.done.add(run_id)
        elif seen.state == "running":
            self.ready_at[run_id] = later
        else:
            self.elsewhere.discard(run_id)
        return run_id in self.elsewhere

    def _newest_manifest(self, run_id: str) -> str:
        try:
            return max(self.store.below(run_id).list(layout.MANIFESTS), default="")
        except StoreError:
            return ""
