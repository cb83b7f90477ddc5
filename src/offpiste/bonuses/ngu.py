"""The reward of Never Give Up (Badia et al., 2020), for one policy: novelty in the episode times novelty over the run.

With φ the features of an inverse model and N the k states of this episode nearest to φ(x), d² their squared distances
over the running mean of such distances, K = ε / (max(d² - ξ, 0) + ε):

    i = 1 / (√ΣK + c) · clip(1 + (e - μ) / σ, 1, L)

where e is the error of random network distillation, with its running mean and deviation. There is no official code;
the constants are those on which public ones agree. Ours: with k of 10 the memory is empty at first and 1 / c would be
paid for the start of each episode, so ΣK is k times the mean over as many neighbours as there are, and nothing is paid
for the first state. The paper's limit on √ΣK + c, 8, is left out: with 10 neighbours that is 3.2 at most. Within an
episode φ is that of its start, or an exact revisit would lie as far away as the features have moved meanwhile. Both
networks are ours (`inverse_dynamics.py`, `rnd.py`), as is one step a frame.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import Batch, Context, Product, Transition
from offpiste.bonuses.inverse_dynamics import InverseDynamics
from offpiste.bonuses.rnd import Distillation, PixelStatistics, RndOptions
from offpiste.parsing import Range

_NEIGHBOURS = 10
_CLUSTER_DISTANCE = 0.008
_KERNEL_EPSILON = 1e-4
_KERNEL_CONSTANT = 1e-3
_MAX_LIFELONG = 5.0
_MEMORY_STATES = 30_000
"""The longest episode has 27,000; later states replace the oldest."""


@dataclass(frozen=True)
class NguOptions:
    """The reward of Never Give Up (Badia et al., 2020)."""

    learning_rate: Annotated[float, Range(above=0)] = 5e-4
    """Adam step size of the inverse model and of the predictor."""
    features: Annotated[int, Range(min=1, max=1_024)] = 32
    """Length of φ."""
    distilled_features: Annotated[int, Range(min=1, max=4_096)] = 128
    """Outputs of the random network and its predictor, and the width of the predictor's hidden layers."""


class Ngu:
    """Pays how unlike a state is to those of its episode, more where it is novel in the run."""

    Options = NguOptions
    scope = "both"
    pays_for = "state"

    def __init__(self, options: NguOptions, context: Context) -> None:
        self._features = InverseDynamics(options.features, options.learning_rate, context, holds=True)
        self._episode = EpisodicMemory(options.features)
        self._distillation = Distillation(RndOptions(options.learning_rate, options.distilled_features), context)
        self._pixels = PixelStatistics(context.frame_shape)
        self._errors = Moments()

    def observe(self, transition: Transition) -> float:
        """Return the reward of the state, then remember it and train the predictor on its newest frame."""
        if transition.episode_step == 0:
            self._episode.clear()
            self._features.hold()
        episodic = self._episode.novelty(self._features.embed(transition.state))
        self._pixels.observe(transition.frame)
        error = self._distillation.learn(self._pixels.normalise(transition.frame))
        return Product(episodic=episodic, lifelong=min(max(1.0 + self._errors.standardised(error), 1.0), _MAX_LIFELONG))

    def learn(self, batch: Batch) -> None:
        """Train the features on the actions of a batch."""
        self._features.learn(batch)

    def scalars(self) -> dict[str, float]:
        """Return the losses of the last batch and the last frame."""
        return self._features.scalars() | self._distillation.scalars()

    def state(self) -> dict[str, Any]:
        """Return networks, statistics and the memory of the episode as plain arrays and numbers."""
        parts = (self._features, self._episode, self._distillation, self._pixels, self._errors)
        return {key: value for part in parts for key, value in part.state().items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for part in (self._features, self._episode, self._distillation, self._pixels, self._errors):
            part.load_state(state)


class EpisodicMemory:
    """The features of the states of an episode, and how unlike them another is."""

    def __init__(self, features: int) -> None:
        self._states = np.zeros((_MEMORY_STATES, features), np.float32)
        self._added = 0
        self._distance_sum, self._distances = 0.0, 0

    def novelty(self, features: NDArray[np.float32]) -> float:
        """Return 1 / (√ΣK + c), or 0 where there is no other state, then remember this one."""
        novelty = self._novelty(features) if self._added else 0.0
        self._states[self._added % _MEMORY_STATES] = features
        self._added += 1
        return novelty

    def _novelty(self, features: NDArray[np.float32]) -> float:
        squares = np.square(self._states[: self._added] - features).sum(axis=1, dtype=np.float64)
        nearest = np.partition(squares, _NEIGHBOURS - 1)[:_NEIGHBOURS] if len(squares) > _NEIGHBOURS else squares
        self._distance_sum += float(nearest.sum())
        self._distances += len(nearest)
        mean = self._distance_sum / self._distances
        relative = nearest / mean if mean > 0.0 else nearest  # as long as all states were alike, all are 0
        kernels = _KERNEL_EPSILON / (np.maximum(relative - _CLUSTER_DISTANCE, 0.0) + _KERNEL_EPSILON)
        return 1.0 / (math.sqrt(_NEIGHBOURS * float(kernels.mean())) + _KERNEL_CONSTANT)

    def clear(self) -> None:
        """Forget all states; the mean distance is of the whole run."""
        self._added = 0

    def state(self) -> dict[str, Any]:
        """Return the states of the episode and the mean distance."""
        return {
            "memory": self._states[: self._added].copy(),
            "remembered": self._added,
            "distance_sum": self._distance_sum,
            "distances": self._distances,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._states[: len(state["memory"])] = state["memory"]
        self._added = state["remembered"]
        self._distance_sum, self._distances = state["distance_sum"], state["distances"]


class Moments:
    """The running mean and standard deviation of a number."""

    def __init__(self) -> None:
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def standardised(self, value: float) -> float:
        """Count a number and return its distance from the mean in standard deviations; 0 while there is none."""
        self._count += 1
        change = value - self._mean
        self._mean += change / self._count
        self._squares += change * (value - self._mean)
        deviation = math.sqrt(self._squares / self._count)
        return (value - self._mean) / deviation if deviation > 0.0 else 0.0

    def state(self) -> dict[str, Any]:
        """Return the moments."""
        return {"error_count": self._count, "error_mean": self._mean, "error_squares": self._squares}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._count, self._mean, self._squares = (state[key] for key in ("error_count", "error_mean", "error_squares"))
