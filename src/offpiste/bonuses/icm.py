"""The intrinsic curiosity module (Pathak et al., 2017): how wrong a model is about the features of the next state.

Features φ are learned by telling the action from two states; i = ‖φ̂ - φ‖² (a sum, no ½) is the error of predicting φ
of the next state from φ of this one and the action. The networks are those of Pathak's released code, and as there the
forward error trains φ too. Ours, since the benchmark's authors released no curiosity: α weighs the forward term as in
Pathak's paper; every transition is learned once, when it is seen, after its bonus was taken; states are area-averaged
to 42×42 where they are larger; and the last step of an episode pays 0 and teaches nothing, for Dopamine's loop has no
next state there.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Context, Transition
from offpiste.neural import SameConvolution, adam_arrays, load_adam, load_network, network_arrays, scale_pixels
from offpiste.parsing import Range

_LARGEST_FRAME = 42
_CONVOLUTIONS = 4
"""Each halves the frame: 42, 21, 11, 6, 3."""
_CHANNELS = 32
_HIDDEN_UNITS = 256
_LINEAR_NORM = 0.01


@dataclass(frozen=True)
class IcmOptions:
    """The intrinsic curiosity module (Pathak et al., 2017)."""

    forward_weight: Annotated[float, Range(min=0, max=1)] = 0.005
    """α: the loss is (1 - α) times that of the action told from two states, plus α times that of the predicted φ."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size."""


class Icm:
    """Pays for next states that the model did not foresee."""

    Options = IcmOptions
    measures_visits = False

    def __init__(self, options: IcmOptions, context: Context) -> None:
        self._forward_weight = options.forward_weight
        self._device = torch.device(context.device)
        size = tuple(min(length, _LARGEST_FRAME) for length in context.frame_shape)
        network = CuriosityNetwork((context.stack_frames, *size), context.action_count, context.generator)
        self._network = network.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._parameters = list(self._network.parameters())
        self._optimizer = torch.optim.Adam(self._parameters, lr=options.learning_rate, eps=1e-8, fused=True)
        self._losses: tuple[float, Tensor] | None = None
        self._pictures = np.empty((2, context.stack_frames, *size), np.uint8)

    def observe(self, transition: Transition) -> float:
        """Return the squared error of the prediction of the next state's features, then learn from it."""
        self._losses = None
        if transition.terminated or transition.truncated:
            return 0.0
        for shrunk, state in zip(self._pictures, (transition.state, transition.next_state), strict=True):
            shrink(state, shrunk)
        surprise, inverse_loss = self._network(torch.from_numpy(self._pictures).to(self._device), transition.action)
        for parameter in self._parameters:  # a fifth of the time of zero_grad
            parameter.grad = None
        joint_loss(surprise, inverse_loss, self._forward_weight).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        intrinsic = float(surprise.item())
        self._losses = 0.5 * intrinsic, inverse_loss.detach()
        return intrinsic

    def scalars(self) -> dict[str, float]:
        """Return L_F and L_I of the last step, or nothing where that ended an episode."""
        if self._losses is None:
            return {}
        forward_loss, inverse_loss = self._losses
        return {"forward_loss": forward_loss, "inverse_loss": float(inverse_loss.item())}

    def state(self) -> dict[str, Any]:
        """Return weights and optimiser moments as plain arrays."""
        return network_arrays(self._network, "network/") | adam_arrays(self._optimizer, self._network, "adam/")

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        load_network(self._network, state, "network/")
        load_adam(self._optimizer, self._network, state, "adam/")


class CuriosityNetwork(nn.Module):
    """The features of two states, the action told from them, and the features foreseen for the second."""

    def __init__(self, state_shape: tuple[int, ...], action_count: int, generator: np.random.Generator) -> None:
        super().__init__()
        planes, height, width = state_shape
        self.convolutions = nn.ModuleList()
        for _ in range(_CONVOLUTIONS):
            self.convolutions.append(SameConvolution(planes, _CHANNELS, 3, 2, (height, width)))
            planes, height, width = _CHANNELS, math.ceil(height / 2), math.ceil(width / 2)
        features = planes * height * width
        self.inverse_hidden = _linear(2 * features, _HIDDEN_UNITS)
        self.inverse_head = _linear(_HIDDEN_UNITS, action_count)
        self.forward_hidden = _linear(features + action_count, _HIDDEN_UNITS)
        self.forward_head = _linear(_HIDDEN_UNITS, features)
        self.register_buffer("one_hot", torch.eye(action_count), persistent=False)
        initialise(self, generator)

    def embed(self, pictures: Tensor) -> Tensor:
        """Return φ, [batch, features], of uint8 frames [batch, planes, height, width]."""
        x = scale_pixels(pictures, torch.float32)
        for convolution in self.convolutions:
            x = functional.elu(convolution(x))  # [batch, 32, height, width]
        return x.permute(0, 2, 3, 1).flatten(1)  # in the order that lies in memory, so that nothing is copied

    def told_action(self, features: Tensor) -> Tensor:
        """Return logits, [1, actions], of the action that led from one state to the other; features [2, features]."""
        return self.inverse_head(torch.relu(self.inverse_hidden(features.view(1, -1))))  # type: ignore[no-any-return]

    def foreseen(self, features: Tensor, action: int) -> Tensor:
        """Return φ̂, [1, features], of the state after this one; features [1, features]."""
        chosen = self.one_hot[action : action + 1]  # type: ignore[index]
        return self.forward_head(torch.relu(self.forward_hidden(torch.cat([features, chosen], 1))))  # type: ignore[no-any-return]

    def forward(self, pictures: Tensor, action: int) -> tuple[Tensor, Tensor]:
        """Return ‖φ̂ - φ‖² and the cross-entropy of the action, for frames [2, planes, height, width] of two states."""
        return self.errors(self.embed(pictures), action)

    def errors(self, features: Tensor, action: int) -> tuple[Tensor, Tensor]:
        """Return the same for the features [2, features] of two states."""
        surprise = (self.foreseen(features[:1], action) - features[1:]).square().sum()
        inverse_loss = -self.told_action(features).log_softmax(1)[0, action]
        return surprise, inverse_loss


def joint_loss(surprise: Tensor, inverse_loss: Tensor, forward_weight: float) -> Tensor:
    """Return (1 - α) L_I + α L_F, where L_F is half the surprise."""
    return (1.0 - forward_weight) * inverse_loss + (0.5 * forward_weight) * surprise


def shrink(state: NDArray[np.uint8], shrunk: NDArray[np.uint8]) -> None:
    """Average the frames of a state over areas, each by itself, into [planes, height, width]."""
    for picture, small in zip(state, shrunk, strict=True):
        cv2.resize(picture, small.shape[::-1], dst=small, interpolation=cv2.INTER_AREA)


@torch.no_grad()
def initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw kernels by Glorot's uniform rule and the weights into each unit as a vector of length 0.01; biases are 0."""
    for parameter in network.parameters():
        shape = tuple(parameter.shape)
        if len(shape) == 1:
            parameter.zero_()
            continue
        if len(shape) == 4:
            limit = math.sqrt(6.0 / (math.prod(shape[1:]) + shape[0] * math.prod(shape[2:])))
            drawn = generator.uniform(-limit, limit, shape)
        else:
            drawn = generator.standard_normal(shape)  # [outputs, inputs]
            drawn *= _LINEAR_NORM / np.linalg.norm(drawn, axis=1, keepdims=True)
        parameter.copy_(torch.from_numpy(drawn))


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call, no-any-return]
