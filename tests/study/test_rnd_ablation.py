"""The arms of the ablation of RND differ as their comparisons say, and their studies are as derived."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.rnd_ablation import ARMS, CHOOSING_SEEDS, COMPARISONS, worlds_of
from offpiste.config import BonusConfig, RunConfig
from offpiste.methods import METHODS, SMALL_WORLDS
from offpiste.study.plan import make_study, read_study
from offpiste.study.rnd_ablation import ATARI_ARMS, MIDDLES, entry, first, grid, own, places, result
from offpiste.study.which_beta import key_of
from scripts import rnd_ablation

STUDIES = Path(__file__).parents[2] / "studies"
DIFFERENT = {
    "rnd_next_frame": {"pays_for"},
    "rnd_return_std": {"normalise"},
    "rnd_divergence": {"priorities"},
    "rnd_sampled": {"when"},
    "rnd_heads_97": {"heads", "discount"},  # with one head, the discount of the game's return, which is 0.97
    "rnd_heads_99": {"discount"},
    "rnd_endless": {"ends_with_episode"},
    "rnd_no_warm_up": {"options"},
    "rnd_no_next_frame": {"pays_for"},
    "rnd_no_return_std": {"normalise"},
    "rnd_no_divergence": {"priorities"},
    "rnd_no_horizon": {"discount"},
    "rnd_no_endless": {"ends_with_episode"},
    "rnd_no_heads": {"heads"},
}


def run_of(arm: str) -> RunConfig:
    content = {"games": ["four_rooms"], "seeds": [0], "methods": [entry(arm, [1.0], ["four_rooms"])]}
    (run,) = make_study("one", content).runs
    return run


def differing(first: BonusConfig, second: BonusConfig) -> set[str]:
    one, other = asdict(first), asdict(second)
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("each", COMPARISONS, ids=lambda each: each.label)
def test_an_arm_differs_from_its_reference_in_one_thing(each: Any) -> None:
    found = differing(run_of(each.arm).bonus, run_of(each.reference).bonus)
    if (each.arm, each.reference) == ("rnd_all", "rnd_base"):
        assert found == {"pays_for", "normalise", "heads", "ends_with_episode", "options"}
    else:
        assert found == DIFFERENT[each.reference if each.reference.startswith("rnd_no") else each.arm]


def test_both_ends_are_rnd_in_full_and_rnd_alone() -> None:
    full = METHODS["rnd_full"].constants[SMALL_WORLDS]
    assert differing(run_of("rnd_all").bonus, full) == {"scale"}
    base = run_of("rnd_base").bonus
    assert base == BonusConfig("rnd_full", full.options | {"warm_up_steps": 0}, scale=1.0, clip_sum=False)
    assert {run_of(arm).bonus.options["features"] for arm in ARMS} == {128}


def test_every_arm_runs_seven_beta_on_two_seeds_of_its_worlds() -> None:
    study = read_study(STUDIES / "rnd_ablation.toml")
    for arm in ARMS:
        runs = [run for run in study.runs if run.method == arm]
        assert {(run.game, run.seed) for run in runs} == {(w, s) for w in worlds_of(arm) for s in CHOOSING_SEEDS}
        scales = sorted({run.bonus.scale for run in runs})
        assert len(scales) == 7
        assert scales[4] == MIDDLES[arm]
    assert len(study.runs) == 2 * 7 * sum(len(worlds_of(arm)) for arm in ARMS)


def test_beta_is_that_of_calibration_where_arms_pay_alike() -> None:
    assert set(MIDDLES) == {*ARMS}
    for alike in (
        ("rnd_base", "rnd_divergence", "rnd_sampled"),
        ("rnd_return_std", "rnd_heads_99", "rnd_endless"),
        ("rnd_all", "rnd_no_divergence", "rnd_no_endless", "rnd_no_heads"),
    ):
        assert len({MIDDLES[arm] for arm in alike}) == 1
    assert MIDDLES["rnd_all"] == METHODS["rnd_full"].constants[SMALL_WORLDS].scale


def test_the_atari_form_has_what_pays_as_rnd_in_full_does() -> None:
    study = read_study(STUDIES / "rnd_ablation_atari.toml")
    assert {run.method for run in study.runs} == {*ATARI_ARMS}
    assert {MIDDLES[arm] for arm in ATARI_ARMS} == {MIDDLES["rnd_all"]}
    assert {run.bonus.scale for run in study.runs} == {METHODS["rnd_full"].bonus.scale}
    assert {run.bonus.options.get("features", 512) for run in study.runs} == {512}


def test_the_studies_are_as_derived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["rnd_ablation", "--check"])
    assert rnd_ablation.main() == 0
    monkeypatch.setattr(rnd_ablation, "FOLDER", tmp_path)
    assert rnd_ablation.main() == 1


def test_what_a_world_chose_runs_on_seeds_that_chose_nothing() -> None:
    best = (-2,)
    tables = {
        arm: {
            world: {point: {seed: (float(point == best), 0.0) for seed in CHOOSING_SEEDS} for point in grid(arm)}
            for world in worlds_of(arm)
        }
        for arm in ARMS
    }
    assert rnd_ablation.missing(tables) == []
    study = make_study("result", result(tables, range(3)))
    assert {(run.method, run.game) for run in study.runs} == {(arm, world) for arm in ARMS for world in worlds_of(arm)}
    assert {run.seed for run in study.runs} == {0, 1, 2}
    assert all(run.bonus.scale == grid(run.method)[best]["bonus.scale"] for run in study.runs)
    found = places()
    assert all(found[key_of(run)] == best for run in study.runs)  # found again by its fingerprints
    del tables["rnd_all"]["museum"][0,][101]
    assert rnd_ablation.missing(tables) == ["museum/rnd_all/seed-101 at k = 0"]


def test_seeds_that_score_choose_nothing() -> None:
    points: dict[Point, dict[int, tuple[float, float]]] = {
        (0,): {100: (1.0, 0.0), 0: (0.0, 0.0)},
        (2,): {100: (0.0, 0.0), 0: (1.0, 0.0), 1: (1.0, 0.0)},
    }
    assert own(points) == (0,)


def test_the_first_study_has_a_place_for_each_of_its_runs() -> None:
    assert {key_of(run) for run in make_study("first", first()).runs} == places().keys()
