"""How extrinsic and intrinsic rewards become what the agent learns from; the only place where they are mixed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import BonusConfig
from offpiste.types import Batch


def clip_extrinsic(reward: float) -> float:
    """Clip the world's reward to [-1, 1]: a clip, not a sign."""
    return max(-1.0, min(1.0, reward))


def mix(extrinsic: NDArray[np.float32], intrinsic: NDArray[np.float32], config: BonusConfig) -> NDArray[np.float32]:
    """Return e + β·i for clipped extrinsic and unscaled intrinsic rewards, the sum clipped where the method says so."""
    total: NDArray[Any] = extrinsic + np.float32(config.scale) * intrinsic
    return np.clip(total, np.float32(-1.0), np.float32(1.0)) if config.clip_sum else total


def is_clipped(extrinsic: float, intrinsic: float, config: BonusConfig) -> bool:
    """Tell whether `mix` clips the sum of this clipped extrinsic and this unscaled intrinsic reward."""
    return config.clip_sum and abs(extrinsic + config.scale * intrinsic) > 1.0


def n_step_returns(batch: Batch, config: BonusConfig, discount: float) -> NDArray[np.float32]:
    """Return the discounted sums [batch] of the mixed rewards, up to the end of the episode."""
    rewards = mix(batch.extrinsic, batch.intrinsic, config)  # [batch, n], 0 after the end
    discounts = np.float32(discount) ** np.arange(rewards.shape[1], dtype=np.float32)
    returns: NDArray[np.float32] = (rewards * discounts).sum(axis=1)
    return returns
