"""Real play for the benchmarks: random actions in a game, step by step, or recorded once and then repeated."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from offpiste.agent.replay import Replay
from offpiste.methods import base_run
from offpiste.seeding import stream
from offpiste.types import Transition
from offpiste.worlds.play import play, random_policy
from offpiste.worlds.registry import open_world


@dataclass(frozen=True)
class Recording:
    """Agent steps in a row."""

    frames: NDArray[np.uint8]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    ends: NDArray[np.bool_]


def random_play(game: str, seed: int) -> Iterator[Transition]:
    """Play at random, one episode after the other."""
    world = open_world(game, base_run(game).world, stream(seed, "game"), seed)
    return play(world, random_policy(world, stream(seed, "actions")))


def record(game: str, steps: int) -> Recording:
    """Play at random for so many agent steps."""
    frames = np.empty((steps, *base_run(game).world.state_shape[1:]), np.uint8)
    actions = np.empty(steps, np.int64)
    rewards, ends = np.empty(steps), np.empty(steps, np.bool_)
    for step, taken in enumerate(islice(random_play(game, seed=0), steps)):
        frames[step], actions[step], rewards[step] = taken.frame, taken.action, taken.reward
        ends[step] = taken.over
    return Recording(frames, actions, rewards, ends)


def fill(replay: Replay, recording: Recording, entries: int) -> None:
    """Add a recording to a replay again and again, until it has taken so many more entries, padding included."""
    goal = replay.added + entries
    step = 0
    while replay.added < goal:
        replay.add(
            recording.frames[step],
            int(recording.actions[step]),
            float(np.clip(recording.rewards[step], -1, 1)),
            0.0,
            bool(recording.ends[step]),
        )
        step = (step + 1) % len(recording.ends)
