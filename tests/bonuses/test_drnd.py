"""Distributional RND against cases worked by hand from α ⟨(f̂ - μ)²⟩ + (1 - α) ⟨√clip(|f̂² - μ²| / (B₂ - μ²))⟩."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition, warm_up_steps
from offpiste.bonuses.drnd import Drnd, DrndOptions, reward
from offpiste.bonuses.registry import options_of
from offpiste.bonuses.rnd import PixelStatistics, feature_network
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.methods import METHODS
from offpiste.neural import load_module
from offpiste.seeding import generator_state, restore_generator, stream
from tests.bonuses.played import PLAYED, made
from tests.sameness import assert_same

SIDE = 20
OPTIONS = DrndOptions(1e-3, 8, 0)


def context() -> Context:
    return Context("four_rooms", 4, 1, (SIDE, SIDE), stream(0, "bonus"))


def shown(frame: NDArray[np.uint8]) -> Transition:
    return Transition(frame[None], 0, 0.0, frame[None] // 2, False, False, 0, np.zeros(128, np.uint8))


def frame(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)


def paid(predicted: list[float], targets: list[list[float]], alpha: float) -> float:
    return float(reward(torch.tensor(predicted), torch.tensor(targets), alpha))


TARGETS = [[1.0, 0.0], [3.0, 4.0]]
"""Two networks: μ is 2 and 2, B₂ is 5 and 8, so the variance 1 and 4."""


def test_the_first_term_is_the_mean_squared_distance_from_the_mean_network() -> None:
    assert paid([2.0, 2.0], TARGETS, 1.0) == 0.0
    assert paid([5.0, 1.0], TARGETS, 1.0) == pytest.approx((9 + 1) / 2)


def test_the_second_term_is_the_root_of_a_share_of_the_variance() -> None:
    # 2.1² - 2² is 0.41 of a variance of 1; 2² - 1.9² is 0.39 of a variance of 4.
    assert paid([2.1, 1.9], TARGETS, 0.0) == pytest.approx((math.sqrt(0.41) + math.sqrt(0.39 / 4)) / 2, rel=1e-5)


def test_a_share_lies_between_a_millionth_and_one() -> None:
    assert paid([2.0, 2.0], TARGETS, 0.0) == pytest.approx(1e-3)
    assert paid([9.0, 9.0], TARGETS, 0.0) == 1.0


def test_both_terms_are_weighed_by_alpha() -> None:
    assert paid([9.0, 2.0], TARGETS, 0.9) == pytest.approx(0.9 * 49 / 2 + 0.1 * (1.0 + 1e-3) / 2)


def test_networks_that_agree_in_a_feature_divide_nothing_by_zero() -> None:
    assert paid([2.0, 0.0], [[2.0, 1.0], [2.0, 1.0]], 0.0) == pytest.approx((1e-3 + 1.0) / 2)


def test_the_share_estimates_one_over_the_visits() -> None:
    """After n visits the best predictor is the mean of n draws; the variance of that is 1/n of that of the networks."""
    draws = np.random.default_rng(0)
    targets = draws.normal(size=(5, 4_000))
    mean, variance = targets.mean(0), targets.var(0)
    for visits in (1, 4, 16):
        chosen = draws.integers(5, size=(visits, 4_000))
        predicted = targets[chosen, np.arange(4_000)].mean(0)
        assert ((predicted**2 - mean**2).mean() / variance.mean()) == pytest.approx(1 / visits, abs=0.06)


def test_the_reward_is_that_of_the_frame_shown_by_the_weights_before_the_step() -> None:
    bonus, steps = made("drnd"), PLAYED[:60]
    for step in steps[:59]:
        bonus.observe(step)
    before, step = bonus.state(), steps[59]
    size = step.frame.shape
    on = Context("four_rooms", 4, 1, size, stream(0, "bonus"))
    pixels = PixelStatistics(size)
    pixels.load_state(before)
    pixels.observe(step.frame)
    x = torch.from_numpy(pixels.normalise(step.frame)).float()[None, None]
    features = []
    for prefix, hidden in (*((f"targets/{index}.", 0) for index in range(5)), ("predictor/", 2)):
        network = feature_network(on, 128, hidden)
        load_module(before, network, prefix=prefix)
        with torch.no_grad():
            features.append(network(x)[0].double().numpy())
    targets, predicted = np.stack(features[:5]), features[5]
    mean, second = targets.mean(0), (targets**2).mean(0)
    share = (np.abs(predicted**2 - mean**2) / (second - mean**2)).clip(1e-6, 1.0)
    expected = 0.9 * ((predicted - mean) ** 2).mean() + 0.1 * np.sqrt(share).mean()
    assert bonus.observe(step) == pytest.approx(expected, rel=1e-3)


def test_the_predictor_learns_one_network_drawn_from_the_bonus_own_stream() -> None:
    own = context()
    bonus = Drnd(OPTIONS, own)
    bonus.observe(shown(frame(0)))
    saved, drawn = bonus.state(), Counter[int]()
    for _ in range(60):
        bonus.load_state(saved)
        before = generator_state(own.generator)
        bonus.observe(shown(frame(1)))
        after = generator_state(own.generator)
        restore_generator(own.generator, before)
        drawn[int(own.generator.integers(5))] += 1
        assert generator_state(own.generator) == after  # one draw, and no other
    assert set(drawn) == set(range(5))


def test_the_loss_is_that_of_the_network_drawn() -> None:
    bonus: Any = Drnd(OPTIONS, context())
    x = torch.zeros(1, 1, SIDE, SIDE)
    with torch.no_grad():
        for index, target in enumerate(bonus._targets):
            target.linears[0].weight.zero_()
            target.linears[0].bias.fill_(float(index))
        bonus._predictor.linears[2].weight.zero_()
        assert not bonus._predictor(x).any()
    bonus._generator = Fixed(3)
    bonus.observe(shown(frame(0)))
    assert bonus.scalars() == {"predictor_loss": pytest.approx(9.0)}


class Fixed:
    """Draws one number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def integers(self, high: int) -> int:
        assert high == 5
        return self.number


def test_the_networks_differ_and_never_change() -> None:
    bonus = Drnd(OPTIONS, context())
    before = {name: array for name, array in bonus.state().items() if name.startswith("targets/")}
    first, second = (before[f"targets/{index}.linears.0.weight"] for index in (0, 1))
    assert not np.allclose(first, second)
    for seed in range(5):
        bonus.observe(shown(frame(seed)))
    assert_same({name: array for name, array in bonus.state().items() if name in before}, before)


def test_random_play_sets_the_statistics_alone() -> None:
    bonus = Drnd(DrndOptions(1e-3, 8, 3), context())
    fresh = bonus.state()
    assert [bonus.observe(shown(frame(seed))) for seed in range(3)] == [0.0, 0.0, 0.0]
    assert bonus.scalars() == {}
    np.testing.assert_array_equal(bonus.state()["predictor/linears.2.bias"], fresh["predictor/linears.2.bias"])
    assert bonus.observe(shown(frame(3))) > 0.0
    assert warm_up_steps(bonus) == 3


def test_a_novel_frame_pays_more_than_a_repeated_one() -> None:
    bonus = Drnd(OPTIONS, context())
    for _ in range(60):
        repeated = [bonus.observe(shown(frame(seed))) for seed in range(3)]
    assert bonus.observe(shown(frame(100))) > 2.0 * max(repeated)


def test_a_restored_bonus_continues_bit_by_bit_with_its_stream() -> None:
    own, others = context(), context()
    bonus, other = Drnd(OPTIONS, own), Drnd(OPTIONS, others)
    for seed in range(20):
        bonus.observe(shown(frame(seed)))
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    restore_generator(others.generator, generator_state(own.generator))
    again = [[each.observe(shown(frame(seed))) for seed in range(20, 40)] for each in (bonus, other)]
    assert again[0] == again[1]
    assert_same(bonus.state(), other.state())


def test_its_row_and_its_options() -> None:
    assert options_of(METHODS["drnd"].bonus) == DrndOptions(1e-4, 512, 6_400, 0.9, 5)
    full = METHODS["rnd_full"].constants
    for world, bonus in METHODS["drnd"].constants.items():
        assert (bonus.heads, bonus.ends_with_episode, bonus.normalise) == (2, False, "return_std")
        assert bonus.options == full[world].options
    for option, value in (("alpha", 1.5), ("targets", 1)):
        with pytest.raises(ConfigError, match=rf"bonus\.options\.{option} must be"):
            options_of(BonusConfig("drnd", {option: value}))
