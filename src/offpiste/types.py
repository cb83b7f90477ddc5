"""What passes between world, agent, bonus and replay: one agent step, and a batch of steps drawn from the replay."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Transition:
    """One agent step; the states are read-only stacks [stack, height, width] of uint8, newest frame last."""

    state: NDArray[np.uint8]
    action: int
    reward: float
    """The world's reward, unclipped."""
    next_state: NDArray[np.uint8]
    terminated: bool
    truncated: bool
    episode_step: int
    """0 for the first step of an episode."""
    ram: NDArray[np.uint8]
    """The memory of the console after the step, for bonuses that count true states."""

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
class Batch:
    """n steps in a row from each of several entries of the replay; the batch is the first dimension of every array.

    Rewards are those of the entries, not mixed: `offpiste.agent.mixing` makes returns of them.
    """

    indices: NDArray[np.int64]
    """[batch]: where the entries lie in the replay now."""
    numbers: NDArray[np.int64]
    """[batch]: the same entries, counted from the start of the run."""
    priorities: NDArray[np.float64]
    """[batch]: priorities at the time of the draw."""
    frames: NDArray[np.uint8]
    """[batch, stack + n, height, width]: those of the n steps and of the `stack` - 1 before, and the one after."""
    actions: NDArray[np.int64]
    """[batch, n]: the action taken in the state, and those that followed."""
    extrinsic: NDArray[np.float32]
    """[batch, n]: the world's rewards, clipped; 0 after the end of the episode."""
    intrinsic: NDArray[np.float32]
    """[batch, n]: what the bonus returned for each step, unscaled; 0 after the end of the episode."""
    steps: NDArray[np.int64]
    """[batch]: how many of the n steps belong to the episode of the first."""
    terminal: NDArray[np.bool_]
    """[batch]: whether the episode ended within the n steps; frames, actions and rewards beyond mean nothing then."""

    @property
    def states(self) -> NDArray[np.uint8]:
        """[batch, stack, height, width]: the states in which the first actions were taken."""
        return self.frames[:, : self.stack]

    @property
    def next_states(self) -> NDArray[np.uint8]:
        """[batch, stack, height, width]: the states to bootstrap from: n steps later, or where a limit cut it."""
        n = self.actions.shape[1]
        if (self.terminal | (self.steps == n)).all():
            return self.frames[:, n:]
        indices = self.steps[:, None] + np.arange(self.stack)
        cut: NDArray[np.uint8] = self.frames[np.arange(len(indices))[:, None], indices]
        return cut

    @property
    def stack(self) -> int:
        """How many frames make up a state."""
        return int(self.frames.shape[1] - self.actions.shape[1])
