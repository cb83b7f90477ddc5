"""Exploration by disagreement (Pathak, Gandhi and Gupta, 2019): the variance of an ensemble of forward models.

Five forward models, which begin with other weights, learn to predict the features φ of the next state from those of
this one and the action. Where they were trained, they agree, and where the next state is random, they agree on its
mean; i is the variance of their predictions over the ensemble, as a mean over the features. Ours: φ is that of an
inverse model, with random features, the default of the authors' code, as an option; forward models have one hidden
layer for its four residual blocks; and all models learn from all pairs of the agent's batches, where its losses are
dropped for a fifth of the pairs, another fifth for each model. As ICM's, features grow while they are learned, and the
variance with them: a frame that is shown again and again may be paid more.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.bonuses.inverse_dynamics import ForwardModel, InverseDynamics, Pairs
from offpiste.neural import Adam, load_module, save_module
from offpiste.parsing import Range


@dataclass(frozen=True)
class DisagreementOptions:
    """Exploration by disagreement (Pathak, Gandhi and Gupta, 2019)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the features, the inverse model and the forward models."""
    features: Annotated[int, Range(min=1, max=4_096)] = 512
    """Length of φ; small worlds need fewer."""
    models: Annotated[int, Range(min=2, max=100)] = 5
    """How many forward models there are."""
    random_features: bool = False
    """Whether φ stays as it was drawn, and no inverse model trains it."""


class Disagreement:
    """Pays the variance of what forward models predict for the state and the action."""

    Options = DisagreementOptions
    pays_for = "state"
    measures_visits = False

    def __init__(self, options: DisagreementOptions, context: Context) -> None:
        self._device = torch.device(context.device)
        self._features = InverseDynamics(
            options.features, options.learning_rate, context, trains=not options.random_features
        )
        models = [ForwardModel(options.features, context) for _ in range(options.models)]
        self._models = nn.ModuleList(models).to(self._device)
        self._optimizer = Adam(self._models.parameters(), options.learning_rate, epsilon=1e-8)
        self._loss: float | None = None

    @torch.no_grad()
    def observe(self, transition: Transition) -> float:
        """Return the variance of the predictions, in which what the action led to has no part."""
        features = torch.from_numpy(self._features.embed(transition.state)[None]).to(self._device)
        predicted = self._predict(features, torch.tensor([transition.action], device=self._device))
        return disagreement(predicted[:, 0])

    def learn(self, batch: Batch) -> None:
        """Train the forward models on the pairs of a batch, and the features on its actions."""
        pairs = self._features.learn(batch)
        if pairs is None:
            return
        loss = self._forward_loss(pairs)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._loss = float(loss.item()) / len(self._models)

    def _forward_loss(self, pairs: Pairs) -> Tensor:
        """Return the sum over the models of their mean squared errors; no error trains the features."""
        errors = (self._predict(pairs.now, pairs.actions) - pairs.later).square()
        return errors.mean((1, 2)).sum()

    def _predict(self, features: Tensor, actions: Tensor) -> Tensor:
        """Return what each model predicts, [models, batch, features]."""
        return torch.stack([model(features, actions) for model in self._models])

    def scalars(self) -> dict[str, float]:
        """Return the losses of the last batch, of the forward models as a mean; empty before the first."""
        return self._features.scalars() | ({} if self._loss is None else {"forward_loss": self._loss})

    def state(self) -> dict[str, Any]:
        """Return networks and Adam's moments as plain arrays, and the last losses."""
        models = save_module(self._models, self._optimizer, "forward/")
        return self._features.state() | models | {"forward_loss": self._loss}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._features.load_state(state)
        load_module(state, self._models, self._optimizer, "forward/")
        self._loss = state["forward_loss"]


def disagreement(predicted: Tensor) -> float:
    """Return the variance over models of their predictions [models, features], as a mean over the features."""
    return float(predicted.var(0, correction=0).mean().item())
