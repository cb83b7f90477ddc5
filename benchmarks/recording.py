"""Real pictures for the benchmarks: random play of a game, recorded once and then repeated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpiste.agent.replay import Replay
from offpiste.config import WorldConfig
from offpiste.seeding import stream
from offpiste.worlds.atari import AtariGame
from offpiste.worlds.base import FRAME_SHAPE


@dataclass(frozen=True)
class Recording:
    """Agent steps in a row."""

    frames: NDArray[np.uint8]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    ends: NDArray[np.bool_]


def record(game_name: str, steps: int) -> Recording:
    """Play at random for so many agent steps."""
    game = AtariGame(game_name, WorldConfig(), stream(0, "game"))
    actions = stream(0, "actions").integers(game.action_count, size=steps)
    frames = np.empty((steps, *FRAME_SHAPE), np.uint8)
    rewards = np.zeros(steps)
    ends = np.zeros(steps, np.bool_)
    state, _ = game.reset()
    for step in range(steps):
        frames[step] = state[-1]
        state, rewards[step], terminated, truncated, _ = game.step(actions[step])
        ends[step] = terminated or truncated
        if ends[step]:
            state, _ = game.reset()
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
