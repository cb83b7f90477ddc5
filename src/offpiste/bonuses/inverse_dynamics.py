"""Features of states that an inverse model shapes: what they hold of a state predicts the action that left it.

E3B and NGU pay for the novelty of such features. The embedding has RND's convolutions over the stack of frames, divided
by 255, and one linear layer with a ReLU; the inverse model takes the features of a state and of the one that followed
through one hidden layer to logits of the action. Both train on the agent's batches, in pairs one step apart; first
weights are orthogonal times √2, as RND's, so that features are of a size with their inputs.
"""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Batch, Context
from offpiste.bonuses.rnd import FeatureNetwork, initialise
from offpiste.neural import Adam, Linear, copy_parameters, load_module, save_module, scale_pixels

_HIDDEN_UNITS = 128


class InverseDynamics:
    """The features φ of a state, which `learn` trains to predict actions.

    With `holds`, φ is that of the last call of `hold`, so that features computed in between can be compared.
    """

    def __init__(self, features: int, learning_rate: float, context: Context, *, holds: bool = False) -> None:
        self._device = torch.device(context.device)
        network = InverseNetwork(features, context)
        self._network = network.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = Adam(self._network.parameters(), learning_rate, epsilon=1e-8)
        self._held = copy.deepcopy(self._network.embedding).requires_grad_(False) if holds else None
        self._loss: float | None = None

    def hold(self) -> None:
        """Take over what was learned since the last call."""
        if self._held is not None:
            copy_parameters(self._network.embedding, self._held)

    @torch.no_grad()
    def embed(self, state: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return φ of one state."""
        embedding = self._network.embedding if self._held is None else self._held
        features = embed(embedding, torch.from_numpy(state[None]).to(self._device))
        return features[0].cpu().numpy()

    def learn(self, batch: Batch) -> None:
        """Take one step on predicting the first actions of a batch, where the state that followed was stored."""
        rows = batch.has_following
        if not rows.any():
            return
        states = torch.from_numpy(np.concatenate([batch.states[rows], batch.following[rows]])).to(self._device)
        actions = torch.from_numpy(batch.actions[rows, 0]).to(self._device)
        loss = functional.cross_entropy(self._network(states), actions)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._loss = float(loss.item())

    def scalars(self) -> dict[str, float]:
        """Return the loss of the last batch; empty before the first."""
        return {} if self._loss is None else {"inverse_loss": self._loss}

    def state(self) -> dict[str, Any]:
        """Return the networks and Adam's moments as plain arrays, and the last loss."""
        held = {} if self._held is None else save_module(self._held, prefix="held/")
        return save_module(self._network, self._optimizer, "inverse/") | held | {"inverse_loss": self._loss}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._network, self._optimizer, "inverse/")
        if self._held is not None:
            load_module(state, self._held, prefix="held/")
        self._loss = state["inverse_loss"]


class InverseNetwork(nn.Module):
    """The embedding φ and the inverse model."""

    def __init__(self, features: int, context: Context) -> None:
        super().__init__()
        self.embedding = FeatureNetwork(context.frame_shape, features, 0, context.generator, context.stack_frames)
        self.hidden = Linear(2 * features, _HIDDEN_UNITS)
        self.head = Linear(_HIDDEN_UNITS, context.action_count)
        for layer in (self.hidden, self.head):
            initialise(layer, context.generator)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits [pairs, actions] of the actions between states [2 · pairs, …]: first ones, then the next."""
        pairs = torch.cat(embed(self.embedding, states).chunk(2), 1)
        return self.head(torch.relu(self.hidden(pairs)))  # type: ignore[no-any-return]


def embed(embedding: nn.Module, states: Tensor) -> Tensor:
    """Return φ, [batch, features], of uint8 states [batch, stack, height, width]."""
    return torch.relu(embedding(scale_pixels(states, torch.float32)))
