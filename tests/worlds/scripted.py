"""A world that plays a script and keeps what it played; no two frames or memories in it are alike."""

from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste import Transition
from offpiste.config import WorldConfig

EPISODES = ((7, "terminated"), (12, "truncated"), (1, "terminated"), (5, "truncated"))
"""Steps and end of each episode; after the last, the first again."""
REWARDS = ((3.0, 1.0), (0.0, 0.0), (-2.5, -1.0), (0.5, 0.5), (-1.0, -1.0), (40.0, 1.0), (-0.25, -0.25))
"""Reward of each step, unclipped and clipped; after the last, the first again."""


class ScriptedWorld:
    """Stands in for a game; as in Deep Sea, bytes 0 and 1 of its memory locate the player, who is nowhere twice."""

    metadata: dict[str, Any] = {"render_fps": 60}  # noqa: RUF012 (gymnasium's own form)
    action_count = 18
    action_names = [str(action) for action in range(action_count)]  # noqa: RUF012

    def __init__(self, config: WorldConfig, first_frame: int = 0) -> None:
        """Count frames from the given one, so that two worlds have none in common."""
        self.played: list[Transition] = []
        self.resets = 0
        self._frame = first_frame
        self._episodes, self._rewards = cycle(EPISODES), cycle(REWARDS)
        self._steps = self._length = 0
        self._end = ""
        self._stack = np.zeros(config.state_shape, np.uint8)

    @property
    def state_shape(self) -> tuple[int, int, int]:
        stack, height, width = self._stack.shape
        return stack, height, width

    @property
    def observation(self) -> NDArray[np.uint8]:
        return self._stack

    @property
    def ram(self) -> NDArray[np.uint8]:
        memory = np.full(128, self._frame % 251, np.uint8)
        memory[0], memory[1] = 8 * (self._frame % 32), 8 * (self._frame // 32)
        return memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        assert self._steps == self._length, "the episode is not over"
        self.resets += 1
        self._steps, (self._length, self._end) = 0, next(self._episodes)
        self._stack = np.zeros_like(self._stack)
        self._push_frame()
        return self._stack, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        assert self._steps < self._length, "the episode is over"
        state, (reward, _), step = self._stack, next(self._rewards), self._steps
        self._steps += 1
        self._push_frame()
        ends = {end: self._steps == self._length and end == self._end for end in ("terminated", "truncated")}
        self.played.append(Transition(state, int(action), reward, self._stack, **ends, episode_step=step, ram=self.ram))
        return self._stack, reward, ends["terminated"], ends["truncated"], {}

    def render(self) -> Any:
        raise NotImplementedError

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, snapshot: bytes) -> None:
        raise NotImplementedError

    def _push_frame(self) -> None:
        self._frame += 1
        frame = np.full(self._stack.shape[1:], self._frame % 251, np.uint8)
        frame[0, :2] = self._frame % 32, self._frame // 32
        self._stack = np.concatenate([self._stack[1:], frame[None]])
        self._stack.setflags(write=False)
