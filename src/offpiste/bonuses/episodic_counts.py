"""Visits of frames within an episode, counted by what the frames look like.

On Atari a frame counts by its coarse copy, the cell of Go-Explore by which a run's records count coverage, since no two
frames are quite alike there; where frames are small and recur, by the frame itself.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.worlds.coarse import coarse_copy


class EpisodicCounts:
    """How often each frame was visited in this episode."""

    def __init__(self, *, exact: bool) -> None:
        self._exact = exact
        self._counts: dict[int, int] = {}

    def visit(self, frame: NDArray[np.uint8]) -> int:
        """Count a visit and return how many there are now."""
        seen = frame if self._exact else coarse_copy(frame)
        key = int.from_bytes(hashlib.blake2b(seen.tobytes(), digest_size=8).digest(), "little")
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key]

    def clear(self) -> None:
        """Forget all visits."""
        self._counts = {}

    def state(self) -> dict[str, Any]:
        """Return the hashes of frames and their counts as arrays."""
        return {
            "visited": np.array([*self._counts], np.uint64),
            "visits": np.array([*self._counts.values()], np.int64),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._counts = dict(zip(state["visited"].tolist(), state["visits"].tolist(), strict=True))
