"""Random network distillation (Burda et al., 2019): how far a trained network is from a random one that never trains.

Both see the newest picture only, normalised pixel by pixel; the trained one takes one step per picture, after its
bonus was taken. The benchmark's paper and the code that its authors released do not say the same, so there are two:
`Rnd` pays the paper's ‖f̂ - f‖² and normalises pictures by their true running mean and deviation; `RndReleased` pays
what the code pays, quirks included, and is described there. Neither has the two value heads, the endless returns and
the random warm-up of Burda et al.; convolutions are padded as in the released code.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Context, Transition
from offpiste.neural import SameConvolution, adam_arrays, load_adam, load_network, network_arrays
from offpiste.parsing import Range

_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of the convolutions."""
_MAX_INPUT = 5.0
_MIN_DEVIATION = 1e-8

Number = TypeVar("Number", float, NDArray[np.float64])


@dataclass(frozen=True)
class RndOptions:
    """Random network distillation by the paper's equation."""

    learning_rate: Annotated[float, Range(above=0)] = 2e-4
    """Adam step size of the predictor; the target never trains."""
    features: Annotated[int, Range(min=1, max=4_096)] = 512
    """Outputs of both networks, and the width of the predictor's hidden layers; small worlds need fewer."""


class Rnd:
    """Pays ‖f̂ - f‖², the sum over the features, for frames normalised by the true running mean and deviation."""

    Options = RndOptions

    def __init__(self, options: RndOptions, context: Context) -> None:
        self._distillation = Distillation(options, context)
        self._pictures = 0
        self._mean = np.zeros(context.frame_shape)
        self._squares = np.zeros(context.frame_shape)

    def observe(self, transition: Transition) -> float:
        """Return the squared distance of the two networks on this picture, then let the predictor learn it."""
        frame = transition.frame
        self._pictures += 1
        self._mean, self._squares = welford(self._mean, self._squares, frame, self._pictures)
        deviation = np.maximum(np.sqrt(self._squares / self._pictures), _MIN_DEVIATION)
        return self._distillation.learn(normalise(frame, self._mean, deviation))

    def scalars(self) -> dict[str, float]:
        """Return the loss of the predictor on the last frame."""
        return self._distillation.scalars()

    def state(self) -> dict[str, Any]:
        """Return both networks, the optimiser moments and the statistics as plain arrays."""
        statistics = {"pictures": self._pictures, "mean": self._mean.copy(), "squares": self._squares.copy()}
        return self._distillation.state() | statistics

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self._distillation.load_state(state)
        self._pictures = state["pictures"]
        self._mean, self._squares = state["mean"].copy(), state["squares"].copy()


@dataclass(frozen=True)
class RndReleasedOptions(RndOptions):
    """Random network distillation as in the released code."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the predictor; the target never trains."""


class RndReleased:
    """Pays (L - mean) / spread, where L is the mean squared error over the features and both are running statistics.

    As released, a spread is like a variance, no root is taken, and the statistics of the picture are fed with the
    picture as the networks see it, normalised and clipped, which makes the input almost binary. The code does not fix
    whether L is compared with the statistics before or after they saw it; we take those after, which its control
    dependency asks for, so that the first bonus is 0. Ours are float64; theirs are float32, where counts past 2^24 are
    no longer exact.
    """

    Options = RndReleasedOptions
    can_be_negative = True

    def __init__(self, options: RndReleasedOptions, context: Context) -> None:
        self._distillation = Distillation(options, context)
        self._pictures = 0
        self._mean = np.zeros(context.frame_shape)
        self._spread = np.ones(context.frame_shape)
        self._loss_mean, self._loss_spread = 0.0, 1.0

    def observe(self, transition: Transition) -> float:
        """Return how unusual the predictor's loss on this picture is, then let the predictor learn it."""
        self._pictures += 1
        seen = normalise(transition.frame, self._mean, self._spread)
        self._mean, self._spread = released_moments(self._mean, self._spread, seen, self._pictures)
        loss = self._distillation.learn(seen) / self._distillation.features
        self._loss_mean, self._loss_spread = released_moments(self._loss_mean, self._loss_spread, loss, self._pictures)
        return (loss - self._loss_mean) / self._loss_spread

    def scalars(self) -> dict[str, float]:
        """Return the loss of the predictor on the last frame, and its running mean."""
        return self._distillation.scalars() | {"predictor_loss_mean": self._loss_mean}

    def state(self) -> dict[str, Any]:
        """Return both networks, the optimiser moments and the statistics as plain arrays and numbers."""
        return self._distillation.state() | {
            "pictures": self._pictures,
            "mean": self._mean.copy(),
            "spread": self._spread.copy(),
            "loss_mean": self._loss_mean,
            "loss_spread": self._loss_spread,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self._distillation.load_state(state)
        self._pictures = state["pictures"]
        self._mean, self._spread = state["mean"].copy(), state["spread"].copy()
        self._loss_mean, self._loss_spread = state["loss_mean"], state["loss_spread"]


class Distillation:
    """A random network and one that learns to give the same features."""

    def __init__(self, options: RndOptions, context: Context) -> None:
        self.features = options.features
        self._device = torch.device(context.device)
        self.target = self._network(context, hidden_layers=0).requires_grad_(False)
        self.predictor = self._network(context, hidden_layers=2)
        self._optimizer = torch.optim.Adam(self.predictor.parameters(), lr=options.learning_rate, eps=1e-5, fused=True)
        self.loss: float | None = None
        """Mean squared error over the features on the last frame; not part of the state."""
        self._input = np.empty((1, 1, *context.frame_shape), np.float32)

    def learn(self, picture: NDArray[np.float64]) -> float:
        """Return ‖f̂ - f‖² on a normalised picture, then take one step on its mean over the features."""
        self._input[0, 0] = picture
        x = torch.from_numpy(self._input).to(self._device)
        distance = (self.predictor(x) - self.target(x)).square().sum()
        self._optimizer.zero_grad()
        (distance / self.features).backward()
        self._optimizer.step()
        summed = float(distance.item())
        self.loss = summed / self.features
        return summed

    def scalars(self) -> dict[str, float]:
        """Return the loss of the predictor on the last frame, once there was one."""
        return {} if self.loss is None else {"predictor_loss": self.loss}

    def state(self) -> dict[str, Any]:
        """Return both networks and the optimiser moments as plain arrays."""
        networks = network_arrays(self.target, "target/") | network_arrays(self.predictor, "predictor/")
        return networks | adam_arrays(self._optimizer, self.predictor, "adam/")

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        load_network(self.target, state, "target/")
        load_network(self.predictor, state, "predictor/")
        load_adam(self._optimizer, self.predictor, state, "adam/")

    def _network(self, context: Context, hidden_layers: int) -> "FeatureNetwork":
        made = FeatureNetwork(context.frame_shape, self.features, hidden_layers, context.generator)
        return made.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


class FeatureNetwork(nn.Module):
    """Maps a normalised frame [1, 1, height, width] to features, through hidden layers if it has any."""

    def __init__(
        self, frame_shape: tuple[int, int], features: int, hidden_layers: int, generator: np.random.Generator
    ) -> None:
        super().__init__()
        channels, size = 1, frame_shape
        self.convolutions = nn.ModuleList()
        for width, kernel, stride in _LAYERS:
            self.convolutions.append(SameConvolution(channels, width, kernel, stride, size))
            channels, size = width, (math.ceil(size[0] / stride), math.ceil(size[1] / stride))
        inputs = [channels * size[0] * size[1]] + hidden_layers * [features]
        self.linears = nn.ModuleList(nn.utils.skip_init(nn.Linear, count, features) for count in inputs)  # type: ignore[no-untyped-call]
        initialise(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, [1, features]."""
        for convolution in self.convolutions:
            x = functional.leaky_relu(convolution(x), 0.2)  # [1, channels, height, width]
        x = x.permute(0, 2, 3, 1).flatten(1)  # in the order that lies in memory, so that nothing is copied
        *hidden, head = self.linears
        for linear in hidden:
            x = torch.relu(linear(x))
        return head(x)  # type: ignore[no-any-return]


def normalise(
    frame: NDArray[np.uint8], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (frame - mean) / deviation, clipped to ±5."""
    normal: NDArray[np.float64] = (frame - mean) / deviation
    return normal.clip(-_MAX_INPUT, _MAX_INPUT, out=normal)


def welford(
    mean: NDArray[np.float64], squares: NDArray[np.float64], value: NDArray[Any], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and sum of squared deviations after one more value, the `count`-th."""
    change = value - mean
    mean = mean + change / count
    return mean, squares + change * (value - mean)


def released_moments(mean: Number, spread: Number, value: Number, count: int) -> tuple[Number, Number]:
    """Return the released code's mean and "std" after one more value, the `count`-th, from 0 and 1 at the start.

    The spread tends to the variance, since no root is taken.
    """
    change = value - mean
    spread = (spread * count + change**2 * count / (count + 1)) / (count + 1)
    return mean + change / count, spread


@torch.no_grad()
def initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw the weights of every layer as a random orthogonal matrix [outputs, inputs] times √2; biases are 0."""
    for parameter in network.parameters():
        if parameter.dim() == 1:
            parameter.zero_()
        else:
            drawn = orthogonal(parameter.shape[0], parameter[0].numel(), generator)
            parameter.copy_(math.sqrt(2.0) * drawn.reshape(parameter.shape))


def orthogonal(rows: int, columns: int, generator: np.random.Generator) -> Tensor:
    """Return a matrix whose rows, or columns if they are fewer, are orthonormal, each such matrix equally likely."""
    gaussian = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = torch.linalg.qr(torch.from_numpy(gaussian))  # on the run's threads, where numpy's takes all and crawls
    drawn: Tensor = q * r.diagonal().sign()  # without the signs, not every matrix is equally likely
    return drawn if rows >= columns else drawn.T
