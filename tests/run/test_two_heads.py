"""A run with two heads: it resumes bit by bit, is evaluated twice, and logs where its second head ends."""

from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import pytest

from offpiste import arrays
from offpiste.agent.rainbow import Rainbow
from offpiste.config import BonusConfig, ExplorationConfig, RunConfig, ScheduleConfig
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.run.loop import Loop
from offpiste.run.tracker import Step
from offpiste.study.cost import all_steps
from tests.sameness import assert_same

TWO = {"heads": 2, "clip_sum": False, "ends_with_episode": False, "decay": 0.001, "normalise": "return_std"}


def small(**settings: Any) -> RunConfig:
    """Return a run in Deep Sea with a count and two heads, which learns after 40 steps and soon wraps its replay."""
    agent = {"min_history_steps": 40, "replay_capacity": 150, "hidden_units": 16, "batch_size": 8}
    schedule = {"iteration_steps": 44, "evaluation_steps": 11}
    base = base_run("deep_sea_10", bonus="simhash")
    return from_dict(RunConfig, {"agent": agent, "schedule": schedule, "bonus": TWO, **settings}, base=base)


def take(loop: Loop, count: int) -> list[Step]:
    return list(islice(loop.steps(), count))


def flat(loop: Loop) -> dict[str, Any]:
    return {f"{part}/{key}": value for part, values in loop.state().items() for key, value in values.items()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("noisy", [False, True])
def test_a_loop_with_two_heads_restored_at_any_step_continues_bit_by_bit(
    precision: Literal["fp32", "bf16"], noisy: bool
) -> None:
    config = small(exploration={"noisy": noisy})
    config = replace(config, agent=replace(config.agent, precision=precision))
    original, rows = Loop(config), []
    for steps in (10, 10, 45, 150):  # before it learns, in each evaluation, and past the wrap-around
        rows += take(original, steps)
        again = Loop(config)
        state = {part: arrays.unpack(arrays.pack(values)) for part, values in original.state().items()}
        again.load_state(state, {name: pack() for name, pack in original.immutable().items()})
        assert_same(flat(again), flat(original))
        continued = take(original, 30)
        assert take(again, 30) == continued
        assert_same(flat(again), flat(original))
        rows += continued
    assert original.replay.added > config.agent.replay_capacity
    assert {step.episode.phase for step in rows if step.episode} == {"train", "evaluation", "evaluation_extrinsic"}


def test_each_iteration_is_evaluated_as_trained_and_then_by_the_extrinsic_head_for_as_many_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    act = Rainbow.act

    def recorded(*arguments: Any, extrinsic_only: bool = False) -> int:
        asked.append(extrinsic_only)
        return act(*arguments, extrinsic_only=extrinsic_only)

    monkeypatch.setattr(Rainbow, "act", recorded)
    rows = [step.iteration for step in take(Loop(small()), 2 * (44 + 11 + 11)) if step.iteration]
    assert [(row.iteration, row.phase, row.steps) for row in rows] == [
        (1, "train", 44),
        (1, "evaluation", 11),
        (1, "evaluation_extrinsic", 11),
        (2, "train", 44),
        (2, "evaluation", 11),
        (2, "evaluation_extrinsic", 11),
    ]
    assert all(row.return_mean is not None for row in rows)
    assert asked == 2 * [*([False] * 11), *([True] * 11)]
    assert all_steps(replace(small(), frames=88)) == 2 * (44 + 11 + 11)


def test_without_evaluation_and_with_one_head_there_is_no_second_one() -> None:
    off = ScheduleConfig(iteration_steps=44)
    for config in (replace(small(), schedule=off), replace(small(), bonus=BonusConfig(name="simhash"))):
        rows = [step.iteration for step in take(Loop(config), 180) if step.iteration]
        assert "evaluation_extrinsic" not in {row.phase for row in rows}
        assert len(rows) > 3


def test_acting_by_the_extrinsic_head_alone_is_another_policy_and_draws_the_same() -> None:
    loop = Loop(replace(small(), exploration=ExplorationConfig(epsilon_evaluation=0.0)))
    agent, state = loop.agent, loop.world.reset()[0]
    weights = agent.weights()
    bias = np.zeros((2, 2, 51), np.float32)  # head, action, atom
    bias[0, 0, 50] = bias[1, 1, 50] = 30.0
    agent.load_weights(weights | {"head.bias": bias.ravel(), "head.weight": 0.0 * weights["head.weight"], "beta": 1.0})
    generator = np.random.default_rng(0)
    assert [agent.act(state, 0.0, generator, extrinsic_only=only) for only in (False, True)] == [1, 0]


def test_beta_decays_where_actions_are_chosen_and_is_kept_with_the_weights() -> None:
    loop = Loop(small(bonus=TWO | {"scale": 2.0, "decay": 0.01}))
    take(loop, 30)
    assert loop.agent.beta == pytest.approx(2.0 * 0.99**29)
    assert loop.agent.weights()["beta"] == loop.agent.beta


def test_a_window_says_what_the_second_head_learns() -> None:
    loop = Loop(small(schedule={"iteration_steps": 2_500}, bonus=TWO | {"value_high": 0.5, "normalise": "none"}))
    [scalars] = [step.scalars for step in take(loop, 250) if step.scalars]
    assert 0.05 < scalars["intrinsic/target_mass_high"] <= 1.0  # SimHash pays 1 for what is new
    assert 0.0 < scalars["intrinsic/q"] < 0.5
    assert 0.0 <= scalars["intrinsic/target_mass_low"] < 0.95
    one = replace(loop.config, bonus=BonusConfig(name="simhash"))
    [of_one] = [step.scalars for step in take(Loop(one), 250) if step.scalars]
    assert of_one.keys() == scalars.keys() - {
        f"intrinsic/{name}" for name in ("q", "target_mass_low", "target_mass_high")
    }
