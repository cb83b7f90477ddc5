"""The training loop of one run in one environment, an agent step at a time.

A training step updates the networks if that is due, acts, steps the environment, computes the intrinsic reward and
stores the transition. Dopamine stores at the start of its next call; the sequence is the same. This module does no file
I/O; `Tracker` keeps step counts, episode statistics and the phase, training or evaluation. To checkpoint, call
`state()` and `immutable()` between two steps; after `load_state()` a run continues bit-identically.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from offpiste.agent.exploration import RandomActions
from offpiste.agent.mixing import IntrinsicScale, clip_extrinsic, targets
from offpiste.agent.rainbow import Rainbow
from offpiste.agent.replay import Replay
from offpiste.bonuses.base import MAX_INTRINSIC, Bonus, Context, LearningBonus, ScoringBonus, scores, warm_up_steps
from offpiste.bonuses.registry import build
from offpiste.config import RunConfig
from offpiste.errors import ConfigError, NotFinite
from offpiste.run.tracker import EXTRINSIC_EVALUATION, Step, Tracker
from offpiste.seeding import generator_state, restore_generator, stream
from offpiste.types import Batch, Transition, Weights
from offpiste.worlds.base import World
from offpiste.worlds.play import take_step
from offpiste.worlds.registry import open_world

STREAMS = ("actions", "noise", "replay", "bonus", "evaluation actions", "evaluation noise")


class Loop:
    """Trains one run; each item of `steps()` is one agent step, of `world.frame_skip` emulator frames."""

    def __init__(self, config: RunConfig, bonus: Bonus | None = None) -> None:
        """Build environment, agent, bonus and replay; `bonus`, if given, is used instead of the configured one."""
        self.config = config
        self._streams = {name: stream(config.seed, name) for name in STREAMS}
        self.world = open_world(config.game, config.world, stream(config.seed, "game"), config.seed)
        self.agent = new_agent(config, self.world)
        self.random_actions = RandomActions(config.exploration, self.world.action_count, self.agent.greedy_action)
        self.replay = new_replay(config, self._streams["replay"])
        built = build_bonus(config, self.world, self._streams["bonus"], self.replay) if bonus is None else bonus
        self.bonus: Bonus | None = built
        self.intrinsic_scale = IntrinsicScale(config.bonus)
        self._unpaid_steps = warm_up_steps(built)
        self._scoring = built if isinstance(built, ScoringBonus) and config.bonus.when == "sample" else None
        if config.bonus.when == "sample" and self._scoring is None:
            raise ConfigError(
                f"bonus.when must be entry for the bonus {config.bonus.name!r}, which has no method score; set "
                'bonus.when = "entry"'
            )
        self.tracker = Tracker(config, self.bonus)

    @cached_property
    def _evaluation_world(self) -> World:
        """The evaluation environment; it has random streams of its own, so evaluating does not change training."""
        config = self.config
        return open_world(config.game, config.world, stream(config.seed, "evaluation game"), config.seed)

    @property
    def learning(self) -> bool:
        """Whether the replay holds more than `min_history_steps` transitions: the warm-up is over."""
        return self.replay.added > self.config.agent.min_history_steps

    def steps(self) -> Iterator[Step]:
        """Yield one agent step after another, of training or evaluation as the tracker says; the caller stops."""
        while True:
            yield self._train_step() if self.tracker.phase == "train" else self._evaluation_step()

    def _train_step(self) -> Step:
        if self.tracker.between_episodes:
            self.world.reset()
            self.random_actions.end_episode()
            self.tracker.begin_episode(self.world)
        step = self.tracker.training_steps
        self.agent.beta = self.intrinsic_scale.beta(step)
        if self.learning and step % self.config.agent.update_period_steps == 0:
            self.update()
        if self.learning and step % self.config.agent.target_update_steps == 0:
            self.agent.update_target()
        epsilon = self.tracker.epsilon(step + 1)  # Dopamine increments its step counter before it acts
        actions, noise = self._streams["actions"], self._streams["noise"]
        action = self.random_actions.act(self.world.observation, epsilon, actions, noise)
        transition = take_step(self.world, action, episode_step=self.tracker.episode.steps)
        intrinsic = None if self.bonus is None else self._intrinsic(self.bonus, transition)
        extrinsic = clip_extrinsic(transition.reward)
        # As in Dopamine a time limit counts as terminal, unless returns are to bootstrap from the last frame.
        cut = self.config.world.bootstrap_at_limit and transition.truncated and not transition.terminated
        unscaled = 0.0 if intrinsic is None else intrinsic  # it is scaled and mixed when a batch is sampled
        self.replay.add(transition.frame, action, extrinsic, unscaled, transition.over and not cut)
        if cut:
            self.replay.cut(transition.next_state[-1])
        return self.tracker.count_training(transition, intrinsic, self.intrinsic_scale.factor(step))

    def update(self) -> None:
        """Sample a batch; update the agent on it, then the bonus if it is a `LearningBonus`."""
        batch = self.replay.sample(self.config.agent.batch_size)
        if self._scoring is not None:
            batch = replace(batch, intrinsic=scores(self._scoring, batch))
        factor = self.intrinsic_scale.factor(self.tracker.training_steps)
        wanted = targets(batch, self.config.bonus, self.config.agent.discount, factor)
        learned = self.agent.learn(batch, wanted, self._streams["noise"])
        if not math.isfinite(learned.loss):
            advice = "lower agent.learning_rate" + (" or bonus.scale" if self.bonus is not None else "")
            raise NotFinite(f"the loss must be finite, got {learned.loss} {self._when}; {advice}")
        self.replay.update_priorities(batch.indices, learned.priorities)
        if isinstance(self.bonus, LearningBonus):
            self.bonus.learn(batch)
        self.tracker.count_update(learned)

    def _intrinsic(self, bonus: Bonus, transition: Transition) -> float:
        if self.config.bonus.pays_for == "next_state":
            transition = replace(transition, state=transition.next_state)
        intrinsic = bonus.observe(transition)
        if not abs(intrinsic) <= MAX_INTRINSIC:  # `not <=` also catches NaN
            advice = "run offpiste check-bonus on it"
            raise NotFinite(f"the bonus must be finite in float32, got {intrinsic} {self._when}; {advice}")
        if self.tracker.training_steps < self._unpaid_steps:
            return 0.0
        self.intrinsic_scale.observe(intrinsic)
        return intrinsic

    @property
    def _when(self) -> str:
        return f"at step {self.tracker.training_steps + 1:,}"

    def _evaluation_step(self) -> Step:
        world, exploration = self._evaluation_world, self.config.exploration
        if self.tracker.between_episodes:
            world.reset()  # coverage, which `begin_episode` counts, is of training only
        actions, noise = self._streams["evaluation actions"], self._streams["evaluation noise"]
        used_noise = noise if exploration.evaluation_noise else None
        extrinsic_only = self.tracker.phase == EXTRINSIC_EVALUATION
        action = self.agent.act(
            world.observation, exploration.epsilon_evaluation, actions, used_noise, extrinsic_only=extrinsic_only
        )
        return self.tracker.count_evaluation(take_step(world, action, episode_step=self.tracker.episode.steps))

    def state(self) -> dict[str, dict[str, Any]]:
        """Return copies of the mutable state by part: loop, coverage, cells, scalars, agent, replay and bonus."""
        state = self.tracker.state()
        state["loop"] |= {
            "generators": {name.replace(" ", "_"): generator_state(draws) for name, draws in self._streams.items()},
            "world": np.frombuffer(self.world.snapshot(), np.uint8),
            **self.random_actions.state(),
        }
        if scale := self.intrinsic_scale.state():
            state["loop"]["intrinsic_scale"] = scale
        if self.config.schedule.evaluation_steps:
            state["loop"]["evaluation_world"] = np.frombuffer(self._evaluation_world.snapshot(), np.uint8)
        state |= {"agent": self.agent.state(), "replay": self.replay.state()}
        return state if self.bonus is None else state | {"bonus": self.bonus.state()}

    def immutable(self) -> dict[str, Callable[[], bytes]]:
        """Return the write-once parts by name, each as a function that serialises it where it is not saved yet."""
        return self.replay.immutable()

    def load_state(self, state: Mapping[str, dict[str, Any]], immutable: Mapping[str, bytes]) -> None:
        """Restore from `state()` and the bytes of `immutable()`."""
        loop = state["loop"]
        self.tracker.load_state(state)
        for name, draws in self._streams.items():
            restore_generator(draws, loop["generators"][name.replace(" ", "_")])
        self.random_actions.load_state(loop)
        self.world.restore(loop["world"].tobytes())
        if self.config.schedule.evaluation_steps:
            self._evaluation_world.restore(loop["evaluation_world"].tobytes())
        self.intrinsic_scale.load_state(loop.get("intrinsic_scale", {}))
        self.agent.load_state(state["agent"])
        self.replay.load_state(state["replay"], immutable)
        if self.bonus is not None:
            self.bonus.load_state(state["bonus"])


def new_agent(config: RunConfig, world: World) -> Rainbow:
    """Return the untrained agent of a run."""
    noise_scale = config.exploration.noise_scale if config.exploration.noisy else None
    weights, device = stream(config.seed, "weights"), config.machine.device
    return Rainbow(config.agent, world.state_shape, world.action_count, weights, device, noise_scale, config.bonus)


def new_replay(config: RunConfig, generator: np.random.Generator) -> Replay:
    """Return the empty replay of a run."""
    return Replay(
        config.agent,
        config.world.state_shape,
        generator,
        bootstrap_at_limit=config.world.bootstrap_at_limit,
        beyond_ends=not config.bonus.ends_with_episode,
    )


def build_bonus(
    config: RunConfig, world: World, generator: np.random.Generator, replay: Replay | None = None
) -> Bonus | None:
    """Return the untrained bonus of a run, which may sample from the replay, or None where it has none."""
    stack, height, width = world.state_shape

    def sample(batch_size: int, weights: Weights | None = None) -> Batch | None:
        if replay is None:
            return None
        if weights is None:
            return replay.sample_uniformly(batch_size, generator)
        return replay.sample_weighted(batch_size, generator, weights)

    context = Context(
        config.game,
        world.action_count,
        stack,
        (height, width),
        generator,
        config.machine.device,
        discount=config.agent.discount,
        return_steps=config.agent.return_steps,
        min_history_steps=config.agent.min_history_steps,
        run_steps=config.frames // config.world.frame_skip,
        sample=sample,
    )
    return build(config.bonus, context)
