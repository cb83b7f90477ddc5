"""How the seed of a run mirrors a small world and permutes its actions, so that ten seeds are ten worlds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpiste.seeding import stream


@dataclass(frozen=True)
class Turn:
    """Mirrored frames and permuted actions."""

    mirrored: tuple[bool, bool]
    """Vertically; horizontally."""
    actions: tuple[int, ...]
    """The world's action for each of the agent's actions."""

    def frame(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return frames [..., height, width] as the agent sees them."""
        up_down, left_right = (slice(None, None, -1 if mirrored else 1) for mirrored in self.mirrored)
        turned: NDArray[np.uint8] = frame[..., up_down, left_right]
        return turned


def unturned(action_count: int) -> Turn:
    """Return the identity."""
    return Turn((False, False), tuple(range(action_count)))


def turn_of(seed: int, action_count: int) -> Turn:
    """Return the turn that a seed gives every world with this many actions."""
    draws = stream(seed, "turn")
    up_down, left_right = draws.random(2) < 0.5
    return Turn((bool(up_down), bool(left_right)), tuple(draws.permutation(action_count).tolist()))
