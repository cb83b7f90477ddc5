import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from offpiste.agent.networks import ValueNetwork
from offpiste.config import AgentConfig
from offpiste.neural import SameConvolution, same_padding
from offpiste.seeding import stream
from tests.sameness import global_generators

SMALL = AgentConfig(convolution_channels=(4, 5, 3), hidden_units=16, value_atoms=7)


@pytest.fixture(scope="module")
def full_size() -> ValueNetwork:
    return ValueNetwork(AgentConfig(), (4, 84, 84), 18, stream(0, "network"))


def test_the_network_has_4_514_358_parameters_with_18_actions(full_size: ValueNetwork) -> None:
    assert sum(parameter.numel() for parameter in full_size.parameters()) == 4_514_358


def test_84_pixels_become_21_11_and_11_and_then_7744_features(full_size: ValueNetwork) -> None:
    x = torch.zeros(1, 4, 84, 84)
    shapes = []
    for convolution in full_size.convolutions:
        x = convolution(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(32, 21, 21), (64, 11, 11), (64, 11, 11)]
    assert full_size.hidden.in_features == 7_744
    with torch.no_grad():
        assert full_size(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape == (2, 18, 51)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pads"),
    [(84, 8, 4, (2, 2)), (21, 4, 2, (1, 2)), (11, 3, 1, (1, 1)), (5, 1, 1, (0, 0)), (6, 2, 4, (0, 0))],
)
def test_the_odd_zero_goes_after(length: int, kernel: int, stride: int, pads: tuple[int, int]) -> None:
    assert same_padding(length, kernel, stride) == pads


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("convolutions.0.convolution.weight", 0.08225),
        ("convolutions.1.convolution.weight", 0.05816),
        ("convolutions.2.convolution.weight", 0.05484),
        ("hidden.weight", 0.01496),
        ("head.weight", 0.05816),
    ],
)
def test_kernels_fill_their_interval_evenly(full_size: ValueNetwork, name: str, limit: float) -> None:
    weight = full_size.get_parameter(name).detach()
    assert limit * 0.998 < float(weight.abs().max()) < limit + 5e-6
    assert float(weight.min()) < -limit * 0.998
    assert float(weight.max()) > limit * 0.998
    assert float(weight.double().var()) == pytest.approx(limit**2 / 3.0, rel=0.03)
    assert abs(float(weight.double().mean())) < 4.0 * limit / math.sqrt(3.0 * weight.numel())


def test_biases_are_zero(full_size: ValueNetwork) -> None:
    biases = [parameter for name, parameter in full_size.named_parameters() if name.endswith("bias")]
    assert [bias.numel() for bias in biases] == [32, 64, 64, 512, 918]
    assert all(not bias.any() for bias in biases)


def test_the_same_stream_gives_the_same_weights_and_another_gives_others() -> None:
    one, same, other = (small_network(seed=seed) for seed in (1, 1, 2))
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, same.get_parameter(name))
        assert torch.equal(parameter, other.get_parameter(name)) == name.endswith("bias")


def test_making_a_network_draws_nothing_from_a_global_generator() -> None:
    before = global_generators()
    small_network()
    assert global_generators() == before


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "pads"),
    [
        (4, 2, (5, 6), ((1, 2), (1, 1))),  # uneven from top to bottom only
        (4, 2, (6, 5), ((1, 1), (1, 2))),  # uneven from left to right only
        (4, 2, (7, 5), ((1, 2), (1, 2))),
        (8, 4, (12, 10), ((2, 2), (3, 3))),
        (3, 1, (3, 4), ((1, 1), (1, 1))),
    ],
)
def test_a_same_convolution_is_the_plain_sum_over_a_padded_frame(
    kernel: int, stride: int, size: tuple[int, int], pads: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    assert (same_padding(size[0], kernel, stride), same_padding(size[1], kernel, stride)) == pads
    generator = np.random.default_rng(1)
    convolution = SameConvolution(2, 3, kernel, stride, size)
    weight = generator.normal(size=(3, 2, kernel, kernel)).astype(np.float32)
    bias = generator.normal(size=3).astype(np.float32)
    assert convolution.convolution.bias is not None
    with torch.no_grad():
        convolution.convolution.weight.copy_(torch.from_numpy(weight))
        assert convolution.convolution.bias is not None
        convolution.convolution.bias.copy_(torch.from_numpy(bias))
        x = generator.normal(size=(2, *size)).astype(np.float32)
        y = convolution(torch.from_numpy(x[None]))[0].numpy()
    np.testing.assert_allclose(y, padded_sum(x, weight, bias, stride, pads), rtol=1e-4, atol=1e-4)


def test_the_whole_network_is_what_its_weights_say_of_a_frame_divided_by_255() -> None:
    network = small_network()
    generator = np.random.default_rng(2)
    with torch.no_grad():
        for parameter in network.parameters():  # biases too, so that they count
            parameter.copy_(torch.from_numpy(generator.normal(scale=0.3, size=tuple(parameter.shape))))
    states = generator.integers(0, 256, (3, 2, 21, 12), dtype=np.uint8)
    with torch.no_grad():
        logits = network(torch.from_numpy(states)).numpy()
    assert logits.shape == (3, 4, 7)
    assert logits.dtype == np.float32
    for state, found in zip(states, logits, strict=True):
        np.testing.assert_allclose(found, by_hand(network, state), rtol=1e-4, atol=1e-4)


def test_the_states_given_are_left_as_they_were() -> None:
    states = torch.full((1, 2, 21, 12), 77, dtype=torch.uint8)
    with torch.no_grad():
        small_network()(states)
    assert bool((states == 77).all())


def small_network(seed: int = 0) -> ValueNetwork:
    return ValueNetwork(SMALL, (2, 21, 12), 4, stream(seed, "network"))


def by_hand(network: ValueNetwork, state: NDArray[np.uint8]) -> NDArray[np.float64]:
    weights = {name: parameter.detach().double().numpy() for name, parameter in network.named_parameters()}
    # 21 → 6 → 3 → 3 rows and 12 → 3 → 2 → 2 columns
    layers = ((4, ((3, 4), (2, 2))), (2, ((1, 1), (1, 2))), (1, ((1, 1), (1, 1))))
    x: NDArray[Any] = state / 255.0
    for number, (stride, pads) in enumerate(layers):
        prefix = f"convolutions.{number}.convolution"
        x = padded_sum(x, weights[f"{prefix}.weight"], weights[f"{prefix}.bias"], stride, pads)
        x = np.maximum(x, 0.0)
    assert x.shape == (3, 3, 2)
    flat = x.transpose(1, 2, 0).ravel()  # row, column, channel
    hidden = np.maximum(weights["hidden.weight"] @ flat + weights["hidden.bias"], 0.0)
    out: NDArray[np.float64] = weights["head.weight"] @ hidden + weights["head.bias"]
    return out.reshape(4, 7)


def padded_sum(
    x: NDArray[Any],
    weight: NDArray[Any],
    bias: NDArray[Any],
    stride: int,
    pads: tuple[tuple[int, int], tuple[int, int]],
) -> NDArray[np.float64]:
    padded = np.pad(x.astype(np.float64), ((0, 0), *pads))
    kernel = weight.shape[-1]
    rows, columns = (math.ceil(length / stride) for length in x.shape[1:])
    out = np.empty((len(weight), rows, columns))
    for row in range(rows):
        for column in range(columns):
            top, left = row * stride, column * stride
            patch = padded[:, top : top + kernel, left : left + kernel]
            out[:, row, column] = (weight * patch).sum(axis=(1, 2, 3)) + bias
    return out
