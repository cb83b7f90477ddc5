"""NoisyNets (spec §3): factorised noise, shared by a batch, new for every action and update."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from offpiste import methods
from offpiste.agent.mixing import Targets, bootstraps
from offpiste.agent.networks import NoisyLinear, ValueNetwork, affine
from offpiste.agent.rainbow import Rainbow, epsilon
from offpiste.config import AgentConfig, ScheduleConfig
from offpiste.run.loop import Loop
from offpiste.seeding import stream
from offpiste.types import Batch
from tests.run.small import small_run

SMALL = AgentConfig(convolution_channels=(4, 4, 4), hidden_units=16)
SHAPE = (4, 84, 84)


def layer(inputs: int = 5, outputs: int = 3, noise_scale: float = 0.5) -> NoisyLinear:
    made = NoisyLinear(inputs, outputs, noise_scale)
    made.initialise(stream(0, "weights"))
    return made


def noise_matrix(noisy: NoisyLinear) -> torch.Tensor:
    """Return ε_W, as it acts: the change of the outputs per unit of σ, from unit inputs."""
    with torch.no_grad():
        unit = torch.eye(noisy.weight.shape[1])
        with_noise = noisy(unit) - noisy(torch.zeros_like(unit))
        drawn, noisy._noise = noisy._noise, None
        without = noisy(unit) - noisy(torch.zeros_like(unit))
        noisy._noise = drawn
        matrix: torch.Tensor = (with_noise - without).T / noisy.weight_sigma
        return matrix


def batch() -> Batch:
    generator = stream(0, "batch")
    return Batch(
        indices=np.arange(4),
        numbers=np.arange(4),
        priorities=np.ones(4),
        frames=generator.integers(0, 256, (4, 7, 84, 84), np.uint8),
        actions=np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 0]]),
        extrinsic=np.zeros((4, 3), np.float32),
        intrinsic=np.zeros((4, 3), np.float32),
        steps=np.array([3, 3, 1, 3]),
        terminal=np.array([False, False, True, False]),
    )


WANTED = (Targets(np.array([0.0, 1.0, -1.0, 0.5], np.float32), bootstraps(batch(), 0.99)),)


def test_the_noisy_network_has_the_papers_number_of_parameters() -> None:
    network = ValueNetwork(AgentConfig(), SHAPE, 18, stream(0, "weights"), noise_scale=0.5)
    assert sum(parameter.numel() for parameter in network.parameters()) == 8_950_732


def test_means_and_sigmas_start_as_the_paper_says() -> None:
    noisy = layer(inputs=400, outputs=300)
    limit = 1 / math.sqrt(400)
    for mean in (noisy.weight, noisy.bias):
        assert 0.98 * limit < mean.abs().max() <= limit
    for sigma in (noisy.weight_sigma, noisy.bias_sigma):
        assert torch.all(sigma == torch.tensor(0.5 / math.sqrt(400)))


def test_a_draw_worked_by_hand() -> None:
    noisy = layer(inputs=2, outputs=1)
    with torch.no_grad():
        noisy.weight.copy_(torch.tensor([[1.0, 2.0]]))
        noisy.bias.copy_(torch.tensor([3.0]))
        noisy.weight_sigma.copy_(torch.tensor([[0.5, 0.25]]))
        noisy.bias_sigma.copy_(torch.tensor([0.1]))
    noisy._noise = (torch.tensor([2.0, -1.0]), torch.tensor([3.0]))
    # Weights 1 + 0.5·2·3 = 4 and 2 - 0.25·1·3 = 1.25, bias 3 + 0.1·3 = 3.3; inputs 10 and 100.
    assert noisy(torch.tensor([[10.0, 100.0]])).item() == pytest.approx(40 + 125 + 3.3)


def test_the_noise_matrix_has_rank_one_and_the_right_size() -> None:
    noisy = layer(inputs=40, outputs=30)
    generator = stream(0, "noise")
    squares, vector_squares = [], []
    for _ in range(400):
        noisy.draw_noise(generator)
        assert noisy._noise is not None
        squares.append((noisy._noise[0][:, None] * noisy._noise[1]).square().mean())
        vector_squares.append(noisy._noise[0].square().mean())
    assert torch.linalg.matrix_rank(noise_matrix(noisy), rtol=1e-4) == 1
    assert torch.stack(vector_squares).mean() == pytest.approx(math.sqrt(2 / math.pi), rel=0.02)  # 0.797885
    assert torch.stack(squares).mean() == pytest.approx(2 / math.pi, rel=0.03)  # 0.636620


def test_a_sigma_of_zero_and_no_noise_are_a_plain_layer() -> None:
    noisy, x = layer(noise_scale=0.0), torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    plain = affine(x, noisy.weight, noisy.bias)
    torch.testing.assert_close(plain, x @ noisy.weight.T + noisy.bias)
    noisy.draw_noise(stream(0, "noise"))
    assert torch.equal(noisy(x), plain)
    loud = layer(noise_scale=0.5)
    loud.draw_noise(stream(0, "noise"))
    assert not torch.equal(loud(x), plain)
    loud.draw_noise(None)
    assert torch.equal(loud(x), plain)


def test_all_rows_of_a_batch_share_one_noise_matrix() -> None:
    noisy = layer()
    noisy.draw_noise(stream(0, "noise"))
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    assert noisy._noise is not None
    noise_in, noise_out = noisy._noise
    weights = noisy.weight + noisy.weight_sigma * noise_out[:, None] * noise_in
    biases = noisy.bias + noisy.bias_sigma * noise_out
    torch.testing.assert_close(noisy(x), x @ weights.T + biases)


def test_the_gradient_of_sigma_is_that_of_the_weight_times_the_noise() -> None:
    noisy = layer()
    noisy.draw_noise(stream(0, "noise"))
    noisy(torch.randn(6, 5, generator=torch.Generator().manual_seed(0))).square().sum().backward()
    assert noisy._noise is not None
    noise_in, noise_out = noisy._noise
    assert noisy.weight.grad is not None
    assert noisy.bias.grad is not None
    torch.testing.assert_close(noisy.weight_sigma.grad, noisy.weight.grad * noise_out[:, None] * noise_in)
    torch.testing.assert_close(noisy.bias_sigma.grad, noisy.bias.grad * noise_out)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_action_and_every_update_draws_anew(precision: str) -> None:
    config = AgentConfig(
        convolution_channels=(4, 4, 4), hidden_units=16, precision="bf16" if precision == "bf16" else "fp32"
    )
    agent = Rainbow(config, SHAPE, 18, stream(0, "weights"), noise_scale=0.5)
    state = stream(0, "state").integers(0, 256, SHAPE, np.uint8)
    noise = stream(0, "noise")
    assert len({agent.greedy_action(state, noise) for _ in range(60)}) > 1
    assert len({agent.greedy_action(state, stream(0, "same")) for _ in range(5)}) == 1
    assert len({agent.greedy_action(state) for _ in range(5)}) == 1
    before = noise.bit_generator.state["state"]["state"]
    first = agent.learn(batch(), WANTED, noise)
    assert noise.bit_generator.state["state"]["state"] != before
    online, target = agent._online.hidden, agent._target.hidden
    assert isinstance(online, NoisyLinear)
    assert isinstance(target, NoisyLinear)
    assert online._noise is not None
    assert target._noise is not None
    assert not torch.equal(online._noise[0], target._noise[0])
    assert np.isfinite(first.loss)


def test_sigma_is_learned() -> None:
    agent = Rainbow(SMALL, SHAPE, 18, stream(0, "weights"), noise_scale=0.5)
    before = agent.weights()
    for _ in range(3):
        agent.learn(batch(), WANTED, stream(0, "noise"))
    after = agent.weights()
    for name in ("hidden.weight_sigma", "hidden.bias_sigma", "head.weight_sigma", "head.bias_sigma"):
        assert not np.array_equal(before[name], after[name])


def test_noisy_nets_never_acts_at_random_in_training() -> None:
    method = methods.find("noisy_nets")
    assert [epsilon(method.exploration, 20_000, step) for step in (1, 20_000, 145_000, 10**6)] == [0.0] * 4
    assert (method.exploration.noise_scale, method.exploration.epsilon_evaluation) == (0.5, 0.001)


def test_a_noisy_run_is_exact_to_resume_and_evaluation_does_not_change_its_training() -> None:
    exploration = methods.find("noisy_nets").exploration
    plain = Loop(small_run(exploration=exploration, schedule=ScheduleConfig(iteration_steps=100)))
    evaluated = Loop(
        small_run(exploration=exploration, schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=10))
    )
    list(islice(plain.steps(), 250))
    again = Loop(plain.config)
    again.load_state(plain.state(), {name: pack() for name, pack in plain.immutable().items()})
    assert list(islice(plain.steps(), 40)) == list(islice(again.steps(), 40))
    while evaluated.tracker.training_steps < plain.tracker.training_steps:
        next(evaluated.steps())
    for name, value in plain.agent.state().items():
        np.testing.assert_array_equal(value, again.agent.state()[name], err_msg=name)
        np.testing.assert_array_equal(value, evaluated.agent.state()[name], err_msg=name)
