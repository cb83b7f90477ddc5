"""The status of a study follows from its run folders, on a disk and on S3."""

import json
from dataclasses import replace

import pytest

from offpiste.config import RESULTS_VERSION
from offpiste.rows import utc_now
from offpiste.store import layout
from offpiste.store.documents import signed
from offpiste.store.identity import about
from offpiste.store.storage import Folder
from offpiste.study import status
from tests.study.small import leave_status, tiny_study

STUDY = tiny_study(seeds=[0, 1, 2, 3, 4, 5, 6])


def states(folder: Folder) -> list[str]:
    return [seen.state for seen in status.read_all(folder, STUDY.runs)]


def test_every_state_is_read_from_the_folder(folder: Folder) -> None:
    runs = STUDY.runs
    leave_status(folder.below(runs[0].run_id), runs[0], "finished", 400)
    leave_status(folder.below(runs[1].run_id), runs[1], "running", 200, steps_per_second=5.0, seconds_left=10.0)
    leave_status(folder.below(runs[2].run_id), runs[2], "running", 200, seconds_ago=301, steps_per_second=5.0)
    leave_status(folder.below(runs[3].run_id), runs[3], "paused", 100, seconds_ago=10**6)
    leave_status(folder.below(runs[4].run_id), runs[4], "failed", 100, note="the store was away")
    status.quarantine(folder.below(runs[5].run_id), "ValueError: no", "Traceback\nValueError: no")
    assert states(folder) == ["done", "running", "stale", "waiting", "waiting", "failed", "waiting"]
    found = status.read_all(folder, runs)
    assert [seen.run_id for seen in found] == [run.run_id for run in runs]
    assert (found[1].steps_per_second, found[1].seconds_left, found[1].frames) == (5.0, 10.0, 200)
    assert found[2].steps_per_second is None
    assert found[2].seconds_since_news is not None
    assert found[2].seconds_since_news >= 301
    assert (found[4].note, found[4].quarantined) == ("the store was away", False)
    assert (found[5].note, found[5].quarantined) == ("ValueError: no", True)
    assert found[6].seconds_since_news is None
    assert {seen.target_frames for seen in found} == {400}


def test_a_finished_run_is_waiting_if_it_needs_more_frames(tmp_path: str) -> None:
    store = Folder(tmp_path)
    run = STUDY.runs[0]
    leave_status(store.below(run.run_id), run, "finished", 400)
    (longer,) = status.read_all(store, [replace(run, frames=404)])
    assert (longer.state, longer.frames) == ("waiting", 400)
    (rounded,) = status.read_all(store, [replace(run, frames=403)])  # no whole step is missing
    assert rounded.state == "done"
    store.below(run.run_id).put(layout.RESULTS, b"{}")
    (stuck,) = status.read_all(store, [replace(run, frames=404)])
    assert stuck.state == "failed"
    assert "only the results at 400 frames were kept: it cannot resume" in stuck.note


def test_a_run_whose_folder_holds_other_settings_is_failed_but_not_quarantined(tmp_path: str) -> None:
    store = Folder(tmp_path)
    run = STUDY.runs[0]
    leave_status(store.below(run.run_id), run, "finished", 400)
    wanted = replace(run, agent=replace(run.agent, discount=0.5))
    (seen,) = status.read_all(store, [wanted])
    assert (seen.state, seen.quarantined) == ("failed", False)
    other = "another run: agent.discount is 0.99 there and 0.5 here"
    assert seen.note == f"the folder holds {other}; `offpiste study discard` deletes it"


@pytest.mark.parametrize(
    ("state", "seconds_ago", "asked"),
    [
        ("running", 10, ["status.json"]),
        ("running", 400, ["status.json", "a list", "run.json"]),
        ("paused", 10, ["status.json", "a list", "run.json"]),
    ],
)
def test_of_a_run_under_way_the_status_is_all_that_is_read(
    state: str, seconds_ago: float, asked: list[str], tmp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = Folder(tmp_path), STUDY.runs[0]
    leave_status(store.below(run.run_id), run, state, 100, seconds_ago=seconds_ago)
    get, listed = Folder.get, Folder.list
    found: list[str] = []

    def noted_get(folder: Folder, name: str, max_bytes: int | None = None) -> bytes | None:
        found.append(name)
        return get(folder, name, max_bytes)

    def noted_list(folder: Folder, prefix: str = "") -> list[str]:
        found.append("a list")
        return listed(folder, prefix)

    monkeypatch.setattr(Folder, "get", noted_get)
    monkeypatch.setattr(Folder, "list", noted_list)
    (seen,) = status.read_all(store, [run])
    assert found == asked
    assert seen == replace(status.read_one(store, run), seconds_since_news=seen.seconds_since_news)


def test_a_run_that_is_quarantined_after_its_process_died_is_not_taken_for_running(folder: Folder) -> None:
    runs = STUDY.runs[:2]
    for run in runs:
        leave_status(folder.below(run.run_id), run, "running", 100)
    status.quarantine(folder.below(runs[0].run_id), "its process was killed", "")
    found = status.read_all(folder, runs)
    assert [(seen.state, seen.frames, seen.note) for seen in found] == [
        ("failed", 100, "its process was killed"),
        ("running", 100, ""),
    ]
    assert status.lift_quarantine(folder.below(runs[0].run_id))
    assert status.at_work(folder.below(runs[0].run_id), "") is None  # so a driver elsewhere need not wait


def test_a_run_under_way_with_other_settings_another_version_or_another_file_is_named(tmp_path: str) -> None:
    store, run = Folder(tmp_path), STUDY.runs[0]
    leave_status(store.below(run.run_id), run, "running", 100)
    store.below(run.run_id).put(layout.CHECKPOINTED, b"{}")  # or it may begin anew
    others = [
        replace(run, agent=replace(run.agent, discount=0.5)),
        replace(run, exploration=replace(run.exploration, epsilon_final=0.5)),
    ]
    assert [status.read_all(store, [other])[0].state for other in (run, *others)] == ["running", "failed", "failed"]
    assert status.read_all(store, [run], {"none": None})[0].state == "running"
    assert status.read_all(store, [run], {"none": "another file"})[0].state == "failed"
    stored = about(run) | {"results_version": RESULTS_VERSION + 1, "protocol_fingerprint": "another"}
    store.below(run.run_id).put("run.json", json.dumps(signed(stored)).encode())
    newer = {"run_id": run.run_id, "protocol_fingerprint": "another"}
    content = {"state": "running", "frames": 100, "at": utc_now(), **newer}
    store.below(run.run_id).put("status.json", json.dumps(signed(content)).encode())
    assert status.read_all(store, [run])[0].state == "failed"
    assert status.read_all(store, [run], accept_version=True)[0].state == "running"


def test_a_run_of_another_results_version_is_done_only_if_accepted(tmp_path: str) -> None:
    store = Folder(tmp_path)
    run = STUDY.runs[0]
    leave_status(store.below(run.run_id), run, "finished", 400)
    stored = about(run) | {"results_version": RESULTS_VERSION + 1}
    store.below(run.run_id).put("run.json", json.dumps(signed(stored)).encode())
    assert status.read_all(store, [run])[0].state == "failed"
    assert status.read_all(store, [run], accept_version=True)[0].state == "done"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b'{"state": "finished"}',
        b'{"state": "finished", "frames": "x"}',
        b'{"state": "running", "at": 7}',
        b'{"state": "running", "at": "2024-05-06T07:08:09"}',
        b'{"seconds_left": 1e308}',
        b'{"frames": 1e999}',
        b"[" * 10**5,
    ],
)
def test_a_damaged_status_is_named_and_the_others_are_read(content: bytes, tmp_path: str) -> None:
    store = Folder(tmp_path)
    first, second = STUDY.runs[:2]
    store.below(first.run_id).put("status.json", content)
    leave_status(store.below(second.run_id), second, "finished", 400)
    bad, good = status.read_all(store, [first, second])
    assert (bad.state, good.state) == ("waiting", "done")
    assert "is damaged" in bad.note


@pytest.mark.parametrize("content", [b"", b"[]", b'{"config": {}}', b"{" * 10**5])
def test_a_damaged_run_json_is_named_and_the_others_are_read(content: bytes, tmp_path: str) -> None:
    store = Folder(tmp_path)
    first, second = STUDY.runs[:2]
    for run in (first, second):
        leave_status(store.below(run.run_id), run, "finished", 400)
    store.below(first.run_id).put("run.json", content)
    store.below(second.run_id).put("quarantine.json", content)
    bad, quarantined = status.read_all(store, [first, second])
    assert bad.state == quarantined.state == "failed"
    assert bad.note.startswith("the folder holds a run that cannot be read: run.json in ")


def test_a_status_of_the_future_is_stale(tmp_path: str) -> None:
    store, run = Folder(tmp_path), STUDY.runs[0]
    leave_status(store.below(run.run_id), run, "running", 200, seconds_ago=-(10**6))
    assert status.read_all(store, [run])[0].state == "stale"


def test_a_quarantine_is_lifted_once(folder: Folder) -> None:
    run = folder.below(STUDY.runs[0].run_id)
    assert not status.lift_quarantine(run)
    status.quarantine(run, "no", "why")
    assert status.lift_quarantine(run)
    assert not status.lift_quarantine(run)
    assert states(folder)[0] == "waiting"


def test_a_stop_request_holds_until_it_is_cleared_and_for_one_study_only(folder: Folder) -> None:
    assert not status.stop_requested(folder, "tiny")
    status.request_stop(folder, "tiny")
    assert status.stop_requested(folder, "tiny")
    assert not status.stop_requested(folder, "other")
    status.clear_stop(folder, "tiny")
    assert not status.stop_requested(folder, "tiny")
    status.clear_stop(folder, "tiny")


def test_host_and_job_are_those_of_a_running_run(tmp_path: str) -> None:
    store = Folder(tmp_path)
    first, second = STUDY.runs[:2]
    leave_status(store.below(first.run_id), first, "running", 100, host="node3", job="7_3")
    leave_status(store.below(second.run_id), second, "paused", 100, host="node3", job="7_3")
    found = [(seen.host, seen.job) for seen in status.read_all(store, [first, second])]
    assert found == [("node3", "7_3"), ("", "")]
