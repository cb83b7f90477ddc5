"""Rainbow in Dopamine's reduced form: n-step, prioritised, distributional (C51); neither double nor duelling.

The mathematics is in pure functions; the agent holds the networks and the optimiser. One departure: Adam's ε is added
to the bias-corrected root, as in torch and optax, where TensorFlow 1 added it to the uncorrected one; the two differ
for the first one or two thousand updates.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offpiste.agent.exploration import random_action
from offpiste.agent.networks import ValueNetwork
from offpiste.config import AgentConfig, ExplorationConfig
from offpiste.neural import adam_step, copy_parameters, load_module, save_module
from offpiste.types import Batch

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Update:
    """The statistics of one update."""

    priorities: NDArray[np.float64]
    """[batch]: new priorities."""
    loss: float
    """Mean loss before importance weighting."""
    max_q: float
    """Batch mean of max_a Q(s, a) of the target network, n steps later."""
    target_mass_low: float
    """Mean probability of the projected target on the lowest atom."""
    target_mass_high: float
    """Mean probability of the projected target on the highest atom."""


class Rainbow:
    """The agent: ε-greedy actions, and one update per batch."""

    def __init__(
        self,
        config: AgentConfig,
        state_shape: tuple[int, int, int],
        action_count: int,
        generator: np.random.Generator,
        device: str = "cpu",
        noise_scale: float | None = None,
    ) -> None:
        """Draw the weights from `generator`; with `noise_scale`, the fully connected layers are noisy."""
        self.config = config
        self._action_count = action_count
        self._discounts = np.array([config.discount**steps for steps in range(config.return_steps + 1)], np.float32)
        self._device = torch.device(device)
        self._support = torch.linspace(-config.value_limit, config.value_limit, config.value_atoms, device=self._device)
        master = ValueNetwork(config, state_shape, action_count, generator, noise_scale)
        self._master = master.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        # In fp32 the online network is the master; in bf16 it is a rounded copy.
        self._online = self._master if config.precision == "fp32" else self._copy_of_master()
        self._target = self._copy_of_master()
        self._optimizer = torch.optim.Adam(
            self._master.parameters(), lr=config.learning_rate, eps=config.adam_epsilon, fused=True
        )
        self._act_input = np.empty((1, *state_shape), np.uint8)

    def act(
        self,
        state: NDArray[np.uint8],
        epsilon: float,
        generator: np.random.Generator,
        noise: np.random.Generator | None = None,
    ) -> int:
        """Return the ε-greedy action: with probability ε a random one, otherwise the greedy one."""
        action = random_action(epsilon, generator, self._action_count)
        return self.greedy_action(state, noise) if action is None else action

    def greedy_action(self, state: NDArray[np.uint8], noise: np.random.Generator | None = None) -> int:
        """Return the action of highest expected value in a state [stack, height, width]."""
        return int(self.action_values(state, noise).argmax())

    @torch.inference_mode()
    def action_values(self, state: NDArray[np.uint8], noise: np.random.Generator | None = None) -> Tensor:
        """Return the expected value of each action in a state [stack, height, width].

        Noisy layers resample from `noise`, or are noiseless without it; plain layers ignore it.
        """
        self._online.draw_noise(noise)
        self._act_input[0] = state
        logits = self._online(torch.from_numpy(self._act_input).to(self._device))
        return expected_values(logits.float(), self._support)[0]

    def learn(self, batch: Batch, returns: NDArray[np.float32], noise: np.random.Generator | None = None) -> Update:
        """Take one gradient step towards the n-step returns [batch] plus the bootstrap, and return its statistics.

        Noisy layers resample once for the online and once for the target network; all rows of a batch share the noise.
        """
        self._online.draw_noise(noise)
        self._target.draw_noise(noise)
        states = torch.from_numpy(batch.states).to(self._device)
        next_states = torch.from_numpy(batch.next_states).to(self._device)
        actions = torch.from_numpy(batch.actions[:, 0]).to(self._device)
        returned = torch.from_numpy(returns).to(self._device)
        weights = torch.from_numpy(importance_weights(batch.priorities)).to(self._device)
        bootstrap = torch.from_numpy(np.where(batch.terminal, 0, self._discounts[batch.steps])).to(self._device)
        with torch.no_grad():
            next_probabilities, max_q = best_distribution(self._target(next_states).float(), self._support)
            target = target_distribution(next_probabilities, returned, bootstrap, self._support)  # [batch, atoms]
        logits = self._online(states).float()
        loss = cross_entropy(target, logits, actions)  # [batch]
        self._descend((weights * loss).mean())
        with torch.no_grad():
            means = torch.stack([loss.mean(), max_q.mean(), target[:, 0].mean(), target[:, -1].mean()])
            # One transfer from the device, so one synchronisation per update.
            found = torch.cat([new_priorities(loss), means]).double().cpu().numpy()
        return Update(found[:-4], *found[-4:].tolist())

    def update_target(self) -> None:
        """Copy the online network to the target network."""
        copy_parameters(self._online, self._target)

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the online weights in float32, as plain arrays."""
        return save_module(self._master)

    def state(self) -> dict[str, Any]:
        """Return online and target weights and Adam's moments as plain arrays."""
        online = save_module(self._master, self._optimizer, "online/")
        return online | save_module(self._target, prefix="target/")

    def load_weights(self, weights: Mapping[str, Any], prefix: str = "") -> None:
        """Set the online weights from `weights()`, or from `state()` with the prefix `online/`."""
        load_module(weights, self._master, prefix=prefix)
        self._round_master()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._master, self._optimizer, "online/")
        load_module(state, self._target, prefix="target/")
        self._round_master()

    def _copy_of_master(self) -> ValueNetwork:
        return copy.deepcopy(self._master).to(_DTYPES[self.config.precision])  # type: ignore[no-any-return]

    def _round_master(self) -> None:
        if self._online is not self._master:
            copy_parameters(self._master, self._online)

    def _descend(self, objective: Tensor) -> None:
        for parameter in self._online.parameters():
            parameter.grad = None
        objective.backward()  # type: ignore[no-untyped-call]
        if self._online is not self._master:
            for master, working in zip(self._master.parameters(), self._online.parameters(), strict=True):
                assert working.grad is not None  # noqa: S101 (for the type checker)
                master.grad = working.grad.to(master.dtype)
        adam_step(self._optimizer)
        self._round_master()


def epsilon(config: ExplorationConfig, warmup_steps: int, step: int) -> float:
    """Return ε at a training step: constant during the warm-up, then decaying linearly."""
    left = (config.epsilon_decay_steps + warmup_steps - step) / config.epsilon_decay_steps
    return config.epsilon_final + (config.epsilon_start - config.epsilon_final) * min(1.0, max(0.0, left))


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Return Q, [..., actions], of logits [..., actions, atoms]."""
    return logits.softmax(-1) @ support


def best_distribution(logits: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """Return the value distribution [batch, atoms] of the greedy action, and its Q [batch]."""
    probabilities = logits.softmax(-1)  # [batch, actions, atoms]
    highest, action = (probabilities @ support).max(-1)
    return probabilities[torch.arange(len(action), device=action.device), action], highest


def target_distribution(probabilities: Tensor, returns: Tensor, bootstrap: Tensor, support: Tensor) -> Tensor:
    """Return the distribution of R + bootstrap·z on the support, [batch, atoms]; returns and bootstrap are [batch]."""
    return project(returns[:, None] + bootstrap[:, None] * support, probabilities, support)


def project(points: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Project distributions on any points, both [batch, atoms], onto the support: each shared by its two neighbours."""
    low, high = support[0], support[-1]
    spacing = (high - low) / (support.numel() - 1)
    points = points.clamp(low, high)
    distance = (points[:, None, :] - support[:, None]).abs_().div_(spacing)  # [batch, atoms to, atoms from]
    # All in place: allocating takes longer than the arithmetic.
    return distance.neg_().add_(1.0).clamp_(0.0, 1.0).mul_(probabilities[:, None, :]).sum(-1)


def cross_entropy(target: Tensor, logits: Tensor, actions: Tensor) -> Tensor:
    """Return the loss [batch] of the value distributions of the actions taken."""
    taken = logits[torch.arange(len(actions), device=actions.device), actions]  # [batch, atoms]
    return -(target * taken.log_softmax(-1)).sum(-1)


def new_priorities(loss: Tensor) -> Tensor:
    """Return √loss, the priorities after an update."""
    return (loss + 1e-10).sqrt()


def importance_weights(priorities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return importance-sampling weights with exponent 0.5, divided by their maximum."""
    weights = 1.0 / np.sqrt(priorities + 1e-10)
    return (weights / weights.max()).astype(np.float32)  # type: ignore[no-any-return]
