"""E3B, elliptical episodic bonuses (Henaff et al., 2022): how far a state's features reach beyond those of the episode.

With φ the features of an inverse model, C the sum of φφᵀ over the states before in this episode plus λI, a state pays
b = φᵀC⁻¹φ: the count's inverse, generalised, 1/n for the n-th visit of one of few orthogonal features. The first state
of an episode pays 0, as in the authors' code. Ours: λ is 0.1 of the running mean of ‖φ‖², where the authors' is 0.1,
since features of another size would make it dominate, or vanish; 128 features for 1,024; and C⁻¹ in float64, in which
b keeps its digits over the longest episode.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.bonuses.inverse_dynamics import InverseDynamics
from offpiste.parsing import Range

_RIDGE = 0.1
_WINDOW_STEPS = 1_000
"""Over about so many steps the mean of ‖φ‖² runs: features grow while they are learned."""
_MIN_RIDGE = 1e-12


@dataclass(frozen=True)
class E3bOptions:
    """Elliptical episodic bonuses (Henaff et al., 2022)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the features and the inverse model."""
    features: Annotated[int, Range(min=1, max=1_024)] = 128
    """Length of φ."""


class E3b:
    """Pays φᵀC⁻¹φ for the state in which the action was taken."""

    Options = E3bOptions
    scope = "episodic"
    pays_for = "state"

    def __init__(self, options: E3bOptions, context: Context) -> None:
        self._features = InverseDynamics(options.features, options.learning_rate, context)
        self._ellipse = Ellipse(options.features)
        self._observed = 0
        self._square = 0.0

    def observe(self, transition: Transition) -> float:
        """Return the bonus of the state, then add it to those of the episode."""
        features = self._features.embed(transition.state).astype(np.float64)
        self._observed += 1
        self._square += (float(features @ features) - self._square) / min(self._observed, _WINDOW_STEPS)
        if transition.episode_step == 0:
            self._ellipse.clear(max(_RIDGE * self._square, _MIN_RIDGE))
        intrinsic = self._ellipse.add(features)
        return 0.0 if transition.episode_step == 0 else intrinsic

    def learn(self, batch: Batch) -> None:
        """Train the features on the actions of a batch."""
        self._features.learn(batch)

    def scalars(self) -> dict[str, float]:
        """Return the loss of the last batch, and λ as a share of what ‖φ‖² is by now."""
        share = {"ridge_share": self._ellipse.ridge / self._square} if self._square > 0.0 else {}
        return self._features.scalars() | share

    def state(self) -> dict[str, Any]:
        """Return networks, statistics and C⁻¹ as plain arrays and numbers."""
        return self._features.state() | {
            "observed": self._observed,
            "square": self._square,
            "ridge": self._ellipse.ridge,
            "inverse_matrix": self._ellipse.inverse.numpy().copy(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._features.load_state(state)
        self._observed, self._square = state["observed"], state["square"]
        self._ellipse.ridge = state["ridge"]
        self._ellipse.inverse = torch.from_numpy(state["inverse_matrix"].copy())


class Ellipse:
    """The inverse C⁻¹ of λI plus the sum of the outer products of vectors."""

    def __init__(self, features: int) -> None:
        self.ridge = 1.0
        """λ."""
        self.inverse: Tensor = torch.eye(features, dtype=torch.float64)

    def clear(self, ridge: float) -> None:
        """Forget all vectors."""
        self.ridge = ridge
        self.inverse = torch.eye(len(self.inverse), dtype=torch.float64) / ridge

    def add(self, features: NDArray[np.float64]) -> float:
        """Return φᵀC⁻¹φ, then add φφᵀ to C (Sherman and Morrison, 1950)."""
        phi = torch.from_numpy(features)
        reached = self.inverse @ phi
        bonus = float(phi @ reached)
        self.inverse.addr_(reached, reached, alpha=-1.0 / (1.0 + bonus))
        return bonus
