"""`offpiste bundle` and `offpiste report --beside`: their output and their errors."""

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


def test_finished_runs_are_written_and_the_others_listed_as_skipped(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2, 9):
        write_run(Folder(store), config_of("pong", seed=seed), (1.0,))
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    output = capsys.readouterr()
    assert output.out == f"{tmp_path / 'bundle'}: 2 runs, 7 skipped; 0.0 MB\n"
    assert output.err.splitlines()[0] == (
        "skipped: pong/epsilon_greedy/seed-2: it is at 400 of 1,200 frames, and only finished runs are bundled"
    )
    assert output.err.splitlines()[5:] == ["skipped: 2 more"]


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


def test_warnings_from_reading_the_store_are_counted(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "pong" / "epsilon_greedy" / "seed-0" / "run.json").unlink()
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    assert "1 warnings from reading the stores; a report on them lists these" in capsys.readouterr().err


def test_a_store_must_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "--out", str(tmp_path / "bundle")]) == 1
    assert "STORE must be given" in capsys.readouterr().err


def test_a_bundle_cannot_be_written_to_a_url(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(store), "--out", "s3://bucket/bundle"]) == 1
    assert "--out must be a folder on a disk, got a URL" in capsys.readouterr().err


def test_without_the_extra_the_error_says_what_to_install(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == "duckdb" else find_spec(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert main(["bundle", str(store), "--out", "bundle"]) == 1
    assert "a bundle needs duckdb; install with: pip install 'offpiste[report]'" in capsys.readouterr().err


def test_a_report_includes_the_bundles_and_stores_beside_its_store(store: Path, tmp_path: Path) -> None:
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
    assert f"the same run as pong/epsilon_greedy/seed-0 in {store}" in text  # and the store's score is used
    assert [line for line in runs.splitlines() if "epsilon_greedy" in line and beside[0] in line] == []


def test_a_report_can_be_on_a_bundle_alone(store: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(store), "--out", str(tmp_path / "bundle")]) == 0
    assert main(["report", str(tmp_path / "bundle"), "--out", str(tmp_path / "page")]) == 0
    assert f"<code>{tmp_path / 'bundle'}</code> (bundle, 2 runs).</p>" in (tmp_path / "page" / "index.html").read_text()
