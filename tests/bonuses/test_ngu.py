"""NGU's reward against a memory of three embeddings worked by hand, and a brute force over many."""

import math
from dataclasses import replace

import numpy as np
import pytest

from offpiste.bonuses.base import Product
from offpiste.bonuses.ngu import EpisodicMemory, Moments, Ngu, NguOptions
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from tests.bonuses.played import PLAYED, batch, made

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


def point(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_an_empty_memory_pays_nothing_and_three_states_what_the_kernel_says() -> None:
    memory = EpisodicMemory(2)
    assert memory.novelty(point(0, 0)) == 0.0
    # One neighbour at a squared distance of 1, which is the mean: K = 0.0001 / (1 - 0.008 + 0.0001), ten times.
    assert memory.novelty(point(1, 0)) == pytest.approx(1 / (math.sqrt(10 * 1e-4 / 0.9921) + 0.001))
    # 1 and 2; the mean of 1, 1, 2 is 4/3, so 0.75 and 1.5. Ten times the mean of two kernels.
    expected = 1 / (math.sqrt(5 * (1e-4 / 0.7421 + 1e-4 / 1.4921)) + 0.001)
    assert memory.novelty(point(0, 1)) == pytest.approx(expected)
    # The first again: 0, 1 and 1, so the mean of six is 1; one kernel is 1.
    assert memory.novelty(point(0, 0)) == pytest.approx(1 / (math.sqrt(10 / 3 * (1 + 2e-4 / 0.9921)) + 0.001))


def test_what_is_nearer_than_a_cluster_is_as_the_same() -> None:
    memory = EpisodicMemory(1)
    memory.novelty(point(0))
    memory.novelty(point(1))
    memory.clear()
    memory.novelty(point(0))
    # 0.0025 beside a mean of 0.50125 is 0.005, which is below 0.008.
    assert memory.novelty(point(0.05)) == pytest.approx(1 / (math.sqrt(10) + 0.001))


def test_states_that_are_all_alike_pay_the_least_and_no_fault() -> None:
    memory = EpisodicMemory(2)
    paid = [memory.novelty(point(3, 4)) for _ in range(15)]
    assert paid == [0.0] + [pytest.approx(1 / (math.sqrt(10) + 0.001))] * 14


def test_the_reward_is_that_of_the_ten_nearest_by_brute_force() -> None:
    memory, draws = EpisodicMemory(4), np.random.default_rng(0)
    states: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    distances: list[float] = []
    for number, state in enumerate(draws.normal(size=(60, 4)).astype(np.float32)):
        paid = memory.novelty(state)
        if number:
            nearest = sorted(float(((state - other).astype(np.float64) ** 2).sum()) for other in states)[:10]
            distances += nearest
            mean = sum(distances) / len(distances)
            kernels = [1e-4 / (max(each / mean - 0.008, 0) + 1e-4) for each in nearest]
            assert paid == pytest.approx(1 / (math.sqrt(10 / len(kernels) * sum(kernels)) + 0.001), rel=1e-5)
        states.append(state)


def test_a_new_episode_forgets_the_states_and_not_the_mean_distance() -> None:
    memory = EpisodicMemory(1)
    for value in (0, 2):
        memory.novelty(point(value))
    memory.clear()
    assert memory.novelty(point(5)) == 0.0
    # 1 beside the mean of 4 and 1.
    assert memory.novelty(point(6)) == pytest.approx(1 / (math.sqrt(10 * 1e-4 / (0.4 - 0.008 + 1e-4)) + 0.001))


def test_states_beyond_the_memory_replace_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.bonuses.ngu._MEMORY_STATES", 3)
    memory = EpisodicMemory(1)
    for value in (0, 10, 20, 30):
        memory.novelty(point(value))
    assert memory.state()["memory"].ravel().tolist() == [30, 10, 20]
    other = EpisodicMemory(1)
    other.load_state(memory.state())
    assert other.novelty(point(0)) == memory.novelty(point(0))
    assert other.state()["memory"].ravel().tolist() == [30, 0, 20]


def test_an_error_is_held_beside_those_so_far_this_one_included() -> None:
    moments = Moments()
    # Of 2 alone there is no deviation. 2 and 4: mean 3, deviation 1. 2, 4, 9: mean 5, variance 26/3.
    assert [moments.standardised(value) for value in (2.0, 4.0, 9.0)] == pytest.approx([0, 1, 4 / math.sqrt(26 / 3)])


@pytest.mark.parametrize(
    ("errors", "lifelong"), [((1.0,), 1.0), ((1.0, 2.0), 2.0), ((5.0, 1.0), 1.0), ((*[0.0] * 99, 9.0), 5.0)]
)
def test_the_lifelong_factor_lies_between_one_and_five(errors: tuple[float, ...], lifelong: float) -> None:
    bonus = made("ngu")
    given = iter(errors)
    bonus._distillation.learn = lambda _: next(given)
    paid = [bonus.observe(replace(PLAYED[0], episode_step=step)) for step in range(len(errors))][-1]
    assert isinstance(paid, Product)
    assert paid.factors["lifelong"] == pytest.approx(lifelong)
    assert paid == pytest.approx(paid.factors["episodic"] * lifelong)


def test_the_first_state_of_an_episode_pays_nothing_after_every_end() -> None:
    bonus = made("ngu")
    paid = [bonus.observe(step) for step in PLAYED[:60]]
    starts = [step.episode_step == 0 for step in PLAYED[:60]]
    assert sum(starts) > 2
    assert [value == 0.0 for value in paid] == starts


def test_within_an_episode_the_features_stay_and_an_exact_revisit_pays_the_least() -> None:
    bonus, step = made("ngu"), PLAYED[0]
    for number in range(12):
        bonus.learn(batch(32))
        paid = bonus.observe(replace(step, episode_step=number))
    assert paid.factors["episodic"] == pytest.approx(1 / (math.sqrt(10) + 0.001))
    before = bonus._features.embed(step.state)
    bonus.observe(replace(step, episode_step=0))
    assert not np.allclose(bonus._features.embed(step.state), before)


def test_what_it_declares() -> None:
    assert (Ngu.scope, Ngu.pays_for) == ("both", "state")
    assert options_of(BonusConfig("ngu")) == NguOptions(5e-4, 32, 128)
