"""The studies of Which β?: the first stage by rule, later ones from made-up records."""

from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.small_worlds import BONUSES, EASY, HARD, LADDER
from offpiste.analysis.which_beta import FAMILIES, Runs
from offpiste.methods import METHODS, SMALL_WORLDS, base_run
from offpiste.study import which_beta
from offpiste.study.plan import make_study, read_study
from offpiste.study.which_beta import (
    ACTION_POINTS,
    ACTIONS,
    PARTS,
    action_grid,
    bonus_grid,
    config_of,
    grids_of,
    key_of,
    keys_of,
    places_of,
    published_points,
    read_grids,
    result,
    scales_around,
    stage_1,
    stage_2,
    unfinished,
)

STUDIES = Path(__file__).parents[2] / "studies"
TUNING = [read_study(STUDIES / f"small_worlds_tuning{part}.toml") for part in ("", "_extended")]
GRID = bonus_grid([0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])
LOW, HIGH = (-4,), (2,)


def never(method: str) -> float:
    raise AssertionError(f"{method} has a published grid")


def runs(value: float, *seeds: int) -> Runs:
    return dict.fromkeys(seeds, (value, value))


def ids(content: dict[str, Any]) -> set[str]:
    return {run.run_id for run in make_study("study", content).runs}


def test_seven_betas_reach_from_four_half_decades_below_the_middle_to_two_above() -> None:
    assert scales_around(1.0) == (0.01, 0.032, 0.1, 0.32, 1.0, 3.2, 10.0)
    assert scales_around(1.0, tried=(0.31, 9.0)) == (0.01, 0.032, 0.1, 0.31, 1.0, 3.2, 10.0)
    assert bonus_grid(scales_around(1.0))[-4,] == {"bonus.scale": 0.01}
    with pytest.raises(ValueError, match="must have 7 β, got 2"):
        bonus_grid((0.1, 1.0))


def test_published_constants_lie_on_the_grids_where_the_tuning_found_them() -> None:
    grids = grids_of((*BONUSES, *LADDER), TUNING, never)
    k = {"pixelcnn": -2, "icm": -3, "rnd_released": -1, "simhash": -1}
    assert published_points(grids) == {method: (k.get(method, 0),) for method in (*BONUSES, *LADDER)}
    for method, point in published_points(grids).items():
        assert grids[method][point]["bonus.scale"] == METHODS[method].constants[SMALL_WORLDS].scale


@pytest.mark.parametrize("method", ACTIONS)
def test_a_method_without_a_bonus_has_seven_settings_around_its_default(method: str) -> None:
    grid = action_grid(method)
    assert len(grid) == len(set(ACTION_POINTS)) == 7
    for world in ("four_rooms", "museum"):
        assert key_of(config_of(world, method, grid, (0, 0))) == key_of(base_run(world, method))
    assert len({key_of(config_of("four_rooms", method, grid, point)) for point in grid}) == 7
    assert all(any(abs(a - c) + abs(b - d) == 1 for c, d in grid) for a, b in grid)  # each has a neighbour


@pytest.mark.parametrize("part", which_beta.PARTS)
def test_the_first_stage_runs_seven_settings_twice_on_hard_worlds_and_once_on_easy_ones(part: str) -> None:
    methods = which_beta.PARTS[part]
    hard, easy = (read_study(STUDIES / "which_beta" / f"{part}_1_{suite}.toml") for suite in ("hard", "easy"))
    assert len(hard.runs) == len(methods) * 7 * len(HARD) * 2
    assert len(easy.runs) == len(methods) * 7 * len(EASY)
    assert {run.seed for run in hard.runs} == {100, 101}
    assert {run.seed for run in easy.runs} == {100}
    assert all(run.variant for run in (*hard.runs, *easy.runs))  # or a report would take them for results
    grids = read_grids(hard)
    assert grids == read_grids(easy)
    assert list(grids) == list(methods)
    assert {method: grids[method] for method in (*BONUSES, *LADDER) if method in grids} == {
        method: grid for method, grid in grids_of((*BONUSES, *LADDER), TUNING, never).items() if method in grids
    }
    for run in hard.runs:
        if run.method not in ACTIONS and SMALL_WORLDS in METHODS[run.method].constants:
            assert run.bonus.options == METHODS[run.method].constants[SMALL_WORLDS].options


def test_the_first_stage_on_deep_sea_runs_what_the_published_tuning_lacks() -> None:
    grids = grids_of(("cts", "rnd", "icm", "epsilon_greedy"), TUNING, never)
    studies = stage_1(grids, keys_of(TUNING))
    missing = {(method, scale) for method in ("rnd",) for scale in (3.8e-05, 0.00012)}
    found = make_study("tuned", studies["1_tuned"]).runs
    assert {(run.method, run.bonus.scale) for run in found} == missing
    assert {(run.game, run.seed) for run in found} == {("deep_sea_12", seed) for seed in range(100, 105)}
    controls = make_study("controls", studies["1_controls"]).runs
    assert {(run.game, run.method) for run in controls} == {
        ("blank_tv", "cts"),
        ("blank_tv", "rnd"),
        ("noisy_tv_passive", "icm"),
    }
    assert "1_tuned" not in stage_1({"epsilon_greedy": action_grid("epsilon_greedy")}, {})


def test_a_run_is_found_by_its_settings_whatever_it_is_called() -> None:
    grids = grids_of(("cts",), TUNING, never)
    places = places_of(grids)
    assert {places[key_of(base_run(world, "cts"))] for world in FAMILIES} == {(0,)}
    assert set(places.values()) == set(grids["cts"])


def test_the_second_stage_runs_the_two_best_of_each_world_on_three_more_seeds() -> None:
    table: dict[str, dict[Point, Runs]] = {
        "four_rooms": {point: runs(float(point == HIGH), 100, 101) for point in GRID},
        "blank_tv": {point: runs(float(point == LOW), 100, 101) for point in GRID},
        "catch": {point: runs(1.0, 100) for point in GRID},
    }
    found = stage_2({"cts": GRID}, {"cts": table})
    assert ids(found) == {
        f"{world}/cts/beta={scale}/seed-{seed}"
        for world, scales in (("four_rooms", (100, 1000)), ("blank_tv", (0.001, 0.01)))
        for scale in scales
        for seed in (102, 103, 104)
    }


def full_table() -> dict[str, dict[Point, Runs]]:
    """Own: high on Key and Door and low elsewhere; for all but that: low; on Deep Sea in the middle."""
    best = dict.fromkeys(FAMILIES, LOW) | {"key_door": HIGH, "deep_sea_12": (0,)}
    return {world: {point: runs(float(point == best[world]), 100, 101) for point in GRID} for world in FAMILIES}


def test_the_result_runs_what_was_chosen_once_and_nothing_that_is_there() -> None:
    table = full_table()
    table["wallpaper"] = table["wallpaper"] | {(0,): runs(0.0, 0, 1, 100, 101)}
    found = ids(result({"cts": GRID}, {"cts": table}, {}, (0, 1)))
    assert {name for name in found if "wallpaper" in name} == {f"wallpaper/cts/beta=0.001/seed-{s}" for s in (0, 1)}
    assert {name for name in found if "blank_tv" in name} == {f"blank_tv/cts/beta=0.001/seed-{s}" for s in (0, 1)}
    assert len({name for name in found if "key_door" in name}) == 3 * 2


def test_a_method_with_its_own_constants_runs_under_its_plain_name() -> None:
    grids = grids_of(("cts",), TUNING, never)
    table = {world: {point: runs(float(point == (0,)), 100, 101) for point in grids["cts"]} for world in FAMILIES}
    found = ids(result(grids, {"cts": table}, published_points(grids), (10,)))
    assert found == {f"{world}/cts/seed-10" for world in FAMILIES}


def test_methods_without_a_bonus_are_scored_by_default_too_and_on_deep_sea_by_nothing_else() -> None:
    grid = action_grid("ez_greedy")
    table = {world: {point: runs(float(point == (1, 1)), 100, 101) for point in grid} for world in (*HARD, *EASY)}
    found = ids(result({"ez_greedy": grid}, {"ez_greedy": table}, {}, (0,)))
    assert {f"{world}/ez_greedy/seed-0" for world in (*HARD, *EASY, "deep_sea_12")} < found
    assert "museum/ez_greedy/epsilon_final=0.32,repeat_exponent=3/seed-0" in found


def test_what_a_stage_lacks_is_named() -> None:
    grids = grids_of(("cts",), TUNING, never)
    study = make_study(
        "s", {"games": ["catch"], "seeds": [100, 101], "methods": which_beta.arms("cts", grids["cts"], [LOW])}
    )
    assert unfinished(study, grids, {"cts": {"catch": {LOW: runs(0.0, 100)}}}) == ["catch/cts/beta=0.00082/seed-101"]


def test_bonuses_that_nobody_tuned_get_what_every_bonus_got_on_deep_sea() -> None:
    study = read_study(STUDIES / "which_beta" / "zoo_0_tuning.toml")
    assert {(run.game, run.seed) for run in study.runs} == {("deep_sea_12", seed) for seed in range(100, 105)}
    tuned = {*PARTS["zoo"]} - {"e3b", "ride"}  # which fall within an episode alone
    for method in tuned:
        settings = {(r.bonus.scale, r.bonus.options["learning_rate"]) for r in study.runs if r.method == method}
        constants = METHODS[method].constants[SMALL_WORLDS]
        assert len(settings) == 15
        assert (constants.scale, constants.options["learning_rate"]) in settings
    assert {run.method for run in study.runs} == tuned
