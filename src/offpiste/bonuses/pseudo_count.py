"""From the gain of a density model to a bonus, for CTS and PixelCNN alike (Bellemare et al., 2016).

The prediction gain is the rise of log ρ(x) that learning x once causes. For pictures, whose ρ is next to nothing, the
pseudo-count is N = 1 / (exp(gain) - 1), and the bonus N^(-1/2).
"""

import math

MAX_GAIN = 25.0
"""The released code stops here; the bonus is then 268,337, and any sum with it is clipped to 1 anyway."""


def bonus_of_gain(gain: float) -> float:
    """Return N^(-1/2) for a prediction gain; a gain below 0 pays nothing."""
    return math.sqrt(max(0.0, math.expm1(min(gain, MAX_GAIN))))
