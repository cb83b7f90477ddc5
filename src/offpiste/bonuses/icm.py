"""The intrinsic curiosity module (Pathak et al., 2017): the prediction error of a forward model in feature space.

An inverse model, which predicts the action from two states, shapes the features φ; i = ‖φ̂ - φ‖² (a sum, no ½) is the
error of the forward model. The networks are those of Pathak's released code, and as there the forward loss trains φ
too. The benchmark's authors released no ICM, so these are ours: α weights the forward loss as in Pathak's paper; each
transition is learned once, after its reward was computed; larger states are area-averaged to 42×42; and the last step
of an episode pays 0 and is not learned, since Dopamine's loop has no next state there.
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
from offpiste.neural import Adam, Linear, SameConvolution, load_module, save_module, scale_pixels
from offpiste.parsing import Range

_MAX_SIDE = 42
_CONVOLUTIONS = 4
"""Each halves the side: 42, 21, 11, 6, 3."""
_CHANNELS = 32
_HIDDEN_UNITS = 256
_LINEAR_NORM = 0.01


@dataclass(frozen=True)
class IcmOptions:
    """The intrinsic curiosity module (Pathak et al., 2017)."""

    forward_weight: Annotated[float, Range(min=0, max=1)] = 0.005
    """α: the loss is (1 - α) times that of the inverse model plus α times that of the forward model."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size."""


class Icm:
    """Pays the squared error of the forward model."""

    Options = IcmOptions
    measures_visits = False

    def __init__(self, options: IcmOptions, context: Context) -> None:
        self._forward_weight = options.forward_weight
        self._device = torch.device(context.device)
        size = tuple(min(length, _MAX_SIDE) for length in context.frame_shape)
        network = CuriosityNetwork((context.stack_frames, *size), context.action_count, context.generator)
        self._network = network.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = Adam(self._network.parameters(), options.learning_rate, epsilon=1e-8)
        self._losses: tuple[float, Tensor] | None = None
        self._frames = np.empty((2, context.stack_frames, *size), np.uint8)

    def observe(self, transition: Transition) -> float:
        """Return the squared error of the forward model on this step, then train on it."""
        self._losses = None
        if transition.terminated or transition.truncated:
            return 0.0
        for shrunk, state in zip(self._frames, (transition.state, transition.next_state), strict=True):
            shrink(state, shrunk)
        forward_error, inverse_loss = self._network(torch.from_numpy(self._frames).to(self._device), transition.action)
        self._optimizer.zero_grad()
        joint_loss(forward_error, inverse_loss, self._forward_weight).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        intrinsic = float(forward_error.item())
        self._losses = 0.5 * intrinsic, inverse_loss.detach()
        return intrinsic

    def scalars(self) -> dict[str, float]:
        """Return L_F and L_I of the last step, or nothing if that ended an episode."""
        if self._losses is None:
            return {}
        forward_loss, inverse_loss = self._losses
        return {"forward_loss": forward_loss, "inverse_loss": float(inverse_loss.item())}

    def state(self) -> dict[str, Any]:
        """Return weights and Adam's moments as plain arrays."""
        return save_module(self._network, self._optimizer, "network/")

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._network, self._optimizer, "network/")


class CuriosityNetwork(nn.Module):
    """The features φ of states, the inverse model and the forward model."""

    def __init__(self, state_shape: tuple[int, ...], action_count: int, generator: np.random.Generator) -> None:
        super().__init__()
        planes, height, width = state_shape
        self.convolutions = nn.ModuleList()
        for _ in range(_CONVOLUTIONS):
            self.convolutions.append(SameConvolution(planes, _CHANNELS, 3, 2, (height, width)))
            planes, height, width = _CHANNELS, math.ceil(height / 2), math.ceil(width / 2)
        features = planes * height * width
        self.inverse_hidden = Linear(2 * features, _HIDDEN_UNITS)
        self.inverse_head = Linear(_HIDDEN_UNITS, action_count)
        self.forward_hidden = Linear(features + action_count, _HIDDEN_UNITS)
        self.forward_head = Linear(_HIDDEN_UNITS, features)
        self.register_buffer("one_hot", torch.eye(action_count), persistent=False)
        initialise(self, generator)

    def embed(self, frames: Tensor) -> Tensor:
        """Return φ, [batch, features], of uint8 states [batch, stack, height, width]."""
        x = scale_pixels(frames, torch.float32)
        for convolution in self.convolutions:
            x = functional.elu(convolution(x))  # [batch, 32, height, width]
        return x.permute(0, 2, 3, 1).flatten(1)  # the memory layout of channels_last, so nothing is copied

    def inverse_model(self, features: Tensor) -> Tensor:
        """Return logits [1, actions] of the action between two states, from their features [2, features]."""
        return self.inverse_head(torch.relu(self.inverse_hidden(features.view(1, -1))))  # type: ignore[no-any-return]

    def forward_model(self, features: Tensor, action: int) -> Tensor:
        """Return φ̂ [1, features] of the next state, from the features [1, features] of this one and the action."""
        chosen = self.one_hot[action : action + 1]  # type: ignore[index]
        return self.forward_head(torch.relu(self.forward_hidden(torch.cat([features, chosen], 1))))  # type: ignore[no-any-return]

    def forward(self, frames: Tensor, action: int) -> tuple[Tensor, Tensor]:
        """Return ‖φ̂ - φ‖² and the cross-entropy of the action, for two states [2, stack, height, width]."""
        return self.errors(self.embed(frames), action)

    def errors(self, features: Tensor, action: int) -> tuple[Tensor, Tensor]:
        """Return the same from the features [2, features] of the two states."""
        forward_error = (self.forward_model(features[:1], action) - features[1:]).square().sum()
        inverse_loss = -self.inverse_model(features).log_softmax(1)[0, action]
        return forward_error, inverse_loss


def joint_loss(forward_error: Tensor, inverse_loss: Tensor, forward_weight: float) -> Tensor:
    """Return (1 - α) L_I + α L_F, where L_F is half the forward error."""
    return (1.0 - forward_weight) * inverse_loss + (0.5 * forward_weight) * forward_error


def shrink(state: NDArray[np.uint8], shrunk: NDArray[np.uint8]) -> None:
    """Resize each frame of a state by area averaging, into [stack, height, width]."""
    for frame, small in zip(state, shrunk, strict=True):
        cv2.resize(frame, small.shape[::-1], dst=small, interpolation=cv2.INTER_AREA)


@torch.no_grad()
def initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw kernels Glorot-uniform and each linear unit's weights as a vector of norm 0.01; biases are 0."""
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
