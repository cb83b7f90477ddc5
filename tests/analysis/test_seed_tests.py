"""Exact tests of seeds against seeds, by hand."""

from itertools import product

import numpy as np
import pytest

from offpiste.analysis.seed_tests import above, gains_less, holm, mcnemar, min_pairs, sign, sign_flip


def solved(pattern: str) -> np.ndarray:
    return np.array([mark == "x" for mark in pattern])


def test_the_sign_flip_test_counts_sign_patterns_that_sum_to_as_much() -> None:
    assert sign_flip(np.array([3.0, 2.0, 1.0])) == 1 / 8
    assert sign_flip(np.array([3.0, -1.0, 2.0])) == 2 / 8  # 6 and 4
    assert sign_flip(np.array([3.0, 1.0, -2.0])) == 3 / 8  # 6, 4 and 2
    assert sign_flip(np.array([-3.0, -2.0, -1.0])) == 1.0
    assert sign_flip(np.zeros(5)) == 1.0
    assert sign_flip(np.array([])) == 1.0
    assert sign_flip(np.array([0.1, 0.2, 0.3] * 2)) == 1 / 64  # sums in another order are the same sums


def test_the_sign_flip_test_is_that_of_all_patterns_tried_one_by_one() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 9)
    sums = [float(np.dot(signs, np.abs(values))) for signs in product((1, -1), repeat=9)]
    assert sign_flip(values) == pytest.approx(np.mean(np.array(sums) >= values.sum() - 1e-9))


def test_mcnemar_counts_pairs_that_only_one_solves() -> None:
    # Only the first in 4 pairs, only the second in 1: P(4 or more of 5) = 6 / 32
    assert mcnemar(solved("xxxx-xx-"), solved("----xxx-")) == pytest.approx(6 / 32)
    assert mcnemar(solved("----"), solved("xxxx")) == 1.0
    assert mcnemar(solved("xx"), solved("xx")) == 1.0


def test_a_sign_test_at_a_margin_counts_what_is_equal_against() -> None:
    values = np.array([-0.04, -0.01, 0.0, 0.2, -0.05])
    assert above(values, -0.05) == pytest.approx(6 / 32)  # four of five
    assert above(values, 0.5) == 1.0
    assert sign(10, 0) == 1 / 1024


def test_no_gain_is_shown_by_few_wins_and_never_with_ten_pairs() -> None:
    nobody = solved("-" * 10)
    assert gains_less(nobody, nobody) == pytest.approx(0.75**10)
    assert gains_less(nobody, nobody) > 0.05
    assert min_pairs() == 11
    twenty = solved("x" + "-" * 19)
    assert gains_less(twenty, solved("-" * 20)) == pytest.approx(0.75**20 + 20 * 0.25 * 0.75**19)
    assert gains_less(twenty, twenty) == pytest.approx(0.75**20)  # the other solves it, too
    assert gains_less(solved(""), solved("")) == 1.0


def test_holm_corrects_for_those_that_are_left_and_for_those_to_come() -> None:
    values = {"a": 0.012, "b": 0.04, "c": 0.016}
    assert holm(values) == {"a": True, "b": True, "c": True}  # 0.0167, 0.025 and 0.05
    assert holm(values, tests=5) == {"a": False, "b": False, "c": False}
    assert holm(values | {"a": 0.01}, tests=5) == {"a": True, "b": False, "c": False}
    assert holm({}) == {}
