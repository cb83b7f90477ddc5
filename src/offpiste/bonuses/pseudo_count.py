"""From prediction gain to pseudo-count to intrinsic reward, for CTS and PixelCNN alike (Bellemare et al., 2016).

The prediction gain is the rise of log ρ(x) from one update on x. For frames, whose ρ is almost 0, the pseudo-count is
N = 1 / (exp(gain) - 1), and the reward N^(-1/2).
"""

import math

MAX_GAIN = 25.0
"""As in the released code; the reward is then 268,337, and any sum with it is clipped to 1 anyway."""


def intrinsic_of_gain(gain: float) -> float:
    """Return N^(-1/2) for a prediction gain; a gain below 0 pays 0."""
    return math.sqrt(max(0.0, math.expm1(min(gain, MAX_GAIN))))
