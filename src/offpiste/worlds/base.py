"""The interface of a world: frames of one size, RAM that locates the player, and exact snapshots."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_ACTIONS = 18
"""The largest action set, that of a joystick with a button."""


class World(Protocol):
    """A gymnasium environment with a few additions; states are read-only uint8 stacks, newest frame last."""

    metadata: dict[str, Any]
    """As in gymnasium: `render_fps` is the frames per second at which a person would play."""

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""

    @property
    def action_count(self) -> int:
        """Number of actions."""

    @property
    def action_names(self) -> list[str]:
        """Names of the actions, for people."""

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes of memory, from which true states can be counted."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode."""

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one agent step; the reward is unclipped."""

    def render(self) -> Any:
        """Return the screen in colour, [height, width, 3]."""

    def snapshot(self) -> bytes:
        """Return the complete state of the world, its generator included."""

    def restore(self, snapshot: bytes) -> None:
        """Restore from `snapshot()`."""
