"""Dopamine's JAX Rainbow on Dopamine's own Pong, as a worker of `peers`. Argument: history steps."""

import sys
from types import ModuleType

import numpy as np

# Dopamine imports OpenAI's baselines for PPO alone, which nothing here uses; the package no longer installs.
for _name in ("baselines", "baselines.common", "baselines.common.atari_wrappers"):
    sys.modules[_name] = ModuleType(_name)
sys.modules["baselines.common"].atari_wrappers = sys.modules["baselines.common.atari_wrappers"]

import gin  # noqa: E402
from dopamine.discrete_domains.atari_lib import create_atari_environment  # noqa: E402
from dopamine.jax.agents.rainbow.rainbow_agent import JaxRainbowAgent  # noqa: E402

from benchmarks.speed.peer_workers.serving import serve  # noqa: E402

SETTINGS = """
JaxRainbowAgent.num_atoms = 51
JaxRainbowAgent.vmax = 10.0
JaxRainbowAgent.gamma = 0.99
JaxRainbowAgent.update_horizon = 3
JaxRainbowAgent.update_period = 4
JaxRainbowAgent.target_update_period = 8000
JaxRainbowAgent.epsilon_train = 0.0
JaxRainbowAgent.epsilon_decay_period = 1
JaxRainbowAgent.replay_scheme = 'prioritized'
JaxRainbowAgent.seed = 0
ReplayBuffer.batch_size = 32
ReplayBuffer.max_capacity = 100000
PrioritizedSamplingDistribution.max_capacity = 100000
"""


class Play:
    """The order of Dopamine's runner, stopped and resumed at any agent step."""

    def __init__(self, history_steps: int) -> None:
        gin.parse_config(SETTINGS)
        self._game = create_atari_environment(game_name="Pong", sticky_actions=True)
        self._agent = JaxRainbowAgent(num_actions=self._game.action_space.n, min_replay_history=history_steps)
        self._action = None

    def __call__(self, count: int) -> None:
        """Play so many agent steps."""
        for _ in range(count):
            if self._action is None:
                self._action = self._agent.begin_episode(self._game.reset())
            observation, reward, terminal, _ = self._game.step(self._action)
            reward = np.clip(reward, -1, 1)
            if self._game.game_over:
                self._agent.end_episode(reward, terminal)
                self._action = None
            else:
                self._action = self._agent.step(reward, observation)

    def updates(self) -> int:
        """Return how often the optimiser has stepped."""
        return int(self._agent.optimizer_state[0].count)


if __name__ == "__main__":
    play = Play(int(sys.argv[1]))
    serve(play, play.updates, int(sys.argv[1]))
