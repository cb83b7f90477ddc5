"""Pong as gymnasium's own wrappers make it, for the peers that bring no protocol of their own."""

from typing import Any

import ale_py
import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformReward


def pong() -> gymnasium.Env[Any, Any]:
    """Return Pong with sticky actions, four frames per step, 84×84 in grey, four frames to a state."""
    gymnasium.register_envs(ale_py)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25)
    stacked = FrameStackObservation(AtariPreprocessing(game, noop_max=0), 4)
    return TransformReward(stacked, lambda reward: max(-1.0, min(1.0, float(reward))))
