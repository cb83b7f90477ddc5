import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pixelcnn import (
    LEVELS,
    Gate,
    Network,
    PixelCnn,
    PixelCnnOptions,
    decayed_gain,
    descend,
    log_likelihood,
    symbols,
)
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.bonuses.registry import build, options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.sameness import global_generators

GATES: tuple[Gate, ...] = ("sum", "product")


def context(size: int = 84, seed: int = 0) -> Context:
    return Context("montezuma_revenge", 18, 4, (size, size), stream(seed, "bonus"))


def small_bonus(seed: int = 0, gate: Gate = "sum") -> PixelCnn:
    return PixelCnn(PixelCnnOptions(gate=gate), context(20, seed))


def network(size: tuple[int, int], gate: Gate = "sum", scale: float = 1.0) -> Network:
    """A network with random biases, too, so that no term is missed."""
    made = Network(size, gate, stream(0, "bonus"))
    biases = torch.from_numpy(stream(1, "bonus").uniform(-0.1, 0.1, len(made.parameters)).astype(np.float32))
    made.parameters.mul_(scale).add_(biases)
    return made


def transition(frame: NDArray[np.uint8]) -> Transition:
    state = np.stack([np.full_like(frame, 7)] * 3 + [frame])
    state.flags.writeable = False
    return Transition(state, 0, 0.0, np.zeros_like(state), False, False, 0, np.zeros(128, np.uint8))


def noise(size: int, count: int, seed: int = 0) -> list[Transition]:
    generator = np.random.default_rng(seed)
    return [transition(generator.integers(0, 256, (size, size), dtype=np.uint8)) for _ in range(count)]


def room(number: int, player: int, size: int = 42) -> Transition:
    """A frame as games have them: a dim background, some blocks, and a player."""
    frame = np.repeat(np.linspace(20, 60, size, dtype=np.uint8)[:, None], size, axis=1)
    generator = np.random.default_rng(number)
    for _ in range(5):
        row, column = generator.integers(0, size - 8, 2)
        frame[row : row + 6, column : column + 8] = generator.integers(64, 256)
    frame[-10:-4, player : player + 4] = 220
    return transition(frame)


def log_probabilities(made: Network, frame: NDArray[np.uint8]) -> Tensor:
    return made.log_probabilities(made.read(frame)[0])


def masked(kernel: Tensor, taps: int, inputs: int, side: int) -> Tensor:
    """The usual kernel [out, in, side, side], of which all but the first taps are hidden by a mask."""
    hidden = torch.full((len(kernel), side * side - taps, inputs), 9.0, dtype=kernel.dtype)
    whole = torch.cat([kernel.view(len(kernel), taps, inputs), hidden], 1).view(-1, side, side, inputs)
    mask = torch.zeros(side, side, 1, dtype=kernel.dtype)
    mask[: side // 2] = 1.0
    mask[side // 2, : taps - side * (side // 2)] = 1.0
    return (whole * mask).permute(0, 3, 1, 2)


def reference_logits(layers: dict[str, Tensor], frame: NDArray[np.uint8], gate: Gate) -> Tensor:
    """The network as the specification puts it, with torch's convolutions: logits [1, 8, height, width]."""
    first, merge = layers["first"], layers["merge"]
    pixels = torch.from_numpy(frame).to(first.dtype)[None, None]
    positions = layers["position_map"].t().reshape(1, 4, *frame.shape)
    net = F.conv2d(pixels, masked(first[:, :24], 24, 1, 7), first[:, 24], padding=3)
    for index in range(2):
        matrix, out = layers[f"gate_{index}"], layers[f"out_{index}"]
        u = F.conv2d(net, masked(matrix[:, :80], 5, 16, 3), matrix[:, 84], padding=1)
        u = u + F.conv2d(positions, matrix[:, 80:84, None, None], matrix[:, 85])
        t, s = torch.tanh(u[:, 0::2]), torch.sigmoid(u[:, 1::2])
        net = net + F.conv2d(t + s if gate == "sum" else t * s, out[:, :16, None, None], out[:, 16])
    net = torch.relu(net + F.conv2d(positions, merge[:, :4, None, None], merge[:, 4]))
    for name in ("hidden", "logits"):
        net = torch.relu(net) if name == "logits" else net
        net = F.conv2d(net, layers[name][:, :-1, None, None], layers[name][:, -1])
    return net


def test_the_network_has_19688_parameters_of_which_the_masks_leave_15192() -> None:
    made = PixelCnn(PixelCnnOptions(), context()).network
    assert {name: tuple(layer.shape) for name, layer in made.layers.items()} == {
        "first": (16, 24 + 1),
        "position_map": (42 * 42, 4),
        "gate_0": (32, 5 * 16 + 4 + 2),
        "out_0": (16, 16 + 1),
        "gate_1": (32, 5 * 16 + 4 + 2),
        "out_1": (16, 16 + 1),
        "merge": (16, 4 + 1),
        "hidden": (64, 16 + 1),
        "logits": (8, 64 + 1),
    }
    behind_masks = 16 * (49 - 24) + 2 * 32 * 16 * (9 - 5)
    assert made.parameters.numel() + behind_masks == 19_688
    assert made.parameters.numel() == sum(layer.numel() for layer in made.layers.values())


def test_kernels_fill_their_limits_and_biases_are_zero() -> None:
    layers = PixelCnn(PixelCnnOptions(), context()).network.layers
    gate = layers["gate_1"]
    for kernel, limit in [
        (layers["first"][:, :24], math.sqrt(3 / 49)),
        (layers["position_map"], 0.0412393),
        (gate[:, :80], math.sqrt(3 / (9 * 16))),
        (gate[:, 80:84], math.sqrt(3 / 4)),
        (layers["out_0"][:, :16], math.sqrt(3 / 16)),
        (layers["merge"][:, :4], math.sqrt(3 / 4)),
        (layers["hidden"][:, :16], math.sqrt(3 / 16)),
        (layers["logits"][:, :64], math.sqrt(3 / 64)),
    ]:
        assert 0.9 * limit < kernel.abs().max() <= limit * (1 + 1e-6)
        assert abs(kernel.mean()) < 0.15 * limit
    assert not gate[:, 84:].any()
    assert not any(layers[name][:, -1].any() for name in ("first", "out_0", "out_1", "merge", "hidden", "logits"))


@pytest.mark.parametrize("gate", GATES)
def test_no_pixel_sees_itself_or_a_later_one(gate: Gate) -> None:
    height, width = 9, 13
    made = network((height, width), gate)
    frame = np.random.default_rng(0).integers(0, LEVELS, (height, width), dtype=np.uint8)
    before = log_probabilities(made, frame)
    for k, l in itertools.product(range(height), range(width)):  # noqa: E741
        changed = frame.copy()
        changed[k, l] = (changed[k, l] + 4) % LEVELS
        after = log_probabilities(made, changed)
        index = k * width + l
        assert torch.equal(after[:, : index + 1], before[:, : index + 1])
        assert torch.equal(after[:, index + 1 :], before[:, index + 1 :]) == (index == height * width - 1)


def test_a_pixel_sees_three_to_the_right_in_the_row_above_and_no_further() -> None:
    made = network((6, 13))
    frame = np.full((6, 13), 3, np.uint8)
    before = log_probabilities(made, frame).view(LEVELS, 6, 13)
    frame[2, 8] = 7
    after = log_probabilities(made, frame).view(LEVELS, 6, 13)
    seen = (after != before).any(0)
    assert seen[2].tolist() == [False] * 9 + [True] * 4  # first layer 3, each block 1 more, so 5: all that is left
    assert seen[3].tolist() == [False] * 5 + [True] * 8
    assert seen[4].tolist() == [False] * 4 + [True] * 9  # here a block may step down and to the right


def test_the_probabilities_of_all_frames_add_up_to_one() -> None:
    made = network((2, 2), scale=2.0)
    likelihoods = []
    for levels in itertools.product(range(LEVELS), repeat=4):
        inputs, target = made.read(np.array(levels, np.uint8).reshape(2, 2))
        likelihoods.append(log_likelihood(made.log_probabilities(inputs), target).exp().item())
    assert len(likelihoods) == 4_096
    assert sum(likelihoods) == pytest.approx(1.0, abs=1e-5)
    assert max(likelihoods) > 10 * min(likelihoods)


def test_without_weights_every_symbol_is_as_likely() -> None:
    made = PixelCnn(PixelCnnOptions(), context()).network
    made.parameters.zero_()
    inputs, target = made.read(symbols(noise(84, 1)[0].frame))
    found = log_likelihood(made.log_probabilities(inputs), target).item()
    assert found == pytest.approx(-3_668.135, abs=1e-3)
    assert -found / 1_764 == pytest.approx(math.log(8), rel=1e-6)


def test_symbols_are_every_second_pixel_in_eight_levels() -> None:
    frame = np.array([[0, 255, 31, 255], [255] * 4, [32, 255, 255, 0], [255] * 4], np.uint8)
    assert symbols(frame).tolist() == [[0, 0], [1, 7]]


@pytest.mark.parametrize(
    ("gain", "observed", "bonus"),
    [(1.0, 1, 1.310832), (1.0, 100, 0.324301), (1.0, 250_000, 0.0447437), (-3.0, 1, 0.0), (1e9, 1, 268_337.29)],
)
def test_the_bonus_falls_with_the_number_of_frames(
    gain: float, observed: int, bonus: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert intrinsic_of_gain(decayed_gain(gain, observed, decay=1.0)) == pytest.approx(bonus, rel=1e-5)
    made = small_bonus()
    made.load_state(made.state() | {"observed": observed - 1})
    monkeypatch.setattr(made, "prediction_gain", lambda _: gain)
    assert made.observe(noise(20, 1)[0]) == pytest.approx(bonus, rel=1e-5)


def test_decay_multiplies_the_gain_and_a_loss_counts_as_none() -> None:
    assert decayed_gain(2.0, observed=4, decay=0.1) == pytest.approx(0.1)
    assert decayed_gain(-3.0, observed=4, decay=0.1) == 0.0


def test_rmsprop_starts_from_a_mean_square_of_one_and_follows_its_formula() -> None:
    generator = np.random.default_rng(0)
    theta, v, m = generator.normal(size=50), np.ones(50), np.zeros(50)
    vectors = [torch.from_numpy(array.copy()) for array in (theta, v, m)]
    for step in range(3):
        g = generator.normal(size=50)
        before = theta.copy()
        v = 0.9 * v + 0.1 * g**2
        m = 0.9 * m + 0.01 * g / np.sqrt(v + 1e-4)
        theta = theta - m
        descend(vectors[0], torch.from_numpy(g), vectors[1], vectors[2], 0.01)
        if step == 0:
            np.testing.assert_allclose(vectors[0], before - 0.01 * g / np.sqrt(0.9 + 0.1 * g**2 + 1e-4), rtol=1e-12)
        for vector, expected in zip(vectors, (theta, v, m), strict=True):
            np.testing.assert_allclose(vector, expected, rtol=1e-12)


@pytest.mark.parametrize("gate", GATES)
def test_learning_is_what_plain_convolutions_and_autograd_give(gate: Gate) -> None:
    made = PixelCnn(
        PixelCnnOptions(learning_rate=1e-3, gate=gate),
        Context("montezuma_revenge", 18, 4, (18, 26), stream(0, "bonus")),
    )
    made.network.parameters.copy_(network((9, 13), gate).parameters)
    leaves = {name: layer.double().requires_grad_() for name, layer in made.network.layers.items()}
    mean_squares = {name: torch.ones_like(leaf) for name, leaf in leaves.items()}
    momenta = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    generator = np.random.default_rng(0)
    for _ in range(3):
        frame = generator.integers(0, LEVELS, (9, 13), dtype=np.uint8)
        target = torch.from_numpy(frame).long()[None]
        inputs, one_hot = made.network.read(frame)
        before = F.cross_entropy(reference_logits(leaves, frame, gate), target)
        found = log_likelihood(made.network.log_probabilities(inputs), one_hot).item()
        assert -found / 117 == pytest.approx(before.item(), rel=1e-6)
        gradients = torch.autograd.grad(before, list(leaves.values()))
        with torch.no_grad():
            for (name, leaf), g in zip(leaves.items(), gradients, strict=True):
                mean_squares[name] = 0.9 * mean_squares[name] + 0.1 * g**2
                momenta[name] = 0.9 * momenta[name] + 1e-3 * g / torch.sqrt(mean_squares[name] + 1e-4)
                leaf -= momenta[name]
            after = F.cross_entropy(reference_logits(leaves, frame, gate), target)
        assert made.prediction_gain(frame) == pytest.approx(117 * (before - after).item(), rel=1e-4)
        for layer, leaf in zip(made.network.layers.values(), leaves.values(), strict=True):
            torch.testing.assert_close(layer.double(), leaf, rtol=1e-6, atol=1e-7)
        for layer, g in zip(made.network._gradients.values(), gradients, strict=True):
            torch.testing.assert_close(layer.double(), g, rtol=1e-4, atol=1e-7)


def test_the_gate_joins_channels_2k_and_2k_plus_1_to_map_k() -> None:
    made = Network((3, 3), "sum", stream(0, "bonus"))
    made.parameters.zero_()
    made.layers["gate_0"][:, -1] = torch.arange(32) / 10
    log_probabilities(made, np.zeros((3, 3), np.uint8))
    channels = torch.arange(32) / 10
    expected = torch.tanh(channels[0::2]) + torch.sigmoid(channels[1::2])
    torch.testing.assert_close(made._blocks[0].gated[4, :16], expected)


def test_the_gates_differ() -> None:
    steps = noise(20, 3)
    summed, multiplied = small_bonus(gate="sum"), small_bonus(gate="product")
    torch.testing.assert_close(summed.network.parameters, multiplied.network.parameters, rtol=0, atol=0)
    assert [summed.observe(step) for step in steps] != [multiplied.observe(step) for step in steps]


def test_a_frame_seen_again_pays_more_at_first_and_far_less_in_the_end() -> None:
    made = PixelCnn(PixelCnnOptions(), context(42))
    for step in range(100):
        made.observe(room(step % 4, step * 7 % 37))
    new = room(9, 10)
    bonuses = [made.observe(new) for _ in range(300)]
    assert bonuses[4] > bonuses[1] > bonuses[0]  # momentum builds up
    assert max(bonuses[200:]) < 0.25 * bonuses[0]
    assert min(bonuses) >= 0.0


def test_the_gain_is_logged_before_it_is_decayed() -> None:
    bonus, twin = small_bonus(), small_bonus()
    assert bonus.scalars() == {}
    for seen in noise(20, 2):
        gain = twin.prediction_gain(symbols(seen.frame))
        bonus.observe(seen)
        assert bonus.scalars() == {"prediction_gain": gain}


def test_only_the_newest_frame_counts() -> None:
    (step,) = noise(20, 1)
    elsewhere = transition(step.frame)
    elsewhere.state.flags.writeable = True
    elsewhere.state[:-1] = 200
    assert small_bonus().observe(step) == small_bonus().observe(elsewhere)


def test_a_restored_bonus_continues_bit_for_bit() -> None:
    steps = noise(20, 12)
    one, two = small_bonus(), small_bonus(seed=1)
    for step in steps[:6]:
        one.observe(step)
    saved = arrays.pack(one.state())
    expected = [one.observe(step) for step in steps[6:]]
    two.load_state(arrays.unpack(saved))
    assert [two.observe(step) for step in steps[6:]] == expected
    assert arrays.pack(two.state()) == arrays.pack(one.state())
    assert set(one.state()) == {"parameters", "mean_squares", "momenta", "observed"}


def test_a_state_does_not_change_with_what_is_observed_later() -> None:
    made = small_bonus()
    saved = made.state()
    before = arrays.pack(saved)
    made.observe(noise(20, 1)[0])
    assert arrays.pack(saved) == before
    restored = arrays.unpack(before)
    made.load_state(restored)
    made.observe(noise(20, 1)[0])
    assert arrays.pack(restored) == before


def test_one_seed_gives_one_sequence_through_the_registry() -> None:
    config = BonusConfig(name="offpiste.bonuses.pixelcnn:PixelCnn", options={"decay": 0.5, "gate": "product"})
    sequences = []
    for seed in (0, 0, 1):
        made = build(config, context(20, seed))
        assert isinstance(made, PixelCnn)
        assert made.options == PixelCnnOptions(decay=0.5, gate="product")
        sequences.append([made.observe(step) for step in noise(20, 4)])
    assert sequences[0] == sequences[1] != sequences[2]


def test_observing_changes_neither_the_frames_nor_any_global_generator() -> None:
    made = small_bonus()
    (step,) = noise(20, 1)
    state = step.state.copy()
    before = global_generators()
    made.observe(step)
    np.testing.assert_array_equal(step.state, state)
    assert global_generators() == before


@pytest.mark.parametrize("option", ["decay", "learning_rate"])
@pytest.mark.parametrize(("value", "requirement"), [(-1.0, "> 0"), (0.0, "> 0"), (math.nan, "finite")])
def test_options_out_of_range_are_refused(option: str, value: float, requirement: str) -> None:
    with pytest.raises(ConfigError, match=rf"^bonus\.options\.{option} must be {requirement}, got {value}$"):
        options_of(BonusConfig(name="pixelcnn", options={option: value}))
