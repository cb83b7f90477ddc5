"""A pretended GPU: tensors on `cuda:0` without data, by torch's FakeTensorMode, for machines that have none.

Operations compute shapes, dtypes and devices, and raise where tensors of different devices meet, as a real GPU does.
What a CPU build of torch cannot do with such a tensor is done here by other operations; numbers read from one are 1. It
cannot record operations for a backward pass either, so gradients are 0, on the device of their parameter.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

DEVICE = "cuda:0"


@contextmanager
def fake_gpu() -> Iterator[None]:
    """Let `cuda:0` be a device whose tensors have no data."""
    parameters: list[nn.Parameter] = []

    def parameter(data: Tensor, requires_grad: bool = True) -> nn.Parameter:
        made = nn.Parameter(data, requires_grad)
        parameters.append(made)
        return made

    def apply(module: nn.Module, convert: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Convert a module by replacing its tensors, since those without data cannot be exchanged in place."""
        for child in module.children() if recurse else ():
            apply(child, convert)
        for name, old in module._parameters.items():
            if old is not None:
                module._parameters[name] = parameter(convert(old), old.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = convert(buffer)
        return module

    def backward(objective: Tensor) -> None:
        if objective.device != torch.device(DEVICE):
            raise RuntimeError(f"the objective is on {objective.device}, not on {DEVICE}")
        for each in parameters:
            each.grad = torch.zeros_like(each) if each.requires_grad else None

    patches: list[tuple[Any, str, Callable[..., Any]]] = [
        (nn.Module, "_apply", apply),
        (Tensor, "backward", backward),
        (Tensor, "__getitem__", _getitem),
        (Tensor, "__setitem__", _setitem),
        (Tensor, "copy_", _copy),
        (Tensor, "contiguous", _contiguous),
        (Tensor, "numpy", _numpy),
        (Tensor, "item", lambda _: 1),
        (Tensor, "__int__", lambda _: 1),
        (Tensor, "__float__", lambda _: 1.0),
    ]
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(torch.no_grad())
        for owner, name, replacement in patches:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        yield


def _getitem(tensor: Tensor, index: Any) -> Tensor:
    found, dim, picked = tensor, 0, list[Tensor | None]()
    indices = index if isinstance(index, tuple) else (index,)
    if Ellipsis in [each for each in indices if not isinstance(each, Tensor)]:
        at = next(index for index, each in enumerate(indices) if each is Ellipsis)
        missing = tensor.dim() - sum(each is not None for each in indices) + 1
        indices = (*indices[:at], *[slice(None)] * missing, *indices[at + 1 :])
    for each in indices:
        if isinstance(each, int):
            found = torch.select(found, dim, each)
            continue
        if each is None:
            found = found.unsqueeze(dim)
        elif isinstance(each, slice):
            found = torch.ops.aten.slice(found, dim, each.start, each.stop, each.step or 1)
        picked.append(each if isinstance(each, Tensor) else None)
        dim += 1
    if any(each is not None for each in picked):
        found = torch.ops.aten.index(found, picked)
    return found


def _setitem(tensor: Tensor, index: Any, value: Any) -> None:
    _copy(_getitem(tensor, index), torch.as_tensor(value))


def _copy(tensor: Tensor, source: Tensor) -> Tensor:
    """Check the shapes; copying from another device is allowed."""
    if np.broadcast_shapes(tuple(tensor.shape), tuple(source.shape)) != tuple(tensor.shape):
        raise RuntimeError(f"{tuple(source.shape)} cannot be copied into {tuple(tensor.shape)}")
    return tensor


def _contiguous(tensor: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    return tensor.clone(memory_format=memory_format)


def _numpy(tensor: Tensor) -> Any:
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor on {tensor.device} cannot become an array; copy it to the CPU first")
    return np.zeros(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
