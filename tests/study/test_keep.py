"""Only weights, bonus models and tables of a finished run are kept; an interrupted call is completed by the next."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import CheckpointError, StoreError
from offpiste.rows import TABLES
from offpiste.run.evaluate import evaluate
from offpiste.run.train import train
from offpiste.run.video import render_episodes
from offpiste.store import layout
from offpiste.store.attempts import begin_attempt
from offpiste.store.checkpoints import Checkpoints, delete_unneeded, newest_objects
from offpiste.store.documents import signed
from offpiste.store.finished import holds_only_results
from offpiste.store.manifests import read_manifest
from offpiste.store.storage import Folder
from offpiste.study.keep import keep_results
from tests.study.small import tiny_study

RUN = tiny_study().runs[0]
KEPT = "kept/000001-weights"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained")
    assert train(RUN, Folder(path)).state == "finished"
    return path


@pytest.fixture
def finished(trained: Path, folder: Folder) -> Folder:
    for path in trained.rglob("*"):
        if path.is_file():
            folder.put(str(path.relative_to(trained)), path.read_bytes())
    return folder


def size(folder: Folder) -> int:
    return sum(len(folder.get(f"objects/{name}") or b"") for name in folder.list("objects"))


def test_weights_and_tables_are_kept_and_the_rest_is_deleted(finished: Folder) -> None:
    tables = {name: finished.get(name) for name in finished.list() if name.endswith(".parquet")}
    before, played = size(finished), list(evaluate(finished, 2, seed=1))
    first = newest_objects(finished, [KEPT], pytest.fail)[KEPT]
    assert not holds_only_results(finished)
    keep_results(finished)
    assert holds_only_results(finished)
    assert tables.keys() == {f"{table}.parquet" for table in TABLES}
    assert tables == {name: finished.get(name) for name in tables}
    assert list(evaluate(finished, 2, seed=1)) == played
    assert newest_objects(finished, [KEPT], pytest.fail)[KEPT] == first
    assert list(evaluate(finished, 1, seed=1, iteration=1))
    assert len(finished.list("manifests")) == 1
    assert len(finished.list("objects")) == 2  # the last weights, and those of iteration 1
    assert size(finished) < before / 2
    assert layout.RESULTS in finished.list()


def test_keeping_twice_changes_nothing(finished: Folder) -> None:
    keep_results(finished)
    before = {name: finished.get(f"objects/{name}") for name in finished.list("objects")}
    keep_results(finished)
    assert before == {name: finished.get(f"objects/{name}") for name in finished.list("objects")}


@pytest.mark.parametrize("survived", range(12))
def test_a_call_that_dies_at_any_write_is_completed_by_the_next(
    survived: int, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(shutil.copytree(trained, tmp_path / "run"))
    left = [survived]

    def mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if left[0] == 0:
                raise StoreError("dead")
            left[0] -= 1
            return act(*arguments)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", mortal(Folder.put))
        patch.setattr(Folder, "delete", mortal(Folder.delete))
        try:
            keep_results(folder)
        except StoreError:
            assert layout.RESULTS not in folder.list()
    newest_objects(folder, ["agent"], pytest.fail)["agent"]  # whole at every moment
    keep_results(folder)
    assert layout.RESULTS in folder.list()
    assert len(folder.list("objects")) == 2
    assert list(evaluate(folder, 1, seed=0))


def test_nothing_is_dropped_once_another_attempt_has_begun(finished: Folder) -> None:
    begin_attempt(finished, {})
    before = finished.list("objects")
    keep_results(finished)
    assert finished.list("objects") == before
    assert layout.RESULTS not in finished.list()


def test_an_older_attempt_that_wakes_in_its_last_save_deletes_nothing_that_a_newer_one_kept(finished: Folder) -> None:
    (saved,) = finished.list("manifests")
    older, entries = (
        json.loads(finished.get("status.json") or b"")["attempt"],
        read_manifest(finished, saved)["objects"],
    )
    assert train(RUN, finished).state == "finished"  # the newer attempt finds nothing left to train
    keep_results(finished)
    played = list(evaluate(finished, 1, seed=1))
    delete_unneeded(finished, older, saved, {saved: entries})
    assert list(evaluate(finished, 1, seed=1)) == played
    assert holds_only_results(finished)
    assert len(finished.list("objects")) == 2  # and the replay is gone, whichever attempt wrote it


def test_nothing_of_an_unfinished_run_is_dropped(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    attempt = begin_attempt(folder, {})
    Checkpoints(folder, attempt).save(1, {"replay": b"1", "agent": b"2"}, {})
    folder.put("status.json", json.dumps(signed({"state": "paused", "attempt": attempt})).encode())
    keep_results(folder)
    assert len(folder.list("objects")) == 2
    assert not holds_only_results(folder)
    assert not holds_only_results(Folder(tmp_path / "empty"))


def test_a_run_with_only_its_results_kept_refuses_more_frames_and_is_unchanged(finished: Folder) -> None:
    keep_results(finished)
    before = {name: finished.get(name) for name in finished.list()}
    with pytest.raises(CheckpointError, match="cannot resume without its replay: only the results were kept"):
        train(dataclasses.replace(RUN, frames=2 * RUN.frames), finished)
    assert {name: finished.get(name) for name in finished.list()} == before


def test_the_last_bonus_model_is_kept_so_that_the_run_can_be_watched(tmp_path: Path) -> None:
    run = tiny_study(methods=["cts"], seeds=[0]).runs[0]
    folder = Folder(tmp_path)
    train(run, folder)
    model = newest_objects(folder, ["bonus"], pytest.fail)["bonus"]
    keep_results(folder)
    assert newest_objects(folder, ["bonus"], pytest.fail)["bonus"] == model
    assert len(list(render_episodes(folder, steps=2, seed=0))) == 2
