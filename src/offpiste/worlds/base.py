"""What every world offers: pictures of one size, a memory that tells where the player is, and exact snapshots."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_ACTIONS = 18
"""The largest action set, that of a joystick with a button."""


class World(Protocol):
    """A gymnasium environment with a few things more; states are read-only uint8 stacks, newest picture last."""

    metadata: dict[str, Any]
    """As gymnasium has it: `render_fps` is how many frames a second a person would see."""

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Frames stacked in a state, their height and their width."""

    @property
    def action_count(self) -> int:
        """How many actions the agent can choose from."""

    @property
    def action_names(self) -> list[str]:
        """What a person calls them."""

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes of memory, for what counts true states."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin an episode."""

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Play one agent step; the reward is the game's own, unclipped."""

    def render(self) -> Any:
        """Return what a person would see, [height, width, 3]."""

    def snapshot(self) -> bytes:
        """Return all that the future of this world depends on."""

    def restore(self, snapshot: bytes) -> None:
        """Continue exactly where `snapshot` was taken."""
