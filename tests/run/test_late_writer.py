"""A process that sleeps at any step on its store, and wakes after another attempt has finished, takes nothing from it.

`benchmarks/faults/late_writer.py` does the same with processes that are really stopped.
"""

import dataclasses
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.results import load
from offpiste.errors import CheckpointError, Damaged
from offpiste.run.digest import digest
from offpiste.run.evaluate import evaluate
from offpiste.run.train import train
from offpiste.store import documents
from offpiste.store.attempts import begin_attempt
from offpiste.store.finished import finished_frames, finished_tables, holds_only_results, mark_finished
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.keep import keep_results
from tests.late_writer import every_sleep
from tests.study.small import tiny_study

RUN = tiny_study(frames=240).runs[0]
"""One iteration, and twenty steps of a second one."""
EVERY = 20
"""Of the steps at which to sleep, every so many are tried here; the benchmark tries all."""
LONGER = dataclasses.replace(RUN, frames=400)
SHORTER = dataclasses.replace(RUN, frames=120)


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk; no test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("undisturbed")
    train(RUN, Folder(path / RUN.run_id))
    return path


def records(store: Path) -> dict[str, list[dict[str, Any]]]:
    results = load(store)
    assert results.warnings == []
    assert [(run.state, run.frames) for run in results.runs] == [("finished", RUN.frames)]
    return {table: results.query(f"SELECT * FROM {table}").to_pylist() for table in ("episodes", "iterations")}  # noqa: S608


def each_late(path: Path, act: Callable[[Folder], object], meanwhile: Callable[[Folder], object]) -> list[Path]:
    """Return one store for each step at which `act` slept while another attempt worked."""
    stores: list[Path] = []

    def folder() -> Folder:
        return Folder(stores[-1] / RUN.run_id)

    def begin() -> None:
        stores.append(path / f"{len(stores):03d}")
        act(folder())

    for sleep in every_sleep(begin, lambda: meanwhile(folder()), EVERY):
        if not sleep():
            return stores[:-1]
    raise AssertionError("the sleeper never came to its end")


@pytest.mark.slow
def test_a_process_that_slept_anywhere_in_training_takes_nothing_from_a_finished_run(
    undisturbed: Path, tmp_path: Path
) -> None:
    def sleeper(folder: Folder) -> None:
        train(SHORTER, folder)
        train(RUN, folder)

    wanted, rows = digest(Folder(undisturbed / RUN.run_id)), records(undisturbed)
    stores = each_late(tmp_path, sleeper, lambda folder: train(RUN, folder))
    assert len(stores) > 80 // EVERY
    for store in stores:
        folder = Folder(store / RUN.run_id)
        assert digest(folder) == wanted, store.name
        assert records(store) == rows, store.name
        assert status.read_one(Folder(store), RUN).state == "done", store.name


@pytest.mark.exhaustive
def test_a_process_that_slept_while_it_dropped_the_replay_takes_nothing_from_an_attempt_that_went_further(
    tmp_path: Path,
) -> None:
    train(LONGER, Folder(tmp_path / "longer"))
    wanted = digest(Folder(tmp_path / "longer"))
    refused: list[str] = []

    def sleeper(folder: Folder) -> None:
        train(RUN, folder)
        keep_results(folder)

    def longer(folder: Folder) -> None:
        try:
            train(LONGER, folder)
        except CheckpointError as error:
            refused.append(str(error))

    for store in each_late(tmp_path / "late", sleeper, longer):
        folder = Folder(store / RUN.run_id)
        frames = finished_frames(folder.list())
        if holds_only_results(folder):  # the longer run came too late, or was over before the sleeper began
            assert frames in (RUN.frames, LONGER.frames), store.name
            assert list(evaluate(folder, 1, seed=0)), store.name
        else:
            assert frames == LONGER.frames, store.name
            assert digest(folder) == wanted, store.name
    assert refused
    assert all("only the results were kept" in message for message in refused)


@pytest.mark.slow
def test_a_process_that_slept_while_it_dropped_the_replay_wakes_beside_one_that_did_the_same(
    undisturbed: Path, tmp_path: Path
) -> None:
    def keep(folder: Folder) -> None:
        if not holds_only_results(folder):
            train(RUN, folder)
        keep_results(folder)

    def late_keep(folder: Folder) -> None:
        with suppress(CheckpointError):  # it may wake when the other has already dropped the replay
            keep(folder)

    rows = records(undisturbed)
    for store in each_late(tmp_path, late_keep, keep):
        assert records(store) == rows, store.name
        assert list(evaluate(Folder(store / RUN.run_id), 1, seed=0)), store.name


def test_finished_is_marked_once_per_target_and_no_late_status_reverts_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / RUN.run_id)
    train(SHORTER, folder)
    train(RUN, folder)
    assert [name for name in folder.list() if name.startswith("finished-")] == [
        "finished-000000000120.json",
        "finished-000000000240.json",
    ]
    late = documents.unsigned(json.loads(folder.get("status.json") or b"")) | {
        "state": "running",
        "frames": 80,
        "target_frames": 120,
    }
    folder.put("status.json", json.dumps(documents.signed(late)).encode())
    seen = status.read_one(Folder(tmp_path), RUN)
    assert (seen.state, seen.frames) == ("done", 240)
    assert status.read_one(Folder(tmp_path), LONGER).state == "running"
    assert records(tmp_path)["iterations"][-1]["steps"] == 20


def test_tables_that_a_late_writer_has_put_over_newer_ones_are_not_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / RUN.run_id)
    train(SHORTER, folder)
    older = {name: folder.get(name) for name in folder.list() if name.endswith(".parquet")}
    train(RUN, folder)
    before = records(tmp_path)
    for name, data in older.items():
        folder.put(name, data or b"")
    assert records(tmp_path) == before


def test_the_tables_of_a_target_are_written_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for content in (b"first", b"second"):
        mark_finished(folder, {}, 8, begin_attempt(folder, {}), 2, {"episodes": content})
    (table,) = finished_tables(folder, 8, {}).values()
    assert folder.get(table.name) == b"first"
    assert folder.list("tables") == [table.name.removeprefix("tables/")]


@pytest.mark.parametrize(
    "mark",
    [
        b"",
        b"[]",
        b'{"tables": 3}',
        b'{"frames": 4, "tables": {}}',
        b'{"tables": {"episodes": "../../secret.parquet"}}',
        b'{"tables": {"episodes": ["tables/x.parquet"]}}',
    ],
)
def test_a_damaged_or_hostile_mark_names_no_tables(tmp_path: Path, mark: bytes) -> None:
    folder = Folder(tmp_path)
    folder.put("finished-000000000008.json", mark)
    with pytest.raises(Damaged, match=r"finished-000000000008\.json in .* is damaged"):
        finished_tables(folder, 8, {})


def test_a_finished_run_whose_checkpoints_are_missing_is_not_restarted(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(RUN, folder)
    for part in ("manifests", "objects"):
        for name in folder.list(part):
            folder.delete(f"{part}/{name}")
    before = from_parquet(folder.get("episodes.parquet") or b"")
    with pytest.raises(CheckpointError, match=r"is whole; no file of it was changed.*: all manifests are missing"):
        train(RUN, folder)
    for name in ("checkpointed.json", *(f"tables/{name}" for name in folder.list("tables"))):
        folder.delete(name)
    with pytest.raises(
        CheckpointError, match="was finished at 240 frames, but its checkpoints are missing; restore them"
    ):
        train(RUN, folder)
    assert from_parquet(folder.get("episodes.parquet") or b"") == before


def test_an_attempt_that_is_refused_since_only_results_were_kept_leaves_no_trace(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(RUN, folder)
    begun = folder.list("attempts")
    keep_results(folder)
    with pytest.raises(CheckpointError, match="only the results were kept"):
        train(LONGER, folder)
    assert folder.list("attempts") == begun
