"""PFRL's C51 with prioritised replay and 3-step returns, as a worker of `peers`.

Arguments: history steps; `same` for a network of our shape instead of its own.
"""

import sys

import numpy as np
import torch
from pfrl.agents import CategoricalDQN
from pfrl.explorers import Greedy
from pfrl.nn import LargeAtariCNN
from pfrl.q_functions import DistributionalSingleModelStateQFunctionWithDiscreteAction
from pfrl.replay_buffers import PrioritizedReplayBuffer
from torch import nn

from benchmarks.speed.peer_workers.gymnasium_pong import pong
from benchmarks.speed.peer_workers.padded_network import padded_network
from benchmarks.speed.peer_workers.serving import serve


class Play:
    """PFRL's act and observe."""

    def __init__(self, history_steps: int, same_network: bool) -> None:
        self._game = pong()
        actions = int(self._game.action_space.n)
        stock = nn.Sequential(LargeAtariCNN(), nn.Linear(512, actions * 51), nn.Unflatten(1, (actions, 51)))
        network = padded_network(actions, 51) if same_network else stock
        values = DistributionalSingleModelStateQFunctionWithDiscreteAction(
            nn.Sequential(network, nn.Softmax(2)), np.linspace(-10.0, 10.0, 51, dtype=np.float32)
        )
        self._agent = CategoricalDQN(
            values,
            torch.optim.Adam(values.parameters(), lr=6.25e-5, eps=1.5e-4),
            PrioritizedReplayBuffer(100_000, alpha=0.5, beta0=0.5, betasteps=None, num_steps=3),
            gamma=0.99,
            explorer=Greedy(),
            replay_start_size=history_steps,
            minibatch_size=32,
            update_interval=4,
            target_update_interval=8_000,
            phi=lambda frames: np.asarray(frames, np.float32) / 255,
        )
        self._state = None

    def __call__(self, count: int) -> None:
        """Play so many agent steps."""
        for _ in range(count):
            if self._state is None:
                self._state, _ = self._game.reset()
            self._state, reward, terminated, truncated, _ = self._game.step(self._agent.act(self._state))
            self._agent.observe(self._state, reward, terminated, truncated)
            if terminated or truncated:
                self._state = None

    def updates(self) -> int:
        """Return how often the optimiser has stepped."""
        return self._agent.optim_t


if __name__ == "__main__":
    play = Play(int(sys.argv[1]), sys.argv[2] == "same")
    serve(play, play.updates, int(sys.argv[1]))
