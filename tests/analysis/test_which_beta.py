"""Three scores for every method, worked out by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.results import load
from offpiste.analysis.small_worlds import EASY, SMALL_WORLDS
from offpiste.analysis.summary import summarise
from offpiste.analysis.which_beta import (
    DEFAULT,
    EPISODIC,
    FAMILIES,
    WITHOUT_BONUS,
    Runs,
    Score,
    Table,
    choices,
    finalists,
    is_defined,
    one_for_all,
    own,
    score,
    tables,
    transferred,
)
from offpiste.bonuses.registry import find
from offpiste.methods import METHODS, base_run
from offpiste.store.storage import Folder
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import reference_scores
from tests.analysis.small_store import write_run

LOW: Point = (-1,)
MIDDLE: Point = (0,)
HIGH: Point = (1,)
RESULT = range(10)


def runs(*scores: float, first: int = 100, area: float = 0.0) -> dict[int, tuple[float, float]]:
    return {first + index: (score, area) for index, score in enumerate(scores)}


def everywhere(low: float, middle: float, high: float) -> dict[str, dict[tuple[int, ...], Runs]]:
    points = {(-3,): low, MIDDLE: middle, (3,): high}  # no neighbours
    return {world: {point: runs(value, value, area=value) for point, value in points.items()} for world in FAMILIES}


def test_worlds_on_one_map_are_one_family_and_every_other_world_is_its_own() -> None:
    rooms = {world for world, family in FAMILIES.items() if family == "rooms"}
    assert rooms == {"four_rooms", "noisy_tv", "blank_tv", "noisy_tv_passive"}
    assert set(FAMILIES) == {*SUITES["small_worlds"], "blank_tv", "noisy_tv_passive"}
    assert len(set(FAMILIES.values())) == 7


def test_bonuses_that_only_pay_within_an_episode_are_undefined_on_deep_sea() -> None:
    declared = {
        name for name, row in METHODS.items() if row.bonus_class and getattr(find(name), "scope", "") == "episodic"
    }
    assert set(EPISODIC) == declared
    assert not is_defined("oracle_episodic", "deep_sea_12")
    assert is_defined("oracle_episodic", "four_rooms")
    assert is_defined("oracle_product", "deep_sea_12")


def test_two_finalists_go_to_a_second_stage_and_only_they_can_be_chosen() -> None:
    points: dict[Point, Runs] = {
        (-4,): runs(0.0, 0.0),
        (-3,): runs(0.9, 0.9),  # alone: 0.45 when smoothed
        (-2,): runs(0.0, 0.0),
        LOW: runs(0.5, 0.5),
        MIDDLE: runs(1.0, 1.0),  # 0.75
        HIGH: runs(0.5, 0.5),  # 0.67, more than at -1, 0.5
    }
    assert finalists(points) == (MIDDLE, HIGH)
    assert own(points) == MIDDLE
    second = points | {MIDDLE: runs(1.0, 1.0, 0.0, 0.0, 0.0), HIGH: runs(0.5, 0.5, 1.0, 1.0, 1.0)}
    # Middle: (2·5·0.4 + 2·0.5 + 5·0.8) / 17 = 0.53; high: (2·5·0.8 + 5·0.4) / 15 = 0.67
    assert own(second) == HIGH
    both_fail = points | {MIDDLE: runs(1.0, 1.0, 0.0, 0.0, 0.0), HIGH: runs(0.5, 0.5, 0.0, 0.0, 0.0)}
    # Middle: (4 + 1 + 1) / 17 = 0.35; high: (2 + 2) / 15 = 0.27; -3 has more, but was no finalist
    assert own(both_fail) == MIDDLE
    assert finalists(second) == (MIDDLE, HIGH)  # seeds of the second stage do not choose finalists
    assert own({MIDDLE: {3: (1.0, 1.0)}}) is None  # nor do seeds that score
    assert finalists({}) == ()


def test_one_for_all_leaves_out_the_family_of_the_world() -> None:
    table = everywhere(0.5, 0.4, 0.0)
    for world in ("four_rooms", "noisy_tv", "blank_tv"):
        table[world] = {(-3,): runs(0.0), MIDDLE: runs(0.0), (3,): runs(9.0, area=9.0)}
    assert {one_for_all(table, world) for world in ("noisy_tv", "noisy_tv_passive", "four_rooms")} == {(-3,)}
    assert one_for_all(table, "wallpaper") == (3,)  # 9 / 6 beside 5 · 0.5 / 6
    assert one_for_all(table) == (3,)


def test_a_family_counts_once_and_its_diagnostics_do_not_count() -> None:
    table = everywhere(0.0, 0.0, 0.0)
    for world in ("key_door", "wallpaper"):
        table[world] = {(-3,): runs(0.5), MIDDLE: runs(0.0), (3,): runs(0.0)}
    for world in ("four_rooms", "noisy_tv"):
        table[world] = {(-3,): runs(0.0), MIDDLE: runs(0.8), (3,): runs(0.0)}
    for world in ("blank_tv", "noisy_tv_passive"):
        table[world] = {(3,): runs(1_000.0)}
    # 2 · 0.5 beside 0.8; four worlds of a family would be 3.2, two worlds 1.6
    assert one_for_all(ten_times(table)) == (-3,)


def ten_times(table: dict[str, dict[tuple[int, ...], Runs]]) -> dict[str, dict[tuple[int, ...], Runs]]:
    """The same with all numbers ten times as large, so that the margin decides nothing."""
    return {
        world: {point: {seed: (10 * s, 10 * a) for seed, (s, a) in own.items()} for point, own in points.items()}
        for world, points in table.items()
    }


def test_each_world_is_smoothed_and_their_mean_is_not_smoothed_again() -> None:
    """Once, -2 has 10 and 1 has 9.5; twice, it would be 8.1 and 8.9."""
    raw = {-4: 0.0, -3: 0.0, -2: 20.0, -1: 0.0, 0: 9.5, 1: 9.5, 2: 9.5}
    table: Table = {world: {(k,): runs(own_score) for k, own_score in raw.items()} for world in FAMILIES}
    assert one_for_all(table) == (-2,)


def test_easy_worlds_enter_by_their_area() -> None:
    table = everywhere(0.0, 0.0, 0.0)
    for world in EASY:
        table[world] = {(-3,): runs(1.0, area=0.1), MIDDLE: runs(0.0, area=0.9), (3,): runs(1.0, area=0.2)}
    assert one_for_all(table, "wallpaper") == MIDDLE


def test_what_is_tied_over_all_families_is_decided_by_area() -> None:
    table = everywhere(0.5, 0.5, 0.0)
    for world in ("key_door", "wallpaper"):
        table[world] = {(-3,): runs(0.5, area=0.1), MIDDLE: runs(0.5, area=0.2), (3,): runs(0.0)}
    assert one_for_all(table) == MIDDLE


def test_only_points_that_every_family_has_can_be_one_for_all() -> None:
    table = everywhere(0.5, 0.4, 9.0)
    del table["rain"][(3,)]
    assert one_for_all(table) == (-3,)
    assert one_for_all(table, "rain") == (3,)
    del table["museum"]
    assert one_for_all(table) is None


def test_deep_sea_says_nothing_about_an_episodic_bonus_or_a_method_without_one() -> None:
    table = everywhere(0.5, 0.4, 0.0)
    table["deep_sea_12"] = {(-3,): runs(0.0), MIDDLE: runs(9.0), (3,): runs(0.0)}
    assert one_for_all(table) == MIDDLE
    assert one_for_all(table, on_deep_sea=False) == (-3,)
    for method, expected in (("cts", MIDDLE), ("oracle_episodic", (-3,)), ("ez_greedy", (-3,))):
        assert choices(method, table, "wallpaper")["one for all"] == expected


def test_a_method_without_a_bonus_has_its_default_in_place_of_what_is_transferred() -> None:
    assert {name for name, row in METHODS.items() if row.bonus.name == "none"} == set(WITHOUT_BONUS)
    points = {DEFAULT: runs(0.0), (1, 1): runs(1.0)}
    table = dict.fromkeys((*SUITES["small_hard"], *EASY), points)
    assert choices("ez_greedy", table, "key_door") == {"default": DEFAULT, "one for all": (1, 1), "own": (1, 1)}
    assert choices("ez_greedy", table, "deep_sea_12") == {"default": DEFAULT}
    assert choices("ez_greedy", table, "blank_tv") == {"own": None}


def test_each_setting_is_chosen_in_its_way() -> None:
    best = dict.fromkeys(FAMILIES, LOW) | {"key_door": HIGH, "deep_sea_12": MIDDLE}
    solved = {w: {k: float((k,) == best[w]) for k in (-1, 0, 1)} for w in FAMILIES}
    table: Table = {w: {(4 * k,): runs(own, area=own) for k, own in found.items()} for w, found in solved.items()}
    assert [*choices("cts", table, "key_door").values()] == [(0,), (-4,), (4,)]
    assert choices("cts", table, "wallpaper") == {"transferred": (0,), "one for all": (-4,), "own": (-4,)}
    assert choices("cts", table, "blank_tv") == {"own": (-4,)}
    assert choices("cts", table, "deep_sea_12") == {"transferred": (0,), "one for all": (-4,), "own": (0,)}


def test_a_published_constant_is_the_one_that_is_transferred_and_the_own_one_of_deep_sea() -> None:
    table = everywhere(0.5, 0.2, 0.3)
    assert transferred(table) == (-3,)
    assert choices("cts", table, "wallpaper") == {"transferred": (-3,), "one for all": (-3,), "own": (-3,)}
    assert choices("cts", table, "wallpaper", (3,))["transferred"] == (3,)
    assert choices("cts", table, "deep_sea_12", (3,)) == {"transferred": (3,), "one for all": (-3,), "own": (3,)}
    assert transferred({}) is None


def test_a_score_is_of_the_seeds_that_were_asked_for_and_of_nothing_less() -> None:
    table: Table = {"four_rooms": {LOW: {0: (1.0, 0.2), 1: (0.0, 0.4), 2: (9.0, 9.0), 100: (9.0, 9.0)}}}
    found = score(table, "four_rooms", LOW, [1, 0])
    assert found is not None
    assert [found.mean, found.area] == pytest.approx([0.5, 0.3])
    assert score(table, "four_rooms", LOW, [0, 3]) is None
    assert (
        score(table, "four_rooms", None, [0]) is score(table, "rain", LOW, [0]) is score(table, "rain", LOW, []) is None
    )


@pytest.mark.parametrize(
    ("solved", "seeds", "verdict"),
    [
        (0, 10, "does not work at this budget"),
        (1, 10, "does not work at this budget"),  # at most 0.445
        (2, 10, "uncertain, 2 of 10 solved"),  # at most 0.556
        (8, 10, "uncertain, 8 of 10 solved"),
        (9, 10, "works"),
        (0, 5, "uncertain, 0 of 5 solved"),  # at most 0.522
        (5, 20, "does not work at this budget"),  # at most 0.491
    ],
)
def test_a_setting_does_not_work_only_where_the_interval_lies_below_one_half(
    solved: int, seeds: int, verdict: str
) -> None:
    found = Score(MIDDLE, runs(*[0.5] * solved, *[0.49] * (seeds - solved), first=0))
    assert (found.solved, found.verdict) == (solved, verdict)


def test_a_table_has_finished_runs_by_their_settings_and_not_by_their_names(tmp_path: Path) -> None:
    base = base_run("four_rooms", "cts")
    base = replace(base, frames=2, schedule=replace(base.schedule, iteration_steps=1))
    other = replace(base, variant="beta=0.26", bonus=replace(base.bonus, scale=0.26))
    store = Folder(tmp_path)
    scale = reference_scores("four_rooms")
    for config, seed in ((base, 0), (replace(base, variant="beta=0.082"), 100), (other, 1)):
        write_run(store, replace(config, seed=seed), [scale.random] * 2, evaluations=[0.0, scale.top])
    write_run(store, replace(other, seed=2), [0.0], state="running")
    write_run(store, replace(base, variant="c", bonus=replace(base.bonus, scale=5.0)), [0.0] * 2, evaluations=[0.0] * 2)
    read = load(tmp_path)
    prints = {run.settings["bonus.scale"]: (run.method, run.protocol, run.method_fingerprint) for run in read.runs}
    found = tables(summarise(read), {prints[0.082]: MIDDLE, prints[0.26]: HIGH})
    assert found == {"cts": {"four_rooms": {MIDDLE: {0: (1.0, 0.0), 100: (1.0, 0.0)}, HIGH: {1: (1.0, 0.0)}}}}
    assert SMALL_WORLDS.tie > 0
