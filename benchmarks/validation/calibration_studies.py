"""What the parts of `calibration` share: made-up scores of runs, and how frequencies are shown and judged."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from offpiste.analysis import stats

SEEDS = (3, 5, 10, 20)
KINDS = ("normal", "bimodal", "unequal")
LEVEL = stats.LEVEL


def draw(
    generator: np.random.Generator, kind: str, size: int | tuple[int, int], *, jumping: bool | NDArray[np.bool_]
) -> stats.Array:
    """Return the noise of runs, on the human-normalised scale."""
    if kind == "normal":
        return generator.normal(0.0, 0.03, size)
    fine = generator.normal(0.0, 0.005, size)
    if kind == "bimodal":
        return fine + 0.5 * (generator.random(size) < 0.2)
    return fine + jumping * np.where(generator.random(size) < 0.5, -0.25, 0.25)


def shown(shares: Mapping[int, float | None]) -> str:
    """Return percentages in a row."""
    return "  ".join("     –" if share is None else f"{share:6.1%}" for share in shares.values())


def slack(share: float, studies: int) -> float:
    """Return three standard errors of a frequency."""
    return 3 * math.sqrt(share * (1 - share) / studies)
