"""`offpiste bundle` and `offpiste report --beside`: what they print and what they refuse."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from offpiste.cli import main
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import write_study


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_study(Folder(tmp_path / "store"), {("pong", "epsilon_greedy"): [1.0, 2.0]})
    return tmp_path / "store"


def test_finished_runs_are_written_and_the_others_named(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2, 9):
        write_run(Folder(store), config_of("pong", seed=seed), (1.0,))
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'bundle'}: 2 runs, 7 left out; 0.0 MB\n"
    assert said.err.splitlines()[0] == (
        "left out: pong/epsilon_greedy/seed-2: it is at 400 of 1,200 frames, and only finished runs are bundled"
    )
    assert said.err.splitlines()[5:] == ["left out: 2 more"]


def test_a_store_without_a_finished_run_is_an_error_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(Folder(tmp_path / "store"), config_of(), (1.0,))
    assert main(["bundle", str(tmp_path / "store"), "--out", str(tmp_path / "bundle")]) == 1
    assert (
        "to make a bundle of; nothing was written; freeway/epsilon_greedy/seed-0: it is at 400 of"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "bundle").exists()


def test_weak_points_of_the_store_are_counted(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "pong" / "epsilon_greedy" / "seed-0" / "run.json").unlink()
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    assert "Not read without fault: 1, which a report on the store names." in capsys.readouterr().err


def test_a_bundle_is_written_to_a_disk(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(store), "--out", "s3://bucket/bundle"]) == 1
    assert "--out is a folder on a disk, not a URL" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == "duckdb" else there(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert main(["bundle", str(store), "--out", "bundle"]) == 1
    assert "a bundle needs duckdb; install them with: pip install 'offpiste[report]'" in capsys.readouterr().err


def test_a_report_is_on_a_store_and_the_bundles_and_stores_beside_it(store: Path, tmp_path: Path) -> None:
    published = tmp_path / "published"
    write_study(Folder(published), {("pong", "rnd"): [3.0, 4.0], ("pong", "epsilon_greedy"): [9.0]})
    write_study(Folder(tmp_path / "third"), {("pong", "icm"): [5.0]})
    assert main(["bundle", str(published), "--out", str(tmp_path / "bundle")]) == 0
    page = tmp_path / "page"
    beside = [str(tmp_path / "bundle"), str(tmp_path / "third")]
    assert main(["report", str(store), "--beside", *beside, "--out", str(page)]) == 0
    text = (page / "index.html").read_text()
    assert f"Read from: <code>{store}</code> (store, 2 runs), " in text
    assert f"<code>{beside[0]}</code> (bundle, 2 runs), <code>{beside[1]}</code> (store, 1 run).</p>" in text
    assert f"offpiste report {store} --beside {' '.join(beside)} --out {page}" in text
    runs = (page / "tables" / "runs.csv").read_text()
    assert f"{beside[0]}/pong/rnd/seed-1" in runs
    assert f"the same run as pong/epsilon_greedy/seed-0 in {store}" in text  # and its score is that of the store
    assert [line for line in runs.splitlines() if "epsilon_greedy" in line and beside[0] in line] == []


def test_a_report_can_be_on_a_bundle_alone(store: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    assert main(["report", str(tmp_path / "bundle"), "--out", str(tmp_path / "page")]) == 0
    assert f"<code>{tmp_path / 'bundle'}</code> (bundle, 2 runs).</p>" in (tmp_path / "page" / "index.html").read_text()
