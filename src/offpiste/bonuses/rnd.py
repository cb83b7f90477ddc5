"""Random network distillation (Burda et al., 2019): the error of a predictor of a fixed random network's features.

Both see the newest frame only, normalised per pixel; the predictor takes one step per frame, after its reward was
computed. The benchmark's paper and its released code disagree, so there are two: `Rnd` pays the paper's ‖f̂ - f‖² on
frames normalised by their running mean and standard deviation; `RndReleased` pays what the code pays, quirks included.
Neither has the two value heads, the non-episodic returns and the random warm-up of Burda et al., which `rnd_full.py`
has; convolutions are padded as in the released code.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.neural import Adam, Conv2d, Linear, SameConvolution, load_module, save_module
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
    """Pays ‖f̂ - f‖², summed over the features, on frames normalised by their running mean and standard deviation."""

    Options = RndOptions

    def __init__(self, options: RndOptions, context: Context) -> None:
        self._distillation = Distillation(options, context)
        self._pixels = PixelStatistics(context.frame_shape)

    def observe(self, transition: Transition) -> float:
        """Return the predictor's squared error on the newest frame, then train it on that."""
        self._pixels.observe(transition.frame)
        return self._distillation.learn(self._pixels.normalise(transition.frame))

    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Return [batch, n]: the predictor's squared error on the newest frame of each state."""
        return self._distillation.distances(batch, self._pixels)

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame."""
        return self._distillation.scalars()

    def state(self) -> dict[str, Any]:
        """Return both networks, Adam's moments and the statistics as plain arrays."""
        return self._distillation.state() | self._pixels.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._distillation.load_state(state)
        self._pixels.load_state(state)


class PixelStatistics:
    """The running mean and standard deviation of each pixel, by which frames are normalised."""

    def __init__(self, frame_shape: tuple[int, int]) -> None:
        self.observed = 0
        """How many frames were counted."""
        self._mean = np.zeros(frame_shape)
        self._squares = np.zeros(frame_shape)

    def observe(self, frame: NDArray[np.uint8]) -> None:
        """Count a frame."""
        self.observed += 1
        self._mean, self._squares = welford(self._mean, self._squares, frame, self.observed)

    def normalise(self, frame: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return a frame, or several, by the statistics so far."""
        deviation = np.maximum(np.sqrt(self._squares / self.observed), _MIN_DEVIATION)
        return normalise(frame, self._mean, deviation)

    def state(self) -> dict[str, Any]:
        """Return the statistics as plain arrays."""
        return {"observed": self.observed, "mean": self._mean.copy(), "squares": self._squares.copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.observed = state["observed"]
        self._mean, self._squares = state["mean"].copy(), state["squares"].copy()


@dataclass(frozen=True)
class RndReleasedOptions(RndOptions):
    """Random network distillation as in the released code."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of the predictor; the target never trains."""


class RndReleased:
    """Pays (L - mean) / spread, where L is the predictor's loss and both are its running statistics.

    As in the released code, the spread tends to the variance, since no root is taken, and the pixel statistics are
    updated with the normalised and clipped frame, which makes the input almost binary. The code does not determine
    whether L is compared with the statistics before or after their update; we take those after, which its control
    dependency asks for, so that the first reward is 0. Ours are float64; theirs are float32, where counts past 2^24 are
    not exact.
    """

    Options = RndReleasedOptions
    can_be_negative = True

    def __init__(self, options: RndReleasedOptions, context: Context) -> None:
        self._distillation = Distillation(options, context)
        self._observed = 0
        self._mean = np.zeros(context.frame_shape)
        self._spread = np.ones(context.frame_shape)
        self._loss_mean, self._loss_spread = 0.0, 1.0

    def observe(self, transition: Transition) -> float:
        """Return the predictor's loss on the newest frame, normalised, then train it on that."""
        self._observed += 1
        seen = normalise(transition.frame, self._mean, self._spread)
        self._mean, self._spread = released_moments(self._mean, self._spread, seen, self._observed)
        loss = self._distillation.learn(seen) / self._distillation.features
        self._loss_mean, self._loss_spread = released_moments(self._loss_mean, self._loss_spread, loss, self._observed)
        return (loss - self._loss_mean) / self._loss_spread

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame, and its running mean."""
        return self._distillation.scalars() | {"predictor_loss_mean": self._loss_mean}

    def state(self) -> dict[str, Any]:
        """Return both networks, Adam's moments and the statistics as plain arrays and numbers."""
        return self._distillation.state() | {
            "observed": self._observed,
            "mean": self._mean.copy(),
            "spread": self._spread.copy(),
            "loss_mean": self._loss_mean,
            "loss_spread": self._loss_spread,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._distillation.load_state(state)
        self._observed = state["observed"]
        self._mean, self._spread = state["mean"].copy(), state["spread"].copy()
        self._loss_mean, self._loss_spread = state["loss_mean"], state["loss_spread"]


class Distillation:
    """A fixed random target network, and a predictor trained to output the same features."""

    def __init__(self, options: RndOptions, context: Context, *, padded: bool = True) -> None:
        self.features = options.features
        self._device = torch.device(context.device)
        self.target = feature_network(context, self.features, 0, padded=padded).requires_grad_(False)
        self.predictor = feature_network(context, self.features, 2, padded=padded)
        self._optimizer = Adam(self.predictor.parameters(), options.learning_rate, epsilon=1e-5)
        self.loss: float | None = None
        """The predictor's mean squared error over the features on the last frame; not part of the state."""
        self._input = np.empty((1, 1, *context.frame_shape), np.float32)

    def learn(self, frame: NDArray[np.float64]) -> float:
        """Return ‖f̂ - f‖² on a normalised frame, then take one step on its mean over the features."""
        self._input[0, 0] = frame
        x = torch.from_numpy(self._input).to(self._device)
        return self._descend((self.predictor(x) - self.target(x)).square().sum())

    def learn_second(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
        """Return ‖f̂ - f‖² on two normalised frames, by the same weights, then take one step on the second."""
        frames = np.stack([first, second])[:, None].astype(np.float32)
        x = torch.from_numpy(frames).to(self._device)
        distances = (self.predictor(x) - self.target(x)).square().sum(1)
        return float(distances[0].item()), self._descend(distances[1])

    @torch.inference_mode()
    def distances(self, batch: Batch, pixels: PixelStatistics) -> NDArray[np.float32]:
        """Return ‖f̂ - f‖², [batch, n], on the newest frame of the state of each step, without learning."""
        newest = batch.frames[:, batch.stack - 1 : -1]  # [batch, n, height, width]
        frames = pixels.normalise(newest.reshape(-1, 1, *newest.shape[2:])).astype(np.float32)
        x = torch.from_numpy(frames).to(self._device)
        squared: NDArray[np.float32] = (self.predictor(x) - self.target(x)).square().sum(1).cpu().numpy()
        return squared.reshape(newest.shape[:2])

    def _descend(self, distance: Tensor) -> float:
        self._optimizer.zero_grad()
        (distance / self.features).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        summed = float(distance.item())
        self.loss = summed / self.features
        return summed

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame; empty before the first."""
        return {} if self.loss is None else {"predictor_loss": self.loss}

    def state(self) -> dict[str, Any]:
        """Return both networks and Adam's moments as plain arrays."""
        trained = save_module(self.predictor, self._optimizer, "predictor/")
        return trained | save_module(self.target, prefix="target/")

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self.predictor, self._optimizer, "predictor/")
        load_module(state, self.target, prefix="target/")


class FeatureNetwork(nn.Module):
    """Maps frames [batch, channels, height, width] to features, through `hidden_layers` linear layers."""

    def __init__(
        self,
        frame_shape: tuple[int, int],
        features: int,
        hidden_layers: int,
        generator: np.random.Generator,
        channels: int = 1,
        *,
        padded: bool = True,
    ) -> None:
        super().__init__()
        size = frame_shape
        self.convolutions = nn.ModuleList()
        for width, kernel, stride in _LAYERS:
            if padded:
                self.convolutions.append(SameConvolution(channels, width, kernel, stride, size))
                size = (math.ceil(size[0] / stride), math.ceil(size[1] / stride))
            else:
                self.convolutions.append(Conv2d(channels, width, kernel, stride))
                size = ((size[0] - kernel) // stride + 1, (size[1] - kernel) // stride + 1)
            channels = width
        inputs = [channels * size[0] * size[1]] + hidden_layers * [features]
        self.linears = nn.ModuleList(Linear(count, features) for count in inputs)
        initialise(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, [batch, features]."""
        for convolution in self.convolutions:
            x = functional.leaky_relu(convolution(x), 0.2)  # [batch, channels, height, width]
        x = x.permute(0, 2, 3, 1).flatten(1)  # the memory layout of channels_last, so nothing is copied
        *hidden, head = self.linears
        for linear in hidden:
            x = torch.relu(linear(x))
        return head(x)  # type: ignore[no-any-return]


def feature_network(context: Context, features: int, hidden_layers: int, *, padded: bool = True) -> FeatureNetwork:
    """Return a network of one frame, on the device of a bonus, with weights from its generator."""
    made = FeatureNetwork(context.frame_shape, features, hidden_layers, context.generator, padded=padded)
    device = torch.device(context.device)
    return made.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def normalise(
    frame: NDArray[np.uint8], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (frame - mean) / deviation, clipped to ±5."""
    normal: NDArray[np.float64] = (frame - mean) / deviation
    return normal.clip(-_MAX_INPUT, _MAX_INPUT, out=normal)


def welford(
    mean: NDArray[np.float64], squares: NDArray[np.float64], value: NDArray[Any], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the running mean and sum of squared deviations after the `count`-th value (Welford, 1962)."""
    change = value - mean
    mean = mean + change / count
    return mean, squares + change * (value - mean)


def released_moments(mean: Number, spread: Number, value: Number, count: int) -> tuple[Number, Number]:
    """Return the released code's running mean and "std" after the `count`-th value; they start at 0 and 1.

    The spread tends to the variance, since no root is taken.
    """
    change = value - mean
    spread = (spread * count + change**2 * count / (count + 1)) / (count + 1)
    return mean + change / count, spread


@torch.no_grad()
def initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw every layer's weights as a random orthogonal matrix [outputs, inputs] times √2; biases are 0."""
    for parameter in network.parameters():
        if parameter.dim() == 1:
            parameter.zero_()
        else:
            drawn = orthogonal(parameter.shape[0], parameter[0].numel(), generator)
            parameter.copy_(math.sqrt(2.0) * drawn.reshape(parameter.shape))


def orthogonal(rows: int, columns: int, generator: np.random.Generator) -> Tensor:
    """Return a uniformly random matrix whose rows, or columns if they are fewer, are orthonormal."""
    gaussian = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = torch.linalg.qr(torch.from_numpy(gaussian))  # on the run's threads; numpy's takes all cores and is slow
    drawn: Tensor = q * r.diagonal().sign()  # without the signs the distribution is not uniform
    return drawn if rows >= columns else drawn.T
