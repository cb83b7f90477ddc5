"""The loop follows Dopamine's order, puts each bonus on its own step, and its state is complete between two steps."""

import dataclasses
import math
import re
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

from offpiste import arrays
from offpiste.agent.rainbow import Update
from offpiste.bonuses.base import Transition
from offpiste.config import BonusConfig, ExplorationConfig, RunConfig, ScheduleConfig, WorldConfig
from offpiste.errors import NotFinite
from offpiste.methods import base_run
from offpiste.run.loop import Loop
from offpiste.run.tracker import Step
from offpiste.store import layout
from tests.run.small import AGENT, small_run
from tests.sameness import global_generators


class NumberedBonus:
    """Returns 1, 2, 3, ... and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Transition] = []
        self.count = 0

    def observe(self, transition: Transition) -> float:
        self.seen.append(transition)
        self.count += 1
        return float(self.count)

    def state(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def take(loop: Loop, count: int) -> list[Step]:
    return list(islice(loop.steps(), count))


def flat_state(loop: Loop) -> dict[str, Any]:
    return {f"{part}/{key}": value for part, values in loop.state().items() for key, value in values.items()}


def assert_same_state(one: Loop, two: Loop) -> None:
    first, second = flat_state(one), flat_state(two)
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key)


def restored(loop: Loop, bonus: NumberedBonus | None = None) -> Loop:
    """Return a new loop that went through bytes."""
    state = {part: arrays.unpack(arrays.pack(values)) for part, values in loop.state().items()}
    immutable = {name: pack() for name, pack in loop.immutable().items()}
    again = Loop(loop.config, bonus)
    again.load_state(state, immutable)
    return again


def test_a_checkpoint_names_its_objects_as_the_loop_names_its_parts() -> None:
    loop = Loop(small_run(), NumberedBonus())
    take(loop, 300)
    state = loop.state()
    assert {*state} == {*layout.STATE}
    assert {layout.kind(name) for name in loop.immutable()} == {*layout.REPLAY_KINDS}
    online = [name for name in state[layout.AGENT] if name.startswith(layout.ONLINE)]
    assert [name.removeprefix(layout.ONLINE) for name in online] == [*loop.agent.weights()]


def test_the_counter_of_training_steps_rises_by_the_steps_of_the_episodes() -> None:
    loop = Loop(small_run())
    episodes = [step.episode for step in take(loop, 450) if step.episode]
    assert len(episodes) >= 2
    assert [row.end_step for row in episodes] == list(np.cumsum([row.steps for row in episodes]))


def test_every_episode_is_preceded_by_three_entries_of_padding() -> None:
    loop = Loop(small_run(agent=dataclasses.replace(AGENT, replay_capacity=2_000)))
    ended = sum(step.episode is not None for step in take(loop, 450))
    episodes_begun = ended + (loop.tracker.episode.steps > 0)
    assert loop.replay.added == 450 + 3 * episodes_begun


def test_learning_starts_after_the_history_and_every_fourth_step(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(small_run())
    updates: list[tuple[int, int]] = []
    copies: list[int] = []
    learn, copy = loop.agent.learn, loop.agent.update_target

    def noted_learn(*given: Any) -> Update:
        updates.append((loop.tracker.training_steps, loop.replay.added))
        return learn(*given)

    def noted_copy() -> None:
        copies.append(loop.tracker.training_steps)
        copy()

    monkeypatch.setattr(loop.agent, "learn", noted_learn)
    monkeypatch.setattr(loop.agent, "update_target", noted_copy)
    take(loop, 130)
    # 58 steps and 3 of padding make 61 entries, more than the 60 asked for; the next multiple of 4 is 60.
    assert [step for step, _ in updates] == list(range(60, 130, 4))
    assert updates[0][1] == 63
    assert copies == [80, 120]


def test_epsilon_counts_the_step_that_is_being_taken() -> None:
    loop = Loop(small_run())
    take(loop, 60)
    assert loop.tracker.epsilon(loop.tracker.training_steps) == 1.0
    take(loop, 50)
    assert loop.tracker.epsilon(loop.tracker.training_steps) == pytest.approx(0.01 + 0.99 * 0.5)


def test_the_bonus_of_a_step_is_stored_beside_the_frame_it_was_paid_for() -> None:
    bonus = NumberedBonus()
    loop = Loop(small_run(bonus=BonusConfig(name="stub")), bonus)
    take(loop, 250)
    entries = np.flatnonzero(loop.replay.intrinsic[: loop.replay.added])
    np.testing.assert_array_equal(loop.replay.intrinsic[entries], np.arange(1, len(entries) + 1))
    frames = loop.replay.frames_of(entries)
    for frame, transition in zip(frames, bonus.seen, strict=True):
        np.testing.assert_array_equal(frame, transition.frame)
        np.testing.assert_array_equal(transition.state[1:], transition.next_state[:-1])


def test_the_bonus_observes_once_per_training_step_and_never_in_evaluation() -> None:
    bonus = NumberedBonus()
    schedule = ScheduleConfig(iteration_steps=100, evaluation_steps=20)
    loop = Loop(small_run(bonus=BonusConfig(name="stub"), schedule=schedule), bonus)
    evaluation_steps = 0
    for _ in range(500):
        phase, before = loop.tracker.phase, arrays.pack(bonus.state())
        take(loop, 1)
        if phase == "evaluation":
            evaluation_steps += 1
            assert arrays.pack(bonus.state()) == before
    assert evaluation_steps > 0
    assert bonus.count == loop.tracker.training_steps == 500 - evaluation_steps


def test_whether_a_run_is_evaluated_does_not_change_how_it_trains() -> None:
    plain = Loop(small_run(schedule=ScheduleConfig(iteration_steps=100)))
    evaluated = Loop(small_run(schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=20)))
    take(plain, 300)
    while evaluated.tracker.training_steps < 300:
        take(evaluated, 1)
    for name, weights in plain.agent.weights().items():
        np.testing.assert_array_equal(weights, evaluated.agent.weights()[name])
    np.testing.assert_array_equal(plain.replay.actions, evaluated.replay.actions)


def test_a_random_action_lasts_to_the_end_of_its_episode_in_training_and_one_step_in_evaluation() -> None:
    always = ExplorationConfig(max_repeat_steps=10_000, repeat_exponent=0.0, epsilon_final=1.0, epsilon_evaluation=1.0)
    loop = Loop(small_run(exploration=always, schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=30)))
    taken: dict[tuple[str, int], set[int]] = {}
    for world in (loop.world, loop._evaluation_world):
        world.step = partial(noted_step, loop, taken, world.step)  # type: ignore[method-assign]
    take(loop, 900)
    training, evaluation = ([actions for key, actions in taken.items() if key[0] == p] for p in ("train", "evaluation"))
    assert {len(actions) for actions in training} == {1}  # 5,000 steps on average, and episodes are shorter
    assert len(set.union(*training)) > 1
    assert min(len(actions) for actions in evaluation) > 1


def noted_step(loop: Loop, taken: dict[tuple[str, int], set[int]], step: Any, action: int) -> Any:
    phase = loop.tracker.phase
    taken.setdefault((phase, loop.tracker.episodes[phase]), set()).add(action)
    return step(action)


def test_a_loop_restored_in_the_middle_of_a_repetition_continues_it() -> None:
    lasting = ExplorationConfig(max_repeat_steps=50, repeat_exponent=0.5, epsilon_final=0.5)
    loop = Loop(small_run(exploration=lasting))
    take(loop, 100)
    while loop.random_actions.state()["random_action_left"] < 5 or loop.tracker.between_episodes:
        take(loop, 1)
    again = restored(loop)
    assert again.random_actions.state() == loop.random_actions.state()
    assert [step.episode for step in take(again, 120)] == [step.episode for step in take(loop, 120)]
    assert_same_state(again, loop)


def test_evaluation_neither_learns_nor_stores() -> None:
    loop = Loop(small_run(schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=20)))
    while loop.tracker.phase == "train":
        take(loop, 1)
    weights, added, steps = loop.agent.state(), loop.replay.added, loop.tracker.training_steps
    while loop.tracker.phase == "evaluation":
        take(loop, 1)
    assert (loop.replay.added, loop.tracker.training_steps) == (added, steps)
    for name, value in loop.agent.state().items():
        np.testing.assert_array_equal(value, weights[name])


def test_an_iteration_ends_with_the_first_episode_past_its_steps() -> None:
    loop = Loop(small_run())
    rows = take(loop, 700)
    iterations = [step.iteration for step in rows if step.iteration]
    assert len(iterations) >= 2
    for row in iterations:
        episodes = [step.episode for step in rows if step.episode and step.episode.iteration == row.iteration]
        assert row.steps == sum(episode.steps for episode in episodes) >= 150
        assert row.steps - episodes[-1].steps < 150
        assert row.episodes == len(episodes)
        assert row.return_mean == pytest.approx(np.mean([episode.game_return for episode in episodes]))


def test_steps_beyond_an_iterations_length_do_not_count_towards_the_end() -> None:
    loop = Loop(small_run())
    while loop.tracker.iteration == 1:
        assert loop.tracker.counted_steps == min(loop.tracker.training_steps, 149)
        take(loop, 1)
    assert loop.tracker.training_steps > 150
    assert loop.tracker.counted_steps == 150


def test_an_episode_is_cut_at_the_limit_and_stored_as_an_end() -> None:
    loop = Loop(small_run(world=WorldConfig(episode_frames=80)))
    rows = take(loop, 40)
    assert [step.episode.ended for step in rows if step.episode] == ["truncated", "truncated"]
    assert np.flatnonzero(loop.replay.terminal).tolist() == [22, 45]  # 3 of padding, 20 steps, twice


def test_the_logged_return_is_unclipped_and_the_stored_reward_clipped() -> None:
    loop = Loop(small_run(game="space_invaders", world=WorldConfig(episode_frames=1_200)))
    row = next(step.episode for step in loop.steps() if step.episode)
    assert row.game_return > row.clipped_return > 0
    assert loop.replay.extrinsic.max() == 1.0
    assert row.first_reward_step is not None


@pytest.mark.parametrize(("game", "evaluation_steps"), [("montezuma_revenge", 0), ("qbert", 30)])
def test_a_loop_restored_at_any_step_continues_as_if_nothing_had_happened(game: str, evaluation_steps: int) -> None:
    schedule = ScheduleConfig(iteration_steps=100, evaluation_steps=evaluation_steps)
    config = small_run(game=game, bonus=BonusConfig(name="stub"), schedule=schedule)
    original = Loop(config, NumberedBonus())
    for steps in (1, 57, 120, 260):  # before learning, after it, past the first iteration, past the wrap-around
        take(original, steps)
        again = restored(original, NumberedBonus())
        assert_same_state(original, again)
        assert take(original, 60) == take(again, 60)
        assert_same_state(original, again)
    assert original.replay.added > config.agent.replay_capacity


def test_the_deviation_of_intrinsic_rewards_is_restored() -> None:
    loop = Loop(small_run(bonus=BonusConfig(scale=0.1, normalise="std")), NumberedBonus())
    take(loop, 150)
    assert loop.intrinsic_scale.deviation == pytest.approx(float(np.std(np.arange(1, 151))))
    again = restored(loop, NumberedBonus())
    for each in (loop, again):
        take(each, 40)
    assert loop.intrinsic_scale.factor(0) > 0.0
    assert_same_state(loop, again)


def test_two_loops_of_one_seed_are_alike_and_two_seeds_are_not() -> None:
    one, two, other = Loop(small_run()), Loop(small_run()), Loop(small_run(seed=1))
    for loop in (one, two, other):
        take(loop, 200)
    assert_same_state(one, two)
    assert not np.array_equal(one.replay.actions, other.replay.actions)


def test_a_step_draws_from_no_global_generator() -> None:
    loop = Loop(small_run(schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=20)))
    before = global_generators()
    take(loop, 250)
    assert global_generators() == before


def test_a_loss_that_is_not_finite_stops_the_run_and_says_so() -> None:
    loop = Loop(small_run())
    take(loop, 80)
    weights = loop.agent.weights()
    weights["head.bias"][:] = np.nan
    loop.agent.load_weights(weights)
    with pytest.raises(NotFinite, match=r"the loss must be finite, got nan at step 8\d; .*learning_rate"):
        take(loop, 8)


@pytest.mark.parametrize("wrong", [math.nan, -math.inf, 1e39])  # the replay stores float32
def test_a_bonus_that_is_not_finite_stops_the_run_before_anything_learns_from_it(wrong: float) -> None:
    class Diverges(NumberedBonus):
        def observe(self, transition: Transition) -> float:
            return wrong if super().observe(transition) == 7 else 1.0

    loop = Loop(small_run(bonus=BonusConfig(name="stub")), Diverges())
    with pytest.raises(
        NotFinite, match=rf"the bonus must be finite in float32, got {re.escape(str(wrong))} at step 7; .*check-bonus"
    ):
        take(loop, 8)
    assert loop.replay.added < 7 + 4  # three blank entries come before the first step


def test_cells_include_the_one_in_which_an_episode_starts() -> None:
    loop = Loop(base_run("deep_sea_2", "epsilon_greedy"))
    take(loop, 100)
    assert loop.tracker.coverage.cells_found == 6


def test_rows_of_a_run_with_a_bonus_have_its_sum_quantiles_and_clipping() -> None:
    config = small_run(bonus=BonusConfig(name="stub", scale=0.01), schedule=ScheduleConfig(iteration_steps=50))
    loop = Loop(config, NumberedBonus())
    step = next(step for step in loop.steps() if step.iteration)
    assert step.iteration is not None
    assert step.episode is not None
    steps = step.iteration.steps
    assert step.episode.intrinsic_max == steps
    assert step.iteration.intrinsic_mean == pytest.approx((steps + 1) / 2)
    assert step.iteration.intrinsic_q50 == pytest.approx((steps + 1) / 2)
    # β·i exceeds 1 from the 101st step on; the few steps with a reward of their own do not matter here.
    assert step.iteration.clipped_share == pytest.approx(max(0, steps - 100) / steps)


def test_a_run_without_a_bonus_leaves_its_columns_empty() -> None:
    step = next(step for step in Loop(small_run(schedule=ScheduleConfig(iteration_steps=50))).steps() if step.iteration)
    assert step.iteration is not None
    assert {
        name: value for name, value in dataclasses.asdict(step.iteration).items() if name.startswith("intrinsic")
    } == {
        "intrinsic_mean": None,
        "intrinsic_q05": None,
        "intrinsic_q50": None,
        "intrinsic_q95": None,
        "intrinsic_max": None,
    }


def test_the_default_configuration_is_the_papers() -> None:
    config = RunConfig()
    assert config.frames == 200_000_000
    assert config.schedule.iteration_steps * config.world.frame_skip == 1_000_000
    assert config.agent.min_history_steps * config.world.frame_skip == 80_000
    assert config.agent.target_update_steps * config.world.frame_skip == 32_000
    assert config.exploration.epsilon_decay_steps * config.world.frame_skip == 1_000_000
    assert config.world.episode_frames == 27_000 * config.world.frame_skip
