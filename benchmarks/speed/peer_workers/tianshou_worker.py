"""Tianshou's C51 with prioritised replay and 3-step returns, as a worker of `peers`.

Arguments: history steps; `same` for a network of our shape instead of its own.
"""

import sys

import torch
from tianshou.algorithm import C51
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import C51Net
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn

from benchmarks.speed.peer_workers.gymnasium_pong import pong
from benchmarks.speed.peer_workers.padded_network import padded_network
from benchmarks.speed.peer_workers.serving import serve

UPDATE_PERIOD_STEPS = 4


class ScaledC51Net(C51Net):
    """Tianshou's network on frames divided by 255, or another in its place."""

    def __init__(self, actions: int, layers: nn.Module | None) -> None:
        super().__init__(c=4, h=84, w=84, action_shape=[actions], num_atoms=51)
        self.net = layers or self.net

    def forward(self, obs, state=None, info=None):
        """Return the value distributions."""
        return super().forward(torch.as_tensor(obs, dtype=torch.float32).div_(255), state, info)


class Play:
    """Collect four steps, update once."""

    def __init__(self, history_steps: int, same_network: bool) -> None:
        game = pong()
        actions = int(game.action_space.n)
        network = ScaledC51Net(actions, padded_network(actions, 51) if same_network else None)
        policy = C51Policy(network, game.action_space, num_atoms=51, v_min=-10.0, v_max=10.0)
        self._algorithm = C51(
            policy=policy,
            optim=AdamOptimizerFactory(lr=6.25e-5, eps=1.5e-4),
            gamma=0.99,
            n_step_return_horizon=3,
            target_update_freq=8_000 // UPDATE_PERIOD_STEPS,
        )
        self._buffer = PrioritizedReplayBuffer(
            100_000, alpha=0.5, beta=0.5, ignore_obs_next=True, save_only_last_obs=True, stack_num=4
        )
        self._collector = Collector(policy, DummyVectorEnv([lambda: game]), self._buffer)
        self._collector.reset()
        self._history_steps = history_steps
        self._updates = 0

    def __call__(self, count: int) -> None:
        """Play so many agent steps, a multiple of four."""
        with policy_within_training_step(self._algorithm.policy):
            for _ in range(count // UPDATE_PERIOD_STEPS):
                self._collector.collect(n_step=UPDATE_PERIOD_STEPS)
                if len(self._buffer) > self._history_steps:
                    self._algorithm.update(self._buffer, 32)
                    self._updates += 1

    def updates(self) -> int:
        """Return how often the optimiser has stepped."""
        return self._updates


if __name__ == "__main__":
    play = Play(int(sys.argv[1]), sys.argv[2] == "same")
    serve(play, play.updates, int(sys.argv[1]))
