"""The comparison with Dopamine's published runs: the program over the kept records, and the table that quotes them."""

import csv
import importlib
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "results" / "fidelity").glob("*-fp32"))
GAMES = ("breakout", "freeway", "asterix")
ORDINALS = ("first", "second", "third")
Compare = Callable[[Path], tuple[int, list[str]]]


def kept() -> dict[tuple[str, int], float]:
    """Return the mean return of each complete iteration that is kept, by game and iteration."""
    return {
        (folder.name.removesuffix("-fp32"), row["iteration"]): row["return_mean"]
        for folder in RECORDS
        for row in from_parquet((folder / "iterations.parquet").read_bytes())
        if row["complete"]
    }


def published(shift: float) -> dict[tuple[str, str, int], list[float]]:
    """Return two runs of each implementation around what is kept: ours is their mean, moved by this much."""
    rows, ours = {}, kept()
    for game in GAMES:
        for iteration in (1, 2, 3):
            middle = ours.get((game, iteration), 1.0) + shift
            rows[game, "tf", iteration] = [middle - 1, middle + 1]
            rows[game, "jax", iteration] = [middle - 0.5, middle + 0.5]
    return rows


def as_table(file: Path, returns: dict[tuple[str, str, int], list[float]]) -> Path:
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["game", "implementation", "run", "iteration", "mean_train_return"])
        for (game, implementation, iteration), values in returns.items():
            writer.writerows([game, implementation, run, iteration - 1, value] for run, value in enumerate(values))
    return file


def as_dopamine(folder: Path, returns: dict[tuple[str, str, int], list[float]]) -> Path:
    folder.mkdir()
    for game in GAMES:
        for implementation, ending in (("tf", ""), ("jax", "_CNN")):
            points = [(iteration, run) for run in (0, 1) for iteration in (1, 2, 3)]
            if implementation == "jax":
                points.sort()  # as those files stand
            rows = [
                {"Agent": "Rainbow", "Iteration": iteration - 1, "Value": returns[game, implementation, iteration][run]}
                for iteration, run in points
            ]
            (folder / f"{game}{ending}.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Run the program over a file or folder of published runs, and return its exit code and lines."""
    pytest.importorskip("scipy")
    program = importlib.import_module("benchmarks.validation.fidelity")

    def run(path: Path) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["fidelity", "--published", str(path)])
        return program.main(), capsys.readouterr().out.splitlines()

    return run


def test_ours_in_the_middle_of_the_published_runs_is_likely(compare: Compare, tmp_path: Path) -> None:
    code, lines = compare(as_table(tmp_path / "published.csv", published(shift=0.0)))
    assert code == 0
    assert len(lines) == len(kept()) + 1
    for line, ((game, iteration), ours) in zip(lines, sorted(kept().items(), key=order), strict=False):
        assert line.startswith(f"{game}-fp32 iteration {iteration}: {ours:.2f}, random play ")
        assert line.endswith(
            f"published {ours - 1:.2f} to {ours + 1:.2f}, p = 1 (TensorFlow {ours - 1:.2f} to {ours + 1:.2f}, p = 1; "
            f"JAX {ours - 0.5:.2f} to {ours + 0.5:.2f}, p = 1)"
        )
    assert lines[-1].startswith(f"{len(kept())} of {len(kept())} iterations inside")


def order(row: tuple[tuple[str, int], float]) -> tuple[int, int]:
    (game, iteration), _ = row
    return GAMES.index(game), iteration


def test_dopamines_own_files_say_the_same_as_a_table(compare: Compare, tmp_path: Path) -> None:
    returns = published(shift=1.5)
    assert compare(as_dopamine(tmp_path / "data", returns)) == compare(as_table(tmp_path / "table.csv", returns))


@pytest.mark.parametrize(("shift", "outside"), [(1.99, False), (2.01, True)])
def test_the_bar_is_the_range_widened_by_half_its_width(
    compare: Compare, tmp_path: Path, shift: float, outside: bool
) -> None:
    code, lines = compare(as_table(tmp_path / "published.csv", published(shift)))
    assert code == outside
    assert all(line.endswith("OUTSIDE") == outside for line in lines[:-1])


def test_p_is_that_of_one_more_value_under_students_t(compare: Compare, tmp_path: Path) -> None:
    # four values at ±1 and ±0.5 have a deviation of √(5/6); with √(1 + 1/4) for one more, 3.182 of these leave 5% in
    # Student's table at 3 degrees of freedom
    _, lines = compare(as_table(tmp_path / "published.csv", published(3.182 * math.sqrt(5 / 6 * 5 / 4))))
    assert all("p = 0.05 (" in line for line in lines[:-1])


def test_each_implementation_has_a_p_of_its_own(compare: Compare, tmp_path: Path) -> None:
    # two values at ±1 have a deviation of √2, with √(1 + 1/2) for one more √3; at 1 degree of freedom half lies beyond
    _, lines = compare(as_table(tmp_path / "published.csv", published(math.sqrt(3))))
    assert all(re.search(r"TensorFlow \S+ to \S+, p = 0\.5;", line) for line in lines[:-1])


def test_random_play_is_what_ended_before_the_first_update(compare: Compare, tmp_path: Path) -> None:
    _, lines = compare(as_table(tmp_path / "published.csv", published(0.0)))
    for folder in RECORDS:
        episodes = from_parquet((folder / "episodes.parquet").read_bytes())
        early = [row["game_return"] for row in episodes if row["end_step"] <= 20_000]
        assert f"random play {sum(early) / len(early):.2f}," in next(line for line in lines if folder.name in line)


@pytest.mark.parametrize(("frames", "replaced"), [(1_000_000, False), (2_000_000, True)])
def test_kept_records_are_not_replaced_by_shorter_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: int, replaced: bool
) -> None:
    pytest.importorskip("scipy")
    program = importlib.import_module("benchmarks.validation.fidelity")
    shutil.copytree(ROOT / "results" / "fidelity" / "asterix-fp32", tmp_path / "asterix-fp32")
    runs = tmp_path / "runs"
    for name in program.KEPT_FILES:
        Folder(runs).below("asterix-fp32").put(name, b"new")
    monkeypatch.setattr(program, "RECORDS", tmp_path)
    monkeypatch.setattr(program, "train", lambda *_: SimpleNamespace(state="finished", frames=frames))
    assert program.train_and_keep(program.PLAN["asterix-fp32"], str(runs), frames)
    assert ((tmp_path / "asterix-fp32" / "run.json").read_bytes() == b"new") == replaced


def test_without_published_runs_it_says_what_to_name(compare: Compare, tmp_path: Path) -> None:
    code, lines = compare(tmp_path / "nowhere")
    assert code == 2
    assert "name Dopamine's files with --published" in lines[-1]


def test_the_documentation_quotes_every_kept_iteration() -> None:
    page = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    table = page.partition("## Beside Dopamine's published runs")[2].partition("\n## ")[0]
    quoted, game = {}, ""
    for name, ordinal, ours in re.findall(r"^\| (\w*) ?\| (\w+) \| ([\d.]+) \|", table, re.MULTILINE):
        game = name.lower() or game
        quoted[game, 1 + ORDINALS.index(ordinal)] = ours
    assert quoted == {key: f"{value:.2f}" for key, value in kept().items()}
