"""The value network: three convolutions and two fully connected layers that give a C51 distribution per action.

As in Dopamine: SAME padding (84 → 21 → 11 → 11), every kernel uniform within ±√(√3 / fan-in), biases 0. Weights are
drawn from a numpy generator, so that they are the same on every device.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from offpiste.config import AgentConfig

_KERNELS_AND_STRIDES = ((8, 4), (4, 2), (3, 1))


class ValueNetwork(nn.Module):
    """Maps uint8 states [batch, stack, height, width] to logits [batch, actions, atoms]."""

    def __init__(
        self,
        config: AgentConfig,
        state_shape: tuple[int, int, int],
        action_count: int,
        generator: np.random.Generator,
    ) -> None:
        super().__init__()
        self._outputs = (action_count, config.value_atoms)
        channels, *size = state_shape
        self.convolutions = nn.ModuleList()
        for width, (kernel, stride) in zip(config.convolution_channels, _KERNELS_AND_STRIDES, strict=True):
            self.convolutions.append(SameConvolution(channels, width, kernel, stride, (size[0], size[1])))
            channels = width
            size = [math.ceil(length / stride) for length in size]
        self.hidden = nn.utils.skip_init(nn.Linear, channels * size[0] * size[1], config.hidden_units)  # type: ignore[no-untyped-call]
        self.head = nn.utils.skip_init(nn.Linear, config.hidden_units, math.prod(self._outputs))  # type: ignore[no-untyped-call]
        initialise(self, generator)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits of the value distributions."""
        x = states.to(self.hidden.weight.dtype, memory_format=torch.channels_last).div_(255)
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))  # [batch, channels, height, width]
        x = x.permute(0, 2, 3, 1).flatten(1)  # in the order that lies in memory, so that nothing is copied
        x = torch.relu(self.hidden(x))
        return self.head(x).view(-1, *self._outputs)  # type: ignore[no-any-return]


class SameConvolution(nn.Module):
    """A convolution padded as TensorFlow's SAME: the odd pixel goes to the bottom and the right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, size: tuple[int, int]) -> None:
        super().__init__()
        pads = [same_padding(length, kernel, stride) for length in size]
        even = all(before == after for before, after in pads)
        padding = tuple(before for before, _ in pads) if even else 0
        self.convolution = nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel, stride, padding)  # type: ignore[no-untyped-call]
        (top, bottom), (left, right) = pads
        self.pad = nn.Identity() if even else nn.ZeroPad2d((left, right, top, bottom))

    def forward(self, x: Tensor) -> Tensor:
        """Return the feature maps, before any nonlinearity."""
        return self.convolution(self.pad(x))  # type: ignore[no-any-return]


def same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return how many zeros go before and after one dimension."""
    total = max(0, (math.ceil(length / stride) - 1) * stride + kernel - length)
    return total // 2, total - total // 2


@torch.no_grad()
def initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw every kernel uniformly within ±√(√3 / fan-in) and set every bias to 0."""
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
            continue
        fan_in = parameter[0].numel()
        limit = math.sqrt(math.sqrt(3.0) / fan_in)
        drawn = generator.uniform(-limit, limit, tuple(parameter.shape)).astype(np.float32)
        parameter.copy_(torch.from_numpy(drawn))
