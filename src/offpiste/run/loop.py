"""Game → bonus → replay → learn, one agent step at a time, in the order of Dopamine's runner.

The loop knows nothing of files. Between two steps its state is complete: `state` and `load_state` carry everything that
the future depends on.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.agent.mixing import clip_extrinsic, is_clipped
from offpiste.agent.rainbow import Rainbow, epsilon
from offpiste.agent.replay import Replay
from offpiste.batch import Batch
from offpiste.bonuses.base import Bonus, Context, Transition
from offpiste.bonuses.registry import build
from offpiste.config import RunConfig
from offpiste.errors import NotFinite
from offpiste.run.coverage import NOTHING_FOUND, Coverage
from offpiste.run.tally import EpisodeTally, IterationTally
from offpiste.seeding import generator_state, restore_generator, stream
from offpiste.store.records import EpisodeRow, IterationRow
from offpiste.worlds.base import FRAME_SHAPE
from offpiste.worlds.registry import location, open_world


@dataclass(frozen=True)
class Step:
    """What one agent step brought, beside itself."""

    episode: EpisodeRow | None = None
    iteration: IterationRow | None = None


class Loop:
    """One run from its configuration; iterate over `steps()` for as long as wanted."""

    def __init__(self, config: RunConfig, bonus: Bonus | None = None) -> None:
        """Make the run's parts; a bonus given here stands in for the one that the configuration names."""
        self.config = config
        self.training_steps = 0
        self.all_steps = 0
        """Agent steps of training and evaluation."""
        self.iteration = 1
        self.episodes = {"train": 0, "evaluation": 0}
        self.phase = "train"
        self._playing = False
        self._actions = stream(config.seed, "actions")
        self._replay_draws = stream(config.seed, "replay")
        self._evaluation_actions = stream(config.seed, "evaluation actions")
        self._noise = stream(config.seed, "noise")
        self._evaluation_noise = stream(config.seed, "evaluation noise")
        self.game = open_world(config.game, config.world, stream(config.seed, "game"))
        # A game and streams of its own: whether a run is evaluated does not change how it trains.
        self._evaluation_game = (
            open_world(config.game, config.world, stream(config.seed, "evaluation game"))
            if config.schedule.evaluation_steps
            else None
        )
        self.agent = new_agent(config, self.game.action_count)
        self._bonus_draws = stream(config.seed, "bonus")
        context = Context(
            config.game,
            self.game.action_count,
            config.world.stack_frames,
            FRAME_SHAPE,
            self._bonus_draws,
            config.machine.device,
        )
        self.bonus = bonus if bonus is not None else build(config.bonus, context)
        self._bonus_learn: Callable[[Batch], None] | None = getattr(self.bonus, "learn", None)
        self.replay = Replay(config.agent, config.world, config.bonus, FRAME_SHAPE, self._replay_draws)
        self.coverage = Coverage(location(config.game))
        self.episode = EpisodeTally()
        self._tallies = {"train": IterationTally(), "evaluation": IterationTally()}

    @property
    def counted_steps(self) -> int:
        """Agent steps of training, without those by which iterations overshoot to finish an episode.

        Two hundred iterations count as 50 million steps, whenever their last episodes ended.
        """
        size = self.config.schedule.iteration_steps
        return (self.iteration - 1) * size + min(self._tallies["train"].steps, size - 1)

    @property
    def epsilon(self) -> float:
        """The chance of a random action now."""
        return epsilon(self.config.exploration, self.config.agent.min_history_steps, self.training_steps)

    @property
    def learning(self) -> bool:
        """Whether there is enough history to learn from."""
        return self.replay.added > self.config.agent.min_history_steps

    def steps(self) -> Iterator[Step]:
        """Take one agent step after the other, without end."""
        while True:
            yield self._train_step() if self.phase == "train" else self._evaluation_step()

    def partial_iteration(self) -> IterationRow | None:
        """Return the row of an iteration that is not over, or None between iterations."""
        return self._iteration_row(complete=False) if self._tallies[self.phase].steps else None

    def _train_step(self) -> Step:
        if not self._playing:
            self.game.reset()
            self._playing = True
            self.coverage.visit(self.game.ram, self.game.observation[-1])
        self._learn_if_due()
        state = self.game.observation
        action = self.agent.act(state, self.epsilon, self._actions, self._noise)
        next_state, reward, terminated, truncated, _ = self.game.step(action)
        ram = self.game.ram
        extrinsic = clip_extrinsic(reward)
        bonus = 0.0
        if self.bonus is not None:
            bonus = self.bonus.observe(
                Transition(state, action, reward, next_state, terminated, truncated, self.episode.steps, ram)
            )
            if not math.isfinite(bonus):
                raise NotFinite(
                    f"the bonus was {bonus} at step {self.training_steps:,}; training cannot go on. "
                    "offpiste check-bonus tells more about it"
                )
            clipped = is_clipped(extrinsic, bonus, self.config.bonus)
            self.episode.count_bonus(bonus, clipped=clipped)
            self._tallies["train"].count_bonus(bonus, clipped=clipped)
        self.replay.add(state[-1], action, extrinsic, bonus, terminated or truncated)
        self.coverage.visit(ram, next_state[-1])
        return self._count_step(reward, terminated, truncated)

    def _evaluation_step(self) -> Step:
        game = self._evaluation_game
        assert game is not None  # noqa: S101 (the phase exists only with it)
        if not self._playing:
            game.reset()
            self._playing = True
        exploration = self.config.exploration
        noise = self._evaluation_noise if exploration.evaluation_noise else None
        action = self.agent.act(game.observation, exploration.epsilon_evaluation, self._evaluation_actions, noise)
        _, reward, terminated, truncated, _ = game.step(action)
        return self._count_step(reward, terminated, truncated)

    def _learn_if_due(self) -> None:
        agent = self.config.agent
        if self.learning:
            if self.training_steps % agent.update_period_steps == 0:
                batch = self.replay.sample(agent.batch_size)
                learned = self.agent.learn(batch, self._noise)
                if not math.isfinite(learned.loss):
                    raise NotFinite(
                        f"the loss became {learned.loss} at step {self.training_steps:,}; training cannot go on. "
                        "Lower agent.learning_rate or the scale of the bonus, or look for values that are not finite"
                    )
                self.replay.update_priorities(batch.indices, learned.priorities)
                if self._bonus_learn is not None:
                    self._bonus_learn(batch)
                self._tallies["train"].count_update(learned)
            if self.training_steps % agent.target_update_steps == 0:
                self.agent.update_target()
        self.training_steps += 1

    def _count_step(self, reward: float, terminated: bool, truncated: bool) -> Step:
        self.all_steps += 1
        episode, tally = self.episode, self._tallies[self.phase]
        episode.count_step(reward)
        tally.steps += 1
        if not (terminated or truncated):
            return Step()
        tally.returns.append(episode.game_return)
        row = self._episode_row("terminated" if terminated else "truncated")
        self.episode = EpisodeTally()
        self._playing = False
        schedule = self.config.schedule
        wanted = schedule.iteration_steps if self.phase == "train" else schedule.evaluation_steps
        if tally.steps < wanted:
            return Step(row)
        iteration_row = self._iteration_row(complete=True)
        if self.phase == "train" and schedule.evaluation_steps:
            self.phase = "evaluation"
        else:
            self.phase = "train"
            self.iteration += 1
            self._tallies = {"train": IterationTally(), "evaluation": IterationTally()}
        return Step(row, iteration_row)

    def _episode_row(self, ended: str) -> EpisodeRow:
        self.episodes[self.phase] += 1
        found = self.coverage.end_episode() if self.phase == "train" else NOTHING_FOUND
        return EpisodeRow(
            iteration=self.iteration,
            phase=self.phase,
            episode=self.episodes[self.phase],
            end_step=self.training_steps,
            ended=ended,
            **(self.episode.columns() | found),
        )

    def _iteration_row(self, *, complete: bool) -> IterationRow:
        return IterationRow(
            iteration=self.iteration,
            phase=self.phase,
            complete=complete,
            end_step=self.training_steps,
            end_frame=self.training_steps * self.config.world.frame_skip,
            epsilon=self.epsilon if self.phase == "train" else self.config.exploration.epsilon_evaluation,
            **(self._tallies[self.phase].columns() | self.coverage.totals()),
        )

    def state(self) -> dict[str, dict[str, Any]]:
        """Return, by object, all that changes from step to step; `lasting` has the rest."""
        loop: dict[str, Any] = {
            "training_steps": self.training_steps,
            "all_steps": self.all_steps,
            "iteration": self.iteration,
            "episodes": self.episodes,
            "phase": self.phase,
            "playing": self._playing,
            "episode": self.episode.state(),
            "tallies": {phase: tally.state() for phase, tally in self._tallies.items()},
            "bonuses": np.asarray(self._tallies["train"].bonuses, np.float64),
            "generators": {name: generator_state(generator) for name, generator in self._generators().items()},
            "game": np.frombuffer(self.game.snapshot(), np.uint8),
        }
        if self._evaluation_game is not None:
            loop["evaluation_game"] = np.frombuffer(self._evaluation_game.snapshot(), np.uint8)
        state = {
            "loop": loop,
            "coverage": self.coverage.state(),
            "agent": self.agent.state(),
            "replay": self.replay.state(),
        }
        return state if self.bonus is None else state | {"bonus": self.bonus.state()}

    def lasting(self) -> dict[str, Callable[[], bytes]]:
        """Return the parts of the state that never change once they exist, each as a function that packs it."""
        return self.replay.lasting()

    def load_state(self, state: Mapping[str, dict[str, Any]], lasting: Mapping[str, bytes]) -> None:
        """Take up where `state` and `lasting` were asked for."""
        loop = state["loop"]
        self.training_steps = loop["training_steps"]
        self.all_steps = loop["all_steps"]
        self.iteration = loop["iteration"]
        self.episodes = loop["episodes"]
        self.phase = loop["phase"]
        self._playing = loop["playing"]
        self.episode = EpisodeTally(**loop["episode"])
        self._tallies = {phase: IterationTally(**tally) for phase, tally in loop["tallies"].items()}
        self._tallies["train"].bonuses = loop["bonuses"].tolist()
        for name, generator in self._generators().items():
            restore_generator(generator, loop["generators"][name])
        self.game.restore(loop["game"].tobytes())
        if self._evaluation_game is not None:
            self._evaluation_game.restore(loop["evaluation_game"].tobytes())
        self.coverage.load_state(state["coverage"])
        self.agent.load_state(state["agent"])
        self.replay.load_state(state["replay"], lasting)
        if self.bonus is not None:
            self.bonus.load_state(state["bonus"])

    def _generators(self) -> dict[str, np.random.Generator]:
        return {
            "actions": self._actions,
            "replay": self._replay_draws,
            "bonus": self._bonus_draws,
            "evaluation_actions": self._evaluation_actions,
            "noise": self._noise,
            "evaluation_noise": self._evaluation_noise,
        }


def new_agent(config: RunConfig, action_count: int) -> Rainbow:
    """Return the agent of a run before its first step."""
    shape = (config.world.stack_frames, *FRAME_SHAPE)
    noise_scale = config.exploration.noise_scale if config.exploration.noisy else None
    weights = stream(config.seed, "weights")
    return Rainbow(config.agent, shape, action_count, weights, config.machine.device, noise_scale)
