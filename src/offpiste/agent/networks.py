"""The value network: three convolutions and two fully connected layers that give a C51 distribution per action.

As in Dopamine: SAME padding (84 → 21 → 11 → 11), every kernel uniform within ±√(√3 / fan-in), biases 0. Weights are
drawn from a numpy generator, so that they are the same on every device.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from offpiste.config import AgentConfig
from offpiste.neural import SameConvolution

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
        # Converted first and then laid out anew: a third faster than both in one call.
        x = states.to(self.hidden.weight.dtype).contiguous(memory_format=torch.channels_last).div_(255)
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))  # [batch, channels, height, width]
        x = x.permute(0, 2, 3, 1).flatten(1)  # in the order that lies in memory, so that nothing is copied
        x = torch.relu(self.hidden(x))
        return self.head(x).view(-1, *self._outputs)  # type: ignore[no-any-return]


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
