"""A report about one method begins with it: a sentence, whom to hold it beside, and how its β was chosen."""

from pathlib import Path

import pytest

from offpiste.analysis.comparisons import against_baseline_by_game
from offpiste.analysis.own import Own, about
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.config import BonusConfig
from offpiste.errors import OffpisteError
from offpiste.report.page import build
from offpiste.store.storage import Folder
from tests.analysis import fake_worlds
from tests.analysis.small_study import evidence_of, write_small_worlds
from tests.report.test_page import Page

WORLDS = ("deep_sea_12", "four_rooms", "museum")
SCORES = {
    "epsilon_greedy": (0.0, 0.0, 1.0),
    "mine": (1.0, 0.5, 1.0),
    "cts": (1.0, 1.0, 1.0),
    "rnd": (0.9, 0.45, 1.0),
    "oracle": (1.0, 1.0, 1.0),
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    fake_worlds.use(monkeypatch)
    return Folder(tmp_path / "store")


def write(store: Folder, seeds: int = 8) -> None:
    scores = {(world, method): [score] * seeds for method, own in SCORES.items() for world, score in zip(WORLDS, own)}  # noqa: B905
    write_small_worlds(store, {key: values for key, values in scores.items() if key[1] != "mine"})
    write_small_worlds(store, {key: values for key, values in scores.items() if key[1] == "mine"}, bonus=mine(0.1))
    for beta in (0.01, 0.1, 1.0):
        tried = {("deep_sea_12", "mine"): [min(1.0, 10 * beta), 0.0]}
        write_small_worlds(store, tried, bonus=mine(beta), variant=f"beta={beta}")


def mine(beta: float) -> BonusConfig:
    return BonusConfig(name="module:Mine", scale=beta)


def own_of(store: Folder) -> Own:
    evidence = evidence_of(store)
    found = about(evidence, "mine", against_baseline_by_game(evidence, SMALL_WORLDS))
    assert found is not None
    return found


def test_beside_it_stand_the_baseline_the_best_the_oracle_and_its_nearest_neighbour(store: Folder) -> None:
    write(store)
    assert own_of(store).roles == {
        "epsilon_greedy": "the baseline",
        "oracle": "counts of true states",
        "cts": "best published",
        "rnd": "nearest neighbour",
    }


def test_the_sentence_names_it_and_says_where_it_beats_the_baseline_and_how_it_stands_to_the_best(
    store: Folder,
) -> None:
    write(store)
    assert own_of(store).sentence == (
        "mine is shown to beat ε-greedy on 2 of 3 worlds, Deep Sea 12 and Four Rooms; beside CTS, the best published "
        "bonus here, its mean score is above on 0, below on 1 and level on 2."
    )


def test_with_too_few_seeds_the_sentence_says_so(store: Folder) -> None:
    write(store, seeds=3)
    assert own_of(store).sentence.startswith("mine has 3 seeds, too few to show anything beside ε-greedy on 3 worlds;")


def test_the_tuning_has_the_scores_of_each_beta_by_seed_and_what_was_chosen(store: Folder) -> None:
    write(store)
    found = own_of(store)
    assert {each.beta: each.scores for each in found.tried} == {
        0.01: {0: pytest.approx(0.1), 1: 0.0},
        0.1: {0: pytest.approx(1.0), 1: 0.0},
        1.0: {0: pytest.approx(1.0), 1: 0.0},
    }
    assert (found.chosen, found.tuned_on) == (0.1, "deep_sea_12")


def test_the_page_begins_with_it(store: Folder, tmp_path: Path) -> None:
    write(store)
    report = build(store, tmp_path / "report", about="mine")
    page = Page(report.page)
    assert page.ids[0] == "own" or page.ids.index("own") < page.ids.index("profile")
    assert page.text.index("mine is shown to beat") < page.text.index("Scores at a glance")
    assert "The bar is at the β that was chosen, 0.1." in page.text
    assert "--about mine" in page.text
    assert (tmp_path / "report" / "figures" / "own_differences.pdf").is_file()


def test_a_method_without_runs_is_refused_by_name(store: Folder, tmp_path: Path) -> None:
    write_small_worlds(store, {("museum", "cts"): [1.0]})
    with pytest.raises(OffpisteError, match="there is no run of 'mien' to begin with; there are cts"):
        build(store, tmp_path / "report", about="mien")
