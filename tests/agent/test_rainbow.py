"""The agent against numbers worked out by hand and against one update written out in float64."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from offpiste import arrays
from offpiste.agent.mixing import Targets, bootstraps
from offpiste.agent.rainbow import (
    Rainbow,
    Update,
    best_distribution,
    cross_entropy,
    epsilon,
    expected_values,
    importance_weights,
    new_priorities,
    project,
    target_distribution,
)
from offpiste.config import AgentConfig, ExplorationConfig
from offpiste.seeding import stream
from offpiste.types import Batch
from tests.sameness import global_generators

SMALL = AgentConfig(convolution_channels=(4, 4, 4), hidden_units=16)
STATE_SHAPE = (4, 12, 10)
ACTIONS = 5
SUPPORT = torch.linspace(-10.0, 10.0, 51, dtype=torch.float64)
GAMMA_3 = 0.970299

Precision = Literal["fp32", "bf16"]
each_precision = pytest.mark.parametrize("precision", ["fp32", "bf16"])

# The mathematics.


def test_the_projection_gives_the_worked_example_of_dopamines_documentation() -> None:
    points = torch.tensor([[0.0, 2.0, 4.0, 6.0, 8.0], [1.0, 3.0, 4.0, 5.0, 6.0]])
    weights = torch.tensor([[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.2, 0.5, 0.1, 0.1]])
    projected = project(points, weights, torch.tensor([4.0, 5.0, 6.0, 7.0, 8.0]))
    torch.testing.assert_close(projected, torch.tensor([[0.8, 0.0, 0.1, 0.0, 0.1], [0.8, 0.1, 0.1, 0.0, 0.0]]))


def test_without_reward_and_discount_the_projection_changes_nothing() -> None:
    p = distributions(8)
    projected = target_distribution(p, torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64), SUPPORT)
    torch.testing.assert_close(projected, p, rtol=0.0, atol=1e-12)


def test_a_last_reward_of_one_half_lies_on_the_two_atoms_around_it() -> None:
    projected = target_distribution(distributions(1), one(0.5), one(0.0), SUPPORT)[0]
    expected = torch.zeros(51, dtype=torch.float64)
    expected[26], expected[27] = 0.75, 0.25
    torch.testing.assert_close(projected, expected, rtol=0.0, atol=1e-12)
    assert float(projected @ SUPPORT) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 5e-8), (torch.float32, 5e-6)])
def test_of_a_uniform_distribution_the_clipping_at_the_top_takes_its_known_share(
    dtype: torch.dtype, tolerance: float
) -> None:
    uniform = torch.full((1, 51), 1.0 / 51.0, dtype=dtype)
    projected = target_distribution(
        uniform, torch.ones(1, dtype=dtype), torch.full((1,), GAMMA_3, dtype=dtype), SUPPORT.to(dtype)
    )
    assert float(projected.sum()) == pytest.approx(1.0, abs=tolerance)
    assert float(projected[0] @ SUPPORT.to(dtype)) == pytest.approx(0.980042, abs=5e-7 + tolerance)
    assert float(projected[0, 50]) == pytest.approx(0.0552329, abs=5e-8 + tolerance)


@pytest.mark.parametrize(("reward", "atom"), [(40.0, 50), (-40.0, 0)])
def test_what_lies_outside_the_support_is_gathered_at_its_end(reward: float, atom: int) -> None:
    projected = target_distribution(distributions(1), one(reward), one(GAMMA_3), SUPPORT)
    assert float(projected[0, atom]) == pytest.approx(1.0, abs=1e-12)


@given(reward=st.floats(-2.0, 2.0), discount=st.floats(0.0, 1.0), seed=st.integers(0, 1_000))
def test_a_distribution_that_stays_inside_the_support_keeps_its_mean(reward: float, discount: float, seed: int) -> None:
    p = distributions(1, seed)
    p[:, SUPPORT.abs() > 7.9] = 0.0
    p /= p.sum()
    projected = target_distribution(p, one(reward), one(discount), SUPPORT)[0]
    assert float(projected.sum()) == pytest.approx(1.0, abs=1e-12)
    assert float(projected @ SUPPORT) == pytest.approx(reward + discount * float(p[0] @ SUPPORT), abs=1e-11)


@given(reward=st.floats(-30.0, 30.0), discount=st.floats(0.0, 1.0), seed=st.integers(0, 1_000))
def test_the_projection_is_the_one_that_shares_each_atom_between_its_neighbours(
    reward: float, discount: float, seed: int
) -> None:
    p = distributions(1, seed)
    projected = target_distribution(p, one(reward), one(discount), SUPPORT)[0]
    np.testing.assert_allclose(projected.numpy(), shared(p[0].numpy(), reward, discount), atol=1e-12)


def test_uniform_logits_cost_the_logarithm_of_51_and_give_its_root_as_priority() -> None:
    loss = cross_entropy(distributions(3), torch.zeros(3, ACTIONS, 51).double(), torch.tensor([0, 4, 2]))
    assert loss.tolist() == pytest.approx([3.931826] * 3, abs=5e-7)
    assert new_priorities(loss).tolist() == pytest.approx([1.982883] * 3, abs=5e-7)


def test_only_the_action_that_was_taken_counts_in_the_loss() -> None:
    logits = torch.zeros(2, 3, 51, dtype=torch.float64)
    logits[0, 1, 7] = logits[1, 2, 7] = 50.0
    target = torch.zeros(2, 51, dtype=torch.float64)
    target[:, 7] = 1.0
    assert cross_entropy(target, logits, torch.tensor([1, 2])).tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
    assert cross_entropy(target, logits, torch.tensor([0, 1])).tolist() == pytest.approx([math.log(51)] * 2)


def test_a_loss_of_zero_leaves_a_priority_above_zero() -> None:
    assert new_priorities(torch.zeros(1)).tolist() == pytest.approx([1e-5])


def test_the_value_of_a_distribution_is_its_mean_and_the_max_is_chosen() -> None:
    logits = torch.full((2, 3, 51), -50.0, dtype=torch.float64)
    for row, atoms in enumerate([(25, 30, 20), (10, 0, 5)]):
        for action, atom in enumerate(atoms):
            logits[row, action, atom] = 50.0
    assert expected_values(logits, SUPPORT).tolist() == [
        pytest.approx([0.0, 2.0, -2.0]),
        pytest.approx([-6.0, -10.0, -8.0]),
    ]
    probabilities, max_q = best_distribution(logits, SUPPORT)
    assert max_q.tolist() == pytest.approx([2.0, -6.0])
    assert probabilities.argmax(-1).tolist() == [30, 10]
    assert probabilities.sum(-1).tolist() == pytest.approx([1.0, 1.0])


def test_the_smallest_priority_of_a_batch_weighs_one() -> None:
    assert importance_weights(np.array([1.0, 0.25, 4.0])).tolist() == pytest.approx([0.5, 1.0, 0.25])


@given(priorities=st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=32))
def test_weights_fall_with_the_root_of_the_priority_and_ignore_their_common_scale(priorities: list[float]) -> None:
    weights = importance_weights(np.array(priorities))
    assert weights.dtype == np.float32
    assert weights[int(np.argmin(priorities))] == 1.0
    expected = np.sqrt((min(priorities) + 1e-10) / (np.array(priorities) + 1e-10))
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 1.0), (20_000, 1.0), (20_001, 0.99999604), (145_000, 0.505), (270_000, 0.01), (50_000_000, 0.01)],
)
def test_epsilon_follows_its_table(step: int, expected: float) -> None:
    assert epsilon(ExplorationConfig(), 20_000, step) == pytest.approx(expected, abs=1e-12)


# The agent.


@pytest.mark.parametrize("cut", [False, True])
def test_one_update_equals_the_same_update_written_out_in_float64(cut: bool) -> None:
    agent = unlike_its_target()
    for number in range(3):
        before = agent.state()
        batch = batch_of(8, seed=number)
        if cut:  # by limits, one to three steps later
            batch = replace(batch, steps=np.array([1, 2, 3, 1, 2, 3, 1, 2]))
        found = learn(agent, batch)
        after, loss, priorities, max_q = written_out(before, batch)
        assert found.loss == pytest.approx(loss, rel=1e-5)
        assert found.max_q == pytest.approx(max_q, rel=1e-4)
        np.testing.assert_allclose(found.priorities, priorities, rtol=1e-5)
        for name, value in agent.weights().items():
            assert np.abs(value - before[f"online/{name}"]).max() > 1e-6
            np.testing.assert_allclose(value, after[name], rtol=1e-7, atol=5e-8, err_msg=name)


def test_the_target_network_both_selects_and_evaluates() -> None:
    agent, batch = unlike_its_target(), batch_of(16, terminal=False)
    state = agent.state()
    after = torch.from_numpy(batch.frames[:, -4:])
    with torch.no_grad():
        of_target = forward(network_of(state, "target/"), after)
        of_online = forward(network_of(state, "online/"), after)
    selected = (of_target.softmax(-1) @ SUPPORT).argmax(-1)
    assert bool((selected != (of_online.softmax(-1) @ SUPPORT).argmax(-1)).any())  # else this proves nothing
    q_of_target = (of_target.softmax(-1) @ SUPPORT).max(-1).values.mean()
    q_of_online = (of_online.softmax(-1) @ SUPPORT).max(-1).values.mean()
    found = learn(agent, batch)
    assert found.max_q == pytest.approx(float(q_of_target), rel=1e-4)
    assert abs(found.max_q - float(q_of_online)) > 1e-2
    targets = [
        shared(of_target[row, selected[row]].softmax(-1).numpy(), float(batch.extrinsic[row, 0]), GAMMA_3)
        for row in range(16)
    ]
    assert found.target_mass_low == pytest.approx(np.mean([target[0] for target in targets]), rel=1e-3, abs=1e-7)
    assert found.target_mass_high == pytest.approx(np.mean([target[-1] for target in targets]), rel=1e-3, abs=1e-7)


@each_precision
def test_a_head_of_zeros_costs_the_logarithm_of_51(precision: Precision) -> None:
    agent = new_agent(precision)
    weights = agent.weights()
    weights["head.weight"][:] = 0.0
    agent.load_weights(weights)
    found = learn(agent, batch_of(8))
    assert found.loss == pytest.approx(3.931826, abs=5e-6)
    assert found.priorities.tolist() == pytest.approx([1.982883] * 8, abs=5e-6)
    assert found.priorities.dtype == np.float64


@pytest.mark.parametrize("terminal", [True, False])
def test_after_an_end_inside_the_window_the_frames_beyond_it_do_not_matter(terminal: bool) -> None:
    batch = batch_of(6, terminal=terminal)
    frames = batch.frames.copy()
    frames[:, 4:] = 255 - frames[:, 4:]
    other = replace(batch, frames=frames)
    one, two = unlike_its_target(), unlike_its_target()
    found, found_too = learn(one, batch), learn(two, other)
    weights, weights_too = one.weights()["head.weight"], two.weights()["head.weight"]
    if terminal:
        np.testing.assert_allclose(found.priorities, found_too.priorities, rtol=1e-6)
        np.testing.assert_allclose(weights, weights_too, rtol=1e-6, atol=1e-7)
    else:  # else the case above proves nothing
        assert np.abs(found.priorities - found_too.priorities).min() > 1e-3
        assert np.abs(weights - weights_too).max() > 1e-5


def test_the_new_priorities_do_not_depend_on_the_weights_but_the_update_does() -> None:
    batch = batch_of(6)
    other = replace(batch, priorities=batch.priorities[::-1].copy())
    one, two = new_agent(), new_agent()
    assert learn(one, batch).priorities.tolist() == learn(two, other).priorities.tolist()
    assert bytes_of(one.state()) != bytes_of(two.state())


@each_precision
def test_learning_on_one_batch_lowers_its_loss(precision: Precision) -> None:
    agent = new_agent(precision, learning_rate=3e-3)
    batch, returns = batch_of(8, terminal=True), np.float32(0.4) * np.arange(8, dtype=np.float32)
    wanted = (Targets(returns, bootstraps(batch, 0.99)),)
    losses = [agent.learn(batch, wanted).loss for _ in range(60)]
    assert losses[0] == pytest.approx(math.log(51), abs=0.3)
    assert losses[-1] < 0.5 * losses[0]


@each_precision
def test_the_target_network_changes_only_when_asked_to(precision: Precision) -> None:
    agent = new_agent(precision, learning_rate=1e-2)
    first = part(agent.state(), "target/")
    learn(agent, batch_of(8))
    assert bytes_of(part(agent.state(), "target/")) == bytes_of(first)
    agent.update_target()
    changed = part(agent.state(), "target/")
    online = {name: rounded(value, precision) for name, value in agent.weights().items()}
    assert bytes_of(changed) == bytes_of(online) != bytes_of(first)
    learn(agent, batch_of(8))
    assert bytes_of(part(agent.state(), "target/")) == bytes_of(changed)


@each_precision
def test_the_greedy_action_is_the_online_networks(precision: Precision) -> None:
    agent = new_agent(precision)
    state = np.random.default_rng(1).integers(0, 256, STATE_SHAPE, dtype=np.uint8)
    for action in (2, 0, 4):
        weights = agent.weights()
        weights["head.bias"][:] = 0.0
        weights["head.bias"].reshape(ACTIONS, 51)[action, 50] = 20.0
        agent.load_weights(weights)
        assert agent.greedy_action(state) == action


def test_the_greedy_action_has_the_highest_value() -> None:
    agent = unlike_its_target()
    online = network_of(agent.state(), "online/")
    states = np.random.default_rng(2).integers(0, 256, (20, *STATE_SHAPE), dtype=np.uint8)
    with torch.no_grad():
        expected = (forward(online, torch.from_numpy(states)).softmax(-1) @ SUPPORT).argmax(-1).tolist()
    assert len(set(expected)) > 1
    assert [agent.greedy_action(state) for state in states] == expected


@each_precision
def test_two_agents_of_one_seed_learn_the_same_bits(precision: Precision) -> None:
    one, two = new_agent(precision), new_agent(precision)
    for number in range(5):
        assert as_list(learn(one, batch_of(8, seed=number))) == as_list(learn(two, batch_of(8, seed=number)))
    assert bytes_of(one.state()) == bytes_of(two.state())
    assert bytes_of(new_agent(precision, seed=1).state()) != bytes_of(new_agent(precision).state())


@each_precision
@pytest.mark.parametrize("updates", [0, 1, 4])
def test_a_restored_agent_continues_bit_by_bit(precision: Precision, updates: int) -> None:
    agent, other = new_agent(precision), new_agent(precision, seed=9)
    learn(other, batch_of(8, seed=50))  # what it learned before is to be forgotten
    for number in range(updates):
        learn(agent, batch_of(8, seed=number))
        if number == 1:
            agent.update_target()
    packed = arrays.pack(agent.state())
    other.load_state(arrays.unpack(packed))
    assert arrays.pack(other.state()) == packed
    for number in range(100, 103):
        assert as_list(learn(other, batch_of(8, seed=number))) == as_list(learn(agent, batch_of(8, seed=number)))
    assert bytes_of(other.state()) == bytes_of(agent.state())
    state = np.random.default_rng(3).integers(0, 256, STATE_SHAPE, dtype=np.uint8)
    assert other.greedy_action(state) == agent.greedy_action(state)


def test_a_state_is_not_changed_by_further_updates() -> None:
    agent = new_agent()
    learn(agent, batch_of(8))
    state = agent.state()
    before = bytes_of(state)
    learn(agent, batch_of(8))
    agent.update_target()
    assert bytes_of(state) == before != bytes_of(agent.state())


def test_in_bf16_the_master_weights_gather_steps_too_small_for_bf16() -> None:
    agent = new_agent("bf16")
    first = agent.weights()
    batch = batch_of(8, terminal=True)
    learn(agent, batch)
    second = agent.weights()
    assert {value.dtype for value in second.values()} == {np.dtype(np.float32)}
    assert {parameter.dtype for parameter in agent._online.parameters()} == {torch.bfloat16}
    name = "head.weight"
    large = (np.abs(first[name]) > 0.1) & (second[name] != first[name])
    unmoved = large & (rounded(second[name], "bf16") == rounded(first[name], "bf16"))
    assert unmoved.sum() > 0.8 * large.sum() > 100.0
    for _ in range(60):
        learn(agent, batch)
        assert working_copy_is_rounded_master(agent)
    last = agent.weights()
    moved = rounded(last[name], "bf16") != rounded(first[name], "bf16")
    assert (moved & unmoved).sum() > 0.2 * unmoved.sum()


def test_bf16_learns_nearly_what_fp32_learns() -> None:
    single, half = new_agent("fp32"), new_agent("bf16")
    found, found_too = learn(single, batch_of(8)), learn(half, batch_of(8))
    assert found.loss == pytest.approx(found_too.loss, rel=1e-2)
    np.testing.assert_allclose(found.priorities, found_too.priorities, rtol=1e-2)


@each_precision
def test_making_and_training_an_agent_touches_no_global_generator(precision: Precision) -> None:
    before = global_generators()
    agent = new_agent(precision)
    batch = batch_of(8)
    learn(agent, batch)
    agent.update_target()
    agent.greedy_action(batch.frames[0, :4])
    agent.load_state(agent.state())
    assert global_generators() == before


def new_agent(precision: Precision = "fp32", seed: int = 0, learning_rate: float = 6.25e-5) -> Rainbow:
    config = replace(SMALL, precision=precision, learning_rate=learning_rate)
    return Rainbow(config, STATE_SHAPE, ACTIONS, stream(seed, "agent"))


def unlike_its_target() -> Rainbow:
    """Make an agent whose online and target networks differ, with distributions far from uniform."""
    agent, state = new_agent(), new_agent(seed=1).state()
    state |= {f"target/{name}": value for name, value in new_agent(seed=2).weights().items()}
    for name, value in state.items():
        if name.endswith("weight"):
            value *= np.float32(3.0)  # five layers, so that logits grow 243 times
    agent.load_state(state)
    return agent


def batch_of(size: int, seed: int = 0, terminal: bool | None = None) -> Batch:
    generator = np.random.default_rng(seed)
    drawn = generator.random(size) < 0.3
    return Batch(
        indices=np.arange(size),
        numbers=np.arange(size),
        priorities=generator.uniform(0.1, 3.0, size),
        frames=generator.integers(0, 256, (size, 7, *STATE_SHAPE[1:]), dtype=np.uint8),
        actions=np.pad(generator.integers(0, ACTIONS, (size, 1)), ((0, 0), (0, 2))),
        extrinsic=np.pad(generator.uniform(-3.0, 3.0, (size, 1)).astype(np.float32), ((0, 0), (0, 2))),
        intrinsic=np.zeros((size, 3), np.float32),
        steps=np.full(size, 3),
        terminal=drawn if terminal is None else np.full(size, terminal),
    )


def learn(agent: Rainbow, batch: Batch) -> Update:
    """Let the agent learn from a batch of which only the first steps bring a reward."""
    return agent.learn(batch, (Targets(batch.extrinsic[:, 0].copy(), bootstraps(batch, 0.99)),))


def written_out(
    state: dict[str, Any], batch: Batch
) -> tuple[dict[str, NDArray[np.float64]], float, NDArray[np.float64], float]:
    """Return weights, loss, priorities and max Q after one update from `state`, all in float64."""
    online, target = network_of(state, "online/"), network_of(state, "target/")
    frames = torch.from_numpy(batch.frames)
    later = torch.stack([row[steps : steps + 4] for row, steps in zip(frames, batch.steps.tolist(), strict=True)])
    with torch.no_grad():
        after = forward(target, later).softmax(-1)
    values = after @ SUPPORT
    targets = np.stack(
        [
            shared(
                after[row, int(values[row].argmax())].numpy(),
                float(batch.extrinsic[row, 0]),
                0.0 if batch.terminal[row] else 0.99 ** int(batch.steps[row]),
            )
            for row in range(len(batch.actions))
        ]
    )
    logits = forward(online, frames[:, 0:4])
    taken = torch.stack([logits[row, action] for row, action in enumerate(batch.actions[:, 0].tolist())])
    loss = -(torch.from_numpy(targets) * taken.log_softmax(-1)).sum(-1)
    weights = 1.0 / np.sqrt(batch.priorities)
    optimizer = torch.optim.Adam(online.values(), lr=6.25e-5, betas=(0.9, 0.999), eps=1.5e-4, foreach=False)
    for index, parameter in enumerate(online.values()):
        saved = f"optimizer/online/{index}"
        if f"{saved}/step" in state:
            optimizer.state[parameter] = {
                "step": torch.tensor(float(state[f"{saved}/step"])),
                "exp_avg": torch.from_numpy(state[f"{saved}/exp_avg"]).double(),
                "exp_avg_sq": torch.from_numpy(state[f"{saved}/exp_avg_sq"]).double(),
            }
    objective = (torch.from_numpy(weights / weights.max()) * loss).mean()
    objective.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    result = {name: parameter.detach().numpy() for name, parameter in online.items()}
    losses = loss.detach().numpy()
    return result, float(losses.mean()), np.sqrt(losses + 1e-10), float(values.max(-1).values.mean())


def network_of(state: dict[str, Any], prefix: str) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value).double().requires_grad_() for name, value in part(state, prefix).items()}


def forward(weights: dict[str, Tensor], states: Tensor) -> Tensor:
    x = states.double() / 255.0
    # 12 → 3 → 2 → 2 rows and 10 → 3 → 2 → 2 columns; pads are left, right, top, bottom
    for number, (stride, pads) in enumerate([(4, (3, 3, 2, 2)), (2, (1, 2, 1, 2)), (1, (1, 1, 1, 1))]):
        prefix = f"convolutions.{number}.convolution"
        x = functional.pad(x, pads)
        x = functional.conv2d(x, weights[f"{prefix}.weight"], weights[f"{prefix}.bias"], stride).relu()
    x = x.permute(0, 2, 3, 1).reshape(len(states), -1)
    x = (x @ weights["hidden.weight"].T + weights["hidden.bias"]).relu()
    return (x @ weights["head.weight"].T + weights["head.bias"]).reshape(-1, ACTIONS, 51)


def shared(p: NDArray[np.float64], reward: float, discount: float) -> NDArray[np.float64]:
    """Project one distribution atom by atom, each shared between the atom below and the one above."""
    out = np.zeros(51)
    for atom in range(51):
        position = (min(10.0, max(-10.0, reward + discount * (-10.0 + 0.4 * atom))) + 10.0) / 0.4
        below = min(49, int(position))
        out[below] += p[atom] * (below + 1 - position)
        out[below + 1] += p[atom] * (position - below)
    return out


def distributions(count: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(51, 0.5), count))


def one(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def part(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def bytes_of(state: dict[str, Any]) -> dict[str, bytes]:
    return {key: value.tobytes() for key, value in state.items()}


def as_list(learned: Update) -> list[float]:
    return [
        *learned.priorities.tolist(),
        learned.loss,
        learned.max_q,
        learned.target_mass_low,
        learned.target_mass_high,
    ]


def rounded(value: NDArray[np.float32], precision: Precision) -> NDArray[np.float32]:
    if precision == "fp32":
        return value
    return torch.from_numpy(value).to(torch.bfloat16).float().numpy()


def working_copy_is_rounded_master(agent: Rainbow) -> bool:
    working = dict(agent._online.named_parameters())
    return all(
        torch.equal(working[name].detach().float(), torch.from_numpy(rounded(value, "bf16")))
        for name, value in agent.weights().items()
    )
