"""ICM against cases worked by hand and against one step written out in float64."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.icm import CuriosityNetwork, Icm, IcmOptions, joint_loss, shrink
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.neural import load_module
from offpiste.seeding import generator_state, stream
from tests.sameness import assert_same, global_generators

ACTIONS = 18
STATE_SHAPE = (4, 84, 84)
FEATURES = 288

# The bonus.


def test_a_next_state_predicted_exactly_pays_nothing() -> None:
    bonus = predicting(np.zeros(FEATURES, np.float32))
    assert bonus.observe(transition()) == 0.0


def test_a_prediction_that_is_off_by_a_vector_pays_its_squared_length() -> None:
    shift = np.zeros(FEATURES, np.float32)
    shift[[3, 200]] = (3.0, -4.0)
    bonus = predicting(shift)
    assert bonus.observe(transition()) == pytest.approx(25.0, rel=1e-6)


def test_the_bonus_is_that_of_the_weights_before_the_update() -> None:
    bonus = make()
    forward_error, _ = network_of(bonus)(states(transition()), transition().action)
    assert bonus.observe(transition()) == forward_error.item()
    assert bonus.observe(transition()) != forward_error.item()


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_the_last_step_of_an_episode_pays_nothing_and_is_not_learned(end: str) -> None:
    bonus = make()
    bonus.observe(transition())
    before = bonus.state()
    assert bonus.observe(transition(**{end: True})) == 0.0
    assert_same(bonus.state(), before)


def test_both_losses_of_the_last_step_are_logged_and_none_where_it_ended_an_episode() -> None:
    bonus = make()
    assert bonus.scalars() == {}
    paid = bonus.observe(transition())
    logged = bonus.scalars()
    assert logged.keys() == {"forward_loss", "inverse_loss"}
    assert logged["forward_loss"] == 0.5 * paid
    assert logged["inverse_loss"] == pytest.approx(math.log(ACTIONS), abs=0.01)  # small weights predict no action
    bonus.observe(transition(terminated=True))
    assert bonus.scalars() == {}


def test_icm_does_not_count_visits_and_is_never_negative() -> None:
    assert not Icm.measures_visits
    assert not getattr(Icm, "can_be_negative", False)


# The losses.


def test_with_a_zeroed_output_layer_every_action_is_equally_likely() -> None:
    network = CuriosityNetwork((4, 42, 42), ACTIONS, stream(0, "bonus"))
    torch.nn.init.zeros_(network.inverse_head.weight)
    _, inverse_loss = network(states(transition()), 5)
    assert inverse_loss.item() == pytest.approx(2.890372, abs=5e-7)


def test_the_loss_is_the_inverse_one_and_half_the_forward_error_by_their_weights() -> None:
    loss = joint_loss(torch.tensor(8.0), torch.tensor(3.0), 0.25)
    assert loss.item() == 0.75 * 3.0 + 0.25 * 0.5 * 8.0


@pytest.mark.parametrize(("forward_weight", "idle"), [(0.0, "forward_"), (1.0, "inverse_")])
def test_at_the_ends_of_the_weight_one_part_learns_nothing_and_the_features_still_learn(
    forward_weight: float, idle: str
) -> None:
    bonus = make(IcmOptions(forward_weight=forward_weight))
    before = bonus.state()
    bonus.observe(transition())
    after = bonus.state()
    for index, (key, weights) in enumerate(before.items()):
        assert key.startswith("network/")
        gradient = after[f"optimizer/network/{index}/exp_avg"]
        if key.startswith(f"network/{idle}"):
            assert not gradient.any()
            np.testing.assert_array_equal(after[key], weights)
        else:
            assert gradient.any()
            assert not np.array_equal(after[key], weights)


def test_both_losses_reach_the_features_of_both_states_by_their_weights() -> None:
    weight, action, step = 0.3, 7, 1e-6
    network = CuriosityNetwork((4, 42, 42), ACTIONS, stream(0, "bonus")).double()
    draws = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in network.parameters():  # large enough for both terms to be well above rounding
            parameter.copy_(torch.from_numpy(draws.normal(0.0, 0.1, tuple(parameter.shape))))
    w = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    features = draws.normal(0.0, 1.0, (2, FEATURES))

    def losses(phi: NDArray[np.float64]) -> NDArray[np.float64]:
        units = np.maximum(w["inverse_hidden.weight"] @ phi.ravel() + w["inverse_hidden.bias"], 0.0)
        logits = w["inverse_head.weight"] @ units + w["inverse_head.bias"]
        chosen = np.concatenate([phi[0], np.eye(ACTIONS)[action]])
        hidden = np.maximum(w["forward_hidden.weight"] @ chosen + w["forward_hidden.bias"], 0.0)
        missed = w["forward_head.weight"] @ hidden + w["forward_head.bias"] - phi[1]
        return np.array([np.log(np.exp(logits).sum()) - logits[action], 0.5 * missed @ missed])

    phi = torch.from_numpy(features).requires_grad_()
    (gradient,) = torch.autograd.grad(joint_loss(*network.errors(phi, action), weight), phi)
    for state in (0, 1):
        for feature in (0, 100, 287):
            nudge = np.zeros_like(features)
            nudge[state, feature] = step
            inverse, forward = (losses(features + nudge) - losses(features - nudge)) / (2.0 * step)
            assert abs(inverse) > 1e-4
            assert abs(forward) > 1e-4
            expected = (1.0 - weight) * inverse + weight * forward
            assert float(gradient[state, feature]) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_one_step_equals_the_same_written_out_in_float64() -> None:
    options = IcmOptions(forward_weight=0.1, learning_rate=0.01)
    bonus = make(options)
    before, seen = bonus.state(), transition(seed=3, action=11)
    paid = bonus.observe(seen)
    after = bonus.state()

    w = {key.removeprefix("network/"): torch.from_numpy(value).double() for key, value in before.items()}
    for value in w.values():
        value.requires_grad_()
    phi = [plain_features(w, state) for state in (seen.state, seen.next_state)]
    logits = plain_linear(w, "inverse", torch.cat(phi))
    one_hot = torch.zeros(ACTIONS, dtype=torch.float64)
    one_hot[11] = 1.0
    missed = plain_linear(w, "forward", torch.cat([phi[0], one_hot])) - phi[1]
    assert paid == pytest.approx((missed @ missed).item(), rel=1e-5)
    loss = 0.9 * (logits.exp().sum().log() - logits[11]) + 0.1 * 0.5 * missed @ missed
    loss.backward()  # type: ignore[no-untyped-call]
    for index, (name, value) in enumerate(w.items()):
        assert value.grad is not None
        gradient = value.grad.numpy()
        moments = [after[f"optimizer/network/{index}/{key}"] for key in ("exp_avg", "exp_avg_sq")]
        tolerance = 1e-5 * np.abs(gradient).max()
        np.testing.assert_allclose(moments[0], 0.1 * gradient, rtol=1e-4, atol=tolerance)
        np.testing.assert_allclose(moments[1], 0.001 * gradient**2, rtol=1e-3, atol=tolerance**2)
        # Adam's first step in its own terms: both corrected moments are those of one gradient.
        step = 0.01 * (moments[0] / 0.1) / (np.sqrt(moments[1] / 0.001) + 1e-8)
        np.testing.assert_allclose(after[f"network/{name}"], before[f"network/{name}"] - step, rtol=1e-5, atol=1e-7)


def test_with_practice_the_same_transition_pays_less_and_its_action_is_predicted() -> None:
    bonus = make(IcmOptions(forward_weight=0.5, learning_rate=1e-3))
    paid = [bonus.observe(transition()) for _ in range(40)]
    assert paid[-1] < 0.1 * paid[0]
    _, inverse_loss = network_of(bonus)(states(transition()), transition().action)
    assert inverse_loss.item() < 0.1


# The parts.


def test_the_networks_have_the_known_number_of_parameters() -> None:
    network = CuriosityNetwork((4, 42, 42), ACTIONS, stream(0, "bonus"))
    assert sum(parameter.numel() for parameter in network.parameters()) == 333_874
    assert network.embed(states(transition())).shape == (2, FEATURES)


def test_kernels_follow_glorot_and_the_weights_into_a_unit_have_length_one_hundredth() -> None:
    for key, value in make().state().items():
        if key.endswith("bias"):
            assert not value.any()
        elif value.ndim == 4:
            limit = math.sqrt(6.0 / (9 * (value.shape[0] + value.shape[1])))
            assert np.abs(value).max() <= limit
            assert value.std() == pytest.approx(limit / math.sqrt(3.0), rel=0.05)
        else:
            np.testing.assert_allclose(np.linalg.norm(value, axis=1), 0.01, rtol=1e-5)


def test_frames_are_averaged_over_squares_of_four_pixels() -> None:
    state = transition().state
    shrunk = np.empty((4, 42, 42), np.uint8)
    shrink(state, shrunk)
    sums = state.astype(np.int64).reshape(4, 42, 2, 42, 2).sum((2, 4))
    np.testing.assert_array_equal(shrunk, (sums + 2) // 4)


def test_the_order_of_the_states_and_the_action_matter() -> None:
    paid = [
        make().observe(seen)
        for seen in (
            transition(),
            transition(action=3),
            Transition(transition().next_state, 2, 0.0, transition().state, False, False, 0, np.zeros(128, np.uint8)),
        )
    ]
    assert len(set(paid)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forward_weight": 1.5}, "bonus.options.forward_weight must be <= 1, got 1.5"),
        ({"forward_weight": math.nan}, "bonus.options.forward_weight must be finite, got nan"),
        ({"learning_rate": 0.0}, "bonus.options.learning_rate must be > 0, got 0.0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options_of(BonusConfig(name="icm", options=options))
    assert str(refused.value) == message


# The run.


def test_a_restored_bonus_continues_bit_by_bit() -> None:
    bonus = make()
    for seed in range(3):
        bonus.observe(transition(seed))
    other = make(seed=1)
    other.observe(transition())
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    assert [bonus.observe(transition(seed)) for seed in range(3, 6)] == [
        other.observe(transition(seed)) for seed in range(3, 6)
    ]
    assert_same(bonus.state(), other.state())


def test_a_bonus_restored_to_before_its_first_step_forgets_its_moments() -> None:
    fresh, used = make(), make(seed=1)
    used.observe(transition())
    used.load_state(arrays.unpack(arrays.pack(fresh.state())))
    assert [used.observe(transition(seed)) for seed in range(2)] == [
        fresh.observe(transition(seed)) for seed in range(2)
    ]


def test_a_saved_state_does_not_move_with_the_bonus() -> None:
    bonus = make()
    bonus.observe(transition())
    saved = bonus.state()
    kept = {key: value.copy() for key, value in saved.items()}
    bonus.observe(transition(1))
    assert_same(saved, kept)


def test_the_same_seed_pays_the_same_and_another_seed_does_not() -> None:
    one, two, other = make(), make(), make(seed=1)
    paid = [[bonus.observe(transition(seed)) for seed in range(3)] for bonus in (one, two, other)]
    assert paid[0] == paid[1]
    assert paid[0] != paid[2]


def test_observing_changes_neither_its_input_nor_any_generator() -> None:
    generator = stream(0, "bonus")
    bonus = Icm(IcmOptions(), Context("montezuma_revenge", ACTIONS, 4, STATE_SHAPE[1:], generator))
    seen = transition()
    pixels = (seen.state.copy(), seen.next_state.copy())
    before = (*global_generators(), generator_state(generator))
    bonus.observe(seen)
    assert (*global_generators(), generator_state(generator)) == before
    np.testing.assert_array_equal(seen.state, pixels[0])
    np.testing.assert_array_equal(seen.next_state, pixels[1])


def make(options: IcmOptions | None = None, seed: int = 0) -> Icm:
    return Icm(
        options or IcmOptions(), Context("montezuma_revenge", ACTIONS, 4, STATE_SHAPE[1:], stream(seed, "bonus"))
    )


def transition(seed: int = 0, action: int = 2, terminated: bool = False, truncated: bool = False) -> Transition:
    """A step between two random states, whose later frames are shared as in a game."""
    shown = np.random.default_rng(seed).integers(0, 256, (5, *STATE_SHAPE[1:]), dtype=np.uint8)
    shown.setflags(write=False)
    return Transition(shown[:-1], action, 0.0, shown[1:], terminated, truncated, 0, np.zeros(128, np.uint8))


def states(seen: Transition) -> Tensor:
    shrunk = np.empty((2, 4, 42, 42), np.uint8)
    shrink(seen.state, shrunk[0])
    shrink(seen.next_state, shrunk[1])
    return torch.from_numpy(shrunk)


def network_of(bonus: Icm) -> CuriosityNetwork:
    """A network with the weights that the bonus has now."""
    network = CuriosityNetwork((4, 42, 42), ACTIONS, stream(0, "bonus")).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    load_module(bonus.state(), network, prefix="network/")
    return network  # type: ignore[no-any-return]


def predicting(shift: NDArray[np.float32]) -> Icm:
    """A bonus that predicts the features of the next state of `transition()`, shifted by a vector."""
    bonus = make()
    state = bonus.state()
    truth = network_of(bonus).embed(states(transition()))[1].detach().numpy()
    state["network/forward_head.weight"][:] = 0.0
    state["network/forward_head.bias"][:] = truth + shift
    bonus.load_state(state)
    return bonus


def plain_features(w: dict[str, Tensor], state: NDArray[np.uint8]) -> Tensor:
    small = (state.astype(np.int64).reshape(4, 42, 2, 42, 2).sum((2, 4)) + 2) // 4
    x = torch.from_numpy(small / 255.0)[None]
    for layer, (before, after) in enumerate([(0, 1), (1, 1), (1, 1), (0, 1)]):
        x = functional.pad(x, (before, after, before, after))
        name = f"convolutions.{layer}.convolution"
        x = functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], stride=2)
        x = torch.where(x > 0.0, x, x.clamp(max=0.0).exp() - 1.0)
    return x[0].permute(1, 2, 0).reshape(-1)


def plain_linear(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    hidden = (w[f"{name}_hidden.weight"] @ x + w[f"{name}_hidden.bias"]).clamp(min=0.0)
    return w[f"{name}_head.weight"] @ hidden + w[f"{name}_head.bias"]
