"""Random network distillation as Burda et al. (2019) ran it, on this agent.

i = the mean over features of (f̂ - f)², on the frame shown, normalised by pixel statistics from random play. What else
they ran are settings of mixing, in the row of the table of methods: the next frame is shown, rewards are divided by the
running deviation of their discounted sum, and their return has a value head of its own and does not end with episodes.
They train on large batches rarely; here the predictor takes one step on every frame, as in `rnd.py`. Their convolutions
have no padding, which leaves nothing of frames under 36 pixels; those are padded.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.bonuses.rnd import Distillation, PixelStatistics, RndOptions
from offpiste.parsing import Range

MIN_UNPADDED_SIDE = 36
"""Height and width of the smallest frame of which three convolutions without padding leave a pixel."""


@dataclass(frozen=True)
class RndFullOptions(RndOptions):
    """Random network distillation as Burda et al. (2019) ran it."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the predictor; the target never trains."""
    warm_up_steps: Annotated[int, Range(min=0, max=10**9)] = 6_400
    """First steps, of random play, which set the pixel statistics alone; at most those before the agent learns."""


class RndFull:
    """Pays the mean of (f̂ - f)² over the features, once random play has set the statistics of pixels."""

    Options = RndFullOptions

    def __init__(self, options: RndFullOptions, context: Context) -> None:
        self.warm_up_steps = min(options.warm_up_steps, context.min_history_steps)
        self._distillation = Distillation(options, context, padded=is_padded(context))
        self._pixels = PixelStatistics(context.frame_shape)

    def observe(self, transition: Transition) -> float:
        """Return the predictor's mean squared error on the newest frame, then train it on that."""
        self._pixels.observe(transition.frame)
        if self._pixels.observed <= self.warm_up_steps:
            return 0.0
        normal = self._pixels.normalise(transition.frame)
        return self._distillation.learn(normal) / self._distillation.features

    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Return [batch, n]: the predictor's mean squared error on the newest frame of each state."""
        return self._distillation.distances(batch, self._pixels) / np.float32(self._distillation.features)

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame."""
        return self._distillation.scalars()

    def state(self) -> dict[str, Any]:
        """Return both networks, Adam's moments and the statistics as plain arrays."""
        return self._distillation.state() | self._pixels.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._distillation.load_state(state)
        self._pixels.load_state(state)


def is_padded(context: Context) -> bool:
    """Return whether frames are too small for convolutions without padding."""
    return min(context.frame_shape) < MIN_UNPADDED_SIDE
