"""How the game's reward and the bonus become the one reward that the agent learns from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import BonusConfig


def clip_extrinsic(reward: float) -> float:
    """Clip the game's reward to [-1, 1]: a clip, not a sign."""
    return max(-1.0, min(1.0, reward))


def mix(extrinsic: NDArray[np.float32], bonus: NDArray[np.float32], config: BonusConfig) -> NDArray[np.float32]:
    """Return e + β·i for arrays of clipped rewards and raw bonuses, the sum clipped where the method says so."""
    total: NDArray[Any] = extrinsic + np.float32(config.scale) * bonus
    return np.clip(total, np.float32(-1.0), np.float32(1.0)) if config.clip_sum else total


def is_clipped(extrinsic: float, bonus: float, config: BonusConfig) -> bool:
    """Tell whether `mix` clips the sum of this clipped reward and this raw bonus."""
    return config.clip_sum and abs(extrinsic + config.scale * bonus) > 1.0
