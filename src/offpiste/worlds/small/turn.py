"""How a run's seed turns a small world, so that ten seeds are not one world ten times."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpiste.seeding import stream


@dataclass(frozen=True)
class Turn:
    """Frames are mirrored, and actions change places."""

    mirrored: tuple[bool, bool]
    """Up and down; left and right."""
    actions: tuple[int, ...]
    """What each of the agent's actions is in the world."""

    def frame(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return frames [..., height, width] as the agent sees them."""
        up_down, left_right = (slice(None, None, -1 if mirrored else 1) for mirrored in self.mirrored)
        turned: NDArray[np.uint8] = frame[..., up_down, left_right]
        return turned


def unturned(action_count: int) -> Turn:
    """Return the turn that changes nothing."""
    return Turn((False, False), tuple(range(action_count)))


def turn_of(seed: int, action_count: int) -> Turn:
    """Return how the runs of a seed see every world with so many actions."""
    draws = stream(seed, "turn")
    up_down, left_right = draws.random(2) < 0.5
    return Turn((bool(up_down), bool(left_right)), tuple(draws.permutation(action_count).tolist()))
