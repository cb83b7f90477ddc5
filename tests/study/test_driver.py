"""The driver finishes or quarantines every run, whatever happens to its attempts; workers and clock are simulated."""

import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpiste.config import RESULTS_VERSION, RunConfig
from offpiste.errors import AccessDenied, MachineError, StoreError
from offpiste.rows import utc_now
from offpiste.run.stopping import StopSignal
from offpiste.store import layout
from offpiste.store.attempts import begin_attempt, this_process
from offpiste.store.storage import Folder
from offpiste.study import driver, status
from offpiste.study.driver import HUNG_LOOKS, LOOK_SECONDS, MACHINE_ERRORS, Terms, drive
from offpiste.study.marks import Marks
from offpiste.study.plan import Study
from offpiste.study.task import AttemptOutcome, Task
from offpiste.study.tries import count_attempt
from offpiste.study.workers import Pulse
from tests.study.small import leave_status, tiny_study

DONE, PAUSED, LOST = AttemptOutcome("finished"), AttemptOutcome("paused"), AttemptOutcome("lost", "its machine is gone")
FAILED = AttemptOutcome("failed", "ValueError: no", "Traceback\nValueError: no")
NOT_RETRYABLE = AttemptOutcome("not_retryable", "NotFinite: nan", "Traceback\nNotFinite: nan")
NO_GPU = AttemptOutcome("machine", "there is no GPU", host="bad")
STUDY = replace(tiny_study(keep="all"), bonus_sources={"none": None})
FIRST, SECOND, THIRD = (run.run_id for run in STUDY.runs)
GOES_ON = None
MAX_SECONDS = 100_000.0


class Clock:
    """A simulated clock, which waiting advances."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class FakeWorkers:
    """Workers whose attempts end in the order started, with the outcomes of a script, or else finished.

    A step of a script is an outcome, `GOES_ON`, or a function that returns one of these.
    """

    def __init__(
        self, clock: Clock, store: Folder, script: dict[str, list[Any]] | None = None, slots: int = 2, queued: int = 0
    ) -> None:
        self.clock, self.store, self.script, self.number, self.queued_per_slot = (
            clock,
            store,
            script or {},
            slots,
            queued,
        )
        self.signal = StopSignal()
        self.in_flight: dict[str, Task] = {}
        self.started: list[str] = []
        self.started_at: list[float] = []
        self.tasks: list[Task] = []
        self.killed: list[str] = []
        self.steps: Callable[[str], int] = lambda _: int(clock.now)
        self.max_in_flight = 0
        self.stopped = 0
        self.when_stopped: Any = PAUSED
        self.longest_pause = 0.0

    def slots(self) -> int:
        return self.number

    def start(self, run: RunConfig, task: Task) -> None:
        assert run.run_id not in self.in_flight
        assert not self.stopped
        self.in_flight[run.run_id] = task
        self.tasks.append(task)
        self.started.append(run.run_id)
        self.started_at.append(self.clock.now)
        self.max_in_flight = max(self.max_in_flight, len(self.in_flight))
        if count_attempt(self.store.below(run.run_id)).in_vain:  # as the task does
            self.script[run.run_id] = [AttemptOutcome("not_retryable", "10 attempts made no checkpoint")]

    def wait(self, seconds: float) -> list[tuple[str, AttemptOutcome]]:
        for run_id in self.in_flight:
            steps = self.script.get(run_id, [])
            step = self.when_stopped if self.stopped else steps.pop(0) if steps else DONE
            outcome = step() if callable(step) else step
            if run_id in self.killed:
                self.killed.remove(run_id)
                outcome = AttemptOutcome("failed", "its process was killed by SIGKILL")
            if outcome is not None:
                del self.in_flight[run_id]
                return [(run_id, outcome)]
        self.clock.now += seconds
        assert self.clock.now < MAX_SECONDS, "the driver waits for ever"
        return []

    def progress(self) -> dict[str, Pulse]:
        return {run_id: Pulse(self.steps(run_id), 100, self.longest_pause) for run_id in self.in_flight}

    def stop(self) -> None:
        self.stopped += 1

    def kill(self, run_id: str) -> None:
        self.killed.append(run_id)

    def with_checkpoint(self, run_id: str, step: int, outcome: AttemptOutcome) -> Callable[[], AttemptOutcome]:
        def act() -> AttemptOutcome:
            self.store.below(run_id).put(f"manifests/{step:012d}-1.json", b"{}")
            return outcome

        return act

    def interrupted(self) -> None:
        self.signal.number = signal.SIGTERM


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("offpiste.study.driver.time.monotonic", found)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def driven(workers: FakeWorkers, study: Study = STUDY, **terms: Any) -> tuple[tuple[int, int, int], str, list[str]]:
    """Return the counts of a study, why the driver ended, and the lines logged."""
    log: list[str] = []
    found = drive(study, workers.store.location, workers, log.append, workers.signal, Terms(**terms))
    assert not workers.in_flight
    return (found.done, found.failed, found.unfinished), found.reason, log


# Runs that end, and runs that fail


def test_every_run_is_started_once_in_order_and_marked_done(store: Folder, clock: Clock) -> None:
    study = replace(STUDY, runs=tiny_study(seeds=list(range(10)), keep="all").runs)
    workers = FakeWorkers(clock, store)
    counts, reason, log = driven(workers, study)
    assert (counts, reason) == ((10, 0, 0), "nothing is left")
    assert workers.started == [run.run_id for run in study.runs]
    assert Marks(store, study).done().keys() == set(workers.started)
    assert log[0] == "study tiny: 10 runs, 0 done, 0 to resume, 10 new"
    assert log[-1] == "nothing is left; 10 done, 0 in flight, 0 waiting, 0 quarantined of 10 runs"
    again = FakeWorkers(clock, store)
    assert driven(again, study)[0] == (10, 0, 0)
    assert again.started == []


@pytest.mark.parametrize(("slots", "queued", "expected"), [(0, 1, 1), (1, 1, 2), (3, 1, 6), (3, 0, 3), (100, 1, 10)])
def test_each_slot_has_an_attempt_and_those_that_may_be_queued(
    slots: int, queued: int, expected: int, store: Folder, clock: Clock
) -> None:
    workers = FakeWorkers(clock, store, slots=slots, queued=queued)
    driven(workers, replace(STUDY, runs=tiny_study(seeds=list(range(10)), keep="all").runs))
    assert workers.max_in_flight == expected


def test_runs_with_progress_come_first_and_the_log_says_which_resume(store: Folder, clock: Clock) -> None:
    leave_status(store.below(THIRD), STUDY.runs[2], "paused", 1_200)
    workers = FakeWorkers(clock, store, slots=1)
    log = driven(workers)[2]
    assert workers.started == [THIRD, FIRST, SECOND]
    assert [line for line in log if "begins" in line or "resumes" in line] == [
        f"{THIRD} resumes at 1,200 frames",
        f"{FIRST} begins",
        f"{SECOND} begins",
    ]


def test_a_finished_run_with_its_replay_is_started_again_to_drop_it(store: Folder, clock: Clock) -> None:
    study = replace(tiny_study(seeds=[0, 1], keep="results"), bonus_sources={"none": None})
    for run in study.runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
    store.below(FIRST).put(layout.RESULTS, b"{}")
    workers = FakeWorkers(clock, store)
    assert driven(workers, study)[0] == (2, 0, 0)
    assert workers.started == [SECOND]


def test_lost_machines_and_stopped_processes_are_no_failures_but_ten_attempts_in_vain_are_enough(
    store: Folder, clock: Clock
) -> None:
    workers = FakeWorkers(clock, store, {FIRST: [LOST, PAUSED] * 4, SECOND: [LOST] * 20})
    assert driven(workers)[0] == (2, 1, 0)
    assert (workers.started.count(FIRST), workers.started.count(SECOND)) == (9, 11)
    assert b"10 attempts made no checkpoint" in (store.below(SECOND).get(layout.QUARANTINE) or b"")


def test_the_third_failure_without_a_new_checkpoint_quarantines_a_run_and_the_others_continue(
    store: Folder, clock: Clock
) -> None:
    workers = FakeWorkers(clock, store, {SECOND: [FAILED] * 9})
    counts, _, log = driven(workers)
    assert (counts, workers.started.count(SECOND)) == ((2, 1, 0), 3)
    assert f"{SECOND} is quarantined: ValueError: no" in log
    moments = [at for run_id, at in zip(workers.started, workers.started_at, strict=True) if run_id == SECOND]
    assert [later - earlier for earlier, later in pairwise(moments)] == [15.0, 60.0]
    again = FakeWorkers(clock, store)
    assert (driven(again)[0], again.started) == ((2, 1, 0), [])


def test_a_new_checkpoint_resets_the_count_of_failures(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store)
    for step in (10, 20):
        workers.script.setdefault(FIRST, []).extend([FAILED, FAILED, workers.with_checkpoint(FIRST, step, FAILED)])
    assert driven(workers)[0] == (3, 0, 0)
    assert workers.started.count(FIRST) == 7


def test_a_run_that_is_not_retryable_is_quarantined_at_once_with_its_traceback(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store, {FIRST: [NOT_RETRYABLE]})
    assert driven(workers)[0] == (2, 1, 0)
    assert workers.started.count(FIRST) == 1
    assert b"Traceback" in (store.below(FIRST).get(layout.QUARANTINE) or b"")


def test_a_lifted_quarantine_is_seen_by_a_driver_that_still_runs(store: Folder, clock: Clock) -> None:
    def lift() -> None:
        status.lift_quarantine(store.below(FIRST))

    workers = FakeWorkers(clock, store, {FIRST: [NOT_RETRYABLE], SECOND: [GOES_ON, lift, *[GOES_ON] * 70]})
    assert driven(workers)[0] == (3, 0, 0)
    assert workers.started.count(FIRST) == 2


@pytest.mark.parametrize("recorded", [False, True])
def test_a_quarantined_run_is_tried_again_once_its_bonus_was_changed_if_it_had_recorded_nothing(
    recorded: bool, store: Folder, clock: Clock
) -> None:
    old, new = (replace(STUDY, bonus_sources={"none": source}) for source in ("old", "new"))
    driven(FakeWorkers(clock, store, {FIRST: [NOT_RETRYABLE]}), old)
    assert driven(FakeWorkers(clock, store), old)[0] == (2, 1, 0)  # the same file fails the same way
    if recorded:
        store.below(FIRST).put(layout.CHECKPOINTED, b"{}")
    counts, _, log = driven(FakeWorkers(clock, store), new)
    assert counts == ((2, 1, 0) if recorded else (3, 0, 0))
    assert (f"{FIRST} {status.MENDED}" in log) == (not recorded)


def test_a_run_whose_folder_holds_another_run_is_skipped_and_its_folder_unchanged(store: Folder, clock: Clock) -> None:
    other = tiny_study(seeds=[0], settings={}).runs[0]
    leave_status(store.below(FIRST), other, "finished", 400)
    before = store.below(FIRST).list()
    workers = FakeWorkers(clock, store)
    counts, _, log = driven(workers)
    assert (counts, workers.started) == ((2, 1, 0), [SECOND, THIRD])
    assert log[0].startswith(f"{FIRST} is skipped: the folder holds another run: ")
    assert log[-1].endswith("2 done, 0 in flight, 0 waiting, 0 quarantined, 1 skipped of 3 runs")
    assert store.below(FIRST).list() == before


def test_a_finished_run_whose_bonus_or_version_changed_since_is_done_only_if_accepted(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = replace(STUDY, bonus_sources={"none": "another"})
    leave_status(store.below(FIRST), STUDY.runs[0], "finished", 400)  # whose run.json names no file
    counts, _, log = driven(FakeWorkers(clock, store), edited)
    assert counts == (2, 1, 0)
    assert any("the folder holds a run of the bonus none from before its file was changed" in line for line in log)
    assert driven(FakeWorkers(clock, store), edited, accept_version=True)[0] == (3, 0, 0)
    monkeypatch.setattr("offpiste.store.identity.RESULTS_VERSION", RESULTS_VERSION + 1)
    assert driven(FakeWorkers(clock, store), edited, accept_version=True)[0] == (3, 0, 0)


# Somebody else at work


def test_a_run_that_somebody_works_on_is_held_back_asked_for_every_half_minute_and_left_alone(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    at_work = status.at_work

    def look(folder: Folder, newest: str) -> status.AtWork | None:
        if FIRST in folder.location:
            looks.append(clock.now)
            if len(looks) == 4:
                leave_status(folder, STUDY.runs[0], "finished", 400)
        return at_work(folder, newest)

    monkeypatch.setattr(status, "at_work", look)
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100, host="there")
    workers = FakeWorkers(clock, store)
    counts, _, log = driven(workers)
    assert (counts, workers.started) == ((3, 0, 0), [SECOND, THIRD])
    assert [later - earlier for earlier, later in pairwise(looks)] == [30.0] * 3
    assert [line.rpartition(" news ")[0] for line in log if "at work" in line] == [f"{FIRST} is at work on there,"]


@pytest.mark.parametrize("seconds", [200, 400])
def test_a_run_without_news_for_five_minutes_is_resumed(seconds: float, store: Folder, clock: Clock) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100, seconds_ago=seconds)
    workers = FakeWorkers(clock, store)
    workers.script = {SECOND: [GOES_ON, workers.interrupted]}
    driven(workers)
    assert (FIRST in workers.started) == (seconds > 300)


def test_a_run_whose_process_on_this_machine_has_ended_is_resumed_at_once(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100, process=this_process())
    alive = [True]
    for module in (driver, status):
        monkeypatch.setattr(module, "has_ended", lambda process: process == this_process() and not alive[0])

    def end() -> None:
        alive[0] = False

    workers = FakeWorkers(clock, store, {SECOND: [GOES_ON, end, *[GOES_ON] * 50]}, slots=2)
    assert driven(workers, replace(STUDY, runs=STUDY.runs[:2]))[0] == (2, 0, 0)
    assert workers.started == [SECOND, FIRST]
    assert workers.started_at[1] - workers.started_at[0] < 5


def test_an_attempt_that_has_registered_and_not_yet_written_is_at_work_too(store: Folder, clock: Clock) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "paused", 100)
    begin_attempt(store.below(FIRST), {"started_at": utc_now(), "host": "there", "process": "x-1-2"})
    workers = FakeWorkers(clock, store)
    workers.script = {SECOND: [GOES_ON, workers.interrupted]}
    driven(workers)
    assert FIRST not in workers.started


def test_an_attempt_of_ours_that_died_on_another_machine_is_no_reason_to_wait(store: Folder, clock: Clock) -> None:
    def die() -> AttemptOutcome:
        begin_attempt(store.below(FIRST), {"started_at": utc_now(), "host": "there", "process": "x-1-2"})
        return LOST

    workers = FakeWorkers(clock, store, {FIRST: [die]})
    assert driven(workers)[0] == (3, 0, 0)
    assert workers.started_at[workers.started.index(FIRST, 1)] - workers.started_at[0] < 5
    assert [task.newest for task in workers.tasks if task.newest] == store.below(FIRST).list("attempts")[0].split(".")[
        :1
    ]


def test_a_superseded_run_is_left_to_the_newer_attempt_until_that_is_stale(store: Folder, clock: Clock) -> None:
    def take_over() -> AttemptOutcome:
        leave_status(store.below(FIRST), STUDY.runs[0], "running", 100)
        return AttemptOutcome("superseded", "attempt 2 has taken over")

    def vanish() -> None:
        leave_status(store.below(FIRST), STUDY.runs[0], "running", 100, seconds_ago=400)

    workers = FakeWorkers(clock, store, {FIRST: [take_over], SECOND: [*[GOES_ON] * 40, vanish, *[GOES_ON] * 60]})
    assert driven(workers, replace(STUDY, runs=STUDY.runs[:2]))[0] == (2, 0, 0)
    assert workers.started.count(FIRST) == 2
    assert workers.started_at[-1] >= 1_040


# Stopping


def test_a_signal_lets_all_runs_save_and_starts_nothing_more(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store)
    workers.script = {FIRST: [workers.interrupted], SECOND: [GOES_ON] * 9}
    counts, reason, log = driven(workers)
    assert (counts, reason, workers.started, workers.stopped) == (
        (0, 0, 3),
        "interrupted by a signal",
        [FIRST, SECOND],
        1,
    )
    assert "interrupted by a signal: 2 runs in flight save a checkpoint" in log
    assert not status.stop_requested(store, "tiny")


def test_a_request_to_stop_is_found_within_seconds_on_a_disk(store: Folder, clock: Clock) -> None:
    def request() -> None:
        status.request_stop(store, "tiny")

    workers = FakeWorkers(clock, store, {FIRST: [request, *[GOES_ON] * 50], SECOND: [GOES_ON] * 50})
    assert driven(workers)[1] == "the study was asked to stop"
    assert clock.now < 1_010
    assert status.stop_requested(store, "tiny")


def test_a_process_that_dies_while_it_is_stopped_is_no_failure(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store)
    workers.script, workers.when_stopped = {FIRST: [workers.interrupted]}, FAILED
    driven(workers)
    assert b'"failures": 0' in (store.below(FIRST).get(layout.TRIES) or b"")


def test_what_has_not_saved_after_ten_minutes_is_killed(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store)
    workers.script, workers.when_stopped = {FIRST: [workers.interrupted]}, GOES_ON
    assert driven(workers)[1] == "interrupted by a signal"
    assert 600 <= clock.now - 1_000 < 610


def test_while_the_store_refuses_the_request_to_stop_it_is_tried_again(store: Folder, clock: Clock) -> None:
    class Refused(FakeWorkers):
        def stop(self) -> None:
            self.tries = getattr(self, "tries", 0) + 1
            if self.tries < 3:
                raise StoreError("away")
            super().stop()

    workers = Refused(clock, store)
    workers.script = {FIRST: [workers.interrupted, *[GOES_ON] * 9], SECOND: [GOES_ON] * 9}
    assert driven(workers)[2].count("cannot stop yet: away") == 2


@pytest.mark.parametrize("pause", [0.0, 200.0])
def test_when_time_is_nearly_up_the_runs_save_earlier_where_checkpoints_are_slow(
    pause: float, store: Folder, clock: Clock
) -> None:
    workers = FakeWorkers(clock, store, {run_id: [GOES_ON] * 4_000 for run_id in (FIRST, SECOND, THIRD)})
    workers.longest_pause = pause
    assert driven(workers, hours=1.0)[:2] == ((0, 0, 3), "time is up")
    assert 1_000 + 3_600 - clock.now == pytest.approx(max(120.0, 3 * pause), abs=2)


def test_nothing_is_started_shortly_before_time_is_up(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store, {FIRST: [GOES_ON] * 3_300}, slots=1)
    assert driven(workers, hours=1.0)[:2] == ((1, 0, 2), "time is up")
    assert workers.started == [FIRST]


# Hung


@pytest.mark.parametrize("moves", [False, True])
def test_a_run_without_a_step_in_thirty_looks_is_killed_and_has_failed(
    moves: bool, store: Folder, clock: Clock
) -> None:
    looks = [GOES_ON] * int(LOOK_SECONDS * (HUNG_LOOKS + 5))
    workers = FakeWorkers(clock, store, {FIRST: looks}, slots=1)
    workers.steps = lambda _: int(clock.now if moves else 0)  # an evaluation makes steps, but no frames
    log = driven(workers, replace(STUDY, runs=STUDY.runs[:1]))[2]
    said = f"{FIRST} failed, next try in 15 s: it made no step in 30 looks, a minute apart"
    assert (said in log) == (not moves)
    assert workers.started.count(FIRST) == (1 if moves else 2)


def test_a_run_whose_news_the_store_refuses_is_not_taken_for_hung(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "check_writable", away)  # as Ray knows of steps by the store alone
    workers = FakeWorkers(clock, store, {FIRST: [GOES_ON] * int(LOOK_SECONDS * (HUNG_LOOKS + 5))}, slots=1)
    workers.steps = lambda _: 7
    log = driven(workers, replace(STUDY, runs=STUDY.runs[:1]))[2]
    assert f"{FIRST} makes no step, or the store takes no news of it: away" in log
    assert workers.started == [FIRST]


def test_a_machine_that_slept_for_a_day_kills_no_healthy_run(store: Folder, clock: Clock) -> None:
    def sleep() -> None:
        clock.now += 86_400

    workers = FakeWorkers(clock, store, {FIRST: [GOES_ON, sleep, *[GOES_ON] * 300]}, slots=1)
    workers.steps = lambda _: 7
    assert driven(workers, replace(STUDY, runs=STUDY.runs[:1]))[0] == (1, 0, 0)
    assert workers.started == [FIRST]


# Errors of the machine


def test_a_machine_that_cannot_train_quarantines_nothing_and_ends_the_driver(store: Folder, clock: Clock) -> None:
    study = replace(STUDY, runs=tiny_study(seeds=list(range(20)), keep="all").runs)
    workers = FakeWorkers(clock, store, {run.run_id: [NO_GPU] * 9 for run in study.runs}, slots=1)
    with pytest.raises(MachineError, match="no run could be started, and none advanced: there is no GPU"):
        driven(workers, study)
    assert len(workers.started) == MACHINE_ERRORS
    assert not any(seen.quarantined for seen in status.read_all(store, study.runs))


def test_one_bad_machine_does_not_end_a_study_that_advances_elsewhere(store: Folder, clock: Clock) -> None:
    workers = FakeWorkers(clock, store, {FIRST: [GOES_ON] * 500, SECOND: [NO_GPU] * 8}, slots=2)
    workers.store = store
    counts, _, log = driven(workers)
    assert counts == (3, 0, 0)
    assert f"{SECOND} was not started, which counts as no try: there is no GPU" in log
    assert workers.started.count(SECOND) == 9


def test_a_machine_is_told_how_long_it_has_failed_until_it_trains_again(store: Folder, clock: Clock) -> None:
    def fail() -> AttemptOutcome:
        clock.now += 10
        return NO_GPU

    workers = FakeWorkers(clock, store, {FIRST: [fail, fail, AttemptOutcome("paused", host="bad"), PAUSED]}, slots=1)
    driven(workers, replace(STUDY, runs=STUDY.runs[:1]))
    assert [task.failing.get("bad") for task in workers.tasks] == [None, 0.0, 10.0, None, None]


def test_time_that_is_up_before_any_run_advanced_is_the_error_of_the_machine_or_the_store(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> AttemptOutcome:
        clock.now += 3_500
        return NO_GPU

    with pytest.raises(MachineError):
        driven(FakeWorkers(clock, store, {FIRST: [fail]}, slots=1), hours=1.0)
    monkeypatch.setattr(status, "read_one", away)
    with pytest.raises(StoreError, match="away"):
        driven(FakeWorkers(clock, store, slots=1), hours=0.5)


# A store that fails


def away(*_: Any, **__: Any) -> Any:
    raise StoreError("away")


@pytest.mark.parametrize(("minutes", "ends"), [(50, False), (70, True)])
def test_a_store_that_fails_for_an_hour_is_an_error(
    minutes: float, ends: bool, store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_one, end = status.read_one, clock.now + 60 * minutes

    def sometimes(*arguments: Any, **named: Any) -> status.RunStatus:
        return away() if clock.now < end else read_one(*arguments, **named)

    with monkeypatch.context() as patch:
        workers = FakeWorkers(clock, store)
        found = read_one(store, STUDY.runs[0]), read_one(store, STUDY.runs[1]), read_one(store, STUDY.runs[2])
        patch.setattr(driver, "read_status", lambda *_, **__: list(found))
        patch.setattr(status, "read_one", sometimes)
        if ends:
            with pytest.raises(StoreError, match="no run has advanced for 60 minutes: away"):
                driven(workers)
        else:
            assert driven(workers)[0] == (3, 0, 0)


def test_a_store_that_is_read_but_refuses_what_is_written_for_an_hour_is_an_error(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "count_failure", away)
    monkeypatch.setattr(status, "quarantine", away)
    workers = FakeWorkers(clock, store, {run_id: [FAILED] * 1_000 for run_id in (FIRST, SECOND, THIRD)})
    with pytest.raises(StoreError, match="no run has advanced for 60 minutes: away"):
        driven(workers)
    assert clock.now < 1_000 + 3_600 + 60


def test_a_store_that_failed_once_is_no_error_while_somebody_else_advances(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, tries = status.at_work, [0]

    def look(folder: Folder, newest: str) -> status.AtWork | None:
        tries[0] += 1
        if tries[0] == 1:
            raise StoreError("away")
        leave_status(folder, STUDY.runs[0], "finished" if clock.now > 6_000 else "running", 400)
        return at_work(folder, newest)

    monkeypatch.setattr(status, "at_work", look)
    assert driven(FakeWorkers(clock, store), replace(STUDY, runs=STUDY.runs[:1]))[0] == (1, 0, 0)


def test_a_run_whose_process_has_ended_while_the_store_fails_is_asked_for_every_half_minute(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_status(store.below(FIRST), STUDY.runs[0], "running", 100, process=this_process())
    read_one, calls = status.read_one, [0]

    def once(*arguments: Any, **named: Any) -> status.RunStatus:
        calls[0] += 1
        return read_one(*arguments, **named) if calls[0] == 1 else away()

    found = [read_one(store, run) for run in STUDY.runs[:1]]
    monkeypatch.setattr(driver, "read_status", lambda *_, **__: found)
    monkeypatch.setattr(status, "read_one", once)
    monkeypatch.setattr(driver, "has_ended", lambda _: True)
    workers = FakeWorkers(clock, store)
    with pytest.raises(StoreError):
        driven(workers, replace(STUDY, runs=STUDY.runs[:1]))
    assert calls[0] <= 3_600 / 30 + 3


def test_a_store_that_refuses_the_first_look_is_an_error_at_once(
    store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AccessDenied("no")

    monkeypatch.setattr(Marks, "done", refuse)
    with pytest.raises(AccessDenied, match="no"):
        driven(FakeWorkers(clock, store))


@pytest.mark.parametrize(("function", "outcome"), [("quarantine", NOT_RETRYABLE), ("count_failure", FAILED)])
def test_while_the_store_is_away_nothing_is_quarantined(
    function: str, outcome: AttemptOutcome, store: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status if function == "quarantine" else driver, function, away)
    workers = FakeWorkers(clock, store, {FIRST: [outcome, outcome, DONE]})
    counts, _, log = driven(workers)
    assert counts == (3, 0, 0)
    assert any(line.startswith(f"{FIRST} failed (") and line.endswith(": away") for line in log)


# Whatever happens


@settings(max_examples=30)
@given(st.data())
def test_whatever_the_attempts_do_each_run_ends_in_one_place_and_failures_end_only_their_run(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    now = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("offpiste.study.driver.time.monotonic", now)
        store = Folder(tmp_path_factory.mktemp("store"))
        step = st.sampled_from([PAUSED, LOST, FAILED, NOT_RETRYABLE, AttemptOutcome("superseded"), GOES_ON, DONE])
        script = {run.run_id: data.draw(st.lists(step, max_size=12)) for run in STUDY.runs}
        fails = {name: _is_quarantined(list(steps)) for name, steps in script.items()}
        workers = FakeWorkers(now, store, script, slots=data.draw(st.integers(1, 3)))
        counts, reason, _ = driven(workers)
        assert reason == "nothing is left"
        assert counts == (3 - sum(fails.values()), sum(fails.values()), 0)
        assert Marks(store, STUDY).done().keys() == {name for name, failed in fails.items() if not failed}


def _is_quarantined(steps: list[AttemptOutcome | None]) -> bool:
    """Return whether a run with these outcomes ends in quarantine, by the table: no attempt makes a checkpoint."""
    attempts = [step for step in steps if step is not None]
    failures = 0
    for number, outcome in enumerate(attempts, start=1):
        failures += outcome == FAILED
        if outcome == NOT_RETRYABLE or failures == 3 or number > 10:
            return True
        if outcome == DONE:
            return False
    return len(attempts) >= 10
