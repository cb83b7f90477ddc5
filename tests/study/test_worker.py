"""A worker trains what nobody else does, and gives back what it cannot finish; its slots are scripted."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig
from offpiste.errors import AccessDenied, StoreError
from offpiste.store import layout
from offpiste.store.storage import Folder
from offpiste.study import ledger, status, worker
from offpiste.study.attempt import Outcome
from offpiste.study.claims import Claims
from offpiste.study.driver import StudySummary
from offpiste.study.here import run_worker
from offpiste.study.ledger import Ledger
from offpiste.study.marks import Listing, Marks
from offpiste.study.plan import Study
from offpiste.study.worker import Reason, Terms, Walltime, work
from tests.study.small import leave_status, tiny_study

STUDY = replace(tiny_study(keep="all"), bonus_sources={"none": None})
FIRST, SECOND, THIRD = (run.run_id for run in STUDY.runs)
DONE, PAUSED = Outcome("finished"), Outcome("paused")
FAILED = Outcome("failed", "its process was killed by SIGKILL")
NOT_RETRYABLE = Outcome("not_retryable", "NotFinite: nan", "Traceback")
SCRIPT: dict[str, list[Any]] = {}
"""Outcomes of the attempts at each run, or functions that return one; finished, if there is none left."""
STARTED: list[str] = []
ENDED: list[str] = []


class ScriptedSlot:
    """A slot whose attempts end as the script says, at once; one without an outcome goes on until it is stopped."""

    child = None
    longest_pause = 0.0
    frames = 100

    def __init__(self, shared: dict[str, Any], gpus: str | None = None) -> None:
        self.run: RunConfig | None = None
        self.manifest_before = ""
        self.advanced_at = 0.0
        self._stopped = False

    def start(self, run: RunConfig, manifest_before: str) -> None:
        self.run, self.manifest_before, self.advanced_at = run, manifest_before, time.monotonic()
        STARTED.append(run.run_id)

    def poll(self) -> Outcome | None:
        assert self.run is not None
        script = SCRIPT.get(self.run.run_id, [])
        step = PAUSED if self._stopped else script.pop(0) if script else DONE
        outcome: Outcome | None = step() if callable(step) else step
        if outcome is not None:
            ENDED.append(self.run.run_id)
            self.run = None
        return outcome

    def stop(self) -> None:
        self._stopped = True

    def kill(self) -> None:
        SCRIPT[str(self.run and self.run.run_id)] = [FAILED]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    SCRIPT.clear()
    STARTED.clear()
    ENDED.clear()
    monkeypatch.setattr(worker, "Slot", ScriptedSlot)
    for module, name in (
        (worker, "POLL_SECONDS"),
        (worker, "START_SECONDS"),
        (worker, "PATIENCE_SECONDS"),
        (ledger, "SETTLE_SECONDS"),
        (ledger, "LOOK_SECONDS"),
        (worker, "LOOK_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    monkeypatch.setattr("offpiste.study.tries.FIRST_RETRY_SECONDS", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def worked(
    store: Folder, study: Study = STUDY, log: list[str] | None = None, **terms: Any
) -> tuple[StudySummary, Reason]:
    lines = [] if log is None else log
    return work(study, store, store.location, Terms(**({"slots": 2} | terms)), lines.append)


def test_a_worker_trains_every_run_once_marks_it_done_and_leaves_no_lease(store: Folder) -> None:
    assert worked(store) == (StudySummary(3, 0, 0), "nothing is left")
    assert sorted(STARTED) == [FIRST, SECOND, THIRD]
    seen = Marks(store, STUDY).read()
    assert (len(seen.done), seen.leases) == (3, {})
    assert worked(store)[0] == StudySummary(3, 0, 0)
    assert len(STARTED) == 3


def test_alone_a_worker_begins_with_runs_in_progress_and_takes_the_others_in_order(store: Folder) -> None:
    leave_status(store.below(THIRD), STUDY.runs[2], "paused", 200)
    log: list[str] = []
    assert worked(store, log=log, slots=1, alone=True)[0] == StudySummary(3, 0, 0)
    assert STARTED == [THIRD, FIRST, SECOND]
    assert log[0] == "study tiny: 3 runs, 0 done"
    assert f"{THIRD} is done, 1 of 3" in log
    assert log[-1] == "nothing is left; 3 done, 0 in flight, 0 waiting, 0 quarantined of 3 runs"


def test_the_log_says_which_runs_begin_and_which_resume(store: Folder) -> None:
    leave_status(store.below(THIRD), STUDY.runs[2], "paused", 1_200)
    log: list[str] = []
    worked(store, log=log)
    assert [line for line in log if "begins" in line or "resumes" in line if line.startswith(THIRD)] == [
        f"{THIRD} resumes at 1,200 frames"
    ]
    assert {f"{FIRST} begins", f"{SECOND} begins"} <= set(log)


@pytest.mark.parametrize(("alone", "expected"), [(True, ["2", "2", "2", "2"]), (False, ["", "", "2", "2"])])
def test_the_time_left_counts_runs_in_flight_and_does_not_grow_until_the_next_is_done(
    alone: bool, expected: list[str], store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("offpiste.study.ledger.time.monotonic", lambda: now[0])
    leave_status(store.below(THIRD), STUDY.runs[2], "paused", 200)
    marks = Marks(store, STUDY)
    mine = Ledger(STUDY, store, Claims(marks, "me", in_order=True), marks, lambda _: None, accept_version=False)
    mine.survey()
    mine.propose(3)
    now[0] += 1.0
    assert mine.decide() == [THIRD, FIRST, SECOND]
    found = []
    for minute, in_flight in (
        (1, {THIRD: 300, FIRST: 200}),
        (2, {THIRD: 350, FIRST: 350}),
        (3, {SECOND: 50}),
        (6, {SECOND: 250}),
    ):
        now[0] = 60.0 * minute
        if minute == 3:
            mine.finish(FIRST)
            mine.finish(THIRD)
        found.append(mine.summary_line(in_flight, alone=alone).partition("; about ")[2].removesuffix(" min left"))
    assert found == expected


@pytest.mark.parametrize(("frames", "expected"), [([200, 210], "19"), ([200, 200], "2"), ([100, 300], "1")])
def test_a_run_that_is_slow_after_its_warm_up_takes_as_long_as_it_will_at_this_rate(
    frames: list[int], expected: str, store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("offpiste.study.ledger.time.monotonic", lambda: now[0])
    study = replace(tiny_study(keep="all", seeds=[0]), bonus_sources={"none": None})
    marks = Marks(store, study)
    mine = Ledger(study, store, Claims(marks, "me", in_order=True), marks, lambda _: None, accept_version=False)
    mine.survey()
    mine.propose(1)
    for minute, at in enumerate(frames, start=1):
        now[0] = 60.0 * minute
        line = mine.summary_line({FIRST: at}, alone=True)
    assert line.endswith(f"; about {expected} min left")


def test_runs_that_a_stopped_worker_had_begun_are_resumed_before_new_ones(store: Folder) -> None:
    study = replace(tiny_study(keep="all", seeds=list(range(20))), bonus_sources={"none": None})
    for run in study.runs:
        SCRIPT[run.run_id] = [lambda: os.kill(os.getpid(), signal.SIGTERM), None]
    worked(store, study, slots=2)
    begun = set(STARTED)
    SCRIPT.clear()
    STARTED.clear()
    worked(store, study, slots=2)
    assert set(STARTED[:2]) == begun


def test_a_run_is_marked_as_begun_once(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[str] = []
    mark = Marks.mark_begun

    def counted(self: Marks, run_id: str) -> None:
        marked.append(run_id)
        mark(self, run_id)

    monkeypatch.setattr(Marks, "mark_begun", counted)
    SCRIPT[FIRST] = [PAUSED] * 5
    worked(store)
    assert sorted(marked) == [FIRST, SECOND, THIRD]
    assert STARTED.count(FIRST) == 6


def test_a_run_that_another_worker_has_leased_is_left_to_it(store: Folder) -> None:
    marks = Marks(store, STUDY)
    marks.put_lease(SECOND, "other")
    assert worked(store) == (StudySummary(2, 0, 1), "the rest is claimed by others")
    assert sorted(STARTED) == [FIRST, THIRD]
    assert list(marks.read().leases) == [marks.keys[SECOND]]


def test_a_run_at_work_without_a_lease_is_left_alone(store: Folder) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100)

    class Log(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if sum("is at work elsewhere, with news" in line for line in self) == 2:
                leave_status(store.below(FIRST), STUDY.runs[0], "finished", 400)

    assert worked(store, log=Log())[0] == StudySummary(3, 0, 0)
    assert FIRST not in STARTED


def test_a_run_of_a_worker_that_vanished_is_resumed_though_its_folder_says_running(store: Folder) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100)
    marks = Marks(store, STUDY)
    marks.put_lease(FIRST, "gone")
    path = store.local_path
    assert path is not None
    lease = path / "studies/tiny/marks" / f"{marks.keys[FIRST]}.lease.gone"
    os.utime(lease, (time.time() - 400, time.time() - 400))
    assert worked(store)[0] == StudySummary(3, 0, 0)
    assert FIRST in STARTED
    assert marks.read().leases == {}


def test_the_third_failure_quarantines_a_run_and_the_others_continue(store: Folder) -> None:
    SCRIPT[SECOND] = [FAILED] * 9
    assert worked(store) == (StudySummary(2, 1, 0), "nothing is left")
    assert STARTED.count(SECOND) == 3
    assert store.below(SECOND).get(layout.QUARANTINE) is not None
    assert worked(store)[0] == StudySummary(2, 1, 0)
    assert len(STARTED) == 5


def test_failures_are_counted_across_workers(store: Folder) -> None:
    study = replace(STUDY, runs=STUDY.runs[:1])
    SCRIPT[FIRST] = [FAILED, FAILED, lambda: os.kill(os.getpid(), signal.SIGTERM)]
    assert worked(store, study)[1] == "interrupted by a signal"
    SCRIPT[FIRST] = [FAILED]
    assert worked(store, study)[0] == StudySummary(0, 1, 0)


def test_ten_attempts_without_a_checkpoint_quarantine_a_run_whatever_ended_them(store: Folder) -> None:
    SCRIPT[FIRST] = [PAUSED] * 20
    assert worked(store)[0] == StudySummary(2, 1, 0)
    assert STARTED.count(FIRST) == 10
    assert b"10 attempts made no checkpoint" in (store.below(FIRST).get(layout.QUARANTINE) or b"")


def test_a_run_that_is_not_retryable_is_quarantined_at_once(store: Folder) -> None:
    SCRIPT[FIRST] = [NOT_RETRYABLE]
    assert worked(store)[0] == StudySummary(2, 1, 0)
    assert b"Traceback" in (store.below(FIRST).get(layout.QUARANTINE) or b"")


def test_a_run_that_was_taken_over_is_no_failure(store: Folder) -> None:
    SCRIPT[FIRST] = [Outcome("superseded", "attempt 2 has taken over")] * 5
    assert worked(store)[0] == StudySummary(3, 0, 0)


def test_a_run_whose_folder_holds_another_run_is_skipped(store: Folder) -> None:
    other = tiny_study(seeds=[0], settings={}).runs[0]
    leave_status(store.below(FIRST), other, "finished", 400)
    log: list[str] = []
    assert worked(store, log=log)[0] == StudySummary(2, 1, 0)
    assert any(line.startswith(f"{FIRST} is skipped: the folder holds another run") for line in log)


def test_a_run_that_is_done_without_a_mark_gets_one_and_is_not_trained(store: Folder) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "finished", 400)
    assert worked(store)[0] == StudySummary(3, 0, 0)
    assert FIRST not in STARTED
    assert FIRST in Marks(store, STUDY).marked_done()


@pytest.mark.parametrize("alone", [True, False])
def test_a_quarantined_run_is_tried_again_once_its_bonus_was_changed_if_it_had_recorded_nothing(
    store: Folder, alone: bool
) -> None:
    old, new = (replace(STUDY, bonus_sources={"none": source}) for source in ("old", "new"))
    SCRIPT[FIRST] = [Outcome("not_retryable", "no")]
    assert worked(store, old)[0] == StudySummary(2, 1, 0)
    assert worked(store, old)[0] == StudySummary(2, 1, 0)  # the same file fails the same way
    STARTED.clear()
    log: list[str] = []
    assert worked(store, new, log, alone=alone)[0] == StudySummary(3, 0, 0)
    assert FIRST in STARTED
    assert f"{FIRST} {status.MENDED}" in log


def test_a_quarantined_run_with_a_checkpoint_stays_quarantined_when_its_bonus_changes(store: Folder) -> None:
    old, new = (replace(STUDY, bonus_sources={"none": source}) for source in ("old", "new"))
    SCRIPT[FIRST] = [Outcome("not_retryable", "no")]
    worked(store, old)
    store.below(FIRST).put(layout.CHECKPOINTED, b"{}")
    assert worked(store, new)[0] == StudySummary(2, 1, 0)


def test_a_quarantine_that_is_lifted_while_a_worker_is_at_work_is_seen_by_it(store: Folder) -> None:
    marks = Marks(store, STUDY)
    status.quarantine(store.below(FIRST), "no", "")
    marks.mark_quarantined(FIRST)

    def lift() -> Outcome:
        status.lift_quarantine(store.below(FIRST))
        marks.unmark_quarantined(FIRST, marks.read())
        return FAILED  # so that the worker looks again

    SCRIPT[SECOND] = [lift]
    assert worked(store)[0] == StudySummary(3, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_lets_all_runs_save_and_gives_them_back_twice_as_once(number: signal.Signals, store: Folder) -> None:
    def signal_twice() -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    SCRIPT[FIRST] = [signal_twice, *[None] * 50]
    SCRIPT[SECOND], SCRIPT[THIRD] = [None] * 50, [None] * 50
    before = signal.getsignal(number)
    summary, reason = worked(store, slots=3)
    assert (summary, reason) == (StudySummary(0, 0, 3), "interrupted by a signal")
    assert Marks(store, STUDY).read().leases == {}
    assert signal.getsignal(number) == before


def test_a_process_that_dies_while_it_is_stopped_is_no_failure(store: Folder) -> None:
    SCRIPT[FIRST] = [lambda: os.kill(os.getpid(), signal.SIGTERM), None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.study.test_worker.PAUSED", FAILED)
        assert worked(store, replace(STUDY, runs=STUDY.runs[:1]))[1] == "interrupted by a signal"
    assert b'"failures": 0' in (store.below(FIRST).get(layout.TRIES) or b"")


def test_a_request_to_stop_ends_a_worker_and_no_later_one_begins(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOCAL_STOP_SECONDS", 0.0)
    SCRIPT[FIRST] = [lambda: status.request_stop(store, "tiny"), *[None] * 9]
    SCRIPT[SECOND] = [None] * 9
    assert worked(store, alone=True) == (StudySummary(0, 0, 3), "the study was asked to stop")
    STARTED.clear()
    later = run_worker(STUDY, b"", store.location, Terms(1), print)
    assert (later[1], STARTED) == ("the study was asked to stop", [])


def test_a_worker_that_is_to_join_refuses_a_store_without_the_study(store: Folder) -> None:
    with pytest.raises(StoreError, match=r"does not see the study tiny in .*; use a store that all machines share"):
        run_worker(STUDY, None, store.location, Terms(1), print)
    status.begin(store, "tiny", b"")
    assert run_worker(STUDY, None, store.location, Terms(1), print)[0] == StudySummary(3, 0, 0)


def test_a_process_whose_run_does_not_advance_is_killed_and_its_lease_not_renewed(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("NO_ADVANCE_SECONDS", 0.0), ("HUNG_SECONDS", 0.2)):
        monkeypatch.setattr(worker, name, seconds)
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(ledger, "RENEW_SECONDS", 0.0)
    renewed_at_work: list[bool] = []
    monkeypatch.setattr(Claims, "renew", lambda *_: renewed_at_work.append(len(STARTED) > len(ENDED)))
    monkeypatch.setattr(Claims, "_wins", lambda *_: True)
    SCRIPT[FIRST] = [None] * 1_000
    assert worked(store, replace(STUDY, runs=STUDY.runs[:1]), slots=1)[0] == StudySummary(1, 0, 0)
    assert STARTED == [FIRST, FIRST]
    assert renewed_at_work
    assert not any(renewed_at_work)


def test_the_store_may_be_away_for_a_while(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    away = [3]
    read = Marks.read

    def sometimes(self: Marks) -> Listing:
        away[0] -= 1
        if away[0] >= 0:
            raise StoreError("away")
        return read(self)

    monkeypatch.setattr(Marks, "read", sometimes)
    log: list[str] = []
    monkeypatch.setattr(worker, "PATIENCE_SECONDS", 60.0)
    assert worked(store, log=log)[0] == StudySummary(3, 0, 0)
    assert log[0] == "cannot claim runs: away"


def fail_claims(monkeypatch: pytest.MonkeyPatch, error: StoreError, after: int = 0) -> None:
    """Let all listings of marks fail but the first ones."""
    left, read = [after], Marks.read

    def fail(self: Marks) -> Listing:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return read(self)

    monkeypatch.setattr(Marks, "read", fail)


@pytest.mark.parametrize("alone", [False, True])
def test_a_store_that_fails_for_an_hour_is_an_error_and_not_the_claims_of_others(
    store: Folder, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    fail_claims(monkeypatch, StoreError("away"), after=2 if alone else 0)
    monkeypatch.setattr(worker, "FAILING_SECONDS", 0.1)  # and no patience at all
    log: list[str] = []
    with pytest.raises(StoreError, match="no run could be claimed or begun for 0 minutes: away"):
        worked(store, log=log, alone=alone)
    assert log.count("cannot claim runs: away") > 1


def test_a_store_in_which_runs_cannot_be_begun_is_an_error_after_a_while(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Folder) -> None:
        raise StoreError("full")

    monkeypatch.setattr(ledger, "count_attempt", fail)
    monkeypatch.setattr(worker, "FAILING_SECONDS", 0.1)
    with pytest.raises(StoreError, match="full"):
        worked(store)
    assert Marks(store, STUDY).read().leases == {}


def test_a_store_that_refuses_the_first_claim_is_an_error_at_once_and_later_ones_are_retried(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        fail_claims(patch, AccessDenied("no"))
        with pytest.raises(AccessDenied, match="no"):
            worked(store, log=log)
    assert log == []
    fail_claims(monkeypatch, AccessDenied("no"), after=1)
    monkeypatch.setattr(worker, "FAILING_SECONDS", 0.1)
    with pytest.raises(StoreError, match="no run could be claimed or begun for 0 minutes: no"):
        worked(store, log=log)


def test_time_in_which_the_store_failed_is_no_patience(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for run_id in (FIRST, SECOND, THIRD):
        Marks(store, STUDY).put_lease(run_id, "other")
    now, read = [1_000.0], Marks.read
    monkeypatch.setattr("offpiste.study.worker.time.monotonic", lambda: now[0])
    monkeypatch.setattr(worker, "PATIENCE_SECONDS", 600.0)
    looks: list[float] = []

    def away_until_half_an_hour(self: Marks) -> Listing:
        looks.append(now[0])
        now[0] += 60.0
        if now[0] < 1_000.0 + 1_800.0:
            raise StoreError("away")
        return read(self)

    monkeypatch.setattr(Marks, "read", away_until_half_an_hour)
    assert worked(store)[1] == "the rest is claimed by others"
    assert looks[-1] > 1_000.0 + 1_800.0 + 500.0


@pytest.mark.parametrize(
    ("hours", "claims_until", "saves_at", "slowest"),
    [(10.0, 36_000 - 600, 36_000 - 120, 0.0), (10.0, 36_000 - 600, 36_000 - 600, 200.0), (0.01, 32.4, 27.0, 0.0)],
)
def test_a_worker_ends_in_time_for_its_checkpoints(
    hours: float, claims_until: float, saves_at: float, slowest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("offpiste.study.worker.time.monotonic", lambda: now[0])
    walltime = Walltime(hours)
    for moment, happens in ((claims_until, walltime.may_claim), (saves_at, lambda: not walltime.is_up(slowest))):
        now[0] = 1_000.0 + moment - 0.1
        assert happens()
        now[0] = 1_000.0 + moment + 0.1
        assert not happens()


def test_without_a_limit_time_is_never_up() -> None:
    walltime = Walltime(None)
    assert walltime.may_claim()
    assert not walltime.is_up(1e9)


def test_when_time_is_up_the_runs_are_given_back(store: Folder) -> None:
    SCRIPT[FIRST] = SCRIPT[SECOND] = SCRIPT[THIRD] = [None] * 10**6
    assert worked(store, hours=0.0001) == (StudySummary(0, 0, 3), "time is up")
    assert Marks(store, STUDY).read().leases == {}


def test_outside_the_main_thread_a_worker_works_too(store: Folder) -> None:
    found: list[tuple[StudySummary, Reason]] = []
    thread = threading.Thread(target=lambda: found.append(worked(store)))
    thread.start()
    thread.join()
    assert found[0][0] == StudySummary(3, 0, 0)
