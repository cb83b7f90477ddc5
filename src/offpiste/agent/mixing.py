"""How extrinsic and intrinsic rewards become the targets of an update; nothing else in the package does this.

The replay keeps intrinsic rewards as the bonus paid them. They are scaled when a batch is sampled, so that all rewards
of a batch are in the same unit, also where that unit is a running deviation. One head learns the return of their sum.
With two, each learns a return of its own, and β weighs the values of the second where actions are chosen.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpiste.config import BonusConfig
from offpiste.types import Batch

DEVIATION_STEPS = 1_000
"""Over about so many rewards the running deviation is taken; over the whole run it would keep the first for ever."""
MIN_DEVIATION_STEPS = 100
"""Rewards before the deviation counts; until then 0 is paid where it is asked for."""


class IntrinsicScale:
    """β_t, and the factor of intrinsic rewards, which are divided by a running deviation where the settings say so."""

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

    def beta(self, step: int) -> float:
        """Return β_t at a training step."""
        return self._config.scale * (1.0 - self._config.decay) ** step if self._config.decay else self._config.scale

    def factor(self, step: int) -> float:
        """Return the factor of intrinsic rewards at a training step, 0 while the deviation is not known.

        β is in it with one head; with two, it weighs their values instead.
        """
        beta = self.beta(step) if self._config.heads == 1 else 1.0
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


class Targets(NamedTuple):
    """What one head learns: the distribution of returns + bootstrap · value of the state to bootstrap from."""

    returns: NDArray[np.float32]
    """[batch]: n-step returns."""
    bootstrap: NDArray[np.float32]
    """[batch]: the discount of the state to bootstrap from; 0 where the return is over."""


def targets(batch: Batch, config: BonusConfig, discount: float, factor: float) -> tuple[Targets, ...]:
    """Return the targets of each head: of the mixed rewards, or with two heads of extrinsic and of intrinsic ones.

    `factor` is that of intrinsic rewards, and `discount` the agent's; the second head has one of its own.
    """
    bootstrap = bootstraps(batch, discount)
    if config.heads == 1:
        return (Targets(n_step_returns(mix(batch.extrinsic, batch.intrinsic, config, factor), discount), bootstrap),)
    extrinsic = n_step_returns(np.float32(config.extrinsic_scale) * batch.extrinsic, discount)
    if batch.beyond is None:
        unscaled, intrinsic_bootstrap = batch.intrinsic, bootstraps(batch, config.discount)
    else:
        unscaled, intrinsic_bootstrap = batch.beyond.intrinsic, np.float32(config.discount) ** batch.beyond.steps
    intrinsic = n_step_returns(np.float32(factor) * unscaled, config.discount)
    return Targets(extrinsic, bootstrap), Targets(intrinsic, intrinsic_bootstrap.astype(np.float32))


def n_step_returns(rewards: NDArray[np.float32], discount: float) -> NDArray[np.float32]:
    """Return the discounted sums [batch] of rewards [batch, n], which are 0 after the end, without the bootstrap."""
    discounts = np.float32(discount) ** np.arange(rewards.shape[1], dtype=np.float32)
    returns: NDArray[np.float32] = (rewards * discounts).sum(axis=1)
    return returns


def bootstraps(batch: Batch, discount: float) -> NDArray[np.float32]:
    """Return the discounts [batch] of the states to bootstrap from, 0 where the game ended before."""
    n = batch.extrinsic.shape[1]
    discounts = np.array([discount**steps for steps in range(n + 1)], np.float32)
    return np.where(batch.terminal, np.float32(0.0), discounts[batch.steps])
