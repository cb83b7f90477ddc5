"""The runs of a study as one worker sees them: which are left, which it has claimed, and what became of the others."""

import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from offpiste.errors import AccessDenied, StoreError
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.attempt import Outcome
from offpiste.study.claims import SETTLE_SECONDS, Claims
from offpiste.study.driver import StudySummary, counts_line, time_left
from offpiste.study.marks import Marks, lift_quarantine, read_status
from offpiste.study.plan import Study
from offpiste.study.tries import Tries, count_attempt, count_failure

RENEW_SECONDS = 60.0
LOOK_SECONDS = 60.0
"""How often to look for runs that others have given up."""


class Ledger:
    """Every run is in exactly one of `left`, `done`, `quarantined` and `skipped`; those claimed are in `left`, too."""

    def __init__(
        self,
        study: Study,
        store: Folder,
        claims: Claims,
        marks: Marks,
        log: Callable[[str], None],
        accept_version: bool,
    ) -> None:
        self.runs = {run.run_id: run for run in study.runs}
        self.left = dict.fromkeys(self.runs)
        self.done: set[str] = set()
        self.quarantined: set[str] = set()
        self.skipped: set[str] = set()
        """Runs whose folder holds another run, or only the results of a shorter one."""
        self.not_before: dict[str, float] = {}
        """Runs that failed or are at work elsewhere, with the earliest time to try them again."""
        self.proposed: list[str] = []
        """Runs for which leases are written, and not yet decided."""
        self.failures: dict[str, str] = {}
        """What failed in the store since the last claim, by run, or by "" if that was the claim itself."""
        self.next_claim = 0.0
        self._decide_at = 0.0
        self._study, self._store, self._claims, self._marks, self._log = study, store, claims, marks, log
        self._accept_version = accept_version
        self._renew_at: dict[str, float] = {}
        """The runs that are claimed, and when their leases are to be renewed."""
        self._tried: set[str] = set()
        self._frames_now: dict[str, int] = {}
        """Frames of the runs that this worker has claimed, by their folders."""
        self._begun: tuple[float, frozenset[str]] | None = None
        """When the marks were first read, and the runs done by then."""
        self._last_done = 0.0
        """When a run was last seen to be done."""
        self._frames_before: dict[str, int] = {}
        """Frames that runs had when this worker first looked into their folders."""
        self._last_line: tuple[float, Mapping[str, int]] = (0.0, {})
        """When the last line was written, and the frames of the runs in flight then."""

    def survey(self) -> None:
        """Read the folders of all runs without a mark, for a worker that is alone; resumable runs come first."""
        found = read_status(self._store, self._study, accept_version=self._accept_version)
        for seen in found:
            if seen.quarantined:
                self._log(f"{seen.run_id} is quarantined: {seen.note}")
            elif seen.state == "failed":
                self._end(seen.run_id, self.skipped)
                self._log(f"{seen.run_id} is skipped: {seen.note}")
        self._frames_before = {seen.run_id: seen.frames for seen in found}
        listed = self._marks.read()
        self._lift([seen.run_id for seen in found if seen.mended])
        for seen in found:
            if not seen.quarantined and self._marks.is_quarantined(seen.run_id, listed):
                self._marks.unmark_quarantined(seen.run_id, listed)  # lifted by hand
        resumable = [seen.run_id for seen in found if seen.run_id in self.left and seen.frames and seen.state != "done"]
        self.left = dict.fromkeys([*resumable, *self.left])

    def propose(self, count: int) -> None:
        """Write leases for up to so many runs, to be decided by `decide`."""
        now = time.monotonic()
        self.not_before = {run_id: at for run_id, at in self.not_before.items() if at > now}
        self.failures = {run_id: why for run_id, why in self.failures.items() if run_id in self.not_before}
        wanted = [run_id for run_id in self.left if run_id not in self._renew_at and run_id not in self.not_before]
        try:
            self.proposed = self._claims.propose(wanted, count)
        except StoreError as error:
            if isinstance(error, AccessDenied) and self._begun is None:
                raise
            self._note_failed_claim(error)
            self.next_claim = now + LOOK_SECONDS
            return
        self._read_marks()
        self._renew_at |= {run_id: _next_renewal() for run_id in self.proposed}
        self._decide_at = time.monotonic() + SETTLE_SECONDS
        self.next_claim = min([now if self.proposed else now + LOOK_SECONDS, *self.not_before.values()])

    def decide(self) -> list[str]:
        """Return the runs that this worker has won and that are to be trained, once it is time to decide."""
        if not self.proposed or time.monotonic() < self._decide_at:
            return []
        try:
            won = self._claims.decide(self.proposed)
        except StoreError as error:
            self._note_failed_claim(error)
            won = []
        for run_id in set(self.proposed) - set(won):
            self._release(run_id)
        self.proposed = []
        self._read_marks()
        return [run_id for run_id in won if self._is_to_be_trained(run_id)]

    def count_attempt(self, run_id: str) -> Tries | None:
        """Count an attempt that is about to begin; return None if it must not."""
        try:
            tries = count_attempt(self._store.below(run_id))
        except StoreError as error:
            self.failures[run_id] = str(error)
            self.retry(run_id, LOOK_SECONDS, f"cannot be begun: {error}")
            return None
        if tries.in_vain:
            self.quarantine(run_id, Outcome("failed", f"{tries.attempts - 1} attempts made no checkpoint"))
            return None
        self._tried.add(run_id)
        frames = self._frames_now[run_id]
        self._log(f"{run_id} resumes at {frames:,} frames" if frames else f"{run_id} begins")
        if self._marks.keys[run_id] not in self._claims.seen.begun:
            self._marks.mark_begun(run_id)
        return tries

    def finish(self, run_id: str) -> None:
        """Note that a run is done."""
        self._marks.mark_done(run_id)
        self._end(run_id, self.done)
        self._log(f"{run_id} is done, {len(self.done)} of {len(self.runs)}")
        self._release(run_id)

    def fail(self, run_id: str, outcome: Outcome, manifest_before: str) -> None:
        """Note a failure, after which the run is tried again or quarantined."""
        try:
            tries = count_failure(self._store.below(run_id), manifest_before)
        except StoreError as error:  # the store is unreachable, which may be why the run failed
            self.retry(run_id, LOOK_SECONDS, f"failed ({outcome.error}), which could not be counted: {error}")
            return
        if tries.in_vain:
            self.quarantine(run_id, outcome)
        else:
            self.retry(run_id, tries.delay, f"failed, next try {tries.soon}: {outcome.error}")

    def quarantine(self, run_id: str, outcome: Outcome) -> None:
        """Quarantine a run."""
        try:
            source = self._study.source_of(self.runs[run_id])
            status.quarantine(self._store.below(run_id), outcome.error, outcome.details, source)
        except StoreError as error:
            self.retry(run_id, LOOK_SECONDS, f"failed ({outcome.error}) and could not be quarantined: {error}")
            return
        self._marks.mark_quarantined(run_id)
        self._end(run_id, self.quarantined)
        self._log(f"{run_id} is quarantined: {outcome.error}")
        self._release(run_id)

    def retry(self, run_id: str, delay: float, why: str) -> None:
        """Give a run back, and claim it again after a delay at the earliest."""
        self._log(f"{run_id} {why}")
        self.not_before[run_id] = time.monotonic() + delay
        self.next_claim = min(self.next_claim, self.not_before[run_id])
        self._release(run_id)

    def renew_leases(self, stuck: Collection[str] = ()) -> None:
        """Renew the leases that are due, except those of runs that do not advance."""
        now = time.monotonic()
        for run_id, at in self._renew_at.items():
            if now >= at:
                self._renew_at[run_id] = _next_renewal()
                if run_id not in stuck:
                    with suppress(StoreError):
                        self._claims.renew(run_id)

    def release_all(self) -> None:
        """Delete all leases."""
        for run_id in list(self._renew_at):
            self._release(run_id)

    def summary(self) -> StudySummary:
        """Return the counts of runs."""
        return StudySummary(len(self.done), len(self.quarantined) + len(self.skipped), len(self.left))

    def summary_line(self, in_flight: Mapping[str, int], *, alone: bool = False) -> str:
        """Return the counts of runs, and the time left, as one line; `in_flight` has the frames of this worker's runs.

        Of the runs of other workers it sees only the ends, so the rate is that until the last of these, unless it is
        alone. A run's warm-up is faster than the rest of it, so the last runs take at least as long as at their present
        rates.
        """
        waiting, failed = len(self.left) - len(in_flight), (len(self.quarantined), len(self.skipped))
        line = counts_line(len(self.done), len(in_flight), waiting, *failed)
        if self._begun is None:
            return line
        (since, before), until = self._begun, self._last_done
        done, left = self._frames_to_do(self.done - before), self._frames_to_do(self.left)
        if alone:
            progress = sum(max(0, at - self._frames_before.get(run_id, 0)) for run_id, at in in_flight.items())
            until, done, left = time.monotonic(), done + progress, left - progress
        return line + time_left(until - since, done, left, self._longest(in_flight))

    def _longest(self, in_flight: Mapping[str, int]) -> float:
        """Return the seconds that the run which takes longest has left at its rate since the last line."""
        now, (since, before) = time.monotonic(), self._last_line
        self._last_line = now, in_flight
        seconds = (
            (self.runs[run_id].frames - at) * (now - since) / (at - before[run_id])
            for run_id, at in in_flight.items()
            if at > before.get(run_id, at)
        )
        return max(seconds, default=0.0)

    def _read_marks(self) -> None:
        """Take over what the marks say of the runs of all workers."""
        seen = self._claims.seen
        for run_id in list(self.left):
            if self._marks.done_at(run_id, seen) is not None:
                self._end(run_id, self.done)
            elif self._marks.is_quarantined(run_id, seen):
                self._end(run_id, self.quarantined)
        for run_id in list(self.quarantined):
            if not self._marks.is_quarantined(run_id, seen):  # `study retry` has lifted it
                self.quarantined.discard(run_id)
                self.left[run_id] = None
        if self._begun is None:
            self._begun = time.monotonic(), frozenset(self.done)
            self._log(f"study {self._study.name}: {len(self.runs)} runs, {len(self.done)} done")

    def _is_to_be_trained(self, run_id: str) -> bool:
        """Return whether a claimed run is to be trained, by its folder; else note what it is, and release it."""
        run, accept = self.runs[run_id], self._accept_version
        try:
            seen = status.read_one(self._store, run, self._study.bonus_sources, accept_version=accept)
        except StoreError as error:
            self.failures[run_id] = str(error)
            self.retry(run_id, LOOK_SECONDS, f"cannot be read: {error}")
            return False
        self._frames_now[run_id] = seen.frames
        self._frames_before.setdefault(run_id, seen.frames)
        if seen.is_complete(self._study.keep):
            self.finish(run_id)
        elif seen.quarantined:
            self._marks.mark_quarantined(run_id)
            self._end(run_id, self.quarantined)
        elif seen.state == "failed":
            self._end(run_id, self.skipped)
            self._log(f"{run_id} is skipped: {seen.note}")
        elif seen.state == "running" and run_id not in self._tried and not self._claims.void_leases(run_id):
            self.retry(run_id, LOOK_SECONDS, f"is at work elsewhere, with news {seen.seconds_since_news:.0f} s ago")
        else:
            self._lift([run_id] if seen.mended else [])
            self._claims.delete_void_leases(run_id)
            return True
        self._release(run_id)
        return False

    def _lift(self, mended: list[str]) -> None:
        for run_id in lift_quarantine(self._store, self._study, mended):
            self._log(f"{run_id} {status.MENDED}")

    def _note_failed_claim(self, error: StoreError) -> None:
        self.failures[""] = str(error)
        self._log(f"cannot claim runs: {error}")

    def _release(self, run_id: str) -> None:
        if self._renew_at.pop(run_id, None) is not None:
            with suppress(StoreError):
                self._claims.release(run_id)

    def _end(self, run_id: str, among: set[str]) -> None:
        self.left.pop(run_id, None)
        among.add(run_id)
        if among is self.done:
            self._last_done = time.monotonic()

    def _frames_to_do(self, run_ids: Collection[str]) -> int:
        """Return the frames of these runs, without those that they had before."""
        return sum(max(0, self.runs[run_id].frames - self._frames_before.get(run_id, 0)) for run_id in run_ids)


def _next_renewal() -> float:
    return time.monotonic() + RENEW_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
