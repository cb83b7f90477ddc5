"""RND against cases worked by hand, against the released code's numbers and against one step in float64."""

import itertools
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.registry import options_of
from offpiste.bonuses.rnd import (
    Distillation,
    FeatureNetwork,
    Rnd,
    RndOptions,
    RndReleased,
    RndReleasedOptions,
    normalise,
    orthogonal,
    released_moments,
    welford,
)
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import generator_state, stream
from tests.sameness import assert_same, global_generators

SMALL = (20, 18)
FEATURES = 512

each_kind = pytest.mark.parametrize("kind", [Rnd, RndReleased])

# The networks.


def test_the_networks_have_the_known_numbers_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["offpiste.bonuses.rnd"], "initialise", lambda *_: None)  # seconds, for a count
    for hidden_layers, count in ((0, 4_037_280), (2, 4_562_592)):
        network = FeatureNetwork((84, 84), 512, hidden_layers, stream(0, "bonus"))
        assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_weights_are_orthogonal_with_gain_root_two_and_biases_zero() -> None:
    for name, parameter in FeatureNetwork(SMALL, 512, 2, stream(0, "bonus")).named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
            continue
        matrix = parameter.detach().flatten(1)  # [outputs, inputs]
        gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        torch.testing.assert_close(gram, 2.0 * torch.eye(len(gram)), rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (5, 3), (4, 4)])
def test_a_random_orthogonal_matrix_points_nowhere_in_particular(rows: int, columns: int) -> None:
    draws = stream(0, "bonus")
    matrices = torch.stack([orthogonal(rows, columns, draws) for _ in range(2_000)])
    smaller = min(rows, columns)
    grams = matrices @ matrices.mT if rows <= columns else matrices.mT @ matrices
    torch.testing.assert_close(grams, torch.eye(smaller, dtype=torch.float64).expand_as(grams), rtol=0.0, atol=1e-12)
    assert matrices.mean(0).abs().max().item() < 5.0 / math.sqrt(2_000 * max(rows, columns))


def test_a_predictor_built_from_the_target_pays_almost_nothing() -> None:
    bonus, lift = make(Rnd), 100.0
    bonus.observe(transition(0))
    state = bonus.state()
    for name in [key.removeprefix("target/") for key in state if key.startswith("target/")]:
        state[f"predictor/{name}"] = state[f"target/{name}"]
    state["predictor/linears.0.bias"] = np.full(FEATURES, lift, np.float32)  # lets the ReLUs pass negative features
    for layer, bias in ((1, 0.0), (2, -lift)):
        state[f"predictor/linears.{layer}.weight"] = np.eye(FEATURES, dtype=np.float32)
        state[f"predictor/linears.{layer}.bias"] = np.full(FEATURES, bias, np.float32)
    usual = make(Rnd)
    usual.observe(transition(0))
    bonus.load_state(state)
    assert usual.observe(transition(1)) > 10.0
    assert 0.0 <= bonus.observe(transition(1)) < 1e-4


@each_kind
def test_the_target_never_changes_and_the_predictor_does(kind: type[Rnd | RndReleased]) -> None:
    bonus = make(kind)
    before = bonus.state()
    for seed in range(5):
        bonus.observe(transition(seed))
    after = bonus.state()
    for key in before:
        if key.startswith("target/"):
            np.testing.assert_array_equal(after[key], before[key])
        if key.startswith("predictor/"):
            assert not np.array_equal(after[key], before[key])


def test_no_gradient_is_computed_for_the_target() -> None:
    distillation = Distillation(RndOptions(learning_rate=2e-4), context())
    distillation.learn(np.random.default_rng(0).standard_normal(SMALL))
    assert all(parameter.grad is None for parameter in distillation.target.parameters())
    assert all(parameter.grad is not None for parameter in distillation.predictor.parameters())


def test_a_repeated_frame_is_learned_and_a_held_out_one_is_not() -> None:
    distillation = Distillation(RndOptions(learning_rate=2e-4), context())
    repeated, held_out = np.random.default_rng(5).standard_normal((2, *SMALL))
    before = distance(distillation, held_out)
    losses = np.array([distillation.learn(repeated) for _ in range(80)])
    means = losses.reshape(8, 10).mean(1)
    assert (np.diff(means) < 0.0).all()
    assert losses[-1] < 1e-2 * losses[0]
    assert distance(distillation, held_out) > 0.5 * before


def test_what_is_learned_is_one_adam_step_on_the_mean_and_what_is_paid_is_the_sum() -> None:
    bonus, fresh = make(Rnd), make(Rnd).state()
    bonus.observe(transition(0))
    before, seen = bonus.state(), transition(1)
    for name in NAMES:
        # The first frame is all zeros to the networks and teaches nothing, so what follows is Adam's second step.
        np.testing.assert_array_equal(before[f"predictor/{name}"], fresh[f"predictor/{name}"])

    paid = bonus.observe(seen)
    after = bonus.state()

    both = np.stack([transition(0).frame, seen.frame]).astype(np.float64)
    deviation = np.maximum(both.std(0), 1e-8)
    x = torch.from_numpy(((seen.frame - both.mean(0)) / deviation).clip(-5.0, 5.0))
    target = plain_features({name: double(before[f"target/{name}"]) for name in NAMES[:8]}, x)
    w = {name: double(before[f"predictor/{name}"]).requires_grad_() for name in NAMES}
    missed = plain_features(w, x) - target
    assert paid == pytest.approx((missed @ missed).item(), rel=1e-5)
    missed.square().mean().backward()  # type: ignore[no-untyped-call]
    for index, (name, value) in enumerate(w.items()):
        assert value.grad is not None
        gradient = value.grad.numpy()
        moments = [after[f"optimizer/predictor/{index}/{key}"] for key in ("exp_avg", "exp_avg_sq")]
        tolerance = 1e-5 * np.abs(gradient).max()
        np.testing.assert_allclose(moments[0], 0.1 * gradient, rtol=1e-4, atol=tolerance)
        np.testing.assert_allclose(moments[1], 0.001 * gradient**2, rtol=1e-3, atol=tolerance**2)
        step = 2e-4 * (moments[0] / (1.0 - 0.9**2)) / (np.sqrt(moments[1] / (1.0 - 0.999**2)) + 1e-5)
        np.testing.assert_allclose(after[f"predictor/{name}"], before[f"predictor/{name}"] - step, rtol=1e-5, atol=1e-7)


# The paper's bonus.


def test_running_mean_and_deviation_are_those_of_all_values() -> None:
    values = np.random.default_rng(0).integers(0, 256, (500, 6, 5)).astype(np.uint8)
    mean, squares = np.zeros((6, 5)), np.zeros((6, 5))
    for count, value in enumerate(values, start=1):
        mean, squares = welford(mean, squares, value, count)
    np.testing.assert_allclose(mean, values.mean(0), rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(squares / 500), values.std(0), rtol=0.0, atol=1e-10)


def test_a_deviation_far_from_zero_is_not_lost_to_rounding() -> None:
    values = 1e9 + np.random.default_rng(0).standard_normal((500, 3))
    mean, squares = np.zeros(3), np.zeros(3)
    for count, value in enumerate(values, start=1):
        mean, squares = welford(mean, squares, value, count)
    np.testing.assert_allclose(np.sqrt(squares / 500), values.std(0), rtol=1e-5)


def test_the_input_is_clipped_at_five() -> None:
    frame = np.array([[0, 100, 200, 103]], np.uint8)
    normal = normalise(frame, np.full((1, 4), 100.0), np.full((1, 4), 2.0))
    np.testing.assert_array_equal(normal, [[-5.0, 0.0, 5.0, 1.5]])


def test_as_long_as_no_pixel_changes_the_bonus_is_exactly_zero() -> None:
    bonus = make(Rnd)
    assert [bonus.observe(transition(0)) for _ in range(20)] == 20 * [0.0]
    assert bonus.observe(transition(0, changed=True)) > 0.0
    assert bonus.observe(transition(0)) > 0.0  # the pixel that changed is off its mean from now on


def test_statistics_are_updated_before_they_are_used() -> None:
    bonus = make(Rnd)
    bonus.observe(transition(0))
    assert (
        bonus.observe(transition(0, changed=True)) < 1e3
    )  # by the old ones, the pixel would stand 1e10 deviations off
    state = bonus.state()
    assert state["observed"] == 2
    both = np.stack([transition(0).frame, transition(0, changed=True).frame]).astype(np.float64)
    np.testing.assert_allclose(state["mean"], both.mean(0), rtol=1e-12)
    np.testing.assert_allclose(state["squares"], 2.0 * both.var(0), rtol=1e-12)


def test_only_the_newest_frame_of_the_state_is_seen() -> None:
    one, two = make(Rnd), make(Rnd)
    for seed in range(3):
        seen = transition(seed)
        state = seen.state.copy()
        state[:-1] = 0
        other = Transition(state, 3, 7.0, seen.state, True, False, 9, seen.ram)
        assert one.observe(seen) == two.observe(other)


def test_a_novel_frame_pays_more_than_a_repeated_one() -> None:
    bonus = make(Rnd)
    for _ in range(40):
        repeated = [bonus.observe(transition(seed)) for seed in range(3)]
    novel = bonus.observe(transition(100))
    assert novel > 2.0 * max(repeated)
    for _ in range(20):
        again = bonus.observe(transition(100))
    assert again < 0.5 * novel


def test_a_batch_is_scored_as_the_next_frames_would_be_paid() -> None:
    bonus, twin = make(Rnd), make(Rnd)
    for seed in range(4):
        bonus.observe(transition(seed))
    frames = np.random.default_rng(1).integers(0, 256, (2, 7, *SMALL), dtype=np.uint8)  # stacks of 4, n is 3
    batch: Any = SimpleNamespace(frames=frames, stack=4)
    before, scored = bonus.state(), bonus.score(batch)
    assert_same(bonus.state(), before)
    assert scored.shape == (2, 3)
    for row, step in itertools.product(range(2), range(3)):
        twin.load_state(before)
        # A frame is paid for by statistics that count it, and scored by those before it; here by these in both.
        twin._pixels.observe = lambda _: None
        assert scored[row, step] == pytest.approx(twin.observe(shown(frames[row, 3 + step])), rel=1e-4)


# The released bonus.


def test_the_released_spread_of_one_three_two_is_as_computed_by_hand() -> None:
    mean, spread, spreads = 0.0, 1.0, []
    for count, value in enumerate([1.0, 3.0, 2.0], start=1):
        mean, spread = released_moments(mean, spread, value, count)
        spreads.append(spread)
    assert spreads == pytest.approx([0.75, 1.388889, 1.041667], abs=5e-7)
    assert mean == 2.0


def test_the_released_spread_tends_to_the_variance_and_the_mean_to_the_mean() -> None:
    mean, spread = 0.0, 1.0
    values = np.random.default_rng(0).normal(2.0, 3.0, 20_000).tolist()
    for count, value in enumerate(values, start=1):
        mean, spread = released_moments(mean, spread, value, count)
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    assert spread == pytest.approx(np.var(values), rel=5e-3)


def test_the_released_input_is_almost_binary_because_its_statistics_are_fed_with_it() -> None:
    bonus = make(RndReleased)
    frames = np.zeros((2, *SMALL), np.uint8)
    frames[:, 0, 0] = 100  # always 100; another is always 0, and one alternates
    frames[1, 0, 2] = 100
    for step in range(100):
        bonus.observe(shown(frames[step % 2]))
    state = bonus.state()
    low, high = (normalise(frame, state["mean"], state["spread"])[0, :3] for frame in frames)
    assert low == pytest.approx([5.0, 0.0, -0.33], abs=0.01)
    assert high == pytest.approx([5.0, 0.0, 5.0], abs=0.01)
    assert state["mean"][0, 0] == 5.0  # of the input, not of the frame


def test_the_released_statistics_of_frames_are_used_first_and_updated_then() -> None:
    bonus = make(RndReleased)
    frame = transition(0).frame
    bonus.observe(transition(0))
    state = bonus.state()
    seen = frame.astype(np.float64).clip(-5.0, 5.0)  # by mean 0 and spread 1
    np.testing.assert_array_equal(state["mean"], seen)
    np.testing.assert_allclose(state["spread"], (1.0 + seen**2 / 2.0) / 2.0, rtol=1e-12)


def test_the_released_bonus_compares_the_mean_loss_with_statistics_that_include_it() -> None:
    bonus = make(RndReleased)
    twin = Distillation(RndOptions(learning_rate=1e-4), context())
    pixels, loss_moments = (np.zeros(SMALL), np.ones(SMALL)), (0.0, 1.0)
    paid, expected = [], []
    for count in range(1, 7):
        frame = transition(count % 4).frame
        seen = ((frame - pixels[0]) / pixels[1]).clip(-5.0, 5.0)
        pixels = released_moments(*pixels, seen, count)
        loss = twin.learn(seen) / 512.0
        loss_moments = released_moments(*loss_moments, loss, count)
        expected.append((loss - loss_moments[0]) / loss_moments[1])
        paid.append(bonus.observe(transition(count % 4)))
    assert paid == pytest.approx(expected, rel=1e-12)
    assert paid[0] == 0.0
    assert min(paid) < 0.0


def test_a_novel_frame_is_above_the_mean_in_the_released_bonus_too() -> None:
    # In black and white: to these statistics all but the darkest shades are one.
    frames = (255 * (np.random.default_rng(0).random((4, *SMALL)) < 0.3)).astype(np.uint8)
    bonus = make(RndReleased)
    for _ in range(30):
        repeated = [bonus.observe(shown(frame)) for frame in frames[:3]]
    novel = [bonus.observe(shown(frames[3])) for _ in range(8)]
    assert max(repeated) < 0.0 < novel[0]
    assert (np.diff(novel) < 0.0).all()


def test_the_mean_loss_over_the_features_is_logged() -> None:
    bonus = make(Rnd)
    assert bonus.scalars() == {}
    bonus.observe(transition(0))
    paid = bonus.observe(transition(1))
    assert bonus.scalars() == {"predictor_loss": paid / FEATURES}


def test_the_released_bonus_logs_its_running_mean_too() -> None:
    bonus, losses = make(RndReleased), []
    for seed in range(3):
        bonus.observe(transition(seed))
        losses.append(bonus.scalars()["predictor_loss"])
    assert bonus.scalars()["predictor_loss_mean"] == pytest.approx(sum(losses) / 3)


def test_only_the_released_bonus_can_be_negative_and_each_has_its_own_learning_rate() -> None:
    assert RndReleased.can_be_negative
    assert not getattr(Rnd, "can_be_negative", False)
    assert RndOptions().learning_rate == 2e-4
    assert RndReleasedOptions().learning_rate == 1e-4
    for name in ("rnd", "rnd_released"):
        with pytest.raises(ConfigError, match=r"^bonus\.options\.learning_rate must be > 0, got -1\.0$"):
            options_of(BonusConfig(name=name, options={"learning_rate": -1.0}))


# The run.


@each_kind
def test_a_restored_bonus_continues_bit_by_bit(kind: type[Rnd | RndReleased]) -> None:
    bonus, other = make(kind), make(kind, seed=1)
    for seed in range(3):
        bonus.observe(transition(seed))
    other.observe(transition(9))
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    assert [bonus.observe(transition(seed)) for seed in range(3, 6)] == [
        other.observe(transition(seed)) for seed in range(3, 6)
    ]
    assert_same(bonus.state(), other.state())


@each_kind
def test_a_saved_state_does_not_move_with_the_bonus_nor_the_bonus_with_it(kind: type[Rnd | RndReleased]) -> None:
    bonus = make(kind)
    bonus.observe(transition(0))
    saved = bonus.state()
    kept = arrays.unpack(arrays.pack(saved))
    bonus.load_state(saved)
    bonus.observe(transition(1))
    assert_same(saved, kept)


@each_kind
def test_the_same_seed_pays_the_same_and_another_seed_does_not(kind: type[Rnd | RndReleased]) -> None:
    paid = [[bonus.observe(transition(seed)) for seed in range(3)] for bonus in (make(kind), make(kind), make(kind, 1))]
    assert paid[0] == paid[1]
    assert paid[0] != paid[2]


@each_kind
def test_observing_changes_neither_its_input_nor_any_generator(kind: type[Rnd | RndReleased]) -> None:
    own = context()
    bonus = kind(kind.Options(), own)  # type: ignore[arg-type]
    seen = transition(0)
    pixels = seen.state.copy()
    before = (*global_generators(), generator_state(own.generator))
    bonus.observe(seen)
    assert (*global_generators(), generator_state(own.generator)) == before
    np.testing.assert_array_equal(seen.state, pixels)


NAMES = [f"convolutions.{layer}.convolution.{part}" for layer in range(3) for part in ("weight", "bias")] + [
    f"linears.{layer}.{part}" for layer in range(3) for part in ("weight", "bias")
]


def context(seed: int = 0) -> Context:
    return Context("montezuma_revenge", 18, 4, SMALL, stream(seed, "bonus"))


def make(kind: type[Any], seed: int = 0) -> Any:
    return kind(kind.Options(), context(seed))


def transition(seed: int, changed: bool = False) -> Transition:
    """A step in a random state; `changed` inverts one pixel."""
    frame = np.random.default_rng(seed).integers(0, 256, SMALL, dtype=np.uint8)
    if changed:
        frame[3, 4] = 255 - frame[3, 4]
    return shown(frame)


def shown(frame: NDArray[np.uint8]) -> Transition:
    stack = np.repeat(frame[None] // 2, 5, axis=0)
    stack[3] = frame
    stack.setflags(write=False)
    return Transition(stack[:-1], 2, 0.0, stack[1:], False, False, 0, np.zeros(128, np.uint8))


def distance(distillation: Distillation, frame: NDArray[np.float64]) -> float:
    x = torch.from_numpy(frame.astype(np.float32))[None, None]
    with torch.no_grad():
        return float((distillation.predictor(x) - distillation.target(x)).square().sum())


def double(array: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(array).double()


def plain_features(w: dict[str, Tensor], x: Tensor) -> Tensor:
    """Features of a normalised frame of 20x18; the number of linear layers is that of the weights."""
    x = x[None, None]
    # 20x18 becomes 5x5, 3x3 and 3x3; (left, right, top, bottom) as TensorFlow pads for SAME.
    for layer, (stride, padding) in enumerate([(4, (3, 3, 2, 2)), (2, (1, 2, 1, 2)), (1, (1, 1, 1, 1))]):
        name = f"convolutions.{layer}.convolution"
        x = functional.conv2d(functional.pad(x, padding), w[f"{name}.weight"], w[f"{name}.bias"], stride)
        x = torch.where(x > 0.0, x, 0.2 * x)
    x = x[0].permute(1, 2, 0).reshape(-1)
    count = sum(name.startswith("linears") for name in w) // 2
    for layer in range(count):
        x = w[f"linears.{layer}.weight"] @ x + w[f"linears.{layer}.bias"]
        if layer < count - 1:
            x = x.clamp(min=0.0)
    return x
