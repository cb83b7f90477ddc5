"""How extrinsic and intrinsic rewards are mixed; nothing else in the package does this."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import BonusConfig
from offpiste.types import Batch


def clip_extrinsic(reward: float) -> float:
    """Clip the extrinsic reward to [-1, 1]: 0.5 stays 0.5, where the sign would be 1."""
    return max(-1.0, min(1.0, reward))


def mix(extrinsic: NDArray[np.float32], intrinsic: NDArray[np.float32], config: BonusConfig) -> NDArray[np.float32]:
    """Return e + β·i of clipped extrinsic and unscaled intrinsic rewards, clipped to [-1, 1] if `clip_sum` is set."""
    total: NDArray[Any] = extrinsic + np.float32(config.scale) * intrinsic
    return np.clip(total, np.float32(-1.0), np.float32(1.0)) if config.clip_sum else total


def is_clipped(extrinsic: float, intrinsic: float, config: BonusConfig) -> bool:
    """Return whether `mix` clips the sum of this clipped extrinsic and this unscaled intrinsic reward."""
    return config.clip_sum and abs(extrinsic + config.scale * intrinsic) > 1.0


def n_step_returns(batch: Batch, config: BonusConfig, discount: float) -> NDArray[np.float32]:
    """Return the n-step returns [batch] of the mixed rewards, without the bootstrap term."""
    rewards = mix(batch.extrinsic, batch.intrinsic, config)  # [batch, n], 0 after the end
    discounts = np.float32(discount) ** np.arange(rewards.shape[1], dtype=np.float32)
    returns: NDArray[np.float32] = (rewards * discounts).sum(axis=1)
    return returns
