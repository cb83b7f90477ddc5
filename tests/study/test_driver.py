"""The driver finishes or quarantines every run, whatever happens to its attempts; the workers are scripted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RESULTS_VERSION, RunConfig
from offpiste.errors import StoreError
from offpiste.store import layout
from offpiste.store.storage import Folder
from offpiste.study import driver, status
from offpiste.study.attempt import Outcome
from offpiste.study.driver import StudySummary, drive
from offpiste.study.marks import Marks
from offpiste.study.plan import Study
from tests.study.small import leave_status, tiny_study

DONE, PAUSED, LOST = Outcome("finished"), Outcome("paused"), Outcome("lost", "its machine is gone")
FAILED = Outcome("failed", "ValueError: no", "Traceback\nValueError: no")
NOT_RETRYABLE = Outcome("not_retryable", "NotFinite: nan", "Traceback\nNotFinite: nan")


class ScriptedWorkers:
    """Workers whose attempts end in the order submitted, with the outcomes of a script, or else finished."""

    def __init__(self, store: Folder, script: dict[str, list[Any]] | None = None, slots: int = 2) -> None:
        self._store = store
        self._script = script or {}
        self._slots = slots
        self._in_flight: list[str] = []
        self.started: list[str] = []
        self.max_in_flight = 0

    def slots(self) -> int:
        return self._slots

    def start(self, run: RunConfig) -> None:
        assert run.run_id not in self._in_flight
        self._in_flight.append(run.run_id)
        self.started.append(run.run_id)
        self.max_in_flight = max(self.max_in_flight, len(self._in_flight))

    def wait(self, _: float) -> list[tuple[str, Outcome]]:
        run_id = self._in_flight.pop(0)
        steps = self._script.get(run_id, [])
        step = steps.pop(0) if steps else DONE
        return [(run_id, step if isinstance(step, Outcome) else step())]

    def with_checkpoint(self, run_id: str, step: int, outcome: Outcome) -> Callable[[], Outcome]:
        def act() -> Outcome:
            self._store.below(run_id).put(f"manifests/{step:012d}-1.json", b"{}")
            return outcome

        return act


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A simulated clock, which sleeping advances."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("offpiste.study.driver.time.sleep", sleep)
    monkeypatch.setattr("offpiste.study.driver.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def driven(
    study: Study,
    store: Folder,
    workers: ScriptedWorkers,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> tuple[StudySummary, list[str]]:
    """Return the summary of a study, and the lines logged."""
    log: list[str] = []
    return drive(study, store, workers, log.append, should_stop, **options), log


def test_without_failures_every_run_is_started_once(store: Folder) -> None:
    study = tiny_study(seeds=list(range(10)))
    workers = ScriptedWorkers(store)
    summary, _ = driven(study, store, workers)
    assert summary == StudySummary(done=10, failed=0, unfinished=0)
    assert workers.started == [run.run_id for run in study.runs]


@pytest.mark.parametrize(("slots", "max_in_flight"), [(0, 1), (1, 2), (3, 6), (100, 10)])
def test_two_attempts_per_slot_are_in_flight(slots: int, max_in_flight: int, store: Folder) -> None:
    workers = ScriptedWorkers(store, slots=slots)
    driven(tiny_study(seeds=list(range(10))), store, workers)
    assert workers.max_in_flight == max_in_flight


def test_a_resumed_study_skips_runs_that_are_done_and_starts_with_those_in_progress(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1, 2, 3], keep="all")
    runs = study.runs
    leave_status(store.below(runs[0].run_id), runs[0], "finished", 400)
    leave_status(store.below(runs[2].run_id), runs[2], "paused", 200)
    leave_status(store.below(runs[3].run_id), runs[3], "running", 200, seconds_ago=1)
    workers = ScriptedWorkers(store)
    summary, _ = driven(study, store, workers)
    assert workers.started == [runs[2].run_id, runs[3].run_id, runs[1].run_id]
    assert summary == StudySummary(4, 0, 0)


def test_a_finished_run_with_its_replay_is_submitted_again_to_drop_it(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1], keep="results")
    for run in study.runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
    store.below(study.runs[0].run_id).put(layout.RESULTS, b"{}")
    workers = ScriptedWorkers(store)
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started == [study.runs[1].run_id]


def test_a_study_with_more_or_fewer_seeds_leaves_finished_runs_as_they_are(store: Folder) -> None:
    small = tiny_study(seeds=[0, 1], keep="all")
    for run in small.runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
    before = {name: store.get(f"{run.run_id}/{name}") for run in small.runs for name in ("status.json", "run.json")}
    workers = ScriptedWorkers(store)
    assert driven(tiny_study(seeds=[1, 2], keep="all"), store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started == ["freeway/epsilon_greedy/seed-2"]
    assert before == {
        name: store.get(f"{run.run_id}/{name}") for run in small.runs for name in ("status.json", "run.json")
    }


def test_lost_machines_and_stopped_workers_are_no_failures_of_a_run(store: Folder) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id
    workers = ScriptedWorkers(store, {name: [LOST, PAUSED] * 10})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert workers.started == [name] * 21


def test_the_third_failure_without_a_new_checkpoint_quarantines_a_run_and_the_others_continue(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1, 2])
    name = study.runs[1].run_id
    workers = ScriptedWorkers(store, {name: [FAILED] * 9})
    summary, log = driven(study, store, workers)
    assert summary == StudySummary(done=2, failed=1, unfinished=0)
    assert workers.started.count(name) == 3
    assert f"{name} is quarantined: ValueError: no" in log
    assert log[-1] == "2 done, 0 in flight, 0 waiting, 1 quarantined of 3 runs"
    (seen,) = status.read_all(store, study.runs[1:2])
    assert (seen.state, seen.note) == ("failed", "ValueError: no")
    again = ScriptedWorkers(store)
    summary, log = driven(study, store, again)
    assert summary == StudySummary(2, 1, 0)
    assert log[0] == f"{name} is quarantined: ValueError: no"
    assert name not in again.started


def test_the_delay_between_retries_grows(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=[0])
    started: list[float] = []

    class Timed(ScriptedWorkers):
        def start(self, run: RunConfig) -> None:
            started.append(clock[0])
            super().start(run)

    driven(study, store, Timed(store, {study.runs[0].run_id: [FAILED] * 3}))
    assert [later - earlier for earlier, later in pairwise(started)] == [15.0, 60.0]


def test_a_new_checkpoint_resets_the_count_of_failures(store: Folder) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id
    workers = ScriptedWorkers(store)
    workers._script[name] = [
        FAILED,
        FAILED,
        workers.with_checkpoint(name, 10, FAILED),
        FAILED,
        FAILED,
        workers.with_checkpoint(name, 20, FAILED),
    ]
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert workers.started == [name] * 7


def test_a_run_that_is_not_retryable_is_quarantined_at_once(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    name = study.runs[0].run_id
    workers = ScriptedWorkers(store, {name: [NOT_RETRYABLE]})
    assert driven(study, store, workers)[0] == StudySummary(1, 1, 0)
    assert workers.started.count(name) == 1
    written = store.below(name).get(layout.QUARANTINE)
    assert written is not None
    assert b"Traceback" in written


def test_once_its_quarantine_is_lifted_a_run_is_tried_again_by_the_same_driver(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    first, second = (run.run_id for run in study.runs)

    def lift_the_first() -> Outcome:
        assert status.lift_quarantine(store.below(first))
        return FAILED  # which gives the driver time to poll

    workers = ScriptedWorkers(store, {first: [NOT_RETRYABLE], second: [lift_the_first]})
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(first) == 2


def test_a_run_whose_folder_holds_another_run_is_skipped_and_its_folder_unchanged(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    other = tiny_study(seeds=[0], settings={}).runs[0]
    leave_status(store.below(other.run_id), other, "finished", 400)
    workers = ScriptedWorkers(store)
    summary, log = driven(study, store, workers)
    assert summary == StudySummary(1, 1, 0)
    assert workers.started == [study.runs[1].run_id]
    assert log[0].startswith(f"{other.run_id} is skipped: the folder holds another run: ")
    assert log[-1] == "1 done, 0 in flight, 0 waiting, 0 quarantined, 1 skipped of 2 runs"
    assert store.below(other.run_id).list() == ["run.json", "status.json"]


def test_a_finished_run_whose_bonus_was_edited_since_is_not_done(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    edited = replace(study, bonus_sources={"none": "another"})
    first, second = study.runs
    leave_status(store.below(first.run_id), first, "finished", 400)  # whose run.json names no file
    workers = ScriptedWorkers(store)
    summary, log = driven(edited, store, workers)
    assert (summary, workers.started) == (StudySummary(1, 1, 0), [second.run_id])
    assert any("the folder holds a run of the bonus none from before its file was changed" in line for line in log)
    assert driven(replace(study, bonus_sources={"none": None}), store, ScriptedWorkers(store))[0] == StudySummary(
        2, 0, 0
    )
    accepted = driven(edited, store, ScriptedWorkers(store), accept_version=True)
    assert accepted[0] == StudySummary(2, 0, 0)


def test_while_the_store_is_unreachable_nothing_is_quarantined(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id

    def refuse(*_: Any) -> None:
        raise StoreError("cannot write: away")

    monkeypatch.setattr(status, "quarantine", refuse)
    workers = ScriptedWorkers(store, {name: [FAILED, FAILED, FAILED, FAILED, DONE]})
    summary, log = driven(study, store, workers)
    assert summary == StudySummary(1, 0, 0)
    assert f"{name} failed (ValueError: no) and could not be quarantined: cannot write: away" in log


def test_a_run_that_another_driver_took_over_is_left_to_it(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=[0, 1], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100)

    def finish_elsewhere() -> Outcome:
        leave_status(store.below(taken.run_id), taken, "finished", 400)
        return FAILED

    workers = ScriptedWorkers(
        store, {taken.run_id: [Outcome("superseded")], study.runs[1].run_id: [PAUSED, finish_elsewhere]}
    )
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(taken.run_id) == 1


def test_a_run_of_an_accepted_version_that_another_driver_took_over_is_left_to_it(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny_study(seeds=[0, 1], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100)
    monkeypatch.setattr("offpiste.store.run_folder.RESULTS_VERSION", RESULTS_VERSION + 1)

    def finish_elsewhere() -> Outcome:
        leave_status(store.below(taken.run_id), taken, "finished", 400)
        return FAILED

    workers = ScriptedWorkers(
        store, {taken.run_id: [Outcome("superseded")], study.runs[1].run_id: [PAUSED, finish_elsewhere]}
    )
    assert driven(study, store, workers, accept_version=True)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(taken.run_id) == 1


def test_while_the_store_is_unreachable_a_superseded_run_waits(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny_study(seeds=[0], keep="all")
    taken = study.runs[0]
    read_one = status.read_one
    away = [2]

    def sometimes(*arguments: Any, **named: Any) -> status.RunStatus:
        if workers.started and away[0]:
            away[0] -= 1
            raise StoreError("away")
        return read_one(*arguments, **named)

    monkeypatch.setattr("offpiste.study.status.read_one", sometimes)
    leave_status(store.below(taken.run_id), taken, "running", 100, seconds_ago=400)
    workers = ScriptedWorkers(store, {taken.run_id: [Outcome("superseded")]})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert away == [0]


def test_a_superseded_run_resumes_once_the_other_attempt_is_stale(store: Folder) -> None:
    study = tiny_study(seeds=[0], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100, seconds_ago=400)
    workers = ScriptedWorkers(store, {taken.run_id: [Outcome("superseded")]})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert workers.started == [taken.run_id] * 2


def test_when_stopped_the_driver_waits_for_runs_in_flight_and_starts_no_more(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=list(range(10)))
    stop = [False]

    def request_stop() -> Outcome:
        stop[0] = True
        clock[0] += driver.POLL_SECONDS
        return PAUSED

    names = [run.run_id for run in study.runs]
    workers = ScriptedWorkers(
        store, {names[0]: [request_stop], names[1]: [PAUSED], names[2]: [DONE], names[3]: [PAUSED]}
    )
    summary, log = driven(study, store, workers, lambda: stop[0])
    assert workers.started == names[:4]
    assert summary == StudySummary(done=1, failed=0, unfinished=9)
    assert "stopping: waiting for 3 runs in flight, which save a checkpoint" in log


def test_the_driver_marks_what_it_finds_and_what_it_finishes_or_quarantines(store: Folder) -> None:
    study = replace(tiny_study(seeds=[0, 1, 2], keep="all"), bonus_sources={"none": None})
    before, finished, broken = study.runs
    leave_status(store.below(before.run_id), before, "finished", 400)
    driven(study, store, ScriptedWorkers(store, {broken.run_id: [NOT_RETRYABLE]}))
    marks = Marks(store, study)
    assert marks.marked_done() == {before.run_id, finished.run_id}
    assert marks.is_quarantined(broken.run_id, marks.read())
    again = ScriptedWorkers(store)
    assert driven(study, store, again)[0] == StudySummary(2, 1, 0)
    assert again.started == []
