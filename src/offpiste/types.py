"""What passes between world, agent, bonus and replay: a transition, and a batch sampled from the replay."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpiste.field_docs import show_fields

Weights = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Weights of entries of the replay, given their numbers."""


@show_fields
@dataclass(frozen=True)
class Transition:
    """One agent step; the states are read-only stacks [stack, height, width] of uint8, newest frame last."""

    state: NDArray[np.uint8]
    """The state in which the action was taken."""
    action: int
    """Index of the action, from 0."""
    reward: float
    """The extrinsic reward, unclipped."""
    next_state: NDArray[np.uint8]
    """The state after the step."""
    terminated: bool
    """Whether the game ended with this step."""
    truncated: bool
    """Whether a time limit ended the episode."""
    episode_step: int
    """0 for the first step of an episode."""
    ram: NDArray[np.uint8]
    """The console's 128 bytes of RAM after the step, for bonuses that count true states."""

    @property
    def frame(self) -> NDArray[np.uint8]:
        """The newest frame of the state in which the action was taken."""
        newest: NDArray[np.uint8] = self.state[-1]
        return newest

    @property
    def over(self) -> bool:
        """Whether the episode ended with this step."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Beyond:
    """The n steps of each row of a batch that are counted over the ends of episodes, for a return that does not end."""

    intrinsic: NDArray[np.float32]
    """[batch, n]: intrinsic rewards, unscaled; 0 after a limit that truncated an episode without ending the game."""
    steps: NDArray[np.int64]
    """[batch]: how many steps these are: n, or those up to such a limit."""
    next_states: NDArray[np.uint8]
    """[batch, stack, height, width]: the states to bootstrap from, so many steps later: of a later episode where one
    has ended on the way, and of the same one elsewhere, as in the batch."""


@show_fields
@dataclass(frozen=True)
class Batch:
    """n-step transitions sampled from the replay; the batch is the first dimension of every array.

    Rewards are those of the entries, not mixed: `offpiste.agent.mixing` computes returns from them.
    """

    indices: NDArray[np.int64]
    """[batch]: current indices of the entries in the replay."""
    numbers: NDArray[np.int64]
    """[batch]: numbers of the entries, counted from the start of the run."""
    priorities: NDArray[np.float64]
    """[batch]: priorities when sampled."""
    frames: NDArray[np.uint8]
    """[batch, stack + n, height, width]: from the oldest frame of the first state to the newest of the last."""
    actions: NDArray[np.int64]
    """[batch, n]: the action taken in the first state, and the n - 1 that followed."""
    extrinsic: NDArray[np.float32]
    """[batch, n]: extrinsic rewards, clipped; 0 after the end of the episode."""
    intrinsic: NDArray[np.float32]
    """[batch, n]: intrinsic rewards, unscaled; 0 after the end of the episode."""
    steps: NDArray[np.int64]
    """[batch]: how many of the n steps are of the same episode as the first."""
    terminal: NDArray[np.bool_]
    """[batch]: whether the game ended within the n steps, so that nothing is bootstrapped. Beyond `steps`, frames and
    actions are of other episodes, here and where an episode was truncated."""
    beyond: Beyond | None = None
    """The steps of an intrinsic return that goes on over the ends of episodes; None where it ends with them."""

    @property
    def states(self) -> NDArray[np.uint8]:
        """[batch, stack, height, width]: the states in which the first actions were taken."""
        return self.frames[:, : self.stack]

    @property
    def next_states(self) -> NDArray[np.uint8]:
        """[batch, stack, height, width]: the states to bootstrap from: n steps later, or at the truncation.

        What the first action led to is `following`.
        """
        n = self.actions.shape[1]
        if (self.terminal | (self.steps == n)).all():
            return self.frames[:, n:]
        indices = self.steps[:, None] + np.arange(self.stack)
        cut: NDArray[np.uint8] = self.frames[np.arange(len(indices))[:, None], indices]
        return cut

    @property
    def following(self) -> NDArray[np.uint8]:
        """[batch, stack, height, width]: what the first actions led to, one step later, where `has_following`."""
        return self.frames[:, 1 : self.stack + 1]

    @property
    def has_following(self) -> NDArray[np.bool_]:
        """[batch]: whether the state one step later was stored; the one after a terminal step is not."""
        following: NDArray[np.bool_] = ~(self.terminal & (self.steps == 1))
        return following

    @property
    def stack(self) -> int:
        """How many frames make up a state."""
        return int(self.frames.shape[1] - self.actions.shape[1])
