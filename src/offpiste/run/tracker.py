"""Everything that a run counts: steps, episodes, iterations, phases, coverage, and the rows that records are made of.

The loop tells it each step and each update; nothing here changes what the agent does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.agent.mixing import clip_extrinsic, is_clipped
from offpiste.agent.rainbow import Update, epsilon
from offpiste.config import RunConfig
from offpiste.run.coverage import NOTHING_FOUND, Coverage
from offpiste.run.statistics import EpisodeStatistics, IterationStatistics
from offpiste.store.records import EpisodeRow, IterationRow
from offpiste.types import Transition
from offpiste.worlds.base import World
from offpiste.worlds.registry import location


@dataclass(frozen=True)
class Step:
    """The rows that one agent step completed."""

    episode: EpisodeRow | None = None
    iteration: IterationRow | None = None


class Tracker:
    """The counters of one run."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self.training_steps = 0
        self.all_steps = 0
        """Agent steps of training and evaluation."""
        self.iteration = 1
        self.phase = "train"
        """train or evaluation."""
        self.episodes = {"train": 0, "evaluation": 0}
        """Episodes that have ended, by phase."""
        self.episode = EpisodeStatistics()
        self._iterations = {"train": IterationStatistics(), "evaluation": IterationStatistics()}
        self.coverage = Coverage(location(config.game))

    @property
    def between_episodes(self) -> bool:
        """Whether the next step begins an episode."""
        return self.episode.steps == 0

    @property
    def counted_steps(self) -> int:
        """Agent steps of training, without those by which iterations overshoot to finish an episode.

        Two hundred iterations count as 50 million steps, whenever their last episodes ended.
        """
        size = self._config.schedule.iteration_steps
        return (self.iteration - 1) * size + min(self._iterations["train"].steps, size - 1)

    def epsilon(self, step: int) -> float:
        """Return ε of training at a step, as scheduled."""
        return epsilon(self._config.exploration, self._config.agent.min_history_steps, step)

    def begin_episode(self, world: World) -> None:
        """Count where an episode of training starts."""
        self.coverage.visit(world.ram, world.observation[-1])

    def count_update(self, update: Update) -> None:
        """Count an update of the agent."""
        self._iterations["train"].count_update(update)

    def count_training(self, transition: Transition, intrinsic: float | None) -> Step:
        """Count a step of training, with its unscaled intrinsic reward where there is a bonus."""
        self.training_steps += 1
        if intrinsic is not None:
            clipped = is_clipped(clip_extrinsic(transition.reward), intrinsic, self._config.bonus)
            self.episode.count_intrinsic(intrinsic, clipped=clipped)
            self._iterations["train"].count_intrinsic(intrinsic, clipped=clipped)
        self.coverage.visit(transition.ram, transition.next_state[-1])
        return self._count(transition)

    def count_evaluation(self, transition: Transition) -> Step:
        """Count a step of evaluation."""
        return self._count(transition)

    def partial_iteration(self) -> IterationRow | None:
        """Return the row of an iteration that is not over, or None between iterations."""
        return self._iteration_row(complete=False) if self._iterations[self.phase].steps else None

    def _count(self, transition: Transition) -> Step:
        self.all_steps += 1
        iteration = self._iterations[self.phase]
        self.episode.count_step(transition.reward)
        iteration.steps += 1
        if not transition.over:
            return Step()
        iteration.returns.append(self.episode.game_return)
        row = self._episode_row("terminated" if transition.terminated else "truncated")
        self.episode = EpisodeStatistics()
        schedule = self._config.schedule
        wanted = schedule.iteration_steps if self.phase == "train" else schedule.evaluation_steps
        if iteration.steps < wanted:
            return Step(row)
        iteration_row = self._iteration_row(complete=True)
        if self.phase == "train" and schedule.evaluation_steps:
            self.phase = "evaluation"
        else:
            self.phase = "train"
            self.iteration += 1
            self._iterations = {"train": IterationStatistics(), "evaluation": IterationStatistics()}
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
        training = self.phase == "train"
        return IterationRow(
            iteration=self.iteration,
            phase=self.phase,
            complete=complete,
            end_step=self.training_steps,
            end_frame=self.training_steps * self._config.world.frame_skip,
            epsilon=self.epsilon(self.training_steps) if training else self._config.exploration.epsilon_evaluation,
            **(self._iterations[self.phase].columns() | self.coverage.totals()),
        )

    def state(self) -> dict[str, Any]:
        """Return the counters as plain values and arrays, but for `coverage`, whose state is an object of its own."""
        return {
            "training_steps": self.training_steps,
            "all_steps": self.all_steps,
            "iteration": self.iteration,
            "episodes": {**self.episodes},
            "phase": self.phase,
            "playing": not self.between_episodes,
            "episode": self.episode.state(),
            "tallies": {phase: iteration.state() for phase, iteration in self._iterations.items()},
            "bonuses": np.asarray(self._iterations["train"].bonuses, np.float64),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore from `state()`."""
        self.training_steps = state["training_steps"]
        self.all_steps = state["all_steps"]
        self.iteration = state["iteration"]
        self.episodes = {**state["episodes"]}
        self.phase = state["phase"]
        self.episode = EpisodeStatistics(**state["episode"])
        self._iterations = {phase: IterationStatistics(**values) for phase, values in state["tallies"].items()}
        self._iterations["train"].bonuses = state["bonuses"].tolist()
