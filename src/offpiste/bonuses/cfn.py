"""Coin flip network (Lobel, Bagaria and Konidaris, 2023): counts by regression on coin flips.

Each visit of a frame has d coin flips of its own, ±1. A network f that is trained to predict them outputs, for a frame
that was visited n times, the mean of n flips, whose square is 1/n on average; so i = √(‖f‖² / d) estimates 1/√n. f
includes a random prior, frozen and normalised, so that a frame that was never trained on is paid about 1. Its batches
are its own: entries of the replay by priority, half for how seldom an entry was learned and half for its bonus. So it
counts what the replay still holds. The flips of an entry are not stored: they follow from its number. Ours: Adam, where
the authors' is RMSProp at 1e-5 with momentum 0.9; batches of 128, not 512, before every fourth step; nothing is paid
before the first.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.bonuses.rnd import FeatureNetwork, welford
from offpiste.neural import Adam, load_module, save_module, scale_pixels
from offpiste.parsing import Range

_MIN_VARIANCE = 1e-4


@dataclass(frozen=True)
class CfnOptions:
    """Coin flip network (Lobel, Bagaria and Konidaris, 2023)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size."""
    flips: Annotated[int, Range(min=1, max=64)] = 20
    """d, the coin flips of each visit."""
    batch_size: Annotated[int, Range(min=1, max=4_096)] = 128
    """How many entries are learned from, with each update of the agent."""


class Cfn:
    """Pays √(‖f‖² / d) for the frame in which the action was taken."""

    Options = CfnOptions
    pays_for = "state"

    def __init__(self, options: CfnOptions, context: Context) -> None:
        self._options, self._sample = options, context.sample
        self._device = torch.device(context.device)
        self._seed = int(context.generator.integers(2**63))
        self._network, self._prior = (
            FeatureNetwork(context.frame_shape, options.flips, 0, context.generator).to(
                self._device,
                memory_format=torch.channels_last,  # type: ignore[call-overload]
            )
            for _ in range(2)
        )
        self._prior.requires_grad_(False)
        self._optimizer = Adam(self._network.parameters(), options.learning_rate, epsilon=1e-8)
        self._observed = 0
        self._mean, self._squares = np.zeros(options.flips), np.zeros(options.flips)
        self._priorities = Priorities()
        self._loss: float | None = None

    @torch.no_grad()
    def observe(self, transition: Transition) -> float:
        """Return the bonus of the frame, whose prior counts among those by which it is normalised."""
        x = self._scaled(transition.frame[None])
        self._observed += 1
        prior = self._prior(x)[0].cpu().numpy().astype(np.float64)
        self._mean, self._squares = welford(self._mean, self._squares, prior, self._observed)
        return 0.0 if self._loss is None else math.sqrt(float(self._flips(x).square().mean().item()))

    def learn(self, _: Batch) -> None:
        """Train on a batch of its own: entries by their priorities, each with its flips."""
        batch = self._sample(self._options.batch_size, self._priorities.of)
        if batch is None:
            return
        wanted = torch.from_numpy(coin_flips(batch.numbers, self._seed, self._options.flips)).to(self._device)
        flips = self._flips(self._scaled(batch.states[:, -1]))
        loss = (flips - wanted).square().mean()
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._priorities.learned(batch.numbers, flips.detach().square().mean(1).cpu().numpy())
        self._loss = float(loss.item())

    def _scaled(self, frames: NDArray[np.uint8]) -> Tensor:
        return scale_pixels(torch.from_numpy(frames[:, None]).to(self._device), torch.float32)

    def _flips(self, x: Tensor) -> Tensor:
        """Return f, [batch, d], the network's output and the normalised prior's."""
        variance = self._squares / max(self._observed, 1)
        mean, deviation = (
            torch.from_numpy(values.astype(np.float32)).to(self._device)
            for values in (self._mean, np.sqrt(variance + _MIN_VARIANCE))
        )
        flips: Tensor = self._network(x) + (self._prior(x) - mean) / deviation
        return flips

    def scalars(self) -> dict[str, float]:
        """Return the loss of the last batch; empty before the first."""
        return {} if self._loss is None else {"coin_flip_loss": self._loss}

    def state(self) -> dict[str, Any]:
        """Return networks, Adam's moments, the prior's moments and the priorities as plain arrays and numbers."""
        networks = save_module(self._network, self._optimizer, "network/") | save_module(self._prior, prefix="prior/")
        return (
            networks
            | self._priorities.state()
            | {
                "coin_seed": self._seed,
                "observed": self._observed,
                "prior_mean": self._mean.copy(),
                "prior_squares": self._squares.copy(),
                "coin_flip_loss": self._loss,
            }
        )

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._network, self._optimizer, "network/")
        load_module(state, self._prior, prefix="prior/")
        self._priorities.load_state(state)
        self._seed, self._observed, self._loss = state["coin_seed"], state["observed"], state["coin_flip_loss"]
        self._mean, self._squares = state["prior_mean"].copy(), state["prior_squares"].copy()


class Priorities:
    """½/(updates + 1) + ½/n of the entries that the replay holds, by their numbers; 1 of those never learned."""

    def __init__(self) -> None:
        self._first = 0
        self._priorities = np.zeros(0, np.float32)
        self._updates = np.zeros(0, np.uint16)

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the priorities of all entries held, in ascending order without gaps, and forget any other."""
        gone = int(numbers[0]) - self._first
        self._first += gone
        kept = self._priorities[gone:], self._updates[gone:]
        new = len(numbers) - len(kept[0])
        self._priorities = np.concatenate([kept[0], np.ones(new, np.float32)])
        self._updates = np.concatenate([kept[1], np.ones(new, np.uint16)])
        return self._priorities.astype(np.float64)

    def learned(self, numbers: NDArray[np.int64], inverse_counts: NDArray[np.float32]) -> None:
        """Set the priorities of a batch that was learned, where 1/n is given for each entry; updates begin at 1."""
        rows = numbers - self._first
        self._priorities[rows] = 0.5 / (self._updates[rows] + 1.0) + 0.5 * inverse_counts
        self._updates[rows] = np.minimum(self._updates[rows].astype(np.int64) + 1, 2**16 - 1)

    def state(self) -> dict[str, Any]:
        """Return the priorities and how often each entry was learned."""
        return {
            "first_entry": self._first,
            "entry_priorities": self._priorities.copy(),
            "entry_updates": self._updates.copy(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._first = state["first_entry"]
        self._priorities, self._updates = state["entry_priorities"].copy(), state["entry_updates"].copy()


def coin_flips(numbers: NDArray[np.int64], seed: int, count: int) -> NDArray[np.float32]:
    """Return the flips [entries, count] of entries, ±1: bits of a hash of seed and number (SplitMix64; Vigna, 2015)."""
    with np.errstate(over="ignore"):
        bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    heads = (bits[:, None] >> np.arange(count, dtype=np.uint64)) & np.uint64(1)
    return heads.astype(np.float32) * 2 - 1
