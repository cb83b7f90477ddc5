"""Two heads: values of a chain known in closed form, one update in numpy, and cases worked out by hand."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.agent.mixing import IntrinsicScale, Targets, targets
from offpiste.agent.networks import ValueNetwork
from offpiste.agent.rainbow import (
    Rainbow,
    Unit,
    added,
    best_distribution,
    divergence,
    new_priorities,
    project,
    project_sparsely,
    target_distribution,
)
from offpiste.config import AgentConfig, BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.types import Batch

TWO = BonusConfig(name="stub", heads=2, clip_sum=False, discount=0.8)
SMALL = AgentConfig(convolution_channels=(4,), hidden_units=32, discount=0.5, return_steps=1, learning_rate=3e-3)
SHAPE = (1, 8, 8)
A, B = 0, 1


def frame(state: int) -> NDArray[np.uint8]:
    return np.full(SHAPE[1:], 255 * state, np.uint8)


def chain() -> Batch:
    """Return every step of a chain A → B → A → …, of which only those out of A pay: one head's reward each."""
    steps = [  # state, action, next state, extrinsic, intrinsic
        (A, 0, B, 1.0, 0.0),
        (A, 1, B, 0.0, 1.0),
        (B, 0, A, 0.0, 0.0),
        (B, 1, A, 0.0, 0.0),
    ]
    return Batch(
        indices=np.arange(4),
        numbers=np.arange(4),
        priorities=np.ones(4),
        frames=np.stack([[frame(state), frame(following)] for state, _, following, _, _ in steps]),
        actions=np.array([[action] for _, action, _, _, _ in steps]),
        extrinsic=np.array([[extrinsic] for *_, extrinsic, _ in steps], np.float32),
        intrinsic=np.array([[intrinsic] for *_, intrinsic in steps], np.float32),
        steps=np.ones(4, np.int64),
        terminal=np.zeros(4, np.bool_),
    )


# β, and Q of each head in (A, 0), (A, 1) and B, where both actions are alike
CURIOUS = (2.0, (1.0, 0.0, 0.0), (0.8**2 / 0.36, 1 / 0.36, 0.8 / 0.36))
GREEDY = (0.25, (4 / 3, 1 / 3, 2 / 3), (0.0, 1.0, 0.0))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("beta", "extrinsic", "intrinsic"), [CURIOUS, GREEDY])
def test_both_heads_learn_the_values_of_the_policy_that_their_weighted_sum_has(
    beta: float, extrinsic: tuple[float, ...], intrinsic: tuple[float, ...], precision: Literal["fp32", "bf16"]
) -> None:
    """With β = 2 the greedy action in A is 1, and γ_I = 0.8: Q_I(A, 1) = 1 + 0.8²·Q_I(A, 1); that of β = 0.25 is 0."""
    bonus, batch = replace(TWO, scale=beta, value_high=5.0), chain()
    agent = Rainbow(replace(SMALL, precision=precision), SHAPE, 2, stream(0, "weights"), bonus=bonus)
    for update in range(600):
        agent.learn(batch, targets(batch, bonus, SMALL.discount, factor=1.0))
        if update % 20 == 19:
            agent.update_target()
    found = {state: [head.tolist() for head in agent.head_values(frame(state)[None])] for state in (A, B)}
    tolerance = 0.05 if precision == "fp32" else 0.15
    for head, (first, second, later) in enumerate((extrinsic, intrinsic)):
        assert found[A][head] == pytest.approx([first, second], abs=tolerance)
        assert found[B][head] == pytest.approx([later, later], abs=tolerance)
    assert agent.greedy_action(frame(A)[None]) == (1 if beta == 2.0 else 0)
    assert agent.act(frame(A)[None], 0.0, stream(0, "actions"), extrinsic_only=True) == 0


def test_one_update_is_that_of_both_losses_and_its_priorities_are_of_both_divergences() -> None:
    bonus, batch = replace(TWO, scale=0.7), chain()
    agent = Rainbow(SMALL, SHAPE, 2, stream(0, "weights"), bonus=bonus)
    state = agent.state()
    for value in (value for name, value in state.items() if name.endswith("weight")):
        value *= np.float32(4.0)  # far from uniform
    agent.load_state(state)
    with torch.no_grad():
        now, later = (agent._online(torch.from_numpy(x)).double() for x in (batch.states, batch.next_states))
    supports = (np.linspace(-10.0, 10.0, 51), np.linspace(0.0, 50.0, 51))
    p = later.softmax(-1).numpy()  # [batch, heads, actions, atoms]
    action = (p[:, 0] @ supports[0] + 0.7 * (p[:, 1] @ supports[1])).argmax(-1)
    losses, divergences, ends = np.zeros(4), np.zeros(4), []
    for head, (rewards, discount) in enumerate(((batch.extrinsic, 0.5), (batch.intrinsic, 0.8))):
        for row in range(4):
            target = projected(p[row, head, action[row]], float(rewards[row, 0]), discount, supports[head])
            log = now[row, head, batch.actions[row, 0]].log_softmax(-1).numpy()
            losses[row] -= (target * log).sum()
            positive = target > 0
            divergences[row] += (target[positive] * (np.log(target[positive]) - log[positive])).sum()
            ends.append(target[-1])
    found = agent.learn(batch, targets(batch, bonus, 0.5, factor=1.0))
    assert found.loss == pytest.approx(losses.mean(), rel=1e-5)
    np.testing.assert_allclose(found.priorities, np.sqrt(divergences), rtol=1e-3)
    assert found.target_mass_high == pytest.approx(np.mean(ends[:4]), rel=1e-3)
    assert found.intrinsic["target_mass_high"] == pytest.approx(np.mean(ends[4:]), rel=1e-3)
    chosen = p[range(4), 1, action]
    assert found.intrinsic["q"] == pytest.approx((chosen @ supports[1]).mean(), rel=1e-4)
    agent.load_state(state)
    by_loss = Rainbow(SMALL, SHAPE, 2, stream(0, "weights"), bonus=replace(bonus, priorities="loss"))
    by_loss.load_state(state)
    found_too = by_loss.learn(batch, targets(batch, bonus, 0.5, factor=1.0))
    np.testing.assert_allclose(found_too.priorities, np.sqrt(losses), rtol=1e-5)


def projected(p: NDArray[np.float64], reward: float, discount: float, support: NDArray[np.float64]) -> Any:
    """Project one distribution atom by atom, each shared between the atom below and the one above."""
    out, low, spacing = np.zeros(len(p)), support[0], support[1] - support[0]
    for atom, probability in enumerate(p):
        position = (np.clip(reward + discount * support[atom], low, support[-1]) - low) / spacing
        below = min(len(p) - 2, int(position))
        out[below] += probability * (below + 1 - position)
        out[below + 1] += probability * (position - below)
    return out


def test_the_action_to_bootstrap_from_is_that_of_the_sum_and_not_of_either_head() -> None:
    atoms = torch.tensor([[[0, 2, 3], [3, 2, 0]]])  # the likely atom of each of three actions, in each head
    logits = 30.0 * torch.nn.functional.one_hot(atoms, 4).double()
    support = torch.arange(4, dtype=torch.float64)
    rows, highest = best_distribution(logits, support, torch.tensor([1.0, 1.0], dtype=torch.float64))
    assert highest.tolist() == pytest.approx([4.0])  # 2 + 2, where the others have 3 and 3
    assert rows.argmax(-1).tolist() == [2, 2]


def test_a_wide_target_that_is_predicted_exactly_has_no_priority_by_divergence() -> None:
    targets = torch.stack([torch.full((51,), 1 / 51), torch.eye(51)[0]]).double()
    losses = torch.full((2,), math.log(51), dtype=torch.float64)
    assert divergence(losses, targets).tolist() == pytest.approx([0.0, math.log(51)], abs=1e-12)
    assert divergence(losses - 1e-9, targets)[0] == 0.0  # which rounding may do
    assert added(losses, 1).tolist() == pytest.approx([2 * math.log(51)])
    assert new_priorities(added(losses, 1)).item() == pytest.approx(2.804220, abs=5e-7)


@given(seed=st.integers(0, 1_000), scale=st.sampled_from([0.0, 1.0, 5.0, 50.0]))
def test_the_sparse_projection_is_the_dense_one(seed: int, scale: float) -> None:
    draws, support = np.random.default_rng(seed), torch.linspace(-10, 10, 51, dtype=torch.float64)
    points = torch.from_numpy(np.concatenate([scale * draws.standard_normal((3, 51)), support[None]]))
    p = torch.from_numpy(draws.dirichlet(np.full(51, 0.5), 4))
    torch.testing.assert_close(project_sparsely(points, p, support), project(points, p, support), rtol=0.0, atol=1e-12)


@given(low=st.floats(-20, 20), width=st.floats(1, 100), reward=st.floats(-5, 5), bootstrap=st.floats(0, 1))
def test_a_target_of_the_second_head_is_the_same_in_its_own_unit(
    low: float, width: float, reward: float, bootstrap: float
) -> None:
    unit = Unit.between(replace(TWO, value_low=low, value_high=low + width), 10.0)
    rewards, bootstraps = np.array([[reward], [bootstrap]], np.float32)
    shown = unit.below(Targets(np.zeros(1, np.float32), np.zeros(1, np.float32)), Targets(rewards, bootstraps))
    own, first = np.linspace(low, low + width, 51), torch.linspace(-10, 10, 51, dtype=torch.float64)
    p = np.random.default_rng(0).dirichlet(np.full(51, 0.5))
    of_second = [torch.from_numpy(each[1:]).double() for each in shown]
    found = target_distribution(torch.from_numpy(p)[None], of_second[0], of_second[1], first)
    np.testing.assert_allclose(found[0], projected(p, float(rewards[0]), float(bootstraps[0]), own), atol=1e-4)
    np.testing.assert_allclose(unit.values(first), own, atol=1e-12)


def test_each_head_has_rewards_a_discount_and_an_end_of_its_own() -> None:
    batch = replace(
        chain(),
        actions=np.zeros((2, 3), np.int64),
        extrinsic=np.array([[1.0, 0.0, -1.0], [1.0, 0.0, 0.0]], np.float32),
        intrinsic=np.array([[8.0, 4.0, 2.0], [8.0, 4.0, 0.0]], np.float32),
        steps=np.array([3, 2]),
        terminal=np.array([False, True]),
    )
    bonus = replace(TWO, discount=0.5, extrinsic_scale=2.0, scale=7.0)
    extrinsic, intrinsic = targets(batch, bonus, 0.99, factor=0.25)
    assert extrinsic.returns == pytest.approx([2 * 0.0199, 2.0], abs=1e-6)
    assert extrinsic.bootstrap == pytest.approx([0.970299, 0.0])
    assert intrinsic.returns == pytest.approx([2.625, 2.5])  # (8 + 4/2 + 2/4) / 4 and (8 + 4/2) / 4, without β
    assert intrinsic.bootstrap == pytest.approx([0.125, 0.0])
    assert len(targets(batch, BonusConfig(), 0.99, factor=0.25)) == 1


def test_with_two_heads_beta_weighs_values_and_not_rewards() -> None:
    one, two = (IntrinsicScale(replace(TWO, heads=heads, scale=3.0, decay=0.5)) for heads in (1, 2))
    assert (one.factor(1), one.beta(1)) == (1.5, 1.5)
    assert (two.factor(1), two.beta(1)) == (1.0, 1.5)


@pytest.mark.parametrize("noise_scale", [None, 0.5])
def test_the_first_head_starts_as_the_only_one_would(noise_scale: float | None) -> None:
    one, two = (
        ValueNetwork(SMALL, SHAPE, 3, stream(0, "weights"), noise_scale, heads).state_dict() for heads in (1, 2)
    )
    assert one.keys() == two.keys()
    for name, value in one.items():
        if name != "head.bias":  # which noisy layers draw after all weights
            torch.testing.assert_close(two[name][: len(value)], value, rtol=0.0, atol=0.0)
    assert len(two["head.weight"]) == 2 * len(one["head.weight"])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("noise_scale", [None, 0.5])
def test_a_restored_agent_with_two_heads_continues_bit_by_bit(
    precision: Literal["fp32", "bf16"], noise_scale: float | None
) -> None:
    batch, config = chain(), replace(SMALL, precision=precision)
    wanted = targets(batch, TWO, 0.5, factor=1.0)
    agent, other = (Rainbow(config, SHAPE, 2, stream(seed, "w"), "cpu", noise_scale, TWO) for seed in (0, 1))
    agent.beta = 0.3
    for _ in range(3):
        agent.learn(batch, wanted, stream(0, "noise"))
    agent.update_target()
    agent.learn(batch, wanted, stream(1, "noise"))
    other.load_state(arrays.unpack(arrays.pack(agent.state())))
    assert other.beta == 0.3
    for each in (agent, other):
        each.learn(batch, wanted, stream(2, "noise"))
    assert arrays.pack(agent.state()) == arrays.pack(other.state())
    played = Rainbow(config, SHAPE, 2, stream(2, "w"), "cpu", noise_scale, TWO)
    played.load_weights(arrays.unpack(arrays.pack(agent.weights())))
    torch.testing.assert_close(played.action_values(frame(A)[None]), agent.action_values(frame(A)[None]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 2}, r"bonus\.clip_sum must be false with bonus\.heads = 2.*set bonus\.clip_sum = false"),
        ({"heads": 3}, r"bonus\.heads must be <= 2, got 3"),
        ({"value_low": 50.0}, r"bonus\.value_high must be > bonus\.value_low, got 50 and 50"),
    ],
)
def test_settings_of_heads_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BonusConfig(**settings)
