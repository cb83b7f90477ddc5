"""A task reports how its attempt ended, and what is wrong with a machine is no failure of the run."""

import errno
import json
import signal
import socket
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import CheckpointError, ConfigError, MachineError, NotFinite, StoreError, Superseded
from offpiste.parsing import to_dict
from offpiste.rows import utc_now
from offpiste.run import train as train_module
from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store import layout
from offpiste.store.attempts import begin_attempt
from offpiste.store.storage import Folder
from offpiste.study import status, task
from offpiste.study.task import AttemptOutcome, Task, attempt_of_study, every, perform
from offpiste.study.tries import count_attempt, note_start
from tests.study.small import leave_status, tiny_study

RUN = tiny_study().runs[0]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MIN_PAUSE_SECONDS", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "store")
    status.put_file(folder, "tiny", b"")
    return folder


def performed(store: Folder, reason: Any = lambda: "", **more: Any) -> AttemptOutcome:
    wanted = Task(to_dict(RUN), store.location, "tiny", "all")
    return perform(replace(wanted, **more), reason, lambda _: None)


def test_a_task_is_json() -> None:
    wanted = Task(to_dict(RUN), "s3://b/x", "tiny", "all", failing={"host": 3.0})
    assert Task(**json.loads(json.dumps(asdict(wanted)))) == wanted


def test_a_run_is_trained_to_the_end_and_only_its_results_kept_where_the_study_says_so(store: Folder) -> None:
    assert performed(store, keep="results").state == "finished"
    (seen,) = status.read_all(store, [RUN])
    assert (seen.state, seen.only_results) == ("done", True)
    store.below(RUN.run_id).delete(layout.RESULTS)
    assert performed(store, keep="results").state == "finished"  # without training again
    assert len(store.below(RUN.run_id).list("attempts")) == 1
    assert status.read_all(store, [RUN])[0].only_results


def test_a_run_that_is_stopped_is_paused_and_resumed_exactly(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_module, "PROGRESS_SECONDS", 0.0)
    answers = iter(["", "", "enough"])
    found = performed(store, lambda: next(answers))
    assert (found.state, found.error) == ("paused", "enough")
    assert found.host
    assert performed(store).state == "finished"
    train(RUN, Folder(store.location + "-alone"))
    assert digest(store.below(RUN.run_id)) == digest(Folder(store.location + "-alone"))


def test_a_run_asks_no_more_once_it_has_a_reason_to_stop(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    monkeypatch.setattr(train_module, "PROGRESS_SECONDS", 0.0)
    answers = iter(["enough"])
    assert performed(store, lambda: next(answers)).state == "finished"
    assert (raised, list(answers)) == ([signal.SIGTERM], [])


def test_a_question_is_asked_no_more_often_than_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = [0.0], iter(["a", "b"])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    asked = every(10.0, lambda: next(answers))
    found = [asked(), asked()]
    now[0] = 10.0
    assert [*found, asked(), asked()] == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ConfigError("no such thing"), "not_retryable"),
        (NotFinite("nan"), "not_retryable"),
        (CheckpointError("broken"), "not_retryable"),
        (Superseded("newer"), "superseded"),
        (StoreError("away"), "failed"),
        (MemoryError("full"), "failed"),
        (ValueError("bug"), "failed"),
        (MachineError("no GPU"), "machine"),
        (OSError(errno.ENOSPC, "full"), "machine"),
        (OSError(errno.EMFILE, "too many open files"), "machine"),
        (OSError(errno.EIO, "broken"), "failed"),
    ],
)
def test_the_kind_of_an_error_decides_whose_it_is_and_whether_the_run_is_tried_again(
    error: Exception, state: str, store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(train_module, "train", fail)
    found = performed(store)
    assert found.state == state
    assert str(error) in found.error
    assert ("Traceback" in found.details) == (state != "superseded")


def test_a_run_with_an_unknown_setting_is_not_retryable(store: Folder) -> None:
    found = performed(store, settings=to_dict(RUN) | {"sed": 1})
    assert (found.state, found.error) == (
        "not_retryable",
        "ConfigError: no setting named 'sed'; did you mean 'seed'?",
    )


def test_a_missing_device_is_an_error_of_the_machine_and_counts_as_no_try(store: Folder) -> None:
    on_gpu = replace(RUN, machine=replace(RUN.machine, device="cuda:99"))
    found = performed(store, settings=to_dict(on_gpu))
    assert found.state == "machine"
    assert "machine.device must be cpu or one of" in found.error
    assert count_attempt(store.below(RUN.run_id)).attempts == 1  # the first that is counted


def test_a_bonus_that_cannot_be_imported_here_or_has_another_file_here_is_an_error_of_the_machine(
    store: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = replace(RUN, bonus=replace(RUN.bonus, name="only_there:Mine"))
    found = performed(store, settings=to_dict(mine))
    assert found.state == "machine"
    assert "cannot load what the run needs: cannot load the bonus" in found.error
    (tmp_path / "only_here.py").write_text("from offpiste.bonuses.oracle import Oracle as Mine\n")
    mine = replace(RUN, bonus=replace(RUN.bonus, name="only_here:Mine"))
    found = performed(store, settings=to_dict(mine), bonus_source="0" * 64)
    assert found.state == "machine"
    assert "is not the one with which the study was started; stop the study, and start it anew" in found.error
    assert count_attempt(store.below(RUN.run_id)).attempts == 1  # the first that is counted


def test_a_machine_that_does_not_share_the_store_trains_nothing(tmp_path: Path) -> None:
    found = performed(Folder(tmp_path / "elsewhere"))
    assert found.state == "machine"
    assert "does not see the study tiny in" in found.error
    assert not (tmp_path / "elsewhere").exists()


def test_a_machine_that_cannot_train_waits_as_long_as_it_has_failed_unless_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(task, "MIN_PAUSE_SECONDS", 5.0)
    pauses = []
    for seconds in (0.0, 40.0, 10_000.0):
        slept.clear()
        performed(Folder(tmp_path / "elsewhere"), failing={socket.gethostname(): seconds, "another": 1_000.0})
        pauses.append(round(sum(slept)))
    assert pauses == [5, 40, 600]
    slept.clear()
    performed(Folder(tmp_path / "elsewhere"), lambda: "stop")
    assert not slept


def test_every_start_is_counted_and_the_eleventh_without_a_checkpoint_is_refused(store: Folder) -> None:
    folder = store.below(RUN.run_id)
    for _ in range(10):
        count_attempt(folder)
    found = performed(store)
    assert (found.state, found.error) == ("not_retryable", "10 attempts made no checkpoint")
    assert folder.list() == [layout.TRIES]


def test_a_queued_task_whose_run_somebody_took_up_meanwhile_leaves_it_alone(store: Folder) -> None:
    folder = store.below(RUN.run_id)
    leave_status(folder, RUN, "paused", 0)
    theirs = begin_attempt(folder, {"started_at": utc_now(), "host": "there", "process": "x-1-2"})
    found = performed(store)
    assert found.state == "superseded"
    assert "is at work on there, news " in found.error
    assert performed(store, newest=theirs).state == "finished"  # the driver knows that it has ended


def test_a_run_is_taken_while_a_process_prepares_it_and_free_once_that_has_ended(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.below(RUN.run_id)
    leave_status(folder, RUN, "paused", 100, seconds_ago=10)
    assert status.at_work(folder, "") is None
    note_start(folder)
    assert status.at_work(folder, "") is not None
    with monkeypatch.context() as patch:
        patch.setattr(status, "has_ended", lambda _: True)
        assert status.at_work(folder, "") is None
    leave_status(folder, RUN, "paused", 100, seconds_ago=-2)
    assert status.at_work(folder, "") is None


def test_a_finished_attempt_of_a_study_says_so(tmp_path: Path) -> None:
    assert attempt_of_study(RUN, Folder(tmp_path), "all", lambda _: None) == AttemptOutcome("finished")
