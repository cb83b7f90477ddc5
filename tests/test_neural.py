from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from offpiste import arrays
from offpiste.neural import (
    Adam,
    SameConvolution,
    copy_parameters,
    load_module,
    same_padding,
    save_module,
)

each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.convolution(x).flatten(1))  # type: ignore[no-any-return]


def network(seed: int, dtype: torch.dtype) -> Small:
    """A network with known weights, laid out as those at work are."""
    made = Small()
    draws = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.from_numpy(draws.standard_normal(tuple(parameter.shape))))
    return made.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def adam(made: nn.Module) -> Adam:
    return Adam(made.parameters(), 0.01, 1e-8)


def torch_adam(made: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(made.parameters(), lr=0.01, fused=True)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "padding"),
    [
        (84, 8, 4, (2, 2)),
        (21, 4, 2, (1, 2)),
        (11, 3, 1, (1, 1)),
        (42, 3, 2, (0, 1)),
        (6, 3, 2, (0, 1)),
        (4, 1, 2, (0, 0)),  # a kernel smaller than its stride needs none
    ],
)
def test_padding_is_that_of_tensorflow(length: int, kernel: int, stride: int, padding: tuple[int, int]) -> None:
    assert same_padding(length, kernel, stride) == padding


@pytest.mark.parametrize("size", [(6, 6), (5, 5), (6, 5), (7, 9)])
def test_the_odd_pixel_goes_to_the_bottom_and_the_right(size: tuple[int, int]) -> None:
    convolution = SameConvolution(1, 1, 3, 2, size)
    with torch.no_grad():
        for parameter in convolution.parameters():
            parameter.fill_(1.0)
    frame = torch.arange(float(size[0] * size[1])).view(1, 1, *size)
    (top, bottom), (left, right) = (same_padding(length, 3, 2) for length in size)
    padded = functional.pad(frame, (left, right, top, bottom))
    expected = padded.unfold(2, 3, 2).unfold(3, 3, 2).sum((4, 5)) + 1.0
    torch.testing.assert_close(convolution(frame), expected)
    assert expected.shape[2:] == tuple((length + 1) // 2 for length in size)


@each_dtype
def test_a_network_comes_back_from_its_arrays_bit_by_bit(dtype: torch.dtype) -> None:
    one, two = network(0, dtype), network(1, dtype)
    saved = save_module(one, prefix="online/")
    assert set(saved) == {
        f"online/{layer}.{part}" for layer in ("convolution", "linear") for part in ("weight", "bias")
    }
    assert {value.dtype for value in saved.values()} == {np.dtype(np.float32)}
    load_module(arrays.unpack(arrays.pack(saved)), two, prefix="online/")
    assert_same(one, two)
    assert {parameter.dtype for parameter in two.parameters()} == {dtype}


def test_arrays_are_copies_in_the_usual_order_whatever_the_layout() -> None:
    made = network(0, torch.float32)
    assert made.convolution.weight.is_contiguous(memory_format=torch.channels_last)
    saved = save_module(made)
    weight = made.convolution.weight.detach().clone()
    assert saved["convolution.weight"].flags.c_contiguous
    with torch.no_grad():
        made.convolution.weight.zero_()
    np.testing.assert_array_equal(saved["convolution.weight"], weight.numpy())
    load_module(saved, made)
    saved["convolution.weight"][:] = 7.0
    torch.testing.assert_close(made.convolution.weight, weight, rtol=0.0, atol=0.0)
    assert made.convolution.weight.is_contiguous(memory_format=torch.channels_last)


@each_dtype
@pytest.mark.parametrize("new", [adam, torch_adam])
def test_adam_continues_from_its_arrays_bit_by_bit(new: Callable[[nn.Module], Any], dtype: torch.dtype) -> None:
    one, two = network(0, dtype), network(1, dtype)
    adams = [new(made) for made in (one, two)]
    for seed in range(3):
        step(one, adams[0], seed)
    step(two, adams[1], 9)  # moments that must be forgotten
    saved = save_module(one, adams[0], "a/")
    assert saved["optimizer/a/0/step"] == 3.0
    assert {name for name in saved if name.startswith("optimizer/")} == {
        f"optimizer/a/{index}/{key}" for index in range(4) for key in ("step", "exp_avg", "exp_avg_sq")
    }
    load_module(arrays.unpack(arrays.pack(saved)), two, adams[1], "a/")
    for seed in range(3, 6):
        step(one, adams[0], seed)
        step(two, adams[1], seed)
    assert_same(one, two)
    assert adams[1].state_dict()["state"][0]["exp_avg"].is_contiguous(memory_format=torch.channels_last)


def test_the_moments_that_were_saved_and_loaded_stay_apart_from_those_at_work() -> None:
    made = network(0, torch.float32)
    optimizer = adam(made)
    step(made, optimizer, 0)
    saved = save_module(made, optimizer)
    kept = {key: value.copy() for key, value in saved.items()}
    load_module(saved, made, optimizer)
    step(made, optimizer, 1)
    for key, value in saved.items():
        np.testing.assert_array_equal(value, kept[key])


def test_before_its_first_step_adam_has_no_arrays_and_loading_none_forgets_all() -> None:
    fresh, used = network(0, torch.float32), network(1, torch.float32)
    adams = [adam(made) for made in (fresh, used)]
    step(used, adams[1], 9)
    saved = save_module(fresh, adams[0])
    assert not [name for name in saved if name.startswith("optimizer/")]
    load_module(saved, used, adams[1])
    for seed in range(2):
        step(fresh, adams[0], seed)
        step(used, adams[1], seed)
    assert_same(fresh, used)


@each_dtype
def test_adam_has_the_bits_and_the_arrays_of_that_of_torch(dtype: torch.dtype) -> None:
    usual, ours = networks = [network(0, dtype) for _ in range(2)]
    adams = torch.optim.Adam(usual.parameters(), 1e-2, eps=1e-4, fused=True), Adam(ours.parameters(), 1e-2, 1e-4)
    for seed in range(30):
        for made, optimizer in zip(networks, adams, strict=True):
            differentiate(made, optimizer, seed)
            if seed % 3 == 0:  # before its first step, too
                made.convolution.bias.grad = None  # a parameter without a gradient is left as it is
            optimizer.step()
        found = [save_module(made, optimizer) for made, optimizer in zip(networks, adams, strict=True)]
        assert list(found[0]) == list(found[1])
        for name, expected in found[0].items():
            assert np.array_equal(found[1][name], expected), name


@each_dtype
def test_adam_continues_from_the_arrays_of_that_of_torch_in_the_layout_of_its_parameters(dtype: torch.dtype) -> None:
    usual, ours = network(0, dtype), network(1, dtype)
    of_usual, of_ours = torch_adam(usual), Adam(ours.parameters(), 0.01, 1e-8)
    for seed in range(3):
        step(usual, of_usual, seed)
    step(ours, of_ours, 9)  # moments that must be forgotten
    load_module(arrays.unpack(arrays.pack(save_module(usual, of_usual))), ours, of_ours)
    for name, value in of_ours.state_dict()["state"][0].items():  # of the weights of the convolution
        assert name == "step" or value.is_contiguous(memory_format=torch.channels_last)
        assert value.dtype == (torch.float32 if name == "step" else dtype)
    for seed in range(3, 6):
        step(usual, of_usual, seed)
        step(ours, of_ours, seed)
    assert_same(usual, ours)


def test_a_step_of_adam_without_any_gradient_does_nothing() -> None:
    made = network(0, torch.float32)
    optimizer = Adam(made.parameters(), 0.01, 1e-8)
    before = save_module(made, optimizer)
    optimizer.step()
    after = save_module(made, optimizer)
    assert list(after) == list(before)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_a_copy_to_a_coarser_network_rounds() -> None:
    fine, coarse = network(0, torch.float32), network(1, torch.bfloat16)
    copy_parameters(fine, coarse)
    for one, two in zip(fine.parameters(), coarse.parameters(), strict=True):
        torch.testing.assert_close(two.detach(), one.detach().bfloat16(), rtol=0.0, atol=0.0)


def step(made: Small, optimizer: Adam | torch.optim.Adam, seed: int) -> None:
    differentiate(made, optimizer, seed)
    optimizer.step()


def differentiate(made: Small, optimizer: Adam | torch.optim.Adam, seed: int) -> None:
    draws = np.random.default_rng(seed).standard_normal((2, 3, 4, 4))
    x = torch.from_numpy(draws).to(made.convolution.weight.dtype)
    optimizer.zero_grad()
    loss: Tensor = made(x).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]


def assert_same(one: nn.Module, two: nn.Module) -> None:
    for first, second in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(first.detach(), second.detach(), rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: Adam(parameters, 1e-2, 1e-8),
        lambda parameters: torch.optim.Adam(parameters, 1e-2),
        lambda parameters: torch.optim.Adam(parameters, 1e-2, fused=True, amsgrad=True),
        lambda parameters: torch.optim.SGD(parameters, 1e-2, momentum=0.9),
        lambda parameters: torch.optim.SGD(parameters, 1e-2),
        lambda parameters: torch.optim.RMSprop(parameters, 1e-2, centered=True),
    ],
)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_module_and_its_optimizer_that_were_saved_continue_identically(optimizer: Any, steps: int) -> None:
    def made(seed: int) -> tuple[nn.Module, Any]:
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return module, optimizer(module.parameters())

    def train(module: nn.Module, descend: Any, count: int) -> list[float]:
        losses = []
        for step in range(count):
            loss = module(torch.arange(6.0).reshape(2, 3) + step).square().mean()
            descend.zero_grad()
            loss.backward()
            descend.step()
            losses.append(float(loss.detach()))
        return losses

    (one, of_one), (other, of_other) = made(0), made(1)
    train(one, of_one, steps)
    state = arrays.unpack(arrays.pack({**save_module(one, of_one, "a/"), "b": 7}))
    assert state["a/1.num_batches_tracked"].dtype == np.int64
    train(other, of_other, 2)  # what it knew is gone
    load_module(state, other, of_other, "a/")
    assert train(one, of_one, 5) == train(other, of_other, 5)


def test_what_was_saved_does_not_change_with_the_module() -> None:
    module = nn.Linear(2, 2)
    saved = save_module(module)
    before = saved["weight"].copy()
    nn.init.zeros_(module.weight)
    assert np.array_equal(saved["weight"], before)


def test_optimizers_of_several_modules_fit_into_one_dictionary() -> None:
    names = ("", "a/", "b/")
    modules = {name: network(seed, torch.float32) for seed, name in enumerate(names)}
    adams = {name: adam(module) for name, module in modules.items()}
    for seed, name in enumerate(names):
        step(modules[name], adams[name], seed)
    state = {key: value for name in names for key, value in save_module(modules[name], adams[name], name).items()}
    for name in names:
        other = network(9, torch.float32)
        of_other = adam(other)
        load_module(state, other, of_other, name)
        step(modules[name], adams[name], 5)
        step(other, of_other, 5)
        assert_same(modules[name], other)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight", np.zeros((1, 2), np.float32), "size mismatch for weight"),
        ("optimizer/0/exp_avg", np.zeros((1, 2), np.float32), r"0/exp_avg must have shape \(2, 3\), got \(1, 2\)"),
        ("optimizer/1/exp_avg_sq", np.zeros((), np.float32), r"1/exp_avg_sq must have shape \(2,\), got \(\)"),
        ("optimizer/1/step", np.zeros(2, np.float32), "shape"),
        ("optimizer/7/step", np.zeros((), np.float32), "index"),
    ],
)
def test_arrays_of_other_shapes_are_refused_before_a_fused_step_reads_past_them(
    name: str, value: np.ndarray[Any, Any], message: str
) -> None:
    module = nn.Linear(3, 2)
    optimizer = adam(module)
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = save_module(module, optimizer) | {name: value}
    with pytest.raises((RuntimeError, ValueError, IndexError), match=message):
        load_module(state, module, optimizer)
