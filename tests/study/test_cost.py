"""The estimated cost of a run agrees with its network, its schedule and a measured rate."""

import dataclasses

import numpy as np
import pytest

from offpiste.agent.networks import ValueNetwork
from offpiste.config import AgentConfig, MachineConfig, RunConfig, ScheduleConfig
from offpiste.methods import METHODS, base_run
from offpiste.study import cost
from tests.run.small import small_run


@pytest.mark.parametrize("method", ["epsilon_greedy", "noisy_nets"])
@pytest.mark.parametrize("agent", [AgentConfig(), AgentConfig(convolution_channels=(3, 5, 7), hidden_units=11)])
def test_the_counted_parameters_are_those_of_the_network(method: str, agent: AgentConfig) -> None:
    run = dataclasses.replace(base_run("montezuma_revenge", method), agent=agent)
    noise = run.exploration.noise_scale if run.exploration.noisy else None
    network = ValueNetwork(agent, (4, 84, 84), 18, np.random.default_rng(0), noise)
    assert cost.parameters(run) == sum(parameter.numel() for parameter in network.parameters())


def test_the_bytes_kept_grow_with_the_milestones() -> None:
    weights = 4e-9 * cost.parameters(RunConfig())
    one, all_six = RunConfig(frames=10**6), RunConfig()
    assert cost.cost(one, "results").kept_gb == pytest.approx(2 * weights, rel=0.01)
    assert cost.cost(all_six, "results").kept_gb == pytest.approx(7 * weights, rel=0.02)
    more = cost.cost(all_six, "all").kept_gb - cost.cost(all_six, "results").kept_gb
    assert 0.4 + 7 * weights < more < 0.4 + 9 * weights  # the replay, and two checkpoints of agent and priorities


def test_time_is_steps_divided_by_rate() -> None:
    run = RunConfig(frames=4 * 86_400 * 50)
    assert cost.cost(run, "results", 50.0).run_days == pytest.approx(1.0)
    assert cost.cost(run, "results").run_days is None
    evaluated = dataclasses.replace(run, schedule=ScheduleConfig(evaluation_steps=125_000))
    assert cost.cost(evaluated, "results", 50.0).run_days == pytest.approx(1.5)


def test_checkpoints_twice_as_often_write_twice_as_much() -> None:
    often = RunConfig(machine=MachineConfig(checkpoint_minutes=5.0))
    twice = 2 * cost.cost(RunConfig(), "results").written_mb_per_second
    assert cost.cost(often, "results").written_mb_per_second == pytest.approx(twice)


def test_a_bonus_that_is_not_built_in_costs_as_much_as_the_largest_that_is() -> None:
    largest = max(METHODS, key=lambda name: METHODS[name].checkpoint_mb.get("atari", 0.0))
    run = base_run("montezuma_revenge", largest)
    other = dataclasses.replace(run, bonus=dataclasses.replace(run.bonus, name="mine:Bonus"))
    assert cost.cost(other, "all") == cost.cost(run, "all")


def test_the_rate_is_measured_while_the_agent_learns() -> None:
    assert 1.0 < cost.measure(small_run(), seconds=0.2) < 100_000.0
