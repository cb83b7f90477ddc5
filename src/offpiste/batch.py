"""What the agent learns from, and a bonus that learns from the same."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """Transitions drawn from replay; all arrays have the batch as their first dimension."""

    indices: NDArray[np.int64]
    priorities: NDArray[np.float64]
    """Priorities at the time of the draw."""
    frames: NDArray[np.uint8]
    """[batch, stack + n, height, width]: the first `stack` are the state, the last `stack` the state n steps on."""
    actions: NDArray[np.int64]
    returns: NDArray[np.float32]
    """Discounted sum of n mixed rewards, or of those up to the end of the episode."""
    terminal: NDArray[np.bool_]
    """Whether the episode ended within the n steps; what lies beyond is then not part of `frames`' meaning."""
