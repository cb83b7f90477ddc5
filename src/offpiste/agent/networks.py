"""The value network: convolutions and two fully connected layers that give a C51 distribution per action.

As in Dopamine: three convolutions (small worlds use only the first), SAME padding (84 → 21 → 11 → 11), kernels uniform
within ±√(√3 / fan-in), biases 0. Weights are drawn from a numpy generator, so that they are the same on every device.
NoisyNets (Fortunato et al., 2018) makes the two fully connected layers noisy.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from offpiste.config import AgentConfig, value_network
from offpiste.neural import Linear, SameConvolution, scale_pixels


class ValueNetwork(nn.Module):
    """Maps uint8 states [batch, stack, height, width] to logits [batch, actions, atoms].

    With two heads on the last hidden layer, logits are [batch, heads, actions, atoms].
    """

    def __init__(
        self,
        config: AgentConfig,
        state_shape: tuple[int, int, int],
        action_count: int,
        generator: np.random.Generator,
        noise_scale: float | None = None,
        heads: int = 1,
    ) -> None:
        super().__init__()
        outputs = (action_count, config.value_atoms)
        self._outputs = outputs if heads == 1 else (heads, *outputs)
        convolutions, features = value_network(config, state_shape)
        self.convolutions = nn.ModuleList(SameConvolution(*convolution) for convolution in convolutions)
        self.hidden = _linear(features, config.hidden_units, noise_scale)
        self.head = _linear(config.hidden_units, math.prod(self._outputs), noise_scale)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                initialise(module, generator)
            elif isinstance(module, NoisyLinear):
                module.initialise(generator)

    def draw_noise(self, generator: np.random.Generator | None) -> None:
        """Resample the noise of noisy layers, or switch it off without a generator; plain layers ignore this."""
        for layer in (self.hidden, self.head):
            if isinstance(layer, NoisyLinear):
                layer.draw_noise(generator)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits of the value distributions."""
        x = scale_pixels(states, self.hidden.weight.dtype)
        for convolution in self.convolutions:
            x = torch.relu_(convolution(x))  # [batch, channels, height, width]
        x = x.permute(0, 2, 3, 1).flatten(1)  # the memory layout of channels_last, so nothing is copied
        x = torch.relu_(self.hidden(x))
        return self.head(x).view(-1, *self._outputs)  # type: ignore[no-any-return]


class PlainLinear(Linear):
    """torch's linear layer, computed by `affine`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, [batch, outputs]."""
        return affine(x, self.weight, self.bias)


class NoisyLinear(nn.Module):
    """A linear layer with factorised Gaussian noise on weights and biases (Fortunato et al., 2018).

    W = μ + σ ⊙ f(ε_out) f(ε_in)ᵀ with f(x) = sign(x)√|x|. The noise matrix is never formed: scaling inputs and outputs
    by the two noise vectors gives the same with one more matrix product. All rows of a batch share the noise.
    """

    def __init__(self, inputs: int, outputs: int, noise_scale: float) -> None:
        super().__init__()
        self._noise_scale = noise_scale
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.weight_sigma = nn.Parameter(torch.empty(outputs, inputs))
        self.bias_sigma = nn.Parameter(torch.empty(outputs))
        self._noise: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def initialise(self, generator: np.random.Generator) -> None:
        """Draw μ uniformly within ±1/√inputs and set σ to noise_scale/√inputs."""
        root = math.sqrt(self.weight.shape[1])
        for mean in (self.weight, self.bias):
            _draw_uniform(mean, 1 / root, generator)
        for sigma in (self.weight_sigma, self.bias_sigma):
            sigma.fill_(self._noise_scale / root)

    def draw_noise(self, generator: np.random.Generator | None) -> None:
        """Resample the two noise vectors, or switch the noise off without a generator."""
        if generator is None:
            self._noise = None
            return
        outputs, inputs = self.weight.shape
        drawn = generator.standard_normal(inputs + outputs, np.float32)
        noise = torch.from_numpy(np.sign(drawn) * np.sqrt(np.abs(drawn))).to(self.weight.device, self.weight.dtype)
        self._noise = (noise[:inputs], noise[inputs:])

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, [batch, outputs]."""
        plain = affine(x, self.weight, self.bias)
        if self._noise is None:
            return plain
        noise_in, noise_out = self._noise
        return plain + affine(x * noise_in, self.weight_sigma, self.bias_sigma) * noise_out


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x Wᵀ + b as (W xᵀ + b)ᵀ, which takes a CPU half the time for 32 rows of 7,744 inputs."""
    return torch.addmm(bias[:, None], weight, x.t()).t()


@torch.no_grad()
def initialise(layer: nn.Conv2d | nn.Linear, generator: np.random.Generator) -> None:
    """Draw the kernel uniformly within ±√(√3 / fan-in) and set the bias to 0."""
    fan_in = layer.weight[0].numel()
    _draw_uniform(layer.weight, math.sqrt(math.sqrt(3.0) / fan_in), generator)
    assert layer.bias is not None  # noqa: S101 (for the type checker)
    layer.bias.zero_()


def _draw_uniform(parameter: Tensor, limit: float, generator: np.random.Generator) -> None:
    drawn = generator.uniform(-limit, limit, tuple(parameter.shape)).astype(np.float32)
    parameter.copy_(torch.from_numpy(drawn))


def _linear(inputs: int, outputs: int, noise_scale: float | None) -> PlainLinear | NoisyLinear:
    if noise_scale is not None:
        return NoisyLinear(inputs, outputs, noise_scale)
    return PlainLinear(inputs, outputs)
