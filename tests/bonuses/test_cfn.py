"""The coin flip network against counts worked by hand, its flips, and its priorities."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from offpiste import arrays
from offpiste.bonuses.cfn import Cfn, CfnOptions, Priorities, coin_flips
from offpiste.bonuses.contract.play import ROOMS, context_of, sampled
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.bonuses.played import PLAYED, batch
from tests.sameness import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


def made(until: int = 60, **options: Any) -> Any:
    """Return a bonus whose replay holds the first steps of play."""
    draws = stream(0, "bonus")
    given = CfnOptions(**{"learning_rate": 1e-3, "batch_size": 32, **options})
    return Cfn(
        given, context_of(ROOMS, draws, lambda size, weights=None: sampled(PLAYED[:until], size, draws, weights))
    )


def test_the_mean_of_n_flips_squared_is_one_over_n_on_average() -> None:
    flips = coin_flips(np.arange(40_000), 7, 20)
    assert {*np.unique(flips)} == {-1.0, 1.0}
    assert abs(flips.mean()) < 0.01
    correlated = np.corrcoef(flips.T) - np.eye(20)
    assert np.abs(correlated).max() < 0.03
    assert abs(np.corrcoef(flips[:-1].ravel(), flips[1:].ravel())[0, 1]) < 0.01
    for visits in (1, 4, 25):
        means = flips[: 40_000 // visits * visits].reshape(-1, visits, 20).mean(1)
        assert np.square(means).mean() == pytest.approx(1 / visits, rel=0.05)


def test_flips_follow_from_the_number_and_the_seed() -> None:
    numbers = np.array([3, 10**9, 3])
    flips = coin_flips(numbers, 1, 20)
    assert (flips[0] == flips[2]).all()
    assert (flips[0] != flips[1]).any()
    assert (coin_flips(numbers, 2, 20) != flips).any()
    np.testing.assert_array_equal(coin_flips(numbers[1:2], 1, 8), flips[1:2, :8])
    # SplitMix64's first output from state 0, by its reference implementation: 0xE220A8397B1DCDAF, lowest bits first.
    bits = [0xE220A8397B1DCDAF >> place & 1 for place in range(64)]
    assert coin_flips(np.array([0]), 0, 64)[0].tolist() == [2.0 * bit - 1 for bit in bits]


def test_it_pays_the_root_of_the_mean_square_of_output_and_normalised_prior() -> None:
    bonus = made(flips=3)
    bonus.learn(batch(4))
    priors = []
    for step in PLAYED[:6]:
        x = torch.from_numpy(step.frame.copy()).float()[None, None] / 255
        with torch.no_grad():
            output, prior = bonus._network(x)[0].numpy(), bonus._prior(x)[0].numpy()
        priors.append(prior)
        normal = (prior - np.mean(priors, 0)) / np.sqrt(np.var(priors, 0) + 1e-4)
        assert bonus.observe(step) == pytest.approx(math.sqrt(np.square(output + normal).mean()), rel=1e-4)


def test_nothing_is_paid_before_the_first_batch() -> None:
    bonus = made(until=0)
    for step in PLAYED[:5]:
        bonus.learn(batch(4))
        assert bonus.observe(step) == 0.0
    assert bonus.scalars() == {}


def test_it_learns_entries_of_its_own_batch_with_their_flips() -> None:
    bonus = made()
    for step in PLAYED[:20]:
        bonus.observe(step)
    twin_draws = stream(0, "bonus")
    other: Any = Cfn(bonus._options, context_of(ROOMS, twin_draws))  # draws as many numbers
    own = sampled(PLAYED[:60], 32, twin_draws, np.ones_like)
    assert own is not None
    assert own.frames.shape[1] == 4
    with torch.no_grad():
        flips = bonus._flips(bonus._scaled(own.states[:, -1])).numpy()
    expected = np.square(flips - coin_flips(own.numbers, other._seed, 20)).mean()
    bonus.learn(batch(8))
    assert bonus.scalars()["coin_flip_loss"] == pytest.approx(expected, rel=1e-5)
    rows = np.zeros(57)
    rows[own.numbers] = 1
    np.testing.assert_array_equal(bonus.state()["entry_updates"], 1 + rows)
    inverse = np.square(flips).mean(1)
    np.testing.assert_allclose(bonus.state()["entry_priorities"][own.numbers], 0.25 + inverse / 2, rtol=1e-5)
    assert (bonus.state()["entry_priorities"][rows == 0] == 1).all()


def test_frames_visited_once_and_often_are_told_apart() -> None:
    frames = np.random.default_rng(0).integers(0, 2, (5, 1, *PLAYED[0].frame.shape), np.uint8) * np.uint8(255)
    visits = (1, 4, 16, 64)
    order = [index for index, count in enumerate(visits) for _ in range(count)] + [0] * 3  # the last are not sampled
    steps = [replace(PLAYED[0], state=frames[index], next_state=frames[index]) for index in order]
    draws = stream(0, "bonus")

    def sample(size: int, weights: Any = None) -> Any:
        return sampled(steps, size, draws, weights)

    bonus = Cfn(CfnOptions(learning_rate=1e-3, flips=64, batch_size=85), context_of(ROOMS, draws, sample))
    for step in steps[:-3]:
        bonus.observe(step)
    for _ in range(300):
        bonus.learn(batch(1))
    paid = [bonus.observe(replace(PLAYED[0], state=frame)) for frame in frames]
    assert paid[:4] == pytest.approx([count**-0.5 for count in visits], rel=0.45)
    assert paid[:4] == sorted(paid[:4], reverse=True)
    assert paid[4] > paid[1]


def test_priorities_are_half_for_updates_and_half_for_the_bonus() -> None:
    priorities = Priorities()
    assert priorities.of(np.arange(4)).tolist() == [1, 1, 1, 1]
    priorities.learned(np.array([1, 2, 2]), np.array([0.5, 0.25, 0.25], np.float32))
    # ½/2 + ½·0.5; ½/2 + ½·0.25, of which one update counts.
    assert priorities.of(np.arange(5)).tolist() == [1, 0.5, 0.375, 1, 1]
    priorities.learned(np.array([2]), np.array([0.25], np.float32))
    assert priorities.of(np.arange(5))[2] == pytest.approx(0.5 / 3 + 0.125)


def test_entries_that_the_replay_forgot_are_forgotten() -> None:
    priorities = Priorities()
    priorities.of(np.arange(4))
    priorities.learned(np.array([2]), np.array([0.5], np.float32))
    assert priorities.of(np.arange(2, 6)).tolist() == [0.5, 1, 1, 1]
    assert priorities.state()["first_entry"] == 2
    priorities.learned(np.array([5]), np.array([0.0], np.float32))
    assert priorities.of(np.arange(4, 8)).tolist() == [1, 0.25, 1, 1]
    assert priorities.of(np.arange(20, 23)).tolist() == [1, 1, 1]


def test_a_restored_bonus_samples_learns_and_pays_the_same() -> None:
    def run(bonus: Any, first: int, last: int) -> list[float]:
        found = []
        for step in PLAYED[first:last]:
            bonus.learn(batch(1))
            found.append(bonus.observe(step))
        return found

    bonus, other = made(), made()
    run(bonus, 0, 12)
    saved = bonus.state()
    other.load_state(arrays.unpack(arrays.pack(saved)))
    other._sample = bonus._sample  # one generator, which the run restores
    before = saved["entry_priorities"].copy()
    weights = [each._priorities.of(np.arange(57)).tolist() for each in (bonus, other)]
    assert weights[0] == weights[1]
    own = sampled(PLAYED[:60], 16, stream(3, "test"))
    for each in (bonus, other):
        each._sample = lambda *_: own
    assert run(bonus, 12, 20) == run(other, 12, 20)
    assert_same(bonus.state(), other.state())
    np.testing.assert_array_equal(saved["entry_priorities"], before)


def test_what_it_declares() -> None:
    assert Cfn.pays_for == "state"
    assert options_of(BonusConfig("cfn")) == CfnOptions(1e-4, 20, 128)
    with pytest.raises(ConfigError, match=r"bonus.options.flips must be <= 64, got 65"):
        options_of(BonusConfig("cfn", {"flips": 65}))
