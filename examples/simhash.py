"""SimHash counts (Tang et al., 2017, "#Exploration").

Frames with the same code sgn(A g(s)) count as one. g(s) is the newest frame, averaged
to 42 × 42 pixels and scaled to [-1, 1]; A is drawn once; n includes this visit. The
paper uses 16 to 512 bits with β = 2.56 / bits, and prefers 256. Of 40,000 frames of
random play in Montezuma's Revenge, 256 bits distinguish 16,287, and 64 bits 795: these
keep the table small in a run of 50 million steps.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np

from offpiste import Context, Range, Transition


@dataclass(frozen=True)
class SimHashOptions:
    """How finely frames are distinguished."""

    bits: Annotated[int, Range(min=1, max=4_096)] = 64
    """Length of a code; with more bits, fewer frames share one."""


class SimHash:
    """Pays 1/√n for a frame whose code was seen n times."""

    Options = SimHashOptions

    def __init__(self, options: SimHashOptions, context: Context) -> None:
        shape = (options.bits, 42 * 42)
        self._directions = context.generator.standard_normal(shape, np.float32)  # A
        self._counts: dict[bytes, int] = {}

    def observe(self, transition: Transition) -> float:
        """Count the newest frame and return its reward."""
        small = cv2.resize(transition.frame, (42, 42), interpolation=cv2.INTER_AREA)
        scaled = small.ravel() / np.float32(127.5) - 1
        code = np.packbits(self._directions @ scaled > 0).tobytes()
        self._counts[code] = self._counts.get(code, 0) + 1
        return 1 / math.sqrt(self._counts[code])

    def state(self) -> dict[str, Any]:
        """Return A, the codes and their counts as arrays."""
        code_bytes = -(-len(self._directions) // 8)
        codes = np.frombuffer(b"".join(self._counts), np.uint8)
        return {
            "directions": self._directions,
            "codes": codes.reshape(-1, code_bytes),
            "counts": np.array([*self._counts.values()], np.int64),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._directions = state["directions"]
        self._counts = {
            code.tobytes(): int(n)
            for code, n in zip(state["codes"], state["counts"], strict=True)
        }
