"""What the agent and neural bonuses share: pixel scaling, SAME padding, and networks as plain arrays."""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

OPTIMIZER = "optimizer/"
"""What the names of an optimizer's arrays begin with, before the prefix of its module."""


class Linear(nn.Linear):
    """A linear layer whose weights are not drawn: whoever makes it sets them, from the generator of its own."""

    def reset_parameters(self) -> None:
        """Leave them; `torch.nn.utils.skip_init` does, too, but imports a part of torch's compiler."""


class Conv2d(nn.Conv2d):
    """A convolution whose weights are not drawn."""

    def reset_parameters(self) -> None:
        """Leave them."""


class SameConvolution(nn.Module):
    """A convolution with TensorFlow's SAME padding: an odd pixel goes to the bottom and to the right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, size: tuple[int, int]) -> None:
        super().__init__()
        pads = [same_padding(length, kernel, stride) for length in size]
        even = all(before == after for before, after in pads)
        padding = tuple(before for before, _ in pads) if even else 0
        self.convolution = Conv2d(inputs, outputs, kernel, stride, padding)
        (top, bottom), (left, right) = pads
        self.pad = nn.Identity() if even else nn.ZeroPad2d((left, right, top, bottom))

    def forward(self, x: Tensor) -> Tensor:
        """Return the feature maps, before any nonlinearity."""
        return self.convolution(self.pad(x))  # type: ignore[no-any-return]


class Optimizer(Protocol):
    """What is saved and loaded of an optimizer: one of `torch.optim`, or `Adam`."""

    param_groups: list[dict[str, Any]]

    def state_dict(self) -> dict[str, Any]:
        """Return the arrays of each parameter by its index, below `state`, and the groups of parameters."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Restore from `state_dict()`."""


class Adam:
    """Adam (Kingma and Ba, 2015), with the bits and the arrays of `torch.optim.Adam(fused=True)`.

    Any optimizer of `torch.optim` imports torch's compiler, which takes longer than all else that a run needs to start;
    and what its step does besides the update takes longer than a small update.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, epsilon: float) -> None:
        self.param_groups = [{"params": list(parameters), "fused": True}]
        self._learning_rate = learning_rate
        self._epsilon = epsilon
        self._state: dict[int, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient; the first time, make their moments."""
        updated = {index: each for index, each in enumerate(self._parameters) if each.grad is not None}
        if not updated:
            return
        for index, parameter in updated.items():
            if index not in self._state:
                self._state[index] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self._state[index] for index in updated]
        counts = [state["step"] for state in states]
        torch._foreach_add_(counts, 1)
        torch._fused_adam_(
            list(updated.values()),
            [parameter.grad for parameter in updated.values()],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            counts,
            lr=self._learning_rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the steps and both moments of each parameter by its index, below `state`."""
        return {"state": self._state}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Restore from `state_dict()`."""
        self._state = {
            index: {
                name: value.to(parameter.device, torch.float32 if name == "step" else parameter.dtype)
                for name, value in values.items()
            }
            for index, values in state_dict["state"].items()
            for parameter in [self._parameters[index]]
        }

    @property
    def _parameters(self) -> list[Tensor]:
        return self.param_groups[0]["params"]


def scale_pixels(frames: Tensor, dtype: torch.dtype) -> Tensor:
    """Return uint8 frames [batch, stack, height, width] scaled to [0, 1], in channels_last layout."""
    # Converting and scaling before changing the layout takes a third less time than after.
    return frames.to(dtype).div_(255).contiguous(memory_format=torch.channels_last)


def accept_read_only_arrays() -> None:
    """Let torch take the read-only frames of a transition without a warning; `check-bonus` finds who writes there."""
    warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)


def same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return how many zeros to pad before and after along one dimension."""
    total = max(0, (math.ceil(length / stride) - 1) * stride + kernel - length)
    return total // 2, total - total // 2


def save_module(module: nn.Module, optimizer: Optimizer | None = None, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return copies of a module's parameters and buffers, and of its optimizer's state, as arrays by name.

    For the `state()` of a bonus; `load_module` restores them. Names begin with the prefix, so that several modules fit
    into one dictionary. Learning rates and the like are not saved: they come from the options.
    """
    arrays = {f"{prefix}{name}": _array(tensor) for name, tensor in module.state_dict().items()}
    if optimizer is not None:
        for index, values in optimizer.state_dict()["state"].items():
            known = {name: value for name, value in values.items() if value is not None}
            arrays |= {f"{OPTIMIZER}{prefix}{index}/{name}": _array(value) for name, value in known.items()}
    return arrays


def load_module(
    state: Mapping[str, Any], module: nn.Module, optimizer: Optimizer | None = None, prefix: str = ""
) -> None:
    """Restore a module and its optimizer from what `save_module` returned; other names in the state are ignored."""
    module.load_state_dict({name: _tensor(state[f"{prefix}{name}"]) for name in module.state_dict()})
    if optimizer is None:
        return
    parameters = [(each, group) for group in optimizer.param_groups for each in group["params"]]
    loaded: dict[int, dict[str, Tensor]] = {}
    for key in state:
        index, _, name = key.removeprefix(f"{OPTIMIZER}{prefix}").partition("/")
        if key.startswith(f"{OPTIMIZER}{prefix}") and index.isdecimal():
            parameter, group = parameters[int(index)]
            value = _tensor(state[key])
            if name == "step":
                value = value.reshape(())
            elif group.get("fused"):  # such a step reads what is in memory and checks neither shape nor layout
                value = _in_layout_of(parameter, key, value)
            loaded.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": loaded})


@torch.no_grad()
def copy_parameters(source: nn.Module, destination: nn.Module) -> None:
    """Copy all parameters, rounding to the destination's precision."""
    for old, new in zip(source.parameters(), destination.parameters(), strict=True):
        new.copy_(old)


def _array(value: Tensor | float) -> NDArray[Any]:
    """Return a contiguous copy, whatever the device and layout."""
    tensor = torch.as_tensor(value).detach()
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor  # which numpy does not have
    return tensor.cpu().contiguous().numpy().copy()


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array))


def _in_layout_of(parameter: Tensor, key: str, value: Tensor) -> Tensor:
    if value.shape != parameter.shape:
        raise ValueError(f"{key} must have shape {tuple(parameter.shape)}, got {tuple(value.shape)}")
    return torch.empty_like(parameter).copy_(value)
