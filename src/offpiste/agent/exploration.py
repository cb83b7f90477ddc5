"""Random actions that last: ε-greedy exploration with a random duration (Dabney, Ostrovski and Barreto, 2021).

With probability ε an action at random, repeated for n steps with z(n) ∝ n^-μ, unless the episode ends before. With a
longest duration of one step this is ε-greedy itself, draw by draw. Our reading of n: the number of steps in all, as in
the paper's text, where its pseudocode would take n + 1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import ExplorationConfig

GreedyAction = Callable[[NDArray[np.uint8], np.random.Generator | None], int]
"""Returns the greedy action in a state, with noise from a generator where networks are noisy."""


class RandomActions:
    """Draws the random actions of a run, and repeats each for its duration."""

    def __init__(self, config: ExplorationConfig, action_count: int, greedy_action: GreedyAction) -> None:
        self._action_count = action_count
        self._greedy_action = greedy_action
        self._durations = cumulative_durations(config.repeat_exponent, config.max_repeat_steps)
        self._action = self._left = 0

    def act(
        self,
        state: NDArray[np.uint8],
        epsilon: float,
        generator: np.random.Generator,
        noise: np.random.Generator | None = None,
    ) -> int:
        """Return a random action with probability ε or while one lasts, otherwise the greedy one in this state."""
        if self._left == 0:
            action = random_action(epsilon, generator, self._action_count)
            if action is None:
                return self._greedy_action(state, noise)
            self._action, self._left = action, self._duration(generator)
        self._left -= 1
        return self._action

    def end_episode(self) -> None:
        """Stop repeating."""
        self._left = 0

    def state(self) -> dict[str, Any]:
        """Return what is left of a repetition; empty if actions are never repeated."""
        return {} if len(self._durations) == 1 else {"random_action": self._action, "random_action_left": self._left}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore from `state()`; other names in it are ignored."""
        self._action, self._left = state.get("random_action", 0), state.get("random_action_left", 0)

    def _duration(self, generator: np.random.Generator) -> int:
        if len(self._durations) == 1:
            return 1  # without a draw, so that ε-greedy runs draw what they always drew
        return 1 + int(np.searchsorted(self._durations, generator.random(), side="right"))


def random_action(epsilon: float, generator: np.random.Generator, action_count: int) -> int | None:
    """Return a random action with probability ε, else None."""
    return int(generator.integers(action_count)) if generator.random() <= epsilon else None


def cumulative_durations(exponent: float, max_steps: int) -> NDArray[np.float64]:
    """Return P(n <= 1), …, P(n <= max_steps) of z(n) ∝ n^-exponent, [max_steps]; the last is exactly 1."""
    weights = np.arange(1, max_steps + 1, dtype=np.float64) ** -exponent
    shares: NDArray[np.float64] = weights.cumsum() / weights.sum()
    shares[-1] = 1.0
    return shares
