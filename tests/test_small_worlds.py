"""What README and the docs say of the results of the small worlds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from offpiste.analysis.small_worlds import SMALL_WORLDS
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
    lines = small_worlds.scores(tmp_path / "store").splitlines()
    assert lines == [
        "| | Four Rooms<br>*hard* | Museum<br>*easy* |",
        "|---|---|---|",
        "| ε-greedy | 0.00 | 1.00 |",
        "| CTS | **0.50** | 1.00 |",
        "| *Oracle* | **1.00** | 1.00 |",
    ]
    assert small_worlds.finished(tmp_path / "store")


def test_nothing_is_said_of_scores_until_all_runs_are_there(tmp_path: Path) -> None:
    write_small_worlds(Folder(tmp_path / "store"), SCORES | {("museum", "cts"): [1.0] * 5})
    assert small_worlds.answers(tmp_path / "store") == "Under way: 35 of 36 runs are finished.\n"
    assert not small_worlds.finished(tmp_path / "store")
    assert small_worlds.scores(tmp_path / "store") == "Under way: 35 of 36 runs are finished.\n"


def test_a_page_is_renewed_between_its_markers_alone(tmp_path: Path) -> None:
    write_small_worlds(Folder(tmp_path / "store"), SCORES)
    page = "before\n<!-- scores -->\nold\n<!-- end -->\nafter <!-- measured x -->3<!-- end -->\n"
    before, *table, after = small_worlds.renewed(page, tmp_path / "store").split("\n", 2)
    assert before == "before"
    assert "\n".join(table) == "<!-- scores -->"
    assert after.startswith("| | Four Rooms<br>*hard* |")
    assert after.endswith("|\n<!-- end -->\nafter <!-- measured x -->3<!-- end -->\n")
    assert "Museum" not in after  # where methods do not differ


def verdict(key: str, word: str, label: str, p_for: float, p_against: float) -> Any:
    finding = SimpleNamespace(key=key)
    deciding = SimpleNamespace(label=label)
    return SimpleNamespace(finding=finding, verdict=word, deciding=deciding, p_for=p_for, p_against=p_against, seeds=10)


BEATS = "pixelcnn beats epsilon_greedy on deep_sea_12"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("supported", "**Yes:** the least certain is that PixelCNN beats ε-greedy on Deep Sea (p = 0.04)."),
        ("contradicted", "**No:** PixelCNN does not beat ε-greedy on Deep Sea (p < 0.001)."),
        ("not enough evidence", "**Inconclusive** with 10 seeds."),
    ],
)
def test_a_finding_is_a_question_with_a_plain_answer(word: str, said: str) -> None:
    found = verdict("small-bonuses-beat-baseline", word, BEATS, 0.043, 0.0002)
    assert small_worlds.answer(found).endswith(f"where all were tuned? {said}")


def test_a_finding_that_says_no_is_answered_the_other_way_round() -> None:
    key, label = "small-no-bonus-beats-baseline-everywhere", "simhash does not beat epsilon_greedy on noisy_tv"
    supported = small_worlds.answer(verdict(key, "supported", label, 0.043, 1.0))
    assert " **No:** each fails in one of them; " in supported
    assert supported.endswith("that SimHash does not beat ε-greedy on Noisy TV (p = 0.04).")
    contradicted = small_worlds.answer(verdict(key, "contradicted", label, 1.0, 0.01))
    assert contradicted.endswith("**Yes:** SimHash beats ε-greedy on Noisy TV (p = 0.01).")


def test_every_finding_has_a_question() -> None:
    assert {each.key for each in SMALL_WORLDS.findings} == set(small_worlds.QUESTIONS)
