"""NovelD, the novelty difference (Zhang et al., 2021): paid where a step leads to a frame more novel than the one left.

With n the error of random network distillation, i = max(n(s') - α n(s), 0) where s' is visited for the first time in
the episode, else 0. n is a norm, not squared; both are taken with the same weights, and the predictor then learns s'
alone. The networks, the normalisation of frames and one step a frame are those of our `rnd`; the authors', on MiniGrid,
are multi-layer perceptrons on an embedding that is not trained. The frame in which an episode begins is visited, too.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

from offpiste.bonuses.base import Context, Product, Transition
from offpiste.bonuses.episodic_counts import EpisodicCounts
from offpiste.bonuses.rnd import Distillation, PixelStatistics, RndOptions
from offpiste.parsing import Range


@dataclass(frozen=True)
class NovelDOptions(RndOptions):
    """The novelty difference (Zhang et al., 2021)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the predictor; the target never trains."""
    alpha: Annotated[float, Range(min=0)] = 0.5
    """α: how much of the novelty of the state left is taken off."""
    exact_frames: bool = False
    """Whether visits in an episode count by the frame itself, and not by its coarse copy."""


class NovelD:
    """Pays the rise of novelty, where the next frame is the first of its kind in the episode."""

    Options = NovelDOptions
    scope = "both"
    pays_for = "next_state"

    def __init__(self, options: NovelDOptions, context: Context) -> None:
        self._alpha = options.alpha
        self._distillation = Distillation(options, context)
        self._pixels = PixelStatistics(context.frame_shape)
        self._visits = EpisodicCounts(exact=options.exact_frames)

    def observe(self, transition: Transition) -> float:
        """Return the reward for the next frame, then train the predictor on that."""
        left, entered = transition.frame, transition.next_state[-1]
        if transition.episode_step == 0:
            self._visits.clear()
            self._visits.visit(left)
        is_first = self._visits.visit(entered) == 1
        self._pixels.observe(entered)
        errors = self._distillation.learn_second(self._pixels.normalise(left), self._pixels.normalise(entered))
        before, after = map(math.sqrt, errors)
        return Product(lifelong=max(after - self._alpha * before, 0.0), episodic=float(is_first))

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame."""
        return self._distillation.scalars()

    def state(self) -> dict[str, Any]:
        """Return networks, statistics and visits as plain arrays."""
        return self._distillation.state() | self._pixels.state() | self._visits.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for part in (self._distillation, self._pixels, self._visits):
            part.load_state(state)
