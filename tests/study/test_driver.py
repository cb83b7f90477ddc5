"""The driver sees every run through, whatever happens to its attempts; workers are played by the test."""

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
from offpiste.study.driver import Outcome, StudySummary, drive
from offpiste.study.plan import Study
from tests.study.small import leave_status, tiny_study

DONE, PAUSED, LOST = Outcome("finished"), Outcome("paused"), Outcome("lost", "its machine is gone")
FAILED = Outcome("failed", "ValueError: no", "Traceback\nValueError: no")
NOT_RETRYABLE = Outcome("hopeless", "NotFinite: nan", "Traceback\nNotFinite: nan")


class Played:
    """Workers whose attempts end as the test says, in the order handed in; one that is not told of is done."""

    def __init__(self, store: Folder, script: dict[str, list[Any]] | None = None, slots: int = 2) -> None:
        self._store = store
        self._script = script or {}
        self._slots = slots
        self._under_way: list[str] = []
        self.started: list[str] = []
        self.most = 0

    def slots(self) -> int:
        return self._slots

    def start(self, run: RunConfig) -> None:
        assert run.run_id not in self._under_way
        self._under_way.append(run.run_id)
        self.started.append(run.run_id)
        self.most = max(self.most, len(self._under_way))

    def wait(self, _: float) -> list[tuple[str, Outcome]]:
        run_id = self._under_way.pop(0)
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
    """Let waiting take no time."""
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
    study: Study, store: Folder, workers: Played, stopping: Callable[[], bool] = lambda: False, **options: Any
) -> tuple[StudySummary, list[str]]:
    said: list[str] = []
    return drive(study, store, workers, said.append, stopping, **options), said


def test_every_run_is_started_once_when_nothing_goes_wrong(store: Folder) -> None:
    study = tiny_study(seeds=list(range(10)))
    workers = Played(store)
    summary, _ = driven(study, store, workers)
    assert summary == StudySummary(done=10, failed=0, left=0)
    assert workers.started == [run.run_id for run in study.runs]


@pytest.mark.parametrize(("slots", "most"), [(0, 1), (1, 2), (3, 6), (100, 10)])
def test_twice_as_many_are_handed_in_as_fit_at_once(slots: int, most: int, store: Folder) -> None:
    workers = Played(store, slots=slots)
    driven(tiny_study(seeds=list(range(10))), store, workers)
    assert workers.most == most


def test_asking_again_skips_what_is_done_and_begins_with_what_was_begun(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1, 2, 3], keep="all")
    runs = study.runs
    leave_status(store.below(runs[0].run_id), runs[0], "finished", 400)
    leave_status(store.below(runs[2].run_id), runs[2], "paused", 200)
    leave_status(store.below(runs[3].run_id), runs[3], "running", 200, seconds_ago=1)
    workers = Played(store)
    summary, _ = driven(study, store, workers)
    assert workers.started == [runs[2].run_id, runs[3].run_id, runs[1].run_id]
    assert summary == StudySummary(4, 0, 0)


def test_a_finished_run_whose_replay_is_still_there_is_tidied_up(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1], keep="results")
    for run in study.runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
    store.below(study.runs[0].run_id).put(layout.RESULTS, b"{}")
    workers = Played(store)
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started == [study.runs[1].run_id]


def test_a_study_that_grows_or_shrinks_leaves_finished_runs_alone(store: Folder) -> None:
    small = tiny_study(seeds=[0, 1], keep="all")
    for run in small.runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
    before = {name: store.get(f"{run.run_id}/{name}") for run in small.runs for name in ("status.json", "run.json")}
    workers = Played(store)
    assert driven(tiny_study(seeds=[1, 2], keep="all"), store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started == ["freeway/epsilon_greedy/seed-2"]
    assert before == {
        name: store.get(f"{run.run_id}/{name}") for run in small.runs for name in ("status.json", "run.json")
    }


def test_lost_machines_and_told_workers_never_count_against_a_run(store: Folder) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id
    workers = Played(store, {name: [LOST, PAUSED] * 10})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert workers.started == [name] * 21


def test_the_third_failure_without_a_new_checkpoint_sets_a_run_aside_and_the_rest_goes_on(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1, 2])
    name = study.runs[1].run_id
    workers = Played(store, {name: [FAILED] * 9})
    summary, said = driven(study, store, workers)
    assert summary == StudySummary(done=2, failed=1, left=0)
    assert workers.started.count(name) == 3
    assert f"{name} is set aside: ValueError: no" in said
    (seen,) = status.read_all(store, study.runs[1:2])
    assert (seen.state, seen.note) == ("failed", "ValueError: no")
    again = Played(store)
    assert driven(study, store, again)[0] == StudySummary(2, 1, 0)
    assert name not in again.started


def test_between_failures_the_driver_waits_longer_and_longer(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=[0])
    started: list[float] = []

    class Timed(Played):
        def start(self, run: RunConfig) -> None:
            started.append(clock[0])
            super().start(run)

    driven(study, store, Timed(store, {study.runs[0].run_id: [FAILED] * 3}))
    assert [later - earlier for earlier, later in pairwise(started)] == [15.0, 60.0]


def test_a_failure_after_a_new_checkpoint_starts_the_count_anew(store: Folder) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id
    workers = Played(store)
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


def test_what_cannot_be_helped_is_set_aside_at_once(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    name = study.runs[0].run_id
    workers = Played(store, {name: [NOT_RETRYABLE]})
    assert driven(study, store, workers)[0] == StudySummary(1, 1, 0)
    assert workers.started.count(name) == 1
    written = store.below(name).get(layout.QUARANTINE)
    assert written is not None
    assert b"Traceback" in written


def test_a_run_that_is_let_go_is_tried_again_by_the_same_driver(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    first, second = (run.run_id for run in study.runs)

    def lift_the_first() -> Outcome:
        assert status.lift(store.below(first))
        return FAILED  # and so there is time to look again

    workers = Played(store, {first: [NOT_RETRYABLE], second: [lift_the_first]})
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(first) == 2


def test_a_folder_with_another_run_in_it_is_left_out_and_untouched(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    other = tiny_study(seeds=[0], settings={}).runs[0]
    leave_status(store.below(other.run_id), other, "finished", 400)
    workers = Played(store)
    summary, said = driven(study, store, workers)
    assert summary == StudySummary(1, 1, 0)
    assert workers.started == [study.runs[1].run_id]
    assert any("the folder holds another run" in line for line in said)
    assert store.below(other.run_id).list() == ["run.json", "status.json"]


def test_a_finished_run_of_a_bonus_that_was_edited_since_is_not_done(store: Folder) -> None:
    study = tiny_study(seeds=[0, 1])
    edited = replace(study, bonus_sources={"none": "another"})
    first, second = study.runs
    leave_status(store.below(first.run_id), first, "finished", 400)  # whose run.json names no file
    workers = Played(store)
    summary, said = driven(edited, store, workers)
    assert (summary, workers.started) == (StudySummary(1, 1, 0), [second.run_id])
    assert any("the folder holds a run of the bonus none from before its file was changed" in line for line in said)
    assert driven(replace(study, bonus_sources={"none": None}), store, Played(store))[0] == StudySummary(2, 0, 0)
    accepted = driven(edited, store, Played(store), accept_version=True)
    assert accepted[0] == StudySummary(2, 0, 0)


def test_when_the_store_is_away_nothing_is_set_aside(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny_study(seeds=[0])
    name = study.runs[0].run_id

    def refuse(*_: Any) -> None:
        raise StoreError("cannot write: away")

    monkeypatch.setattr(status, "quarantine", refuse)
    workers = Played(store, {name: [FAILED, FAILED, FAILED, FAILED, DONE]})
    summary, said = driven(study, store, workers)
    assert summary == StudySummary(1, 0, 0)
    assert any("that could not be noted: cannot write: away" in line for line in said)


def test_a_run_in_other_hands_is_not_fought_over(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=[0, 1], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100)

    def finish_elsewhere() -> Outcome:
        leave_status(store.below(taken.run_id), taken, "finished", 400)
        return FAILED

    workers = Played(store, {taken.run_id: [Outcome("superseded")], study.runs[1].run_id: [PAUSED, finish_elsewhere]})
    assert driven(study, store, workers)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(taken.run_id) == 1


def test_a_run_in_other_hands_is_not_fought_over_where_its_version_was_accepted(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny_study(seeds=[0, 1], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100)
    monkeypatch.setattr("offpiste.store.run_folder.RESULTS_VERSION", RESULTS_VERSION + 1)

    def finish_elsewhere() -> Outcome:
        leave_status(store.below(taken.run_id), taken, "finished", 400)
        return FAILED

    workers = Played(store, {taken.run_id: [Outcome("superseded")], study.runs[1].run_id: [PAUSED, finish_elsewhere]})
    assert driven(study, store, workers, accept_version=True)[0] == StudySummary(2, 0, 0)
    assert workers.started.count(taken.run_id) == 1


def test_a_store_that_is_away_while_a_run_is_in_other_hands_is_waited_for(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    workers = Played(store, {taken.run_id: [Outcome("superseded")]})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert away == [0]


def test_a_run_that_other_hands_let_go_of_is_taken_up_again(store: Folder) -> None:
    study = tiny_study(seeds=[0], keep="all")
    taken = study.runs[0]
    leave_status(store.below(taken.run_id), taken, "running", 100, seconds_ago=400)
    workers = Played(store, {taken.run_id: [Outcome("superseded")]})
    assert driven(study, store, workers)[0] == StudySummary(1, 0, 0)
    assert workers.started == [taken.run_id] * 2


def test_told_to_stop_it_waits_for_what_is_under_way_and_starts_nothing_more(store: Folder, clock: list[float]) -> None:
    study = tiny_study(seeds=list(range(10)))
    stop = [False]

    def tell_to_stop() -> Outcome:
        stop[0] = True
        clock[0] += driver.POLL_SECONDS
        return PAUSED

    names = [run.run_id for run in study.runs]
    workers = Played(store, {names[0]: [tell_to_stop], names[1]: [PAUSED], names[2]: [DONE], names[3]: [PAUSED]})
    summary, said = driven(study, store, workers, lambda: stop[0])
    assert workers.started == names[:4]
    assert summary == StudySummary(done=1, failed=0, left=9)
    assert "told to stop: 3 runs save what they have" in said
