"""What the agent and neural bonuses share: pixel scaling, SAME padding, and networks as plain arrays."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class SameConvolution(nn.Module):
    """A convolution with TensorFlow's SAME padding: an odd pixel goes to the bottom and to the right."""

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


def scale_pixels(frames: Tensor, dtype: torch.dtype) -> Tensor:
    """Return uint8 frames [batch, stack, height, width] scaled to [0, 1], in channels_last layout."""
    # Converting and scaling before changing the layout takes a third less time than after.
    return frames.to(dtype).div_(255).contiguous(memory_format=torch.channels_last)


def same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return how many zeros to pad before and after along one dimension."""
    total = max(0, (math.ceil(length / stride) - 1) * stride + kernel - length)
    return total // 2, total - total // 2


def network_arrays(network: nn.Module, prefix: str = "") -> dict[str, NDArray[np.float32]]:
    """Return float32 copies of all parameters by name, prefixed by, for example, `online/`."""
    return {f"{prefix}{name}": _array(parameter) for name, parameter in network.named_parameters()}


@torch.no_grad()
def load_network(network: nn.Module, arrays: Mapping[str, Any], prefix: str = "") -> None:
    """Set all parameters from `network_arrays()`."""
    for name, parameter in network.named_parameters():
        found = _tensor(arrays[f"{prefix}{name}"])
        if found.shape != parameter.shape:  # copying would repeat a smaller one
            raise ValueError(f"{prefix}{name} must have shape {tuple(parameter.shape)}, got {tuple(found.shape)}")
        parameter.copy_(found)


def adam_arrays(optimizer: torch.optim.Adam, network: nn.Module, prefix: str) -> dict[str, NDArray[np.float32]]:
    """Return float32 copies of Adam's moments and step counts; empty before the first step."""
    return {
        f"{prefix}{name}/{key}": _array(value)
        for name, parameter in network.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


@torch.no_grad()
def load_adam(optimizer: torch.optim.Adam, network: nn.Module, arrays: Mapping[str, Any], prefix: str) -> None:
    """Set Adam's moments and step counts from `adam_arrays()`."""
    optimizer.state.clear()
    for name, parameter in network.named_parameters():
        if f"{prefix}{name}/step" not in arrays:
            continue
        moments = {key: torch.empty_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
        for key, moment in moments.items():
            moment.copy_(_tensor(arrays[f"{prefix}{name}/{key}"]))
        step = _tensor(arrays[f"{prefix}{name}/step"]).to(parameter.device)
        optimizer.state[parameter] = {"step": step, **moments}


@torch.no_grad()
def copy_parameters(source: nn.Module, destination: nn.Module) -> None:
    """Copy all parameters, rounding to the destination's precision."""
    for old, new in zip(source.parameters(), destination.parameters(), strict=True):
        new.copy_(old)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    # A contiguous copy, whatever the device, precision and layout; bfloat16 fits into float32 exactly.
    return tensor.detach().to("cpu", torch.float32, copy=True).contiguous().numpy()


def _tensor(array: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(array.copy())
