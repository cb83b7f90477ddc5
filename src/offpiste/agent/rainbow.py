"""Rainbow in Dopamine's reduced form: n-step, prioritised, distributional (C51); neither double nor duelling.

The mathematics is in pure functions; the agent holds the networks and the optimiser. One departure: Adam's ε is added
to the bias-corrected root, as in torch and optax, where TensorFlow 1 added it to the uncorrected one; the two differ
for the first one or two thousand updates.

A bonus may have a second head on the same network, for the return of its rewards alone. The agent then acts by, and
bootstraps from the action of, the highest Q_E + β·Q_I (Badia et al., 2020, who have two networks).
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offpiste.agent.exploration import random_action
from offpiste.agent.mixing import Targets
from offpiste.agent.networks import ValueNetwork
from offpiste.config import AgentConfig, BonusConfig, ExplorationConfig
from offpiste.neural import Adam, copy_parameters, load_module, save_module
from offpiste.types import Batch

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_ONE_HEAD = BonusConfig()
_BETA = "beta"
"""In the state of an agent with two heads."""


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
    intrinsic: Mapping[str, float] = field(default_factory=dict)
    """Of the second head, where there is one: `q`, the batch mean of its values, n steps later, of the actions that
    the target network takes there, and the means of its targets on its lowest and highest atom."""


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
        bonus: BonusConfig = _ONE_HEAD,
    ) -> None:
        """Draw the weights from `generator`; with `noise_scale`, the fully connected layers are noisy.

        `bonus` says whether there is a second head.
        """
        self.config = config
        self._heads = bonus.heads
        self._weights: Tensor | None = None
        self._by_divergence = is_by_divergence(bonus)
        self._action_count = action_count
        self._device = torch.device(device)
        self._sparse = bonus.heads == 2 and self._device.type == "cpu"  # not with one head, whose bits would change
        self._support = torch.linspace(-config.value_limit, config.value_limit, config.value_atoms, device=self._device)
        self._unit = Unit.between(bonus, config.value_limit)
        self.beta = bonus.scale
        master = ValueNetwork(config, state_shape, action_count, generator, noise_scale, bonus.heads)
        self._master = master.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        # In fp32 the online network is the master; in bf16 it is a rounded copy.
        self._online = self._master if config.precision == "fp32" else self._copy_of_master()
        self._target = self._copy_of_master()
        self._optimizer = Adam(self._master.parameters(), config.learning_rate, config.adam_epsilon)
        self._act_input = np.empty((1, *state_shape), np.uint8)

    @property
    def beta(self) -> float:
        """Weight of the second head's values where actions are chosen; it may decay in training."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = beta
        if self._heads == 2:
            self._weights = torch.tensor([1.0, beta / self._unit.factor], device=self._device)

    def act(
        self,
        state: NDArray[np.uint8],
        epsilon: float,
        generator: np.random.Generator,
        noise: np.random.Generator | None = None,
        *,
        extrinsic_only: bool = False,
    ) -> int:
        """Return the ε-greedy action: with probability ε a random one, otherwise the greedy one.

        With `extrinsic_only`, it is greedy in the values of the first head alone.
        """
        action = random_action(epsilon, generator, self._action_count)
        if action is not None:
            return action
        return self._best_extrinsic(state, noise) if extrinsic_only else self.greedy_action(state, noise)

    def greedy_action(self, state: NDArray[np.uint8], noise: np.random.Generator | None = None) -> int:
        """Return the action of highest expected value in a state [stack, height, width]."""
        return int(self.action_values(state, noise).argmax())

    def action_values(self, state: NDArray[np.uint8], noise: np.random.Generator | None = None) -> Tensor:
        """Return the expected value of each action in a state [stack, height, width]; of two heads, Q_E + β·Q_I.

        Noisy layers resample from `noise`, or are noiseless without it; plain layers ignore it.
        """
        values = self._values(state, noise)
        return values if self._heads == 1 else weighted(values, self._weights) - self._offset

    def head_values(self, state: NDArray[np.uint8], noise: np.random.Generator | None = None) -> list[Tensor]:
        """Return for each head the expected value of each action in a state [stack, height, width]."""
        values = self._values(state, noise)
        return [values] if self._heads == 1 else [values[0], self._unit.values(values[1])]

    @torch.inference_mode()
    def _values(self, state: NDArray[np.uint8], noise: np.random.Generator | None) -> Tensor:
        self._online.draw_noise(noise)
        self._act_input[0] = state
        logits = self._online(torch.from_numpy(self._act_input).to(self._device))
        return expected_values(logits.float(), self._support)[
            0
        ]  # [actions], or [heads, actions] on the first's support

    def learn(self, batch: Batch, targets: Sequence[Targets], noise: np.random.Generator | None = None) -> Update:
        """Take one gradient step towards the targets of each head, and return its statistics.

        Noisy layers resample once for the online and once for the target network; all rows of a batch share the noise.
        """
        self._online.draw_noise(noise)
        self._target.draw_noise(noise)
        states = torch.from_numpy(batch.states).to(self._device)
        # Where a game ended the extrinsic return bootstraps from nothing, so one state serves both heads.
        next_states = torch.from_numpy((batch.beyond or batch).next_states).to(self._device)
        actions = torch.from_numpy(batch.actions[:, 0]).to(self._device)
        weights = torch.from_numpy(importance_weights(batch.priorities)).to(self._device)
        rows = targets[0] if self._heads == 1 else self._unit.below(*targets)
        returns, bootstrap = (torch.from_numpy(each).to(self._device) for each in rows)
        with torch.no_grad():
            next_logits = self._target(next_states).float()
            next_probabilities, max_q = best_distribution(next_logits, self._support, self._weights)
            target = target_distribution(  # [rows, atoms]
                next_probabilities, returns, bootstrap, self._support, project_sparsely if self._sparse else project
            )
        losses = cross_entropy(target, self._online(states).float(), actions)  # [rows]
        loss = added(losses, len(actions))  # [batch]
        self._descend((weights * loss).mean())
        with torch.no_grad():
            surprise = added(divergence(losses, target), len(actions)) if self._by_divergence else loss
            means = [loss.mean(), max_q.mean()]
            for start in range(0, len(target), len(actions)):
                of_head = target[start : start + len(actions)]
                means += [of_head[:, 0].mean(), of_head[:, -1].mean()]
            if self._heads == 2:
                means.append((next_probabilities[len(actions) :] @ self._support).mean())
            # One transfer from the device, so one synchronisation per update.
            found = torch.cat([new_priorities(surprise), torch.stack(means)]).double().cpu().numpy()
        loss_mean, q_mean, mass_low, mass_high, *of_second = found[len(actions) :].tolist()
        if self._heads == 1:
            return Update(found[: len(actions)], loss_mean, q_mean, mass_low, mass_high)
        low, high, q = of_second
        second = {"target_mass_low": low, "target_mass_high": high, "q": self._unit.values(q)}
        return Update(found[: len(actions)], loss_mean, q_mean - self._offset, mass_low, mass_high, second)

    def update_target(self) -> None:
        """Copy the online network to the target network."""
        copy_parameters(self._online, self._target)

    def weights(self) -> dict[str, Any]:
        """Return the online weights in float32, as plain arrays; with two heads, β too."""
        return save_module(self._master) | ({} if self._heads == 1 else {_BETA: self.beta})

    def state(self) -> dict[str, Any]:
        """Return online and target weights and Adam's moments as plain arrays."""
        online: dict[str, Any] = save_module(self._master, self._optimizer, "online/")
        if self._heads == 2:
            online[f"online/{_BETA}"] = self.beta
        return online | save_module(self._target, prefix="target/")

    def load_weights(self, weights: Mapping[str, Any], prefix: str = "") -> None:
        """Set the online weights from `weights()`, or from `state()` with the prefix `online/`."""
        load_module(weights, self._master, prefix=prefix)
        self._load_beta(weights, prefix)
        self._round_master()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._master, self._optimizer, "online/")
        load_module(state, self._target, prefix="target/")
        self._load_beta(state, "online/")
        self._round_master()

    @property
    def _offset(self) -> float:
        """What values on the first head's support have too much of, where both are added."""
        return self.beta * self._unit.offset / self._unit.factor

    def _best_extrinsic(self, state: NDArray[np.uint8], noise: np.random.Generator | None) -> int:
        return int(self.head_values(state, noise)[0].argmax())

    def _load_beta(self, state: Mapping[str, Any], prefix: str) -> None:
        if self._heads == 2:
            self.beta = float(state[f"{prefix}{_BETA}"])

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
        self._optimizer.step()
        self._round_master()


def epsilon(config: ExplorationConfig, warmup_steps: int, step: int) -> float:
    """Return ε at a training step: constant during the warm-up, then decaying linearly."""
    left = (config.epsilon_decay_steps + warmup_steps - step) / config.epsilon_decay_steps
    return config.epsilon_final + (config.epsilon_start - config.epsilon_final) * min(1.0, max(0.0, left))


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Return Q, [..., actions], of logits [..., actions, atoms]."""
    return logits.softmax(-1) @ support


class Unit(NamedTuple):
    """The unit of the second head: factor·z + offset lies on the first head's support, which so serves both.

    A projection shares a point between its neighbours in the same way in any unit.
    """

    factor: float
    offset: float

    @classmethod
    def between(cls, bonus: BonusConfig, limit: float) -> "Unit":
        """Return the unit in which [value_low, value_high] is [-limit, limit]."""
        factor = 2.0 * limit / (bonus.value_high - bonus.value_low)
        return cls(factor, -limit - factor * bonus.value_low)

    def values(self, shown: Any) -> Any:
        """Return the values that stand on the first head's support as these."""
        return (shown - self.offset) / self.factor

    def below(self, extrinsic: Targets, intrinsic: Targets) -> Targets:
        """Return the targets [2 batch] of the first head and below them those of the second, in this unit."""
        shown = np.float32(self.factor) * intrinsic.returns + np.float32(self.offset) * (1.0 - intrinsic.bootstrap)
        returns = np.concatenate([extrinsic.returns, shown.astype(np.float32)])
        return Targets(returns, np.concatenate([extrinsic.bootstrap, intrinsic.bootstrap]))


def weighted(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the values [..., actions] of one head, or the weighted sum of two, [..., heads, actions]."""
    if weights is None:
        return values
    summed: Tensor = weights @ values
    return summed


def best_distribution(logits: Tensor, support: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the value distribution [rows, atoms] of the greedy action, and its Q [batch].

    With the weights of two heads, the action is greedy in their weighted sum, and the rows of the second head follow.
    """
    probabilities = logits.softmax(-1)  # [batch, actions, atoms], or [batch, heads, actions, atoms]
    highest, action = weighted(probabilities @ support, weights).max(-1)
    return of_actions(probabilities, action), highest


def of_actions(values: Tensor, actions: Tensor) -> Tensor:
    """Return [rows, atoms] of [batch, actions, atoms], or of [batch, heads, actions, atoms] head by head."""
    rows = torch.arange(len(actions), device=actions.device)
    if values.dim() == 3:
        return values[rows, actions]
    return values[rows, :, actions].transpose(0, 1).flatten(0, 1)


def target_distribution(
    probabilities: Tensor,
    returns: Tensor,
    bootstrap: Tensor,
    support: Tensor,
    onto: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the distribution of R + bootstrap·z on the support, [batch, atoms]; returns and bootstrap are [batch]."""
    return (onto or project)(returns[:, None] + bootstrap[:, None] * support, probabilities, support)


def project(points: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Project distributions on any points, both [batch, atoms], onto the support: each shared by its two neighbours."""
    low, high = support[0], support[-1]
    spacing = (high - low) / (support.numel() - 1)
    points = points.clamp(low, high)
    distance = (points[:, None, :] - support[:, None]).abs_().div_(spacing)  # [batch, atoms to, atoms from]
    # All in place: allocating takes longer than the arithmetic.
    return distance.neg_().add_(1.0).clamp_(0.0, 1.0).mul_(probabilities[:, None, :]).sum(-1)


def project_sparsely(points: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Project as `project` does, in a fifth of its time on a CPU; on a GPU the order of its additions may vary."""
    low, high = support[0], support[-1]
    position = (points.clamp(low, high) - low).div_((high - low) / (support.numel() - 1))
    below = position.floor().clamp_(0, support.numel() - 2)
    above = probabilities * (position - below)
    index, projected = below.long(), torch.zeros_like(probabilities)
    return projected.scatter_add_(1, index, probabilities - above).scatter_add_(1, index + 1, above)


def cross_entropy(target: Tensor, logits: Tensor, actions: Tensor) -> Tensor:
    """Return the loss [rows] of the value distributions of the actions taken."""
    return -(target * of_actions(logits, actions).log_softmax(-1)).sum(-1)


def added(losses: Tensor, batch_size: int) -> Tensor:
    """Return the sum over heads, [batch], of what is [rows]."""
    return losses if len(losses) == batch_size else losses[:batch_size] + losses[batch_size:]


def divergence(losses: Tensor, target: Tensor) -> Tensor:
    """Return KL(target ‖ prediction) [rows], which is the cross-entropy without the target's entropy.

    A wide target has a large cross-entropy even where it is predicted exactly.
    """
    entropy: Tensor = torch.special.entr(target).sum(-1)
    return (losses - entropy).clamp_min(0.0)  # which rounding may take below 0


def is_by_divergence(bonus: BonusConfig) -> bool:
    """Return whether priorities are those of the divergence from the targets, instead of the loss."""
    return bonus.heads == 2 if bonus.priorities == "default" else bonus.priorities == "divergence"


def new_priorities(loss: Tensor) -> Tensor:
    """Return √loss, the priorities after an update."""
    return (loss + 1e-10).sqrt()


def importance_weights(priorities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return importance-sampling weights with exponent 0.5, divided by their maximum."""
    weights = 1.0 / np.sqrt(priorities + 1e-10)
    return (weights / weights.max()).astype(np.float32)  # type: ignore[no-any-return]
