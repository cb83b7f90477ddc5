"""One agent step, and episodes played without learning: for evaluation, videos, the bonus contract and benchmarks."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from offpiste.types import Transition
from offpiste.worlds.base import World

Policy = Callable[[NDArray[np.uint8]], int]
"""Maps a state [stack, height, width] to an action."""


def take_step(world: World, action: int, episode_step: int) -> Transition:
    """Take one agent step and return its transition."""
    state = world.observation
    next_state, reward, terminated, truncated, _ = world.step(action)
    return Transition(state, action, reward, next_state, terminated, truncated, episode_step, world.ram)


def episode(world: World, policy: Policy) -> Iterator[Transition]:
    """Play one episode."""
    state, _ = world.reset()
    episode_step, over = 0, False
    while not over:
        transition = take_step(world, policy(state), episode_step)
        yield transition
        state, episode_step, over = transition.next_state, episode_step + 1, transition.over


def play(world: World, policy: Policy) -> Iterator[Transition]:
    """Play episodes without end."""
    while True:
        yield from episode(world, policy)


def random_policy(world: World, generator: np.random.Generator) -> Policy:
    """Return the uniformly random policy."""
    return lambda _: int(generator.integers(world.action_count))
