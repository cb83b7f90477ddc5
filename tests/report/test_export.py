"""Exports: what TensorBoard, Weights & Biases and a CSV reader find is what the records hold."""

import csv
import http.server
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import offpiste
from offpiste.cli import main
from offpiste.report.export import points, rows_by_run, to_csv
from offpiste.rows import tagged
from offpiste.run.train import train
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one short run, whose windows of scalars are short too."""
    path = tmp_path_factory.mktemp("store")
    config = tiny_run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("offpiste.rows.SCALAR_STEPS", 10)
        train(config, Folder(path).below(config.run_id))
    return path


def test_points_are_the_records_over_frames(store: Path) -> None:
    results = offpiste.load(str(store))
    (run,) = results.runs
    skip = run.settings["world.frame_skip"]
    found = dict(points(rows_by_run(results), run))
    assert list(found) == sorted(found)
    for row in results.scalars().to_pylist():
        for tag, value in tagged("scalars", row).items():
            assert found[row["end_step"] * skip][tag] == value
    returns = {row["end_step"] * skip: row["game_return"] for row in results.episodes().to_pylist()}
    assert {frame: values["charts/episodic_return"] for frame, values in found.items() if frame in returns} == returns


def test_episodes_of_one_evaluation_are_a_point_with_their_mean(store: Path) -> None:
    (run,) = offpiste.load(str(store)).runs
    columns = ("game_return", "steps", "rooms_visited", "cells_new", "intrinsic_sum")
    rows = [
        {"phase": "evaluation", "end_step": 10} | dict.fromkeys(columns) | {"game_return": value}
        for value in (1.0, 4.0)
    ]
    found = dict(points({"episodes": {run.name: pa.Table.from_pylist(rows)}}, run))
    assert found == {10 * run.settings["world.frame_skip"]: {"eval/episodic_return": 2.5}}


def test_csv_files_have_every_row_with_its_run(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(store), "--to", "csv", "--out", str(tmp_path)]) == 0
    results = offpiste.load(str(store))
    assert f"episodes.csv: {len(results.episodes())} rows" in capsys.readouterr().out
    with (tmp_path / "scalars.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results.scalars())
    assert {(row["game"], row["seed"]) for row in rows} == {(run.game, str(run.seed)) for run in results.runs}


def test_csv_rows_are_ordered_within_a_run_however_they_were_written(tmp_path: Path) -> None:
    wanted = [
        ("a", 10, "train", 1),
        ("a", 20, "train", 2),
        ("a", 20, "evaluation", 1),
        ("b", 5, "train", 1),
    ]
    rows = [dict(zip(("run", "end_step", "phase", "episode"), row, strict=True)) for row in wanted]
    about = [{"run": run, "game": "freeway", "method": "cts", "variant": "", "seed": 0} for run in "ab"]
    connection = duckdb.connect()
    connection.register("runs", pa.Table.from_pylist(about))
    connection.register("episodes", pa.Table.from_pylist(rows[::-1]))
    results = SimpleNamespace(
        runs_with=lambda table: {"a", "b"} if table == "episodes" else set(),
        query=lambda sql: connection.sql(sql).to_arrow_table(),
    )
    assert list(to_csv(results, tmp_path)) == [f"{tmp_path / 'episodes'}.csv: 4 rows"]  # type: ignore[arg-type]
    with (tmp_path / "episodes.csv").open() as file:
        found = [(row["run"], int(row["end_step"]), row["phase"], int(row["episode"])) for row in csv.DictReader(file)]
    assert found == wanted


@pytest.mark.parametrize("tool", ["csv", "tensorboard"])
def test_a_file_in_the_way_is_an_error_with_its_name(
    store: Path, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("")
    assert main(["export", str(store), "--to", tool, "--out", str(tmp_path / "out")]) == 1
    assert f"cannot write to {tmp_path / 'out'}" in capsys.readouterr().err


def test_tensorboard_shows_live_what_an_export_shows_later(store: Path, tmp_path: Path) -> None:
    assert main(["export", str(store), "--to", "tensorboard", "--out", str(tmp_path)]) == 0
    (run,) = offpiste.load(str(store)).runs
    live, later = (
        EventAccumulator(str(folder)).Reload() for folder in (store / run.name / "tensorboard", tmp_path / run.name)
    )
    tags = later.Tags()["scalars"]
    assert set(live.Tags()["scalars"]) == set(tags)
    assert {"losses/loss", "charts/epsilon", "charts/episodic_return"} <= set(tags)
    for tag in tags:
        one, other = ([(event.step, event.value) for event in events.Scalars(tag)] for events in (live, later))
        assert one == other


@pytest.mark.slow
def test_weights_and_biases_gets_every_run_offline(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert main(["export", str(store), "--to", "wandb", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (log,) = folder.glob("*.wandb")
    assert b"losses/loss" in log.read_bytes()
    assert f"wandb sync {tmp_path}/wandb/offline-run-*" in capsys.readouterr().out


def test_the_key_of_weights_and_biases_is_not_sent_to_whom_a_store_names(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder `wandb` in the store, which is the current folder, names a server of a stranger; ours is another."""
    asked: dict[str, list[str]] = {"stranger": [], "ours": []}

    def serve(name: str) -> str:
        class Refusing(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked[name].append(self.path)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(401)
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    servers: list[http.server.ThreadingHTTPServer] = []
    stranger = tmp_path / "store"
    shutil.copytree(store, stranger)
    for place in ("wandb", ".wandb", "export/wandb"):
        (stranger / place).mkdir(parents=True)
        (stranger / place / "settings").write_text(f"[default]\nbase_url = {serve('stranger')}\n")
    (tmp_path / "settings").write_text(f"[default]\nbase_url = {serve('ours')}\n")
    monkeypatch.chdir(stranger)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    try:
        assert main(["export", ".", "--to", "wandb"]) == 1
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
    assert not asked["stranger"]
    assert asked["ours"]
    assert "Weights & Biases refused the export: " in (error := capsys.readouterr().err)
    assert "check WANDB_API_KEY" in error
    assert Path.cwd() == stranger
