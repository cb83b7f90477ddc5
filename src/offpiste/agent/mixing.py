"""How extrinsic and intrinsic rewards are mixed; nothing else in the package does this.

The replay keeps intrinsic rewards as the bonus paid them. They are scaled when a batch is sampled, so that all rewards
of a batch are in the same unit, also where that unit is a running deviation.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import BonusConfig
from offpiste.types import Batch

DEVIATION_STEPS = 1_000
"""Over about so many rewards the running deviation is taken; over the whole run it would keep the first for ever."""
MIN_DEVIATION_STEPS = 100
"""Rewards before the deviation counts; until then 0 is paid where it is asked for."""


class IntrinsicScale:
    """The factor of intrinsic rewards: β_t, divided by a running deviation where the settings say so."""

    def __init__(self, config: BonusConfig) -> None:
        self._config = config
        self._count = 0
        self._mean = 0.0
        self._variance = 0.0
        self._discounted_sum = 0.0

    def observe(self, intrinsic: float) -> None:
        """Take the unscaled intrinsic reward of one step into the running deviation."""
        if self._config.normalise == "none":
            return
        self._discounted_sum = self._config.discount * self._discounted_sum + intrinsic  # on over the ends of episodes
        value = self._discounted_sum if self._config.normalise == "return_std" else float(intrinsic)
        self._count += 1
        weight = 1.0 / min(self._count, DEVIATION_STEPS)
        distance = value - self._mean
        self._mean += weight * distance
        self._variance = (1.0 - weight) * (self._variance + weight * distance * distance)

    @property
    def deviation(self) -> float | None:
        """What intrinsic rewards are divided by, or None while that is not known."""
        if self._config.normalise == "none":
            return 1.0
        known = self._count >= MIN_DEVIATION_STEPS and self._variance > 0.0
        return math.sqrt(self._variance) if known else None

    def factor(self, step: int) -> float:
        """Return the factor at a training step, 0 while the deviation is not known."""
        beta = self._config.scale * (1.0 - self._config.decay) ** step if self._config.decay else self._config.scale
        deviation = self.deviation
        return 0.0 if deviation is None else beta / deviation

    def state(self) -> dict[str, Any]:
        """Return the running deviation, which is empty where there is none."""
        names = ("count", "mean", "variance", "discounted_sum")
        return {} if self._config.normalise == "none" else {name: getattr(self, f"_{name}") for name in names}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore from `state()`."""
        for name, value in state.items():
            setattr(self, f"_{name}", value)


def clip_extrinsic(reward: float) -> float:
    """Clip the extrinsic reward to [-1, 1]: 0.5 stays 0.5, where the sign would be 1."""
    return max(-1.0, min(1.0, reward))


def mix(
    extrinsic: NDArray[np.float32], intrinsic: NDArray[np.float32], config: BonusConfig, factor: float
) -> NDArray[np.float32]:
    """Return the sum of clipped extrinsic and unscaled intrinsic rewards, each times its factor.

    The sum is clipped to [-1, 1] if `clip_sum` is set.
    """
    total: NDArray[Any] = np.float32(config.extrinsic_scale) * extrinsic + np.float32(factor) * intrinsic
    return np.clip(total, np.float32(-1.0), np.float32(1.0)) if config.clip_sum else total


def is_clipped(extrinsic: float, intrinsic: float, config: BonusConfig, factor: float) -> bool:
    """Return whether `mix` clips the sum of this clipped extrinsic and this unscaled intrinsic reward."""
    return config.clip_sum and abs(config.extrinsic_scale * extrinsic + factor * intrinsic) > 1.0


def n_step_returns(batch: Batch, config: BonusConfig, discount: float, factor: float) -> NDArray[np.float32]:
    """Return the n-step returns [batch] of the mixed rewards, without the bootstrap term."""
    rewards = mix(batch.extrinsic, batch.intrinsic, config, factor)  # [batch, n], 0 after the end
    discounts = np.float32(discount) ** np.arange(rewards.shape[1], dtype=np.float32)
    returns: NDArray[np.float32] = (rewards * discounts).sum(axis=1)
    return returns
