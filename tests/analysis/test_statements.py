"""Comparisons and how they are joined, on numbers worked by hand."""

import numpy as np
import pytest

from offpiste.analysis.findings import Part
from offpiste.analysis.paper import EASY
from offpiste.analysis.statements import BEATS, at_least, compare_methods, paired, weighed, without_ties
from offpiste.worlds.scores import reference_scores


def test_runs_of_equal_seeds_are_compared_and_the_rest_in_order() -> None:
    scores = {"freeway": {"a": {0: 1.0, 1: 2.0, 5: 3.0}, "b": {1: 20.0, 7: 70.0, 9: 90.0, 8: 80.0}}}
    assert paired(scores, "freeway", ("a", "b")).tolist() == [[2.0, 1.0, 3.0], [20.0, 70.0, 80.0]]
    assert paired(scores, "freeway", ("a", "c")).shape == (2, 0)


def test_any_two_methods_can_be_compared_over_games() -> None:
    scores = {
        game: {
            method: {seed: reference_scores(game).score_at(share + 0.01 * seed) for seed in range(5)}
            for method, share in (("rnd", 1.0), ("epsilon_greedy", 0.0))
        }
        for game in EASY
    }
    found = compare_methods(scores, EASY, "rnd")
    assert found.pairs == 25
    assert found.p_better == pytest.approx(0.5**25)
    assert found.difference == pytest.approx(1.0, abs=0.1)


def test_scores_within_a_tie_are_equal_and_others_keep_their_difference() -> None:
    assert without_ties(np.array([0.05, -0.05, 0.06, -0.5, 0.0]), 0.05).tolist() == [0.0, 0.0, 0.06, -0.5, 0.0]
    scores = {"pong": {"rnd": {0: 0.3, 1: 0.04, 2: 0.9}, "epsilon_greedy": {0: 0.0, 1: 0.0, 2: 0.88}}}
    found = compare_methods(scores, ("pong",), "rnd", tie=0.05)
    assert found.differences.tolist() == [0.3, 0.0, 0.0]
    assert found.p_better == 0.5  # one win, two ties


def test_a_part_is_shown_by_one_p_value_and_refuted_by_another() -> None:
    part = weighed(np.array([0.2, 0.3, 0.4, 0.01]), 0.05, BEATS, "x")
    assert (part.p_for, part.p_against) == (1 / 16, 15 / 16)  # all above 0, one below the margin


def test_one_part_of_four_that_must_hold_pays_for_the_choice_and_its_contrary_does_not() -> None:
    parts = [Part("x", p, q, 5) for p, q in ((0.01, 0.04), (0.5, 0.02), (0.6, 0.01), (0.7, 0.03))]
    joined = at_least(1, parts, "one of four")
    assert (joined.p_for, joined.p_against) == (4 * 0.01, 0.04)
    assert (joined.shares_for, joined.shares_against) == (4, 1)
