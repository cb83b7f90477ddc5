"""The loop hands to agent, replay and bonus what the world really did, in Dopamine's order, and nothing in evaluation.

Digests of runs cannot show it: no packaged bonus reads the reward, the end or the step of an episode, or has `learn`.
"""

import copy
import dataclasses
import inspect
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pytest

from offpiste import Context, Transition, arrays
from offpiste.agent.exploration import RandomActions
from offpiste.agent.rainbow import Rainbow
from offpiste.agent.replay import Replay
from offpiste.config import AgentConfig, BonusConfig, ExplorationConfig, RunConfig, ScheduleConfig, WorldConfig
from offpiste.methods import base_run
from offpiste.run.loop import Loop
from offpiste.run.tracker import Step
from offpiste.seeding import generator_state, stream
from tests.sameness import assert_same
from tests.worlds.scripted import REWARDS, ScriptedWorld

SEED = 3


@dataclass(frozen=True)
class Call:
    """One call of a method: its arguments as they were before it, and what it returned."""

    what: str
    arguments: tuple[Any, ...] = ()
    result: Any = None


@dataclass
class Journal:
    """Every call of the loop's parts, in order, and the worlds that it opened, by the stream that each draws from."""

    calls: list[Call] = field(default_factory=list)
    worlds: dict[str, ScriptedWorld] = field(default_factory=dict)

    def of(self, what: str) -> list[Call]:
        return [call for call in self.calls if call.what == what]

    def acts(self, actions: str) -> list[Call]:
        """Return the calls of `act`, each (state, epsilon, actions, noise), that drew from this stream of actions."""
        return [call for call in self.of("act") if stream_of(call.arguments[2]) == actions]

    def by_step(self, loop: Loop, count: int) -> list[list[Call]]:
        """Take steps and return the calls of each."""
        taken = []
        for _ in islice(loop.steps(), count):
            taken.append([*self.calls])
            self.calls.clear()
        return taken


class RecordingBonus:
    """Returns 0.25, 0.5, 0.75, ... and keeps what it was shown."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.seen: list[Transition] = []

    def observe(self, transition: Transition) -> float:
        self.seen.append(transition)
        self._journal.calls.append(Call("observe"))
        return 0.25 * len(self.seen)

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


class LearningBonus(RecordingBonus):
    """Also records the batches that it was given to learn from."""

    def learn(self, batch: Any) -> None:
        self._journal.calls.append(Call("bonus learn", (copy.deepcopy(batch),)))


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    """The journal of the loops that the test makes; their worlds are scripted."""
    journal = Journal()

    def open_world(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> ScriptedWorld:
        assert seed == SEED
        name = stream_of(generator)
        world = ScriptedWorld(config, first_frame=512 * len(journal.worlds))
        journal.worlds[name] = world
        record(monkeypatch, journal, world, "step", f"step {name}")
        return world

    monkeypatch.setattr("offpiste.run.loop.open_world", open_world)
    for part, methods in (
        (Rainbow, ("act", "learn", "update_target")),
        (RandomActions, ("act",)),
        (Replay, ("sample", "update_priorities", "add")),
    ):
        for method in methods:
            record(monkeypatch, journal, part, method, method)
    return journal


def record(monkeypatch: pytest.MonkeyPatch, journal: Journal, part: Any, method: str, what: str) -> None:
    """Record the calls of a method in the journal, by the name `what`; `part` is an object or a class."""
    original = getattr(part, method)
    signature = inspect.signature(original)
    own = isinstance(part, type)  # then the first argument is the object itself

    def recorded(*positional: Any, **named: Any) -> Any:
        bound = signature.bind(*positional, **named)  # in the order of the definition, however they were given
        bound.apply_defaults()
        arguments = copy.deepcopy(tuple(bound.arguments.values())[own:])
        result = original(*positional, **named)
        journal.calls.append(Call(what, arguments, result))
        return result

    monkeypatch.setattr(part, method, recorded)


def increment(generator: np.random.Generator) -> int:
    """Return what tells a stream from all others, however much was drawn from it."""
    found: int = generator.bit_generator.state["state"]["inc"]
    return found


STREAMS = {
    increment(stream(SEED, name)): name
    for name in ("game", "actions", "noise", "evaluation game", "evaluation actions", "evaluation noise", "bonus")
}


def stream_of(generator: np.random.Generator) -> str:
    """Return the name of the stream that a generator is."""
    return STREAMS[increment(generator)]


def wired(**settings: Any) -> RunConfig:
    """Return a run in a scripted world that soon learns: 32 steps of training in its first iteration, 37 in the next.

    It can learn after 16 steps: with the padding of two episodes, those are 22 entries. The game's name only says which
    bytes of the memory locate the player.
    """
    config = RunConfig(
        game="deep_sea_10",
        seed=SEED,
        agent=AgentConfig(
            replay_capacity=80,
            min_history_steps=21,
            update_period_steps=4,
            target_update_steps=6,
            batch_size=4,
            convolution_channels=(4, 4, 4),
            hidden_units=8,
        ),
        schedule=ScheduleConfig(iteration_steps=30, evaluation_steps=8),
        bonus=BonusConfig(name="stub", scale=0.5),
    )
    return dataclasses.replace(config, **settings)


def without_evaluation(**settings: Any) -> RunConfig:
    return wired(schedule=ScheduleConfig(iteration_steps=30), **settings)


def take(loop: Loop, count: int) -> list[Step]:
    return list(islice(loop.steps(), count))


def test_a_bonus_is_shown_every_training_step_once_and_as_the_world_played_it(journal: Journal) -> None:
    bonus = RecordingBonus(journal)
    take(Loop(wired(), bonus), 120)
    played = journal.worlds["game"].played
    assert len(bonus.seen) == len(played) > 80
    for shown, really in zip(bonus.seen, played, strict=True):
        assert_same(vars(shown), vars(really))


def test_the_agent_acts_on_the_state_that_the_world_is_in_and_the_world_plays_its_action(journal: Journal) -> None:
    take(Loop(wired(), RecordingBonus(journal)), 120)
    for game, actions in (("game", "actions"), ("evaluation game", "evaluation actions")):
        for act, played in zip(journal.acts(actions), journal.worlds[game].played, strict=True):
            np.testing.assert_array_equal(act.arguments[0], played.state)
            assert act.result == played.action


@pytest.mark.parametrize("bootstrap_at_limit", [False, True])
def test_the_replay_holds_every_step_with_its_clipped_reward_and_its_own_intrinsic_reward(
    journal: Journal, bootstrap_at_limit: bool
) -> None:
    loop = Loop(wired(world=WorldConfig(bootstrap_at_limit=bootstrap_at_limit)), RecordingBonus(journal))
    take(loop, 120)
    expected: list[dict[str, Any]] = []
    padding = {"frame": np.zeros((84, 84)), "actions": 0, "extrinsic": 0.0, "intrinsic": 0.0, "terminal": False}
    padding |= {"last_frame": False} if bootstrap_at_limit else {}
    for index, played in enumerate(journal.worlds["game"].played):
        expected += [padding] * 3 if played.episode_step == 0 else []
        expected.append(
            {
                "frame": played.state[-1],
                "actions": played.action,
                "extrinsic": REWARDS[index % len(REWARDS)][1],
                "intrinsic": 0.25 * (index + 1),
                "terminal": played.terminated or (played.truncated and not bootstrap_at_limit),
                "last_frame": False,
            }
        )
        if played.truncated and bootstrap_at_limit:  # one entry more, with the frame that the limit left
            expected.append(padding | {"frame": played.next_state[-1], "terminal": True, "last_frame": True})
    stored = loop.replay.decoded()
    assert len(stored["numbers"]) == 80 < len(expected)
    stored["frame"] = loop.replay.frames_of(stored["numbers"])
    for column in padding:
        np.testing.assert_array_equal(stored[column], [entry[column] for entry in expected[-80:]], err_msg=column)


@pytest.mark.parametrize("bonus", [RecordingBonus, LearningBonus, None])
def test_a_step_learns_acts_plays_asks_the_bonus_and_stores(
    journal: Journal, bonus: type[RecordingBonus] | None
) -> None:
    config = without_evaluation(bonus=BonusConfig(name="stub" if bonus else "none"))
    steps = journal.by_step(Loop(config, bonus(journal) if bonus else None), 40)
    bonus_learns = ["bonus learn"] if bonus is LearningBonus else []
    update = ["sample", "learn", "update_priorities", *bonus_learns]
    played = ["act", "step game", *(["observe"] if bonus else []), "add"]
    for number, calls in enumerate(steps):
        wanted = update if number in (16, 20, 24, 28, 32, 36) else []
        wanted = [*wanted, "update_target"] if number in (18, 24, 30, 36) else wanted
        assert [call.what for call in calls] == [*wanted, *played], number


@pytest.mark.parametrize(
    ("min_history_steps", "first"),
    [(21, 16), (22, 20)],  # 16 steps and two times 3 of padding are 22 entries: more than 21, not more than 22
)
def test_learning_starts_with_the_first_update_that_has_more_than_the_history(
    journal: Journal, min_history_steps: int, first: int
) -> None:
    config = without_evaluation()
    agent = dataclasses.replace(config.agent, min_history_steps=min_history_steps)
    steps = journal.by_step(Loop(dataclasses.replace(config, agent=agent), LearningBonus(journal)), 40)
    updates = [number for number, calls in enumerate(steps) if "learn" in [call.what for call in calls]]
    assert updates == list(range(first, 40, 4))


def test_a_bonus_learns_from_the_very_batch_that_the_agent_learned_from(journal: Journal) -> None:
    take(Loop(wired(), LearningBonus(journal)), 120)
    samples, learned, seen = journal.of("sample"), journal.of("learn"), journal.of("bonus learn")
    assert len(samples) > 15
    for sample, agent, bonus in zip(samples, learned, seen, strict=True):
        assert sample.arguments == (4,)
        np.testing.assert_array_equal(agent.arguments[0].indices, sample.result.indices)
        assert_same(vars(bonus.arguments[0]), vars(agent.arguments[0]))


def test_the_agent_learns_from_the_mixed_rewards_of_its_batch(journal: Journal) -> None:
    take(Loop(wired(), RecordingBonus(journal)), 120)
    for learned in journal.of("learn"):
        batch, ((returns, bootstrap),), _ = learned.arguments
        mixed = np.clip(batch.extrinsic + np.float32(0.5) * batch.intrinsic, -1.0, 1.0)
        inside = np.arange(3) < batch.steps[:, None]
        np.testing.assert_allclose(returns, (mixed * inside * 0.99 ** np.arange(3)).sum(axis=1), rtol=1e-5)
        np.testing.assert_allclose(bootstrap, np.where(batch.terminal, 0.0, 0.99**batch.steps), rtol=1e-6)


def test_the_priorities_that_an_update_found_are_set_on_its_batch(journal: Journal) -> None:
    take(Loop(wired(), RecordingBonus(journal)), 120)
    for learned, updated in zip(journal.of("learn"), journal.of("update_priorities"), strict=True):
        indices, priorities = updated.arguments
        np.testing.assert_array_equal(indices, learned.arguments[0].indices)
        np.testing.assert_array_equal(priorities, learned.result.priorities)


def test_the_agent_acts_by_the_epsilon_of_the_step_it_takes(journal: Journal) -> None:
    exploration = ExplorationConfig(epsilon_decay_steps=10, epsilon_final=0.0, epsilon_evaluation=0.125)
    take(Loop(wired(exploration=exploration), RecordingBonus(journal)), 80)
    trained = [call.arguments[1] for call in journal.acts("actions")]
    evaluated = [call.arguments[1] for call in journal.acts("evaluation actions")]
    # 21 steps of warm-up, 10 of decay, and the final value from then on: 61 steps, for 19 are the first evaluation's.
    assert trained == pytest.approx([1.0] * 21 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] + [0.0] * 31)
    assert evaluated == [0.125] * 19


def noisy(*, evaluation_noise: bool) -> ExplorationConfig:
    return ExplorationConfig(epsilon_start=0.0, epsilon_final=0.0, noisy=True, evaluation_noise=evaluation_noise)


@pytest.mark.parametrize("evaluation_noise", [True, False])
def test_noisy_nets_act_and_learn_with_fresh_noise_of_the_training_stream(
    journal: Journal, evaluation_noise: bool
) -> None:
    exploration = noisy(evaluation_noise=evaluation_noise)
    take(Loop(wired(exploration=exploration), RecordingBonus(journal)), 80)
    given = [call.arguments[3] for call in journal.acts("actions")]
    given += [call.arguments[2] for call in journal.of("learn")]
    assert [stream_of(noise) for noise in given] == ["noise"] * len(given)
    assert len({noise.bit_generator.state["state"]["state"] for noise in given}) == len(given) > 61


@pytest.mark.parametrize(("evaluation_noise", "expected"), [(True, "evaluation noise"), (False, None)])
def test_noisy_nets_are_evaluated_with_noise_of_their_own_or_none(
    journal: Journal, evaluation_noise: bool, expected: str | None
) -> None:
    exploration = dataclasses.replace(noisy(evaluation_noise=evaluation_noise), epsilon_evaluation=0.0)
    take(Loop(wired(exploration=exploration), RecordingBonus(journal)), 80)
    given = [call.arguments[3] for call in journal.acts("evaluation actions")]
    assert {noise and stream_of(noise) for noise in given} == {expected}


def test_evaluation_plays_a_game_of_its_own_and_does_nothing_else(journal: Journal) -> None:
    steps = journal.by_step(Loop(wired(), LearningBonus(journal)), 32 + 19 + 37)
    what = [[call.what for call in calls] for calls in steps]
    # The first evaluation is two whole episodes, of 7 and of 12 steps.
    assert what[32 : 32 + 19] == [["act", "step evaluation game"]] * 19
    for calls in what[:32] + what[32 + 19 :]:
        assert calls[-4:] == ["act", "step game", "observe", "add"]
    assert len(journal.worlds["evaluation game"].played) == 19
    assert journal.worlds["evaluation game"].resets == 2


def test_without_evaluation_there_is_one_game(journal: Journal) -> None:
    take(Loop(without_evaluation(), RecordingBonus(journal)), 80)
    assert list(journal.worlds) == ["game"]


def test_coverage_counts_where_training_starts_and_goes_and_nothing_of_evaluation(journal: Journal) -> None:
    rows = take(Loop(wired(), RecordingBonus(journal)), 120)
    episodes = [step.episode for step in rows if step.episode]
    assert [row.cells_visited for row in episodes if row.phase == "train"][:6] == [8, 13, 2, 6, 8, 13]
    assert {row.cells_visited for row in episodes if row.phase == "evaluation"} == {None}
    # 32 steps in 5 episodes, then 37 in 5 more.
    iterations = [step.iteration for step in rows if step.iteration]
    assert [(row.phase, row.cells_total) for row in iterations][:4] == [
        ("train", 37),
        ("evaluation", 37),
        ("train", 79),
        ("evaluation", 79),
    ]


@dataclass(frozen=True)
class NoOptions:
    """A bonus without options."""


class KeepsContext(RecordingBonus):
    """Is made by its name, as a user's bonus is."""

    Options = NoOptions

    def __init__(self, options: NoOptions, context: Context) -> None:
        super().__init__(Journal())
        self.context = context


@pytest.mark.parametrize("pays_for", ["state", "next_state"])
def test_a_bonus_may_be_shown_the_next_frame_in_the_place_of_the_present_one(pays_for: Any, journal: Journal) -> None:
    bonus = RecordingBonus(journal)
    loop = Loop(wired(bonus=BonusConfig(pays_for=pays_for)), bonus)
    for _ in islice(loop.steps(), 5):
        pass
    same = [np.array_equal(step.frame, step.next_state[-1]) for step in bonus.seen]
    assert same == [pays_for == "next_state"] * 5


class WarmsUp(RecordingBonus):
    warm_up_steps = 3


def test_the_steps_of_a_warm_up_are_observed_and_not_paid(journal: Journal) -> None:
    bonus = WarmsUp(journal)
    loop = Loop(wired(), bonus)
    for _ in islice(loop.steps(), 5):
        pass
    assert len(bonus.seen) == 5
    paid = loop.replay.intrinsic[: loop.replay.added]
    assert paid[paid > 0.0].tolist() == [1.0, 1.25]


def test_a_bonus_samples_the_replay_of_its_run_from_its_own_stream(journal: Journal) -> None:
    config = wired(bonus=BonusConfig(name=f"{__name__}:KeepsContext"))
    loop, bare = Loop(config), Loop(config)
    bonus: Any = loop.bonus
    assert bonus.context.sample(4) is None
    for each in (loop, bare):
        for _ in islice(each.steps(), 20):
            pass
    bare_bonus: Any = bare.bonus
    expected = bare.replay.sample_uniformly(4, bare_bonus.context.generator)
    found = bonus.context.sample(4)
    assert found.numbers.tolist() == expected.numbers.tolist()  # type: ignore[union-attr]
    assert generator_state(loop.replay._generator) == generator_state(bare.replay._generator)

    def late(numbers: Any) -> Any:
        return (numbers >= loop.replay.added - 8).astype(float)

    assert bonus.context.sample(50, late).numbers.min() >= loop.replay.added - 8


def test_a_bonus_knows_the_lengths_and_the_discount_of_its_run(journal: Journal) -> None:
    config = wired(bonus=BonusConfig(name=f"{__name__}:KeepsContext"))
    bonus: Any = Loop(config).bonus
    context, agent = bonus.context, config.agent
    assert (context.discount, context.return_steps) == (agent.discount, agent.return_steps)
    assert (context.min_history_steps, context.run_steps) == (agent.min_history_steps, config.frames // 4)


def test_a_bonus_is_made_for_the_world_of_the_run_with_a_stream_of_its_own(journal: Journal) -> None:
    config = wired(bonus=BonusConfig(name=f"{__name__}:KeepsContext"), world=WorldConfig(stack_frames=2))
    bonus: Any = Loop(config).bonus
    context = bonus.context
    assert stream_of(context.generator) == "bonus"
    assert (context.game, context.action_count, context.stack_frames) == ("deep_sea_10", 18, 2)
    assert (context.frame_shape, context.device) == ((84, 84), "cpu")


def test_a_bonus_that_draws_and_learns_resumes_with_the_draws_it_would_have_had() -> None:
    config = dataclasses.replace(
        base_run("deep_sea_4", bonus="tests.bonuses.broken:GoodLearner"),
        agent=wired().agent,
        schedule=ScheduleConfig(iteration_steps=30, evaluation_steps=8),
    )
    original = Loop(config)
    take(original, 60)
    again = Loop(config)
    state = {part: arrays.unpack(arrays.pack(values)) for part, values in original.state().items()}
    again.load_state(state, {name: pack() for name, pack in original.immutable().items()})
    assert take(original, 40) == take(again, 40)
    assert original.bonus is not None
    assert again.bonus is not None
    assert_same(original.bonus.state(), again.bonus.state())
