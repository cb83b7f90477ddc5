"""Features of states that an inverse model shapes: what they hold of a state predicts the action that left it.

E3B, NGU, RIDE and disagreement pay by such features. The embedding has RND's convolutions over the stack of frames,
divided by 255, and one linear layer with a ReLU; the inverse model takes the features of a state and of the one that
followed through one hidden layer to logits of the action, and a forward model, which some have, those of a state and
the action to those of the next. All train on the agent's batches, in pairs one step apart; first weights are orthogonal
times √2, as RND's, so that features are of a size with their inputs.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Batch, Context
from offpiste.bonuses.rnd import FeatureNetwork, initialise
from offpiste.neural import Adam, Linear, copy_parameters, load_module, save_module, scale_pixels

_HIDDEN_UNITS = 128
_FORWARD_HIDDEN_UNITS = 256


class InverseDynamics:
    """The features φ of a state, which `learn` trains to predict actions.

    With `holds`, φ is that of the last call of `hold`, so that features computed in between can be compared. With a
    `forward_weight`, φ also trains to be predicted by a forward model, whose loss ‖φ̂ - φ‖ counts so much beside that of
    the inverse model. Without `trains`, φ stays as it was drawn.
    """

    def __init__(
        self,
        features: int,
        learning_rate: float,
        context: Context,
        *,
        holds: bool = False,
        forward_weight: float = 0.0,
        trains: bool = True,
    ) -> None:
        self._device = torch.device(context.device)
        self._trains = trains
        self._forward_weight = forward_weight
        network = InverseNetwork(features, context)
        if forward_weight:
            network.forward_model = ForwardModel(features, context)
        self._network = network.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = Adam(self._network.parameters(), learning_rate, epsilon=1e-8)
        self._held = copy.deepcopy(self._network.embedding).requires_grad_(False) if holds else None
        self._losses: dict[str, float | None] = {"inverse_loss": None}
        if forward_weight:
            self._losses["forward_loss"] = None

    def hold(self) -> None:
        """Take over what was learned since the last call."""
        if self._held is not None:
            copy_parameters(self._network.embedding, self._held)

    def embed(self, state: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return φ of one state."""
        return self.embed_all(state[None])[0]  # type: ignore[no-any-return]

    @torch.no_grad()
    def embed_all(self, states: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return φ, [batch, features], of states [batch, stack, height, width]."""
        embedding = self._network.embedding if self._held is None else self._held
        return embed(embedding, torch.from_numpy(states).to(self._device)).cpu().numpy()

    def learn(self, batch: Batch) -> "Pairs | None":
        """Take one step on predicting the first actions of a batch, where the state that followed was stored.

        Returns the pairs by the features before that step, or None where none was stored.
        """
        rows = batch.has_following
        if not rows.any():
            return None
        states = torch.from_numpy(np.concatenate([batch.states[rows], batch.following[rows]])).to(self._device)
        now, later = embed(self._network.embedding, states).chunk(2)
        pairs = Pairs(now, later, torch.from_numpy(batch.actions[rows, 0]).to(self._device))
        if self._trains:
            self._descend(pairs)
        return Pairs(pairs.now.detach(), pairs.later.detach(), pairs.actions)

    def _descend(self, pairs: "Pairs") -> None:
        loss = functional.cross_entropy(self._network(pairs), pairs.actions)
        self._losses["inverse_loss"] = float(loss.item())
        if self._forward_weight:
            predicted = self._network.forward_model(pairs.now, pairs.actions)
            forward_loss = torch.linalg.vector_norm(predicted - pairs.later, dim=1).mean()
            self._losses["forward_loss"] = float(forward_loss.item())
            loss = loss + self._forward_weight * forward_loss
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def scalars(self) -> dict[str, float]:
        """Return the losses of the last batch; empty before the first."""
        return {name: loss for name, loss in self._losses.items() if loss is not None}

    def state(self) -> dict[str, Any]:
        """Return the networks and Adam's moments as plain arrays, and the last losses."""
        held = {} if self._held is None else save_module(self._held, prefix="held/")
        return save_module(self._network, self._optimizer, "inverse/") | held | self._losses

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._network, self._optimizer, "inverse/")
        if self._held is not None:
            load_module(state, self._held, prefix="held/")
        self._losses = {name: state[name] for name in self._losses}


class Pairs(NamedTuple):
    """States one step apart, by their features [pairs, features], and the actions [pairs] between them."""

    now: Tensor
    later: Tensor
    actions: Tensor


class InverseNetwork(nn.Module):
    """The embedding φ and the inverse model; a forward model where one is set."""

    forward_model: "ForwardModel"

    def __init__(self, features: int, context: Context) -> None:
        super().__init__()
        self.embedding = FeatureNetwork(context.frame_shape, features, 0, context.generator, context.stack_frames)
        self.hidden = Linear(2 * features, _HIDDEN_UNITS)
        self.head = Linear(_HIDDEN_UNITS, context.action_count)
        for layer in (self.hidden, self.head):
            initialise(layer, context.generator)

    def forward(self, pairs: Pairs) -> Tensor:
        """Return logits [pairs, actions] of the actions."""
        return self.head(torch.relu(self.hidden(torch.cat([pairs.now, pairs.later], 1))))  # type: ignore[no-any-return]


class ForwardModel(nn.Module):
    """Predicts φ of the next state from φ and the action, through one hidden layer."""

    def __init__(self, features: int, context: Context) -> None:
        super().__init__()
        self._actions = context.action_count
        inputs = features + context.action_count
        self.hidden = Linear(inputs, _FORWARD_HIDDEN_UNITS)
        self.head = Linear(_FORWARD_HIDDEN_UNITS, features)
        for layer in (self.hidden, self.head):
            initialise(layer, context.generator)

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """Return φ̂ [batch, features] of what the actions [batch] lead to from states with these features."""
        chosen = functional.one_hot(actions, self._actions).to(features.dtype)
        return self.head(torch.relu(self.hidden(torch.cat([features, chosen], 1))))  # type: ignore[no-any-return]


def embed(embedding: nn.Module, states: Tensor) -> Tensor:
    """Return φ, [batch, features], of uint8 states [batch, stack, height, width]."""
    return torch.relu(embedding(scale_pixels(states, torch.float32)))
