"""What a run counts as it plays, and the columns that this comes to in the rows of the records."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from offpiste.agent.mixing import clip_extrinsic
from offpiste.agent.rainbow import Update


@dataclass
class EpisodeStatistics:
    """The episode under way."""

    steps: int = 0
    game_return: float = 0.0
    clipped_return: float = 0.0
    first_reward_step: int | None = None
    bonus_sum: float = 0.0
    bonus_max: float | None = None
    clipped_sums: int = 0

    def count_intrinsic(self, intrinsic: float, *, clipped: bool) -> None:
        """Count the unscaled intrinsic reward of a step, and whether its sum with the extrinsic one was clipped."""
        self.bonus_sum += intrinsic
        self.bonus_max = intrinsic if self.bonus_max is None else max(self.bonus_max, intrinsic)
        self.clipped_sums += clipped

    def count_step(self, reward: float) -> None:
        """Count a step and its extrinsic reward."""
        if reward > 0 and self.first_reward_step is None:
            self.first_reward_step = self.steps
        self.steps += 1
        self.game_return += reward
        self.clipped_return += clip_extrinsic(reward)

    def columns(self) -> dict[str, Any]:
        """Return what an `EpisodeRow` has from here."""
        with_bonus = self.bonus_max is not None
        return {
            "steps": self.steps,
            "game_return": self.game_return,
            "clipped_return": self.clipped_return,
            "first_reward_step": self.first_reward_step,
            "bonus_sum": self.bonus_sum if with_bonus else None,
            "bonus_max": self.bonus_max,
            "clipped_share": self.clipped_sums / self.steps if with_bonus else None,
        }

    def state(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dataclasses.asdict(self)


@dataclass
class IterationStatistics:
    """The iteration under way: its training, or its evaluation. Names of fields are keys of checkpoints."""

    steps: int = 0
    returns: list[float] = field(default_factory=list)
    updates: int = 0
    loss_sum: float = 0.0
    greatest_q_sum: float = 0.0
    mass_low_sum: float = 0.0
    mass_high_sum: float = 0.0
    bonuses: list[float] = field(default_factory=list)
    clipped_sums: int = 0

    def count_update(self, update: Update) -> None:
        """Count an update of the agent."""
        self.updates += 1
        self.loss_sum += update.loss
        self.greatest_q_sum += update.max_q
        self.mass_low_sum += update.target_mass_low
        self.mass_high_sum += update.target_mass_high

    def count_intrinsic(self, intrinsic: float, *, clipped: bool) -> None:
        """Count the unscaled intrinsic reward of a step, and whether its sum with the extrinsic one was clipped."""
        self.bonuses.append(intrinsic)
        self.clipped_sums += clipped

    def columns(self) -> dict[str, Any]:
        """Return what an `IterationRow` has from here."""
        returns, bonuses = self.returns, np.asarray(self.bonuses)
        low, middle, high = np.quantile(bonuses, (0.05, 0.5, 0.95)).tolist() if self.bonuses else [None] * 3
        return {
            "steps": self.steps,
            "episodes": len(returns),
            "return_mean": float(np.mean(returns)) if returns else None,
            "return_min": min(returns) if returns else None,
            "return_max": max(returns) if returns else None,
            "updates": self.updates,
            "loss_mean": self._per_update(self.loss_sum),
            "greatest_q_mean": self._per_update(self.greatest_q_sum),
            "target_mass_low": self._per_update(self.mass_low_sum),
            "target_mass_high": self._per_update(self.mass_high_sum),
            "bonus_mean": float(bonuses.mean()) if self.bonuses else None,
            "bonus_q05": low,
            "bonus_q50": middle,
            "bonus_q95": high,
            "bonus_max": float(bonuses.max()) if self.bonuses else None,
            "clipped_share": self.clipped_sums / self.steps if self.bonuses else None,
        }

    def _per_update(self, total: float) -> float | None:
        return total / self.updates if self.updates else None

    def state(self) -> dict[str, Any]:
        """Return it as plain values, but for the bonuses, which are too many for that."""
        return {name: value for name, value in vars(self).items() if name != "bonuses"} | {"returns": [*self.returns]}
