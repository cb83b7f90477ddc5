"""Which setting is the best, and how often it would be with other seeds."""

from collections.abc import Sequence
from itertools import product
from unittest.mock import Mock

import numpy as np
import pytest

from offpiste.analysis import choice
from offpiste.analysis.choice import best_first, shares_of_resamples
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
