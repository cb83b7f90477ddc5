"""`offpiste report` and `offpiste import`: their output and their errors."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from offpiste.cli import main
from offpiste.config import BonusConfig
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import write_study


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_study(Folder(tmp_path / "store"), {("pong", "epsilon_greedy"): [1.0, 2.0]})
    return tmp_path / "store"


def test_a_report_is_written_and_its_verdict_printed(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(store), "--out", str(tmp_path / "page"), "--frames", "800"]) == 0
    output = capsys.readouterr()
    assert "Nothing is compared yet: that takes ε-greedy and another method" in output.out
    assert output.out.splitlines()[-1] == str(tmp_path / "page" / "index.html")
    assert "caveats" in output.err
    assert "--frames 800" in (tmp_path / "page" / "index.html").read_text()


def test_without_the_extra_the_error_says_what_to_install(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name in ("jinja2", "matplotlib") else find_spec(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert main(["report", str(store)]) == 1
    output = capsys.readouterr().err
    assert "a report needs jinja2, matplotlib" in output
    assert "pip install 'offpiste[report]'" in output


def test_a_folder_without_runs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "there is no run below" in capsys.readouterr().err


def test_zero_frames_are_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(store), "--frames", "0"]) == 1
    assert "--frames must be > 0, got 0" in capsys.readouterr().err


def test_runs_whose_settings_differ_are_pooled_only_where_that_is_asked_for(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, scale in enumerate((0.1, 0.2)):
        config = config_of("pong", "cts", seed, bonus=BonusConfig(name="cts", scale=scale))
        write_run(Folder(store), config, [1.0, 1.0, 1.0])
    apart = {f"game_pong_{part}.png" for part in (1, 2, 3)}  # ε-greedy, and CTS with each scale
    for more, figures in (([], apart), (["--allow-mixed"], {"game_pong.png"})):
        out = tmp_path / f"page{len(more)}"
        assert main(["report", str(store), "--out", str(out), *more]) == 0
        found = {file.name for file in (out / "figures").glob("game_pong*.png")}
        assert {name for name in found if not re.search("cells|scores", name)} == figures
    assert "Nothing is compared here" in capsys.readouterr().out


def test_published_curves_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("freeway", "freeway_CNN"):
        (tmp_path / f"{name}.json").write_text('[{"Agent": "Rainbow", "Iteration": 0, "Value": 1.5}]')
    files = [str(tmp_path / f"{name}.json") for name in ("freeway", "freeway_CNN")]
    assert main(["import", "dopamine", *files, "--store", str(tmp_path / "store")]) == 0
    output = capsys.readouterr().out
    assert "freeway: dopamine tf, 1 runs of 1 iterations, fingerprint" in output
    assert "freeway: dopamine jax, 1 runs" in output
    assert len(list((tmp_path / "store" / "published").iterdir())) == 2


def test_a_file_that_is_not_of_dopamine_is_refused_and_nothing_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "freeway.json").write_text('[{"Agent": "Rainbow", "Iteration": 0, "Value": 1.5}]')
    (tmp_path / "hero.json").write_text("[1]")
    argv = ["import", "dopamine", str(tmp_path / "freeway.json"), str(tmp_path / "hero.json")]
    assert main([*argv, "--store", str(tmp_path / "store")]) == 1
    assert "hero.json is no baseline file of Dopamine" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_importing_without_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "dopamine", "--store", str(tmp_path)]) == 1
    assert "give the files to import" in capsys.readouterr().err
