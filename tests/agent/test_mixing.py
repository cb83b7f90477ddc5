"""How rewards are mixed, by cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpiste.agent.mixing import (
    DEVIATION_STEPS,
    MIN_DEVIATION_STEPS,
    IntrinsicScale,
    clip_extrinsic,
    is_clipped,
    mix,
)
from offpiste.config import BonusConfig
from offpiste.seeding import stream

QUARTERS = st.integers(-40, 40).map(lambda quarters: quarters / 4)
"""Exact in both float32 and float64."""


@given(reward=QUARTERS, bonus=QUARTERS, clip_sum=st.booleans(), extrinsic_scale=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_a_sum_counts_as_clipped_where_mixing_changes_it(
    reward: float, bonus: float, clip_sum: bool, extrinsic_scale: float
) -> None:
    config = BonusConfig(clip_sum=clip_sum, extrinsic_scale=extrinsic_scale)
    extrinsic = clip_extrinsic(reward)
    [mixed] = mix(np.array([extrinsic], np.float32), np.array([bonus], np.float32), config, factor=0.5)
    assert is_clipped(extrinsic, bonus, config, factor=0.5) == (mixed != extrinsic_scale * extrinsic + 0.5 * bonus)


def test_without_extrinsic_reward_only_the_bonus_counts() -> None:
    config = BonusConfig(clip_sum=False, extrinsic_scale=0.0)
    mixed = mix(np.array([1.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32), config, factor=0.25)
    assert mixed.tolist() == [0.5, 0.75]


def test_beta_decays_with_the_steps_and_not_at_all_by_default() -> None:
    assert [IntrinsicScale(BonusConfig(scale=0.5)).factor(step) for step in (0, 1_000)] == [0.5, 0.5]
    decaying = IntrinsicScale(BonusConfig(scale=0.5, decay=0.5))
    assert [decaying.factor(step) for step in range(3)] == [0.5, 0.25, 0.125]


def test_nothing_is_paid_until_a_hundred_rewards_are_in_and_then_they_are_divided_by_their_deviation() -> None:
    scale = IntrinsicScale(BonusConfig(scale=3.0, normalise="std"))
    for number in range(MIN_DEVIATION_STEPS):
        assert scale.factor(0) == 0.0
        scale.observe(4.0 if number % 2 else 0.0)  # mean 2, deviation 2
    assert scale.deviation == pytest.approx(2.0)
    assert scale.factor(0) == pytest.approx(1.5)


def test_the_deviation_is_that_of_all_rewards_while_they_are_few_and_follows_them_later() -> None:
    scale, values = IntrinsicScale(BonusConfig(normalise="std")), stream(0, "test").exponential(size=DEVIATION_STEPS)
    for value in values:
        scale.observe(value)
    assert scale.deviation == pytest.approx(float(values.std()))
    for value in stream(1, "test").exponential(size=20 * DEVIATION_STEPS):
        scale.observe(0.01 * value)
    assert scale.deviation == pytest.approx(0.01, rel=0.2)


def test_the_deviation_of_returns_is_that_of_discounted_sums_which_go_on_over_the_ends_of_episodes() -> None:
    config = BonusConfig(normalise="return_std", discount=0.5)
    scale, total, sums = IntrinsicScale(config), 0.0, []
    for value in stream(0, "test").exponential(size=200):
        scale.observe(value)
        total = 0.5 * total + value
        sums.append(total)
    assert scale.deviation == pytest.approx(float(np.std(sums)))


def test_a_bonus_that_never_varies_is_not_divided_by_zero() -> None:
    scale = IntrinsicScale(BonusConfig(normalise="std"))
    for _ in range(2 * MIN_DEVIATION_STEPS):
        scale.observe(1.0)
    assert scale.deviation is None
    assert scale.factor(0) == 0.0


def test_a_restored_scale_continues_identically_and_one_without_deviation_saves_nothing() -> None:
    scale, other = (IntrinsicScale(BonusConfig(normalise="return_std")) for _ in range(2))
    for value in range(150):
        scale.observe(value % 7)
    other.load_state(scale.state())
    for each in (scale, other):
        each.observe(3.0)
    assert scale.state() == other.state()
    assert scale.factor(1) == other.factor(1) > 0.0
    assert IntrinsicScale(BonusConfig()).state() == {}
