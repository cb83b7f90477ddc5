"""Statistics of the current episode and iteration, and the columns of the records that they become."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from offpiste.agent.mixing import clip_extrinsic
from offpiste.agent.rainbow import Update


@dataclass
class EpisodeStatistics:
    """The current episode."""

    steps: int = 0
    game_return: float = 0.0
    clipped_return: float = 0.0
    first_reward_step: int | None = None
    intrinsic_sum: float = 0.0
    intrinsic_max: float | None = None
    clipped_sums: int = 0

    def count_intrinsic(self, intrinsic: float, *, clipped: bool) -> None:
        """Count the unscaled intrinsic reward of a step, and whether its sum with the extrinsic one was clipped."""
        self.intrinsic_sum += intrinsic
        self.intrinsic_max = intrinsic if self.intrinsic_max is None else max(self.intrinsic_max, intrinsic)
        self.clipped_sums += clipped

    def count_step(self, reward: float) -> None:
        """Count a step and its extrinsic reward."""
        if reward > 0 and self.first_reward_step is None:
            self.first_reward_step = self.steps
        self.steps += 1
        self.game_return += reward
        self.clipped_return += clip_extrinsic(reward)

    def columns(self) -> dict[str, Any]:
        """Return these statistics as columns of an `EpisodeRow`."""
        with_bonus = self.intrinsic_max is not None
        return {
            "steps": self.steps,
            "game_return": self.game_return,
            "clipped_return": self.clipped_return,
            "first_reward_step": self.first_reward_step,
            "intrinsic_sum": self.intrinsic_sum if with_bonus else None,
            "intrinsic_max": self.intrinsic_max,
            "clipped_share": self.clipped_sums / self.steps if with_bonus else None,
        }

    def state(self) -> dict[str, Any]:
        """Return copies of all attributes."""
        return asdict(self)


@dataclass
class IterationStatistics:
    """The current iteration: its training, or its evaluation."""

    steps: int = 0
    returns: list[float] = field(default_factory=list)
    updates: int = 0
    loss_sum: float = 0.0
    max_q_sum: float = 0.0
    mass_low_sum: float = 0.0
    mass_high_sum: float = 0.0
    intrinsic: list[float] = field(default_factory=list)
    """The unscaled intrinsic reward of every step."""
    clipped_sums: int = 0
    factors: dict[str, float] = field(default_factory=dict)
    """The sum of each factor of intrinsic rewards that are products; of a window alone."""
    second_head: dict[str, float] = field(default_factory=dict)
    """The sums over updates of what the second head adds to their statistics; of a window alone."""

    def count_update(self, update: Update) -> None:
        """Count an update of the agent."""
        self.updates += 1
        self.loss_sum += update.loss
        self.max_q_sum += update.max_q
        self.mass_low_sum += update.target_mass_low
        self.mass_high_sum += update.target_mass_high

    def count_intrinsic(self, intrinsic: float, *, clipped: bool) -> None:
        """Count the unscaled intrinsic reward of a step, and whether its sum with the extrinsic one was clipped."""
        self.intrinsic.append(intrinsic)
        self.clipped_sums += clipped

    def count_factors(self, factors: Mapping[str, float]) -> None:
        """Count the factors of an intrinsic reward."""
        for name, value in factors.items():
            self.factors[name] = self.factors.get(name, 0.0) + value

    def count_second_head(self, found: Mapping[str, float]) -> None:
        """Count what the second head adds to the statistics of an update."""
        for name, value in found.items():
            self.second_head[name] = self.second_head.get(name, 0.0) + value

    def columns(self) -> dict[str, Any]:
        """Return these statistics as columns of an `IterationRow`."""
        returns, intrinsic = self.returns, np.asarray(self.intrinsic)
        low, middle, high = np.quantile(intrinsic, (0.05, 0.5, 0.95)).tolist() if self.intrinsic else [None] * 3
        return {
            "steps": self.steps,
            "episodes": len(returns),
            "return_mean": float(np.mean(returns)) if returns else None,
            "return_min": min(returns) if returns else None,
            "return_max": max(returns) if returns else None,
            "updates": self.updates,
            "loss_mean": self._per_update(self.loss_sum),
            "max_q_mean": self._per_update(self.max_q_sum),
            "target_mass_low": self._per_update(self.mass_low_sum),
            "target_mass_high": self._per_update(self.mass_high_sum),
            "intrinsic_mean": float(intrinsic.mean()) if self.intrinsic else None,
            "intrinsic_q05": low,
            "intrinsic_q50": middle,
            "intrinsic_q95": high,
            "intrinsic_max": float(intrinsic.max()) if self.intrinsic else None,
            "clipped_share": self.clipped_sums / self.steps if self.intrinsic else None,
        }

    def _per_update(self, total: float) -> float | None:
        return total / self.updates if self.updates else None

    def state(self) -> dict[str, Any]:
        """Return copies of all attributes but `intrinsic`, which a checkpoint holds as an array."""
        values = vars(self) | {"returns": [*self.returns]}
        for name in ("factors", "second_head"):
            values[name] = {**values[name]}
            if not values[name]:
                del values[name]
        return {name: value for name, value in values.items() if name != "intrinsic"}
