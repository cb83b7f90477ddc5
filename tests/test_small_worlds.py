"""What README and the docs say of the results of the small worlds."""

from pathlib import Path

import pytest

from offpiste.store.storage import Folder
from scripts import small_worlds
from tests.analysis import fake_worlds
from tests.analysis.small_study import write_small_worlds

WORLDS = ["four_rooms", "museum"]
SCORES = {
    ("four_rooms", "epsilon_greedy"): [0.0] * 6,
    ("four_rooms", "cts"): [0.25, 0.75] * 3,
    ("four_rooms", "oracle"): [1.0] * 6,
    ("museum", "epsilon_greedy"): [1.0] * 6,
    ("museum", "cts"): [1.0] * 6,
    ("museum", "oracle"): [1.0] * 6,
}


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of two worlds, three methods and six seeds in place of the published one."""
    fake_worlds.use(monkeypatch)
    file = tmp_path / "study.toml"
    file.write_text(
        f'games = {WORLDS}\nmethods = ["epsilon_greedy", "oracle", "cts"]\nseeds = {[*range(6)]}\n', encoding="utf-8"
    )
    monkeypatch.setattr(small_worlds, "STUDY", file)


def test_the_table_has_oracles_last_and_what_beats_the_baseline_in_bold(tmp_path: Path) -> None:
    write_small_worlds(Folder(tmp_path / "store"), SCORES)
    lines = small_worlds.part(tmp_path / "store").splitlines()
    assert lines[:5] == [
        "| | Four Rooms<br>*hard* | Museum<br>*easy* |",
        "|---|---|---|",
        "| ε-greedy | 0.00 | 1.00 |",
        "| CTS | **0.50** | 1.00 |",
        "| *Oracle* | **1.00** | 1.00 |",
    ]
    assert len([line for line in lines if line.startswith("- ")]) == 5
    assert small_worlds.finished(tmp_path / "store")


def test_nothing_is_said_of_scores_until_all_runs_are_there(tmp_path: Path) -> None:
    write_small_worlds(Folder(tmp_path / "store"), SCORES | {("museum", "cts"): [1.0] * 5})
    assert small_worlds.part(tmp_path / "store") == "Under way: 35 of 36 runs are finished.\n"
    assert not small_worlds.finished(tmp_path / "store")
