"""The grid of a bonus and the choice from it, worked out by hand."""

from collections import Counter
from pathlib import Path

import pytest

from offpiste.analysis.evidence import gather
from offpiste.analysis.fairness import variants
from offpiste.analysis.load import load
from offpiste.analysis.results import Results
from offpiste.analysis.small_worlds import BONUSES, LADDER
from offpiste.config import BonusConfig
from offpiste.methods import METHODS, SMALL_WORLDS
from offpiste.study.plan import read_study
from offpiste.study.trial import Trial, best_of
from offpiste.study.tuning import GAME, SEEDS, Grid, grid_of, half_decades, rounded, typical_intrinsic

STUDIES = Path(__file__).parents[2] / "studies"


def test_settings_are_half_a_decade_apart_around_the_middle() -> None:
    assert half_decades(0.1, 5) == (0.01, 0.032, 0.1, 0.32, 1.0)
    assert rounded(0.031622) == 0.032


def test_a_bonus_with_a_learning_rate_has_five_betas_and_three_rates_and_any_other_fifteen_betas() -> None:
    counts, learns = grid_of("oracle"), grid_of("rnd", {"features": 8})
    assert (len(counts.scales), counts.rates) == (15, ())
    assert (len(learns.scales), learns.rates) == (5, (0.0002, 0.00063, 0.002))
    assert counts.axes() == {"beta": {"setting": "bonus.scale", "values": list(counts.scales)}}
    assert learns.axes()["lr"] == {"setting": "bonus.options.learning_rate", "values": [0.0002, 0.00063, 0.002]}


def test_the_middle_beta_scales_the_median_intrinsic_reward_of_a_random_policy_to_three_hundredths() -> None:
    typical = typical_intrinsic(BonusConfig(name="oracle"))
    assert typical == pytest.approx(1 / 3)  # the ninth visit of a cell, in a thousand steps through some ninety
    assert grid_of("oracle").middle == rounded(0.03 / typical) == 0.09


def test_a_grid_is_extended_by_two_values_if_the_best_is_at_its_edge() -> None:
    grid = Grid((0.01, 0.032, 0.1, 0.32, 1.0), (1e-4,))
    assert grid.extended(0.1) is None
    assert grid.extended(1.0) == Grid((3.2, 10.0), (1e-4,))
    assert grid.extended(0.01) == Grid((0.001, 0.0032), (1e-4,))


@pytest.mark.exhaustive
def test_the_grids_in_the_tuning_study_follow_the_rule() -> None:
    for arm in read_study(STUDIES / "small_worlds_tuning.toml").arms:
        options = arm.settings.get("bonus", {}).get("options")
        assert arm.grid == grid_of(arm.bonus, options).axes(), arm.name


def test_the_tuning_study_has_fifteen_settings_and_five_seeds_per_method() -> None:
    study = read_study(STUDIES / "small_worlds_tuning.toml")
    runs = Counter(run.method for run in study.runs)
    assert runs == dict.fromkeys((*BONUSES, *LADDER), 75)
    assert {run.game for run in study.runs} == {GAME}
    assert {run.seed for run in study.runs} == set(SEEDS)
    assert {run.frames for run in study.runs} == {5_000}


@pytest.fixture(scope="module")
def results() -> Results:
    return load(Path(__file__).parents[2] / "results" / "small_worlds")


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if SMALL_WORLDS in row.constants])
def test_published_constants_are_those_that_the_tuning_chose(method: str, results: Results) -> None:
    published = METHODS[method].constants[SMALL_WORLDS]
    assert best_of(Trial(method, (), 0), results) == {"scale": published.scale, "options": published.options}


def test_a_report_lists_first_what_the_tuning_chose(results: Results) -> None:
    first: dict[str, tuple[float, float | None]] = {}
    for each in variants(gather(results, "tuning")):
        axes = dict(part.split("=") for part in each.name.split(","))
        first.setdefault(each.method, (float(axes["beta"]), float(axes["lr"]) if "lr" in axes else None))
    published = {method: METHODS[method].constants[SMALL_WORLDS] for method in (*BONUSES, *LADDER)}
    assert first == {method: (bonus.scale, bonus.options.get("learning_rate")) for method, bonus in published.items()}


def test_three_settings_of_the_oracle_are_equal_and_the_largest_area_is_chosen(results: Results) -> None:
    oracle = [each for each in variants(gather(results, "tuning")) if each.method == "oracle"]
    assert [each.name for each in oracle[:3]] == ["beta=0.09", "beta=0.28", "beta=0.028"]
    assert [each.mean for each in oracle[:3]] == pytest.approx([0.98201] * 3, abs=1e-5)  # 0.99 is the best policy's
    assert [each.area for each in oracle[:3]] == pytest.approx([0.2156, 0.2078, 0.1645], abs=1e-4)
    assert oracle[3].mean == pytest.approx(0.787, abs=1e-3)
