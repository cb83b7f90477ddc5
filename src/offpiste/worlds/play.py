"""Play in a world without learning: for evaluation, videos, the contract of a bonus, and benchmarks."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from offpiste.types import Transition
from offpiste.worlds.base import World

Policy = Callable[[NDArray[np.uint8]], int]
"""Chooses an action in a state [stack, height, width]."""


def take_step(world: World, action: int, episode_step: int) -> Transition:
    """Take one agent step and return all of it."""
    state = world.observation
    next_state, reward, terminated, truncated, _ = world.step(action)
    return Transition(state, action, reward, next_state, terminated, truncated, episode_step, world.ram)


def episode(world: World, policy: Policy) -> Iterator[Transition]:
    """Play one episode from its start to its end."""
    state, _ = world.reset()
    episode_step, over = 0, False
    while not over:
        transition = take_step(world, policy(state), episode_step)
        yield transition
        state, episode_step, over = transition.next_state, episode_step + 1, transition.over


def play(world: World, policy: Policy) -> Iterator[Transition]:
    """Play one episode after the other, without end."""
    while True:
        yield from episode(world, policy)


def random_policy(world: World, generator: np.random.Generator) -> Policy:
    """Return the policy that takes every action with the same probability."""
    return lambda _: int(generator.integers(world.action_count))
