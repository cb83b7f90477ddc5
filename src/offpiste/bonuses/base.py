"""What a bonus is given, what it sees and what it must offer.

A bonus is asked once per training step, in order, and never during evaluation. It returns its reward unscaled and may
learn while it looks, because a pseudo-count is the change that an update causes.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Context:
    """What a bonus is made for."""

    game: str
    """Its name, for bonuses that read the game's memory; a bonus meant for every game has no use for it."""
    action_count: int
    stack_frames: int
    frame_shape: tuple[int, int]
    generator: np.random.Generator
    """The bonus's own random stream; its state is saved and restored by the run."""
    device: str = "cpu"


@dataclass(frozen=True)
class Transition:
    """One agent step; the states are read-only stacks [stack, height, width], newest picture last."""

    state: NDArray[np.uint8]
    action: int
    reward: float
    """The game's reward, unclipped."""
    next_state: NDArray[np.uint8]
    terminated: bool
    truncated: bool
    episode_step: int
    """0 for the first step of an episode."""
    ram: NDArray[np.uint8]
    """The memory of the console after the step, for bonuses that count true states."""

    @property
    def frame(self) -> NDArray[np.uint8]:
        """The newest picture of the state in which the action was taken."""
        newest: NDArray[np.uint8] = self.state[-1]
        return newest


class Bonus(Protocol):
    """An intrinsic reward. Any class of this form will do; it need not inherit from this one.

    The class is called with its options and a `Context`, and tells about itself in attributes: `Options`, a frozen
    dataclass of its options, whose field docstrings are their manual; optionally `measures_visits` (default True: the
    bonus of a picture falls as the picture is seen again and again) and `can_be_negative` (default False). Layers may
    draw their first weights from torch's global generator, which is seeded for that; later nothing may.

    A bonus that trains on replay has one more method, `learn(batch)`, called after each update of the agent with what
    the agent learned from: `batch.frames` [batch, stack + n, height, width], whose first `stack` pictures are the state
    and whose last `stack` the state n steps on, and `batch.actions`, `batch.returns`, `batch.terminal`. Its arrays must
    not be changed, and the pictures stay valid only until the call returns.
    """

    def observe(self, transition: Transition) -> float:
        """Return the unscaled bonus of this step."""

    def state(self) -> dict[str, Any]:
        """Return all that later bonuses depend on, as a flat dictionary of arrays and JSON values."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
