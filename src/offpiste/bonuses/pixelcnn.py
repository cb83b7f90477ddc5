"""PixelCNN pseudo-counts (Ostrovski et al., 2017): the prediction gain is the rise of a frame's log-likelihood.

Network and optimiser are those that Ali Taiga et al. released: a small PixelCNN (van den Oord et al., 2016) with a
learned position map and a gate that adds tanh and sigmoid instead of multiplying them. Departures: the gain is clipped
at 25 (see `pseudo_count`), where theirs is not but any sum with the reward is clipped to 1 long before; log-likelihoods
are summed in float64, since rounding in float32 would be a gain of 2e-4; and the 4,496 of their 19,688 weights that a
mask hides are left out, since they are never used and never learn.

One frame per step is too little for torch: its convolutions and autograd cost twice what the arithmetic does. So every
layer here is one matrix product over all pixels, with its gradient by hand.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.parsing import Range

Gate = Literal["sum", "product"]

LEVELS = 8
_MAPS = 16
_HIDDEN = 64
_POSITIONS = 4
_BLOCKS = 2

# Masks hide what comes later in raster order, so only the first taps of a kernel are left.
_FIRST_KERNEL, _FIRST_REACH, _FIRST_TAPS = 7 * 7, 3, 24  # mask A: without the centre
_BLOCK_KERNEL = 3 * 3
_BLOCK_TAPS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 0))  # mask B: with the centre
_POSITION_COLUMNS = slice(len(_BLOCK_TAPS) * _MAPS, len(_BLOCK_TAPS) * _MAPS + _POSITIONS)


@dataclass(frozen=True)
class PixelCnnOptions:
    """Pseudo-counts of a PixelCNN (Ostrovski et al., 2017)."""

    decay: Annotated[float, Range(above=0)] = 1.0
    """c in the decayed prediction gain c·PG/√n, after n steps."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """RMSProp step size; one step per frame."""
    gate: Gate = "sum"
    """How a block joins tanh and sigmoid: `sum` as in the released code, `product` as in van den Oord et al. (2016)."""


class PixelCnn:
    """Pays N^(-1/2), N the pseudo-count of the newest frame."""

    Options = PixelCnnOptions

    def __init__(self, options: PixelCnnOptions, context: Context) -> None:
        self.options = options
        height, width = context.frame_shape
        self.network = Network((-(-height // 2), -(-width // 2)), options.gate, context.generator, context.device)
        self._mean_squares = torch.ones_like(self.network.parameters)  # TensorFlow 1 starts at 1, torch at 0
        self._momenta = torch.zeros_like(self.network.parameters)
        self._observed = 0
        self._gain: float | None = None

    def observe(self, transition: Transition) -> float:
        """Take one step on the newest frame and return the intrinsic reward of its prediction gain."""
        self._observed += 1
        self._gain = self.prediction_gain(symbols(transition.frame))
        return intrinsic_of_gain(decayed_gain(self._gain, self._observed, self.options.decay))

    def scalars(self) -> dict[str, float]:
        """Return the prediction gain of the last step, in nats, before the decay."""
        return {} if self._gain is None else {"prediction_gain": self._gain}

    @torch.no_grad()
    def prediction_gain(self, frame: NDArray[np.uint8]) -> float:
        """Take one step on a frame of symbols and return the rise of its log-likelihood, in nats."""
        network = self.network
        inputs, target = network.read(frame)
        before = network.log_probabilities(inputs)
        likelihood_before = log_likelihood(before, target)
        network.differentiate(inputs, before, target)
        descend(network.parameters, network.gradient, self._mean_squares, self._momenta, self.options.learning_rate)
        likelihood_after = log_likelihood(network.log_probabilities(inputs), target)
        return (likelihood_after - likelihood_before).item()  # the only synchronisation with the device

    def state(self) -> dict[str, Any]:
        """Return weights, RMSProp's statistics and the number of frames observed."""
        vectors = {name: vector.to("cpu", copy=True).numpy() for name, vector in self._vectors().items()}
        return {**vectors, "observed": self._observed}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for name, vector in self._vectors().items():
            vector.copy_(torch.from_numpy(np.array(state[name])))
        self._observed = int(state["observed"])

    def _vectors(self) -> dict[str, Tensor]:
        return {
            "parameters": self.network.parameters,
            "mean_squares": self._mean_squares,
            "momenta": self._momenta,
        }


class Network:
    """The probabilities of each pixel's 8 symbols, given the pixels before it in raster order.

    A layer is a matrix [outputs, inputs] whose last column is the bias; its input has a column of ones for that. The
    position map [pixels, 4] is a learned input. All weights are views of one vector, `parameters`, and their gradients
    of another, `gradient`. Activations are [pixels, channels]; only the input of the first layer and the output of the
    last are [channels, pixels].
    """

    def __init__(
        self, size: tuple[int, int], gate: Gate, generator: np.random.Generator, device: str | torch.device = "cpu"
    ) -> None:
        height, width = size
        pixels = height * width
        weights = first_weights(pixels, generator)
        shapes = {name: array.shape for name, array in weights.items()}
        self.gate = gate
        self.parameters = torch.from_numpy(np.concatenate([array.ravel() for array in weights.values()])).to(device)
        self.gradient = torch.zeros_like(self.parameters)
        self.layers = _views(self.parameters, shapes)
        self._gradients = _views(self.gradient, shapes)
        self._padded = np.zeros((height + _FIRST_REACH, width + 2 * _FIRST_REACH), np.uint8)
        self._levels = torch.arange(LEVELS, dtype=torch.float32, device=device)[:, None]
        self._net, self._d_net = torch.empty(2, pixels, _MAPS, device=device)
        self._blocks = [_Block(size, self._net, self._d_net, device) for _ in range(_BLOCKS)]
        self._positions = self._blocks[-1].inputs[:, _POSITION_COLUMNS.start : -1]  # with a column of ones
        self._merged = torch.ones(pixels, _MAPS + 1, device=device)
        self._hidden = torch.ones(pixels, _HIDDEN + 1, device=device)

    def read(self, frame: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Return the first layer's input [25, pixels] for a frame of symbols, and the frame one-hot, [8, pixels]."""
        self._padded[_FIRST_REACH:, _FIRST_REACH:-_FIRST_REACH] = frame
        windows = sliding_window_view(self._padded, frame.shape)  # [4, 7, height, width]
        windows = windows.reshape(-1, frame.size)[: _FIRST_TAPS + 1]  # the pixels before, and the pixel itself
        inputs = torch.from_numpy(windows).to(self._levels.device).float()
        target = (inputs[-1] == self._levels).float()
        inputs[-1] = 1.0  # for the bias
        return inputs, target

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """Return log p [8, pixels], and keep the activations for `differentiate`."""
        layers, net = self.layers, self._net
        torch.mm(inputs.t(), layers["first"].t(), out=net)
        for index, block in enumerate(self._blocks):
            block.gather(layers["position_map"])
            gate = layers[f"gate_{index}"]
            block.tanh = torch.mm(block.inputs, gate[0::2].t()).tanh_()
            block.sigmoid = torch.mm(block.inputs, gate[1::2].t()).sigmoid_()
            join = torch.add if self.gate == "sum" else torch.mul
            join(block.tanh, block.sigmoid, out=block.gated[:, :-1])
            net.addmm_(block.gated, layers[f"out_{index}"].t())
        net.addmm_(self._positions, layers["merge"].t())
        torch.clamp_min(net, 0.0, out=self._merged[:, :-1])
        torch.clamp_min(torch.mm(self._merged, layers["hidden"].t()), 0.0, out=self._hidden[:, :-1])
        return torch.mm(layers["logits"], self._hidden.t()).log_softmax(0)

    def differentiate(self, inputs: Tensor, log_probabilities: Tensor, target: Tensor) -> None:
        """Set `gradient` to that of the mean loss over pixels; call right after `log_probabilities`."""
        layers, gradients, d_net = self.layers, self._gradients, self._d_net
        d_logits = log_probabilities.exp().sub_(target).div_(target.shape[1])  # [8, pixels]
        torch.mm(d_logits, self._hidden, out=gradients["logits"])
        d_hidden = torch.mm(d_logits.t(), layers["logits"][:, :-1])
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, self._hidden[:, :-1], 0)
        torch.mm(d_hidden.t(), self._merged, out=gradients["hidden"])
        torch.mm(d_hidden, layers["hidden"][:, :-1], out=d_net)
        d_net.copy_(torch.ops.aten.threshold_backward(d_net, self._merged[:, :-1], 0))
        torch.mm(d_net.t(), self._positions, out=gradients["merge"])
        torch.mm(d_net, layers["merge"][:, :-1], out=gradients["position_map"])
        for index, block in reversed(list(enumerate(self._blocks))):
            torch.mm(d_net.t(), block.gated, out=gradients[f"out_{index}"])
            d_gated = torch.mm(d_net, layers[f"out_{index}"][:, :-1])
            product = self.gate == "product"
            d_tanh = torch.ops.aten.tanh_backward(d_gated * block.sigmoid if product else d_gated, block.tanh)
            d_sigmoid = torch.ops.aten.sigmoid_backward(d_gated * block.tanh if product else d_gated, block.sigmoid)
            gate, gradient = layers[f"gate_{index}"], gradients[f"gate_{index}"]
            torch.mm(d_tanh.t(), block.inputs, out=gradient[0::2])
            torch.mm(d_sigmoid.t(), block.inputs, out=gradient[1::2])
            torch.mm(d_tanh, gate[0::2], out=block.d_inputs).addmm_(d_sigmoid, gate[1::2])
            block.scatter(gradients["position_map"])
        torch.mm(d_net.t(), inputs.t(), out=gradients["first"])


def first_weights(pixels: int, generator: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Draw every layer: kernels uniform within ±√(3 / fan-in), with the fan-in of the unmasked kernel, and biases 0.

    The kernels of channels 2k and 2k + 1 of a `gate` are those of map k's tanh and sigmoid; its columns are five taps
    of 16 maps, four positions, and two biases, that of the taps and that of the positions.
    """

    def kernel(outputs: int, inputs: int, fan_in: int) -> NDArray[np.float32]:
        limit = math.sqrt(3.0 / fan_in)
        return generator.uniform(-limit, limit, (outputs, inputs)).astype(np.float32)

    def biases(outputs: int, columns: int = 1) -> NDArray[np.float32]:
        return np.zeros((outputs, columns), np.float32)

    taps = len(_BLOCK_TAPS) * _MAPS
    layers = {"first": [kernel(_MAPS, _FIRST_TAPS, _FIRST_KERNEL), biases(_MAPS)]}
    layers["position_map"] = [kernel(pixels, _POSITIONS, pixels)]
    for index in range(_BLOCKS):
        gates = 2 * _MAPS
        from_net, from_map = kernel(gates, taps, _BLOCK_KERNEL * _MAPS), kernel(gates, _POSITIONS, _POSITIONS)
        layers[f"gate_{index}"] = [from_net, from_map, biases(gates, 2)]
        layers[f"out_{index}"] = [kernel(_MAPS, _MAPS, _MAPS), biases(_MAPS)]
    layers["merge"] = [kernel(_MAPS, _POSITIONS, _POSITIONS), biases(_MAPS)]
    layers["hidden"] = [kernel(_HIDDEN, _MAPS, _MAPS), biases(_HIDDEN)]
    layers["logits"] = [kernel(LEVELS, _HIDDEN, _HIDDEN), biases(LEVELS)]
    return {name: np.hstack(parts) for name, parts in layers.items()}


def symbols(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the frame at half the resolution, by taking every second pixel, in 8 grey levels."""
    return frame[::2, ::2] // np.uint8(256 // LEVELS)


def log_likelihood(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """Return log ρ of a frame, in float64."""
    return log_probabilities.mul(target).sum(dtype=torch.float64)


def decayed_gain(gain: float, observed: int, decay: float) -> float:
    """Return c·PG/√n for the n-th frame; a gain below 0 counts as 0."""
    return decay * max(gain, 0.0) / math.sqrt(observed)


def descend(parameters: Tensor, gradient: Tensor, mean_squares: Tensor, momenta: Tensor, learning_rate: float) -> None:
    """Take one step of RMSProp as TensorFlow 1 does, with ε inside the root; updates all but the gradient in place."""
    mean_squares.mul_(0.9).addcmul_(gradient, gradient, value=0.1)
    momenta.mul_(0.9).addcdiv_(gradient, mean_squares.add(1e-4).sqrt_(), value=learning_rate)
    parameters.sub_(momenta)


class _Block:
    """Buffers of one gated block: its inputs at every pixel, and the output of its gate."""

    tanh: Tensor
    sigmoid: Tensor

    def __init__(self, size: tuple[int, int], net: Tensor, d_net: Tensor, device: str | torch.device) -> None:
        pixels = len(net)
        self.inputs = torch.ones(pixels, _POSITION_COLUMNS.stop + 2, device=device)  # ones for two biases
        self.inputs[:, : _POSITION_COLUMNS.start] = 0.0  # neighbours outside the frame stay 0
        self.d_inputs = torch.empty_like(self.inputs)
        self.gated = torch.ones(pixels, _MAPS + 1, device=device)
        self._gathered = list(zip(_neighbours(self.inputs, size), _shifted(net, size), strict=True))
        self._scattered = list(zip(_shifted(d_net, size), _neighbours(self.d_inputs, size), strict=True))

    def gather(self, position_map: Tensor) -> None:
        """Copy the taps around every pixel, and the position map, to the inputs."""
        for neighbour, net in self._gathered:
            neighbour.copy_(net)
        self.inputs[:, _POSITION_COLUMNS] = position_map

    def scatter(self, d_position_map: Tensor) -> None:
        """Add the gradient of the inputs to that of the net and of the position map."""
        for d_net, d_neighbour in self._scattered:
            d_net.add_(d_neighbour)
        d_position_map.add_(self.d_inputs[:, _POSITION_COLUMNS])


def _neighbours(inputs: Tensor, size: tuple[int, int]) -> list[Tensor]:
    # For each tap its input columns, at the pixels that have such a neighbour: [rows, columns, maps].
    taps = inputs.view(*size, -1).split_with_sizes([_MAPS] * len(_BLOCK_TAPS) + [_POSITIONS + 2], -1)
    return [
        tap[max(0, -down) :, max(0, -right) : size[1] - max(0, right)]
        for tap, (down, right) in zip(taps[:-1], _BLOCK_TAPS, strict=True)
    ]


def _shifted(net: Tensor, size: tuple[int, int]) -> list[Tensor]:
    # For each tap the neighbours themselves, in the same order: [rows, columns, maps].
    grid = net.view(*size, _MAPS)
    return [grid[: size[0] - max(0, -down), max(0, right) : size[1] - max(0, -right)] for down, right in _BLOCK_TAPS]


def _views(vector: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    parts = vector.split_with_sizes([math.prod(shape) for shape in shapes.values()])
    return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
