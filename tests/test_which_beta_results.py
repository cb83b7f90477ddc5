"""What README and the docs say of Which β? follows from the runs, and says nothing while one is missing."""

from pathlib import Path

import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.which_beta_findings import FINDINGS
from offpiste.analysis.which_beta_progress import Collected
from scripts import which_beta_results as results
from tests.analysis.which_beta_runs import collect, without_a_run

METHODS = (*SMALL_WORLDS.published, "oracle_left")


def truth(method: str, world: str, point: Point) -> float:
    """Bonuses solve all worlds at k = 1, RND none; without a bonus one world is solved, however it is set."""
    if method in (BASELINE, "noisy_nets"):
        return float(world == "key_door")
    return 0.0 if method == "rnd" else float(point == (1,))


@pytest.fixture(scope="module")
def ten() -> Collected:
    return collect(METHODS, truth, range(10))


@pytest.fixture(scope="module")
def twenty() -> Collected:
    return collect(METHODS, truth, range(20))


def test_the_table_of_readme_counts_the_worlds_that_each_score_solves(ten: Collected) -> None:
    _, _, _, heads, _, *rows = results.table(ten).splitlines()
    assert heads == "| | tuned on Deep Sea | one β for all | a β of its own |"
    assert len(rows) == 11
    assert rows[0] == "| ε-greedy | 1 | 1 | 1 |"
    assert "| CTS | 0 | 4 | 4 |" in rows
    assert "| RND | 0 | 0 | 0 |" in rows
    assert rows[-1].startswith("| *Oracle")


def test_the_table_is_empty_while_a_run_of_any_score_is_missing(ten: Collected) -> None:
    lacking = without_a_run(ten, "cts", "wallpaper", (1,), 9)
    assert results.table(lacking) == ""
    page = "before\n<!-- which-beta -->\n{}<!-- end -->\nafter\n"
    assert results.renewed(page.format(results.table(ten)), lacking) == page.format("")
    assert results.renewed(page.format(""), ten) == page.format(results.table(ten))


def test_readme_has_the_place_of_the_table() -> None:
    text = (results.ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("<!-- which-beta -->\n") == 1


def test_every_question_is_answered_once_its_runs_are_there(twenty: Collected) -> None:
    lines = results.answers(twenty).splitlines()
    assert len(lines) == len(FINDINGS)  # one for all beside them; one waits for the bonuses to come
    first, second, third, *_ = lines
    assert first.startswith(
        "- Does a bonus that was tuned on Deep Sea beat ε-greedy elsewhere? **No:** CTS beats ε-greedy"
    )
    assert second.startswith("- Is there one β that works in all worlds? Described, not tested: worlds of 5")
    assert "CTS 5, " in second
    assert "RND 0, " in second
    assert third == (
        "- Do bonuses score more with a β of the world's own? **Yes:** own beats transferred (by 0.80 on average, "
        "p < 0.001)."
    )
    assert not any("Not judged" in line for line in lines)


def test_with_ten_seeds_nothing_is_judged_and_the_missing_runs_are_counted(ten: Collected) -> None:
    first, second, *others = results.answers(ten).splitlines()
    assert first.endswith("Not judged yet: 0 of 180 runs are there.")
    assert "Described, not tested" in second
    assert all("Not judged yet: " in line for line in others)


def test_constants_are_shown_once_they_are_settled(ten: Collected) -> None:
    row = next(line for line in results.constants(ten).splitlines() if line.startswith("| CTS |"))
    assert row == "| CTS | 0 | 1 | 1 | 1 | 1 | 1 | 1 | – |"  # with the blank form of Noisy TV, not with the passive one
    lacking = without_a_run(ten, "cts", "wallpaper", (2,), 101)
    row = next(line for line in results.constants(lacking).splitlines() if line.startswith("| CTS |"))
    assert row == "| CTS | 0 | – | 1 | 1 | 1 | – | 1 | – |"
    first = collect(("cts",), truth, (), stages=1)
    assert results.constants(first) == "No k is settled yet but that of Deep Sea.\n"


def test_the_progress_is_that_of_the_runs_that_choose(ten: Collected) -> None:
    assert results.progress(ten) == "Of the runs that choose constants of today’s methods, all are there."
    lacking = without_a_run(ten, "cts", "rain", (2,), 100)
    assert " methods, 1," in results.progress(lacking)
    assert results.progress(lacking).endswith(" are there.")


def test_there_is_a_figure_of_every_bonus_one_of_deep_sea_and_one_of_all_scores(
    ten: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []
    monkeypatch.setattr(results, "collected", lambda *_: ten)
    monkeypatch.setattr(results, "CURVES", ("cts",))
    monkeypatch.setattr(results, "save", lambda drawing, folder: saved.append(f"{folder.name}/{drawing.name}"))
    monkeypatch.setattr("sys.argv", ["which_beta_results", "a-store", "--figures", str(tmp_path / "out")])
    assert results.main() == 0
    assert saved == ["out/beta_cts", "out/beta_deep_sea", "out/three_scores"]
