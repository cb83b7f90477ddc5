"""Marks are a cache over run folders: they spare reading a finished run, and never say more than its folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.marks import Marks, discard, key_of, read_status
from tests.study.small import leave_status, tiny_study

STUDY = replace(tiny_study(), bonus_sources={"none": None})
FIRST, SECOND, THIRD = (run.run_id for run in STUDY.runs)


def test_a_key_differs_in_all_that_decides_whether_a_run_is_done() -> None:
    run = STUDY.runs[0]
    other = replace(run, agent=replace(run.agent, discount=0.5))
    found = [key_of(run, "results"), key_of(run, "all"), key_of(other, "all"), key_of(replace(run, frames=404), "all")]
    assert len(set(found)) == 4
    assert all(key.isalnum() for key in found)
    machine = replace(run.machine, checkpoint_minutes=3.0)
    assert key_of(replace(run, machine=machine), "all") == key_of(run, "all")


def test_one_listing_shows_the_runs_that_are_done(folder: Folder) -> None:
    marks = Marks(folder, STUDY)
    assert marks.done() == {}
    marks.mark_done(FIRST, THIRD)
    assert marks.done().keys() == {FIRST, THIRD}
    discard(folder, STUDY, [FIRST])
    assert marks.done().keys() == {THIRD}


def test_marks_of_older_versions_say_nothing(tmp_path: Path) -> None:
    marks = Folder(tmp_path).below("studies/tiny/marks")
    key = key_of(STUDY.runs[0], STUDY.keep)
    for name in (f"{key}.quarantined", f"{key}.begun", f"{key}.lease.me-x-1-2"):
        marks.put(name, b"")
    assert Marks(Folder(tmp_path), STUDY).done() == {}


def test_the_status_of_a_run_that_is_marked_done_is_not_read_from_its_folder(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = STUDY.runs[1]
    leave_status(folder.below(run.run_id), run, "running", 100)
    Marks(folder, STUDY).mark_done(FIRST)
    read: list[str] = []
    read_one = status.read_one

    def counted(store: Folder, run: RunConfig, *arguments: Any, **named: Any) -> status.RunStatus:
        read.append(run.run_id)
        return read_one(store, run, *arguments, **named)

    monkeypatch.setattr(status, "read_one", counted)
    found = read_status(folder, STUDY)
    assert [(seen.run_id, seen.state, seen.frames) for seen in found] == [
        (FIRST, "done", 400),
        (SECOND, "running", 100),
        (THIRD, "waiting", 0),
    ]
    assert sorted(read) == [SECOND, THIRD]


def test_without_marks_the_folders_say_the_same(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    study = replace(STUDY, keep="all")
    for run in study.runs[:2]:
        leave_status(store.below(run.run_id), run, "finished", 400)
    before = read_status(store, study)
    Marks(store, study).mark_done(FIRST, SECOND)
    found = [replace(seen, seconds_since_news=None) for seen in read_status(store, study)]
    assert found == [replace(seen, seconds_since_news=None) for seen in before]


def test_a_run_of_a_bonus_whose_file_has_changed_is_not_marked_done(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    before, after = (replace(STUDY, bonus_sources={"none": source}) for source in ("a" * 64, "b" * 64))
    Marks(store, before).mark_done(FIRST)
    assert Marks(store, before).done().keys() == {FIRST}
    assert Marks(store, after).done() == {}
    assert Marks(store, after, accept_version=True).done().keys() == {FIRST}
    assert Marks(store, tiny_study()).done().keys() == {FIRST}  # as for `study status`, which reads no files of bonuses


def test_a_run_that_is_done_only_for_one_who_accepts_other_versions_is_not_marked_for_others(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    Marks(store, STUDY, accept_version=True).mark_done(FIRST)
    assert Marks(store, STUDY, accept_version=True).done().keys() == {FIRST}
    assert Marks(store, STUDY).done() == {}
    assert Marks(store, tiny_study()).done() == {}
