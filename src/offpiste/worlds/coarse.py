"""Coarse frames, as the cells of Go-Explore (Ecoffet et al., 2019)."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from offpiste.config import WorldConfig

CoarseFrame = tuple[int, int, int]
COARSE_FRAME: CoarseFrame = WorldConfig().coarse_frame
"""Columns, rows and shades."""


def coarse_copy(frame: NDArray[np.uint8], coarse_frame: CoarseFrame = COARSE_FRAME) -> NDArray[np.uint8]:
    """Return a frame averaged by area to so many columns and rows, in so many shades."""
    columns, rows, shades = coarse_frame
    small = np.asarray(cv2.resize(frame, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)
    return small // math.ceil(256 / shades)
