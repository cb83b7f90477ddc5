"""The comparisons of the ablation of RND, on runs worked out by hand."""

import numpy as np
import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.rnd_ablation import (
    ARMS,
    COMPARISONS,
    ENDING,
    SEEDS,
    WORLDS,
    differences,
    judge,
    over_beta,
    worlds_of,
)

TEN = range(10)
BY_LABEL = {each.label: each for each in COMPARISONS}


def runs(score: float, seeds: range = TEN) -> dict[int, tuple[float, float]]:
    return dict.fromkeys(seeds, (score, 0.0))


def scored(
    better: dict[tuple[str, str], float], seeds: range = TEN
) -> dict[tuple[str, str], dict[int, tuple[float, float]]]:
    return {(arm, world): runs(better.get((arm, world), 0.5), seeds) for arm in ARMS for world in worlds_of(arm)}


def test_d_s_is_the_mean_difference_over_the_worlds_of_a_comparison() -> None:
    found = scored({("rnd_next_frame", "museum"): 0.9, ("rnd_base", "four_rooms"): 0.1})
    values = differences(found, BY_LABEL["rnd_next_frame beats rnd_base"], TEN)
    assert values == pytest.approx(np.full(10, (0.4 + 0.4) / 4))


def test_a_part_that_always_helps_is_shown_by_ten_seeds_and_what_hurts_by_its_reference() -> None:
    found = scored({("rnd_next_frame", world): 0.6 for world in WORLDS} | {("rnd_sampled", "museum"): 0.2})
    answers = judge(found, TEN)
    assert answers.pop("rnd_next_frame beats rnd_base") == "yes"
    assert answers.pop("rnd_sampled beats rnd_base") == "no"
    assert {*answers.values()} == {"inconclusive"}
    assert len(answers) == len(COMPARISONS) - 2


def test_all_comparisons_are_corrected_for_all_of_them() -> None:
    """Nine seeds of ten in one direction: p is 11/1024, and 15 times that is above 5%."""
    found = scored({})
    for seed in TEN:
        found["rnd_next_frame", "museum"][seed] = (0.4 if seed == 0 else 0.6, 0.0)
    assert judge(found, TEN)["rnd_next_frame beats rnd_base"] == "inconclusive"
    found["rnd_next_frame", "museum"][0] = (0.6, 0.0)
    assert judge(found, TEN)["rnd_next_frame beats rnd_base"] == "yes"


def test_endless_returns_are_asked_about_where_episodes_end() -> None:
    found = scored({("rnd_endless", world): 1.0 for world in ENDING})
    assert judge(found, TEN)["rnd_endless beats rnd_heads_99"] == "yes"
    assert {world for arm in ("rnd_endless", "rnd_heads_99") for world in worlds_of(arm)} == {*WORLDS, *ENDING}
    assert worlds_of("rnd_endless") == ENDING
    assert worlds_of("rnd_base") == WORLDS


def test_nothing_is_answered_while_runs_are_missing() -> None:
    found = scored({})
    del found["rnd_next_frame", "museum"][9]
    assert "rnd_next_frame beats rnd_base" not in judge(found, TEN)
    assert len(judge(found, TEN)) == len(COMPARISONS) - 1
    assert judge(found) == {}  # twenty seeds are the verdict
    assert len(SEEDS) == 20


def test_every_arm_is_compared_and_every_reference_is_an_arm() -> None:
    assert len(BY_LABEL) == len(COMPARISONS) == 15
    assert len(ARMS) == 16
    assert {each.reference for each in COMPARISONS} <= {*ARMS}


def test_how_little_an_arm_hangs_on_its_beta_is_the_mean_of_smoothed_scores() -> None:
    points: dict[Point, dict[int, tuple[float, float]]] = {
        (-1,): runs(0.0, range(100, 102)),
        (0,): runs(1.0, range(100, 102)),
        (1,): runs(0.0, range(100, 102)),
    }
    points[0,] |= {7: (0.0, 0.0)}  # a seed that scores chooses nothing
    # By hand, with two runs each: (0·2 + 1)/3, (0 + 2 + 0)/4, (1 + 0·2)/3.
    assert over_beta(points) == pytest.approx((1 / 3 + 1 / 2 + 1 / 3) / 3)
