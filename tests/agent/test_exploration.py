import numpy as np
import pytest
from numpy.typing import NDArray

from offpiste.agent.exploration import RandomActions, cumulative_durations, random_action
from offpiste.config import ExplorationConfig

GREEDY = 99
STATE = np.zeros((4, 84, 84), np.uint8)


def greedy(state: NDArray[np.uint8], noise: np.random.Generator | None) -> int:
    assert state is STATE
    return GREEDY


def draw(config: ExplorationConfig, epsilon: float, steps: int, seed: int = 0, actions: int = 4) -> list[int]:
    generator, policy = np.random.default_rng(seed), RandomActions(config, actions, greedy)
    return [policy.act(STATE, epsilon, generator) for _ in range(steps)]


def test_durations_of_at_most_three_steps_are_those_worked_by_hand() -> None:
    # 1, 1/4 and 1/9 of a sum of 49/36
    assert cumulative_durations(2.0, 3) == pytest.approx([36 / 49, 45 / 49, 1.0], abs=1e-15)
    assert cumulative_durations(0.0, 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert cumulative_durations(2.0, 10_000)[-1] == 1.0


def test_with_a_duration_of_one_step_every_draw_is_that_of_epsilon_greedy() -> None:
    generator = np.random.default_rng(5)
    expected = [random_action(0.3, generator, 4) for _ in range(1_000)]
    found = draw(ExplorationConfig(), 0.3, 1_000, seed=5)
    assert found == [GREEDY if action is None else action for action in expected]


def test_random_actions_last_as_often_as_the_distribution_says() -> None:
    generator, policy = (
        np.random.default_rng(1),
        RandomActions(ExplorationConfig(max_repeat_steps=3), 1_000_000, greedy),
    )
    taken = [policy.act(STATE, 1.0, generator) for _ in range(40_000)]
    changes = np.flatnonzero(np.diff(taken)) + 1  # a million actions: two in a row are practically never the same
    counts = np.bincount(np.diff(changes), minlength=4)[1:]
    shares = counts / counts.sum()
    assert shares == pytest.approx([36 / 49, 9 / 49, 4 / 49], abs=0.01)


def test_the_greedy_action_is_not_asked_for_while_a_random_one_lasts() -> None:
    config = ExplorationConfig(max_repeat_steps=10_000, repeat_exponent=0.0)  # 5,000 steps on average
    generator, policy = np.random.default_rng(2), RandomActions(config, 4, greedy)
    first = policy.act(STATE, 1.0, generator)
    assert {policy.act(STATE, 0.0, generator) for _ in range(20)} == {first}


def test_the_end_of_an_episode_ends_a_repetition() -> None:
    config = ExplorationConfig(max_repeat_steps=10_000, repeat_exponent=0.0)
    generator, policy = np.random.default_rng(2), RandomActions(config, 4, greedy)
    policy.act(STATE, 1.0, generator)
    policy.end_episode()
    assert policy.act(STATE, 0.0, generator) == GREEDY


def test_a_repetition_continues_from_its_state() -> None:
    config = ExplorationConfig(max_repeat_steps=100, repeat_exponent=0.5)
    generator, policy = np.random.default_rng(3), RandomActions(config, 4, greedy)
    for _ in range(50):
        restored = RandomActions(config, 4, greedy)
        restored.load_state(policy.state())
        again = np.random.default_rng(0)
        again.bit_generator.state = generator.bit_generator.state
        expected = [policy.act(STATE, 0.2, generator) for _ in range(7)]
        assert [restored.act(STATE, 0.2, again) for _ in range(7)] == expected


def test_epsilon_greedy_has_nothing_to_save() -> None:
    assert RandomActions(ExplorationConfig(), 4, greedy).state() == {}
