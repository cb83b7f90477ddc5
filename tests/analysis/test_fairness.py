"""Who was tuned, on what, with which seeds, and who more than others."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.fairness import statements, tunings, variants
from offpiste.analysis.names import seeds_text
from offpiste.analysis.paper import BONUSES
from offpiste.config import BonusConfig
from offpiste.methods import METHODS, PAPER_METHODS, base_run
from offpiste.report.quality_tables import tuning_table, variants_table
from offpiste.store.storage import Folder
from offpiste.study.plan import points_of, read_study
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import evidence_of, write_study

MONTEZUMA = "montezuma_revenge"


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def tune(store: Folder, method: str, scale: float, seed: int, score: float = 1.0, game: str = MONTEZUMA) -> None:
    bonus = replace(METHODS[method].bonus, scale=scale)
    write_run(store, config_of(game, method, seed, bonus=bonus, variant=f"beta={scale}"), [score] * 3)


def test_settings_of_the_paper_are_those_of_its_tuning_study() -> None:
    study = read_study(Path(__file__).parents[2] / "studies" / "tuning.toml")
    tried = {name: METHODS[name].paper_settings for name in BONUSES}
    assert {arm.name: len(points_of(arm)) for arm in study.arms} == tried


def test_without_tuning_runs_the_budget_is_the_papers(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0], ("freeway", "cts"): [1.0]})
    evidence = evidence_of(store)
    found = tunings(evidence)
    assert [(each.method, each.settings, each.budget) for each in found] == [("epsilon_greedy", 0, 0), ("cts", 0, 8)]
    said = " ".join(statements(evidence, found, variants(evidence)))
    assert "No run in this store tunes anything" in said
    assert "ε-greedy 0, CTS 8" in said
    assert "CTS had 8 settings to choose from, ε-greedy 0" in said
    assert tuning_table(found).rows[1][-1] == "tuned more: 8 settings beside 0"


def test_constants_that_are_not_the_papers_have_no_known_budget(store: Folder) -> None:
    write_study(store, {("freeway", "cts"): [1.0]}, bonus=BonusConfig(name="cts", scale=7.0))
    other = replace(METHODS["pixelcnn"].bonus, options={"decay": 1.0, "gate": "product"})
    write_study(store, {("freeway", "pixelcnn"): [1.0]}, bonus=other)
    write_study(store, {("freeway", "mine"): [1.0]}, bonus=BonusConfig(name="module:Mine"))
    evidence = evidence_of(store)
    found = tunings(evidence)
    assert [each.budget for each in found] == [None, None, None]
    assert "Not known is how the constants of CTS, PixelCNN, mine were chosen" in " ".join(
        statements(evidence, found, variants(evidence))
    )
    assert {row[-1] for row in tuning_table(found).rows} == {"not known"}


@pytest.mark.parametrize("change", [{"noise_scale": 0.1}, {"epsilon_final": 0.05}])
def test_another_way_of_choosing_actions_is_not_the_papers_either(store: Folder, change: dict[str, float]) -> None:
    noisy = replace(METHODS["noisy_nets"].exploration, **change)  # type: ignore[arg-type]
    write_study(store, {("freeway", "noisy_nets"): [1.0]}, exploration=noisy)
    write_study(store, {("freeway", "cts"): [1.0]}, exploration=replace(METHODS["cts"].exploration, **change))  # type: ignore[arg-type]
    assert [each.elsewhere for each in tunings(evidence_of(store))] == [None, None]


def test_a_shorter_decay_of_epsilon_scales_a_method_and_does_not_tune_it(store: Folder) -> None:
    shorter = replace(METHODS["cts"].exploration, epsilon_decay_steps=10)
    write_study(store, {("freeway", "cts"): [1.0]}, exploration=shorter, bonus=METHODS["cts"].bonus)
    assert [each.elsewhere for each in tunings(evidence_of(store))] == [METHODS["cts"].paper_settings]


def test_every_method_as_it_is_has_the_papers_constants_on_every_kind_of_game(store: Folder) -> None:
    for game in ("freeway", "deep_sea_6"):
        for method in PAPER_METHODS:
            write_run(store, base_run(game, method), [1.0] * 3)
    assert {each.method: each.elsewhere for each in tunings(evidence_of(store))} == {
        name: METHODS[name].paper_settings for name in PAPER_METHODS
    }


def test_a_game_that_this_version_does_not_know_has_no_known_constants(store: Folder) -> None:
    write_study(store, {("deep_sea_99", "cts"): [1.0]})
    assert [each.elsewhere for each in tunings(evidence_of(store))] == [None]


def test_tuning_is_counted_and_its_game_and_seeds_told(store: Folder) -> None:
    write_study(store, {(MONTEZUMA, "cts"): [1.0, 1.0], (MONTEZUMA, "rnd"): [1.0, 1.0]}, bonus=BonusConfig(scale=3.0))
    for scale in (0.1, 0.2, 0.3):
        for seed in (100, 101):
            tune(store, "cts", scale, seed)
    tune(store, "rnd", 0.1, 100)
    evidence = evidence_of(store)
    found = tunings(evidence)
    cts, rnd = found
    assert (cts.settings, cts.runs, cts.frames, cts.games) == (3, 6, 6 * 1200, (MONTEZUMA,))
    assert (cts.tuning_seeds, cts.test_seeds, cts.shared_seeds) == ((100, 101), (0, 1), ())
    assert (rnd.settings, rnd.budget) == (1, 1)
    said = statements(evidence, found, variants(evidence))
    assert "Tuned in this store: CTS, RND, on Montezuma’s Revenge." in said
    assert "Tuning and test seeds are disjoint." in said
    assert any("CTS had 3 settings to choose from, RND 1" in line for line in said)


def test_seeds_that_tune_and_test_the_same_game_are_named(store: Folder) -> None:
    write_study(store, {(MONTEZUMA, "cts"): [1.0, 1.0], ("freeway", "rnd"): [1.0, 1.0]})
    tune(store, "cts", 0.1, seed=1)
    tune(store, "rnd", 0.1, seed=1)  # on another game than it is tested on
    evidence = evidence_of(store)
    found = tunings(evidence)
    assert [each.shared_seeds for each in found] == [(1,), ()]
    assert any(
        line.startswith("Tuning and test seeds are not disjoint: CTS (1)")
        for line in statements(evidence, found, variants(evidence))
    )
    assert [row[7] for row in tuning_table(found).rows] == ["no", "yes"]


def test_settings_tried_are_listed_best_first(store: Folder) -> None:
    for scale, scores in ((0.1, (1.0, 2.0)), (0.2, (7.0, 9.0)), (0.3, (3.0, 3.0))):
        for seed, score in enumerate(scores):
            tune(store, "cts", scale, seed, score)
    evidence = evidence_of(store)
    rows = variants_table(variants(evidence)).rows
    assert [(row[2], row[3], row[4], row[7]) for row in rows] == [
        ("beta=0.2", 2, 8.0, 1.0),
        ("beta=0.3", 2, 3.0, 0.0),
        ("beta=0.1", 2, 1.5, 0.0),
    ]
    assert "share of the draws: CTS 100%." in " ".join(statements(evidence, tunings(evidence), variants(evidence)))


def test_a_store_without_runs_has_nothing_to_say() -> None:
    assert seeds_text(()) == "–"
    assert seeds_text((0, 1, 2, 4, 7, 8)) == "0–2, 4, 7–8"
