"""Which setting is the best, and how often it would be with other seeds."""

from itertools import product

import pytest

from offpiste.analysis.choice import best_first, shares_of_resamples
from offpiste.seeding import stream


def test_settings_are_ordered_by_mean_score_and_equal_ones_by_area() -> None:
    scores = {"a": [(1.0, 0.1), (0.0, 0.1)], "b": [(0.6, 0.3), (0.6, 0.3)], "c": [(0.5, 0.9), (0.7, 0.2)]}
    assert best_first(scores | {"d": []}) == ["c", "b", "a", "d"]
    assert best_first({"a": [(1.0, 0.0)], "b": [(0.9, 1.0)]}) == ["a", "b"]


def test_shares_are_those_of_all_resamples_tried_one_by_one() -> None:
    scores = {
        "a": {1: (1.0, 0.1), 2: (0.0, 0.1), 3: (0.5, 0.1)},
        "b": {1: (0.4, 0.3), 2: (0.6, 0.3), 3: (0.5, 0.3)},
        "c": {1: (0.4, 0.2), 2: (0.6, 0.9), 3: (0.5, 0.2), 4: (9.0, 9.0)},  # a seed that the others lack
    }
    draws = list(product((1, 2, 3), repeat=3))
    best = [best_first({name: [own[seed] for seed in draw] for name, own in scores.items()})[0] for draw in draws]
    found = shares_of_resamples(scores, stream(0, "test"))
    assert found == pytest.approx({name: best.count(name) / len(draws) for name in scores}, abs=0.04)
    assert sum(found.values()) == pytest.approx(1.0)


def test_nothing_is_known_without_a_common_seed() -> None:
    assert shares_of_resamples({"a": {1: (1.0, 0.0)}, "b": {2: (0.0, 0.0)}}, stream(0, "test")) == {}
    assert shares_of_resamples({}, stream(0, "test")) == {}
