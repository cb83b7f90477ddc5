"""Measured figures: recorded by programs, quoted by pages."""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import measured
from scripts.measured import PAGES

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of results/measured."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["speed.py", "--record", "--threads", "2", "--out", "/home/x"])
    return tmp_path


def figures(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "speed.json").read_text())
    return content


def test_a_second_run_on_the_same_machine_widens_a_figure(folder: Path) -> None:
    measured.record("benchmarks.speed.speed", {"ratio": 0.95, "megabytes": [346, 471]})
    measured.record("benchmarks.speed.speed", {"ratio": 0.92})
    content = figures(folder)
    assert content["figures"] == {
        "ratio": {"min": 0.92, "max": 0.95, "n": 2},
        "megabytes": {"min": 346, "max": 471, "n": 1},
    }
    assert content["program"] == "benchmarks.speed.speed"
    assert content["commands"] == ["python -m benchmarks.speed.speed --threads 2 --out PATH"]
    assert content["processor"]
    assert "torch" in content["versions"]


def test_figures_of_another_processor_are_dropped(folder: Path) -> None:
    measured.record("benchmarks.speed.speed", {"ratio": 0.95, "other": 1.0})
    file = folder / "speed.json"
    file.write_text(json.dumps(figures(folder) | {"processor": "another"}))
    measured.record("benchmarks.speed.speed", {"ratio": 0.92})
    assert figures(folder)["figures"] == {"ratio": {"min": 0.92, "max": 0.92, "n": 1}}


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("speed.megabytes:.0f", "346 to 471"),
        ("speed.share:.1%", "0.1 to 0.2%"),
        ("speed.ratio:.1f", "2.0"),
        ("speed.ratio", "1.98 to 2.01"),
    ],
)
def test_a_figure_is_quoted_as_one_number_or_as_a_range(folder: Path, reference: str, text: str) -> None:
    measured.record("speed", {"megabytes": [346.2, 470.9], "share": [0.0012, 0.002], "ratio": [1.98, 2.01]})
    assert measured.quote(reference) == text


def test_a_quote_between_markers_is_renewed_and_nothing_else(folder: Path) -> None:
    measured.record("speed", {"ratio": 2.01})
    old = "at 3 times <!-- measured speed.ratio:.1f -->3<!-- end --> times, <!-- a comment --> 3"
    assert (
        measured.renewed(old)
        == "at 3 times <!-- measured speed.ratio:.1f -->2.0<!-- end --> times, <!-- a comment --> 3"
    )


def test_an_unknown_figure_is_refused_with_those_that_there_are(folder: Path) -> None:
    measured.record("speed", {"ratio": 2.01})
    with pytest.raises(ValueError, match=r"no measured figure named 'speed\.rate'; there are ratio"):
        measured.quote("speed.rate")
    with pytest.raises(ValueError, match=r"no measured figure named 'sped\.ratio'; there are speed"):
        measured.quote("sped.ratio:.1f")


def test_a_quick_run_is_not_recorded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--record"])
    with pytest.raises(SystemExit):
        measured.parse(parser)
    assert "leave out --quick" in capsys.readouterr().err


def test_every_page_quotes_what_was_measured() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- measured " in text
        assert measured.renewed(text) == text, page


def test_no_line_begins_with_a_marked_figure_which_would_end_its_paragraph() -> None:
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.lstrip().startswith("<!-- measured ")] == []


def test_every_file_of_figures_belongs_to_a_program_that_can_record() -> None:
    files = sorted((ROOT / "results" / "measured").glob("*.json"))
    assert files
    for file in files:
        program = json.loads(file.read_text(encoding="utf-8"))["program"]
        assert program.rpartition(".")[2] == file.stem
        source = ROOT / f"{program.replace('.', '/')}.py"
        assert f'measured.record("{program}"' in source.read_text(encoding="utf-8")


def test_the_role_of_the_documentation_is_known_to_sphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    roles: dict[str, Any] = {}
    importlib.import_module("measured").setup(argparse.Namespace(add_role=roles.__setitem__))
    assert list(roles) == ["measured"]
