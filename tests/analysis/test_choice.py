"""Which setting is the best, and how often it would be with other seeds."""

from collections.abc import Sequence
from itertools import product
from unittest.mock import Mock

import numpy as np
import pytest

from offpiste.analysis import choice
from offpiste.analysis.choice import Point, best_first, points_of, shares_of_resamples, smoothed
from offpiste.seeding import stream

Scores = dict[str, dict[int, tuple[float, float]]]

NEAR_TIES: Scores = {
    "a": {1: (1.0, 0.1), 2: (0.0, 0.1), 3: (0.5, 0.1)},
    "b": {1: (0.4, 0.3), 2: (0.6, 0.3), 3: (0.5, 0.3)},
    "c": {1: (0.35, 0.2), 2: (0.55, 0.9), 3: (0.45, 0.2), 4: (9.0, 9.0)},  # a seed that the others lack
}
SOLVED_OR_NOT: Scores = {
    name: {
        seed: (float(generator.choice([0.0, 0.93, 0.98, 0.99])), float(generator.random()))
        for seed, generator in ((seed, stream(seed, f"choice {name}")) for seed in range(4))
    }
    for name in "abcde"
}


def chosen_by_hand(scores: Scores, draw: Sequence[int], tie: float) -> str:
    """The rule in plain arithmetic: the best mean, those that are lower by no more than the tie, the largest area."""
    means = {
        name: [sum(own[seed][part] for seed in draw) / len(draw) for part in (0, 1)] for name, own in scores.items()
    }
    best = max(score for score, _ in means.values())
    return max((area, name) for name, (score, area) in means.items() if best - score <= tie + 1e-9)[1]


def test_settings_are_ordered_by_mean_score_and_equal_ones_by_area() -> None:
    scores = {"a": [(1.0, 0.1), (0.0, 0.1)], "b": [(0.6, 0.3), (0.6, 0.3)], "c": [(0.5, 0.9), (0.7, 0.2)]}
    assert best_first(scores | {"d": []}, 0.0) == ["c", "b", "a", "d"]
    assert best_first({"a": [(1.0, 0.0)], "b": [(0.9, 1.0)]}, 0.05) == ["a", "b"]
    assert best_first({"a": [], "b": []}, 0.05) == ["a", "b"]
    assert best_first({}, 0.05) == []


def test_a_score_that_is_lower_by_no_more_than_the_tie_is_equal_to_the_best() -> None:
    scores = {"best": [(0.98, 0.1)], "edge": [(0.93, 0.3)], "tied": [(0.97, 0.2)], "lower": [(0.929, 0.9)]}
    assert best_first(scores, 0.05) == ["edge", "tied", "best", "lower"]
    assert best_first(scores, 0.0) == ["best", "tied", "edge", "lower"]


def test_settings_are_tied_with_the_best_and_not_with_one_another() -> None:
    scores = {"best": [(1.0, 0.1)], "tied": [(0.96, 0.2)], "tied with that": [(0.92, 0.3)], "last": [(0.9, 0.9)]}
    assert best_first(scores, 0.05) == ["tied", "best", "tied with that", "last"]


def test_the_order_in_which_seeds_are_summed_breaks_no_tie() -> None:
    assert sum([0.1, 0.2, 0.3]) != sum([0.3, 0.2, 0.1])
    scores = {"a": [(0.1, 0.0), (0.2, 0.0), (0.3, 0.0)], "b": [(0.3, 1.0), (0.2, 1.0), (0.1, 1.0)]}
    assert best_first(scores, 0.0) == best_first(dict(reversed(scores.items())), 0.0) == ["b", "a"]


@pytest.mark.parametrize("tie", [0.0, 0.05])
@pytest.mark.parametrize("scores", [NEAR_TIES, SOLVED_OR_NOT])
def test_every_resample_chooses_as_the_study_does_and_as_by_hand(
    scores: Scores, tie: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "RESAMPLES", 1)
    seeds = sorted(set.intersection(*map(set, scores.values())))
    chosen = set()
    for draw in product(range(len(seeds)), repeat=len(seeds)):
        shares = shares_of_resamples(scores, tie, Mock(integers=Mock(return_value=np.array([draw]))))
        drawn = [seeds[index] for index in draw]
        first, *_ = best_first({name: [own[seed] for seed in drawn] for name, own in scores.items()}, tie)
        assert shares == {name: float(name == first) for name in scores}
        assert first == chosen_by_hand(scores, drawn, tie)
        chosen.add(first)
    assert len(chosen) > 1


def test_shares_are_those_of_all_resamples_tried_one_by_one() -> None:
    draws = list(product((1, 2, 3), repeat=3))
    best = [chosen_by_hand(NEAR_TIES, draw, 0.05) for draw in draws]
    found = shares_of_resamples(NEAR_TIES, 0.05, stream(0, "test"))
    assert found == pytest.approx({name: best.count(name) / len(draws) for name in NEAR_TIES}, abs=0.04)
    assert sum(found.values()) == pytest.approx(1.0)


def test_nothing_is_known_without_a_common_seed() -> None:
    assert shares_of_resamples({"a": {1: (1.0, 0.0)}, "b": {2: (0.0, 0.0)}}, 0.05, stream(0, "test")) == {}
    assert shares_of_resamples({}, 0.05, stream(0, "test")) == {}


LINE = {"low": (-1,), "middle": (0,), "high": (1,)}


def test_a_score_is_smoothed_over_its_neighbours_by_how_many_runs_they_have() -> None:
    """Two runs at -1 of mean 0.5, five at 0 of mean 0.4, one at 2 of 1, and none at 1 and 3."""
    runs = {(-1,): [0.0, 1.0], (0,): [0.0, 0.0, 0.0, 1.0, 1.0], (1,): [], (2,): [1.0], (3,): []}
    found = smoothed({point: [(score, 10 * score) for score in own] for point, own in runs.items()})
    assert found.keys() == {(-1,), (0,), (2,)}
    assert found[-1,] == pytest.approx(((2 * 2 * 0.5 + 5 * 0.4) / (2 * 2 + 5), 10 * 4 / 9))
    assert found[0,] == pytest.approx(((2 * 5 * 0.4 + 2 * 0.5) / (2 * 5 + 2), 10 * 5 / 12))
    assert found[2,] == (1.0, 10.0)


def test_neighbours_on_two_axes_differ_by_one_step_on_one_of_them() -> None:
    runs: dict[Point, list[tuple[float, float]]] = {
        (0, 0): [(1.0, 0.0)],
        (0, 1): [(0.4, 0.0)],
        (1, 1): [(0.0, 0.0)],
        (2, 0): [(9.0, 0.0)],
    }
    assert smoothed(runs)[0, 0][0] == pytest.approx((2 * 1.0 + 0.4) / 3)
    assert smoothed(runs)[0, 1][0] == pytest.approx((2 * 0.4 + 1.0 + 0.0) / 4)
    assert smoothed(runs)[2, 0] == (9.0, 0.0)


def test_a_lucky_setting_among_poor_ones_loses_to_a_good_one_among_good_ones() -> None:
    means = {(-3,): 0.0, (-2,): 1.0, (-1,): 0.0, (0,): 0.5, (1,): 1.0, (2,): 0.5}
    scores = {point: [(score, 0.0)] * 2 for point, score in means.items()}
    same = {point: point for point in scores}
    assert best_first(scores, 0.05, same)[0] == (1,)  # 0.75 beside 0.5
    assert best_first(scores, 0.05)[:2] == [(-2,), (1,)]  # without neighbours they are equal


def test_tied_settings_are_ordered_by_area_then_by_how_near_the_middle_they_are_then_upwards() -> None:
    far = {"low": (-4,), "middle": (0,), "high": (4,)}  # no neighbours
    areas = {"high": [(0.96, 0.3)], "low": [(1.0, 0.2)], "middle": [(0.95, 0.1)]}
    assert best_first(areas, 0.05, far) == ["high", "low", "middle"]
    assert best_first(areas, 0.03, far) == ["low", "high", "middle"]  # the margin is that to the best, 1.0
    equal = {"high": [(1.0, 0.3)], "low": [(0.99, 0.3)], "middle": [(0.98, 0.3)]}
    assert best_first(equal, 0.05, far) == ["middle", "low", "high"]


def test_the_area_is_smoothed_too() -> None:
    scores = {"low": [(1.0, 0.9)], "middle": [(1.0, 0.0)], "high": [(1.0, 0.8)]}
    assert best_first(scores, 0.05, LINE)[0] == "low"  # 0.6, and 0.425 and 0.53
    assert best_first({**scores, "low": [(1.0, 0.7)]}, 0.05, LINE)[0] == "high"


def test_resamples_are_smoothed_as_the_choice_is() -> None:
    """Without smoothing either neighbour would be the best in a quarter of the resamples, by 1 beside 0.8."""
    scores = {
        "alone": {1: (0.8, 0.0), 2: (0.8, 0.0)},
        "one": {1: (1.0, 0.0), 2: (0.0, 0.0)},
        "other": {1: (0.0, 0.0), 2: (1.0, 0.0)},
    }
    points = {"alone": (-3,), "one": (0,), "other": (1,)}
    assert shares_of_resamples(scores, 0.0, stream(0, "test"), points) == {"alone": 1.0, "one": 0.0, "other": 0.0}
    without = shares_of_resamples(scores, 0.0, stream(0, "test"))
    assert without == pytest.approx({"alone": 0.5, "one": 0.25, "other": 0.25}, abs=0.04)


def test_points_are_found_from_values_that_differ_and_names_have_no_neighbours() -> None:
    values = {
        "a": {"scale": 0.01, "rate": 1e-3, "same": 5, "kind": "x"},
        "b": {"scale": 10.0, "rate": 1e-3, "same": 5, "kind": "y"},
        "c": {"scale": 0.1, "rate": 1e-4, "same": 5, "kind": "x"},
    }
    assert points_of(values) == {"a": (-1, 1, 0), "b": (1, 1, 2), "c": (0, 0, 0)}
    assert points_of({"only": {"scale": 1.0}}) == {"only": ()}
    assert best_first({"only": [(1.0, 1.0)]}, 0.05, {"only": ()}) == ["only"]
