"""RIDE, rewarding impact-driven exploration (Raileanu and Rocktäschel, 2020): how far a step changes the features.

i = ‖φ(s') - φ(s)‖ / √N(s'), where φ learns to predict actions and, by a forward model, to be predicted; N counts the
visits of a frame in the episode, this one included. So it pays for what the agent brings about, and less where it
comes again and again. The losses have the authors' weights, 0.1 and 10, of which Adam sees the ratio alone; the forward
loss is a norm, not squared, and trains φ on both sides, as theirs does. Ours: the network of φ (`inverse_dynamics.py`),
and Adam for RMSProp. The frame in which an episode begins is visited, too.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from offpiste.bonuses.base import Batch, Context, Product, Transition
from offpiste.bonuses.episodic_counts import EpisodicCounts
from offpiste.bonuses.inverse_dynamics import InverseDynamics
from offpiste.parsing import Range

_INVERSE_WEIGHT, _FORWARD_WEIGHT = 0.1, 10.0


@dataclass(frozen=True)
class RideOptions:
    """Rewarding impact-driven exploration (Raileanu and Rocktäschel, 2020)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the features and both models."""
    features: Annotated[int, Range(min=1, max=1_024)] = 128
    """Length of φ."""
    exact_frames: bool = False
    """Whether visits in an episode count by the frame itself, and not by its coarse copy."""


class Ride:
    """Pays the distance between the features of two states, over the root of the visits of the second."""

    Options = RideOptions
    scope = "episodic"
    measures_visits = (
        False  # a step that leaves the frames as they are moves nothing, and is paid nothing from the first
    )

    def __init__(self, options: RideOptions, context: Context) -> None:
        weight = _FORWARD_WEIGHT / _INVERSE_WEIGHT
        self._features = InverseDynamics(options.features, options.learning_rate, context, forward_weight=weight)
        self._visits = EpisodicCounts(exact=options.exact_frames)

    def observe(self, transition: Transition) -> float:
        """Return the impact of the step, over the root of how often the next frame was visited."""
        if transition.episode_step == 0:
            self._visits.clear()
            self._visits.visit(transition.frame)
        visits = self._visits.visit(transition.next_state[-1])
        before, after = self._features.embed_all(np.stack([transition.state, transition.next_state]))
        return Product(impact=float(np.linalg.norm(after - before)), episodic=visits**-0.5)

    def learn(self, batch: Batch) -> None:
        """Train the features on the pairs of a batch."""
        self._features.learn(batch)

    def scalars(self) -> dict[str, float]:
        """Return the losses of the last batch."""
        return self._features.scalars()

    def state(self) -> dict[str, Any]:
        """Return networks and visits as plain arrays."""
        return self._features.state() | self._visits.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for part in (self._features, self._visits):
            part.load_state(state)
