"""Everything that a run counts: steps, episodes, iterations, phases and coverage, and the rows of its records.

The loop reports each step and each update to it, and asks it for the phase, ε and whether an episode is over; it
touches neither agent, world nor bonus.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from offpiste.agent.mixing import clip_extrinsic, is_clipped
from offpiste.agent.rainbow import Update, epsilon
from offpiste.bonuses.base import Bonus, LoggingBonus, Product, fault_of_scalars
from offpiste.config import RunConfig, counted_steps
from offpiste.errors import NotFinite
from offpiste.rows import EpisodeRow, IterationRow, window_steps
from offpiste.run.coverage import NOT_COUNTED, Coverage
from offpiste.run.statistics import EpisodeStatistics, IterationStatistics
from offpiste.types import Transition
from offpiste.worlds.base import World
from offpiste.worlds.registry import location

_SCALARS = {
    "loss": "loss_mean",
    "max_q": "max_q_mean",
    "target_mass_low": "target_mass_low",
    "target_mass_high": "target_mass_high",
    "return": "return_mean",
    "episodes": "episodes",
    "intrinsic/mean": "intrinsic_mean",
    "intrinsic/q05": "intrinsic_q05",
    "intrinsic/q50": "intrinsic_q50",
    "intrinsic/q95": "intrinsic_q95",
    "intrinsic/max": "intrinsic_max",
    "clipped_share": "clipped_share",
    "cells": "cells_total",
    "rooms": "rooms_total",
}
"""The scalars of a window by name, with the column of an iteration that each is computed as."""
EXTRINSIC_EVALUATION = "evaluation_extrinsic"
"""The phase of a run with two heads that follows its evaluation: the same number of steps, by Q_E alone."""


@dataclass(frozen=True)
class Step:
    """The rows that one agent step completed."""

    episode: EpisodeRow | None = None
    iteration: IterationRow | None = None
    scalars: Mapping[str, float] = field(default_factory=dict)
    """By name; empty unless the step completed a window."""


class Tracker:
    """The counters and statistics of one run."""

    def __init__(self, config: RunConfig, bonus: Bonus | None = None) -> None:
        """Start at the first step of a run; a `LoggingBonus` has its scalars recorded too."""
        self._config = config
        self._logging = bonus if isinstance(bonus, LoggingBonus) else None
        self.training_steps = 0
        self.all_steps = 0
        """Agent steps of training and evaluation together."""
        self.iteration = 1
        self.phase = "train"
        """train or evaluation, and EXTRINSIC_EVALUATION with two heads."""
        self._phases = ("train", "evaluation", *([EXTRINSIC_EVALUATION] if config.bonus.heads == 2 else []))
        self.episodes = dict.fromkeys(self._phases, 0)
        """Episodes that have ended, by phase."""
        self.episode = EpisodeStatistics()
        self._iterations = {phase: IterationStatistics() for phase in self._phases}
        self._window = IterationStatistics()
        self._window_steps = window_steps(config.schedule.iteration_steps)
        self.coverage = Coverage(location(config.game), config.world.coarse_frame)

    @property
    def between_episodes(self) -> bool:
        """Whether the next step begins an episode."""
        return self.episode.steps == 0

    @property
    def counted_steps(self) -> int:
        """Training steps, as `counted_steps` counts them."""
        return counted_steps(self.iteration - 1, self._iterations["train"].steps, self._config.schedule.iteration_steps)

    def epsilon(self, step: int) -> float:
        """Return ε at a training step."""
        return epsilon(self._config.exploration, self._config.agent.min_history_steps, step)

    def begin_episode(self, world: World) -> None:
        """Count the visit to the state in which a training episode starts."""
        self.coverage.visit(world.ram, world.observation[-1], self.training_steps)

    def count_update(self, update: Update) -> None:
        """Count an update of the agent."""
        for statistics in (self._iterations["train"], self._window):
            statistics.count_update(update)
        self._window.count_second_head(update.intrinsic)

    def count_training(self, transition: Transition, intrinsic: float | None, factor: float | None = None) -> Step:
        """Count a training step, with its unscaled intrinsic reward and the factor of that, or None without a bonus.

        Without a factor it is β.
        """
        self.training_steps += 1
        if intrinsic is not None:
            config = self._config.bonus
            clipped = is_clipped(
                clip_extrinsic(transition.reward), intrinsic, config, config.scale if factor is None else factor
            )
            for statistics in (self.episode, self._iterations["train"], self._window):
                statistics.count_intrinsic(float(intrinsic), clipped=clipped)
            if isinstance(intrinsic, Product):
                self._window.count_factors(intrinsic.factors)
        self.coverage.visit(transition.ram, transition.next_state[-1], self.training_steps)
        self._window.steps += 1
        step = self._count(transition)
        return step if self.training_steps % self._window_steps else replace(step, scalars=self._close_window())

    def count_evaluation(self, transition: Transition) -> Step:
        """Count an evaluation step."""
        return self._count(transition)

    def partial_iteration(self) -> IterationRow | None:
        """Return the row of an unfinished iteration, or None between iterations."""
        return self._iteration_row(complete=False) if self._iterations[self.phase].steps else None

    def _count(self, transition: Transition) -> Step:
        self.all_steps += 1
        iteration = self._iterations[self.phase]
        self.episode.count_step(transition.reward)
        iteration.steps += 1
        if not transition.over:
            return Step()
        iteration.returns.append(self.episode.game_return)
        if self.phase == "train":
            self._window.returns.append(self.episode.game_return)
        row = self._episode_row("terminated" if transition.terminated else "truncated")
        self.episode = EpisodeStatistics()
        schedule = self._config.schedule
        wanted = schedule.iteration_steps if self.phase == "train" else schedule.evaluation_steps
        if iteration.steps < wanted:
            return Step(row)
        iteration_row = self._iteration_row(complete=True)
        if self.phase == self._phases[-1] or not schedule.evaluation_steps:
            self.phase = "train"
            self.iteration += 1
            self._iterations = {phase: IterationStatistics() for phase in self._phases}
        else:
            self.phase = self._phases[self._phases.index(self.phase) + 1]
        return Step(row, iteration_row)

    def _close_window(self) -> dict[str, float]:
        """Return the scalars of the window that this step completes, and begin the next."""
        columns = self._window.columns() | self.coverage.totals()
        factors = {name: total / self._window.steps for name, total in self._window.factors.items()}
        second_head = {name: total / self._window.updates for name, total in self._window.second_head.items()}
        intrinsic = {f"intrinsic/{name}": value for name, value in (factors | second_head).items()}
        self._window = IterationStatistics()
        scalars = {name: float(columns[key]) for name, key in _SCALARS.items() if columns[key] is not None}
        return scalars | intrinsic | {"epsilon": self.epsilon(self.training_steps)} | self._bonus_scalars()

    def _bonus_scalars(self) -> dict[str, float]:
        """Return the scalars of the bonus, by names that begin with bonus/."""
        scalars = {} if self._logging is None else self._logging.scalars()
        if fault := fault_of_scalars(scalars):
            raise NotFinite(f"the bonus cannot be recorded at step {self.training_steps:,}: {fault}")
        lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in scalars.items()}
        return {f"bonus/{name}": float(np.mean(values)) for name, values in lists.items() if len(values)}

    def _episode_row(self, ended: str) -> EpisodeRow:
        self.episodes[self.phase] += 1
        found = self.coverage.end_episode() if self.phase == "train" else NOT_COUNTED
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

    def state(self) -> dict[str, dict[str, Any]]:
        """Return, by part, all counters and statistics as plain values and arrays."""
        loop = {
            "training_steps": self.training_steps,
            "all_steps": self.all_steps,
            "iteration": self.iteration,
            "episodes": {**self.episodes},
            "phase": self.phase,
            "episode": self.episode.state(),
            "iterations": {phase: iteration.state() for phase, iteration in self._iterations.items()},
            "intrinsic": np.asarray(self._iterations["train"].intrinsic, np.float64),
        }
        window = self._window.state() | {"intrinsic": np.asarray(self._window.intrinsic, np.float64)}
        coverage, cells = self.coverage.state(), self.coverage.cells()
        return {"loop": loop, "scalars": window, "coverage": coverage, "cells": cells}

    def load_state(self, state: Mapping[str, dict[str, Any]]) -> None:
        """Restore from `state()`."""
        loop = state["loop"]
        self.training_steps = loop["training_steps"]
        self.all_steps = loop["all_steps"]
        self.iteration = loop["iteration"]
        self.episodes = {**loop["episodes"]}
        self.phase = loop["phase"]
        self.episode = EpisodeStatistics(**loop["episode"])
        self._iterations = {phase: IterationStatistics(**one) for phase, one in loop["iterations"].items()}
        self._iterations["train"].intrinsic = loop["intrinsic"].tolist()
        window = state["scalars"]
        self._window = IterationStatistics(**{**window, "intrinsic": window["intrinsic"].tolist()})
        self.coverage.load_state(state["coverage"])
        self.coverage.load_cells(state["cells"])
