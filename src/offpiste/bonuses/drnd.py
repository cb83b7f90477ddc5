"""Distributional random network distillation (Yang et al., 2024): one predictor of several fixed random networks.

With c the features of N random networks, μ and B₂ the means over them of c and c²,

    i = α ⟨(f̂ - μ)²⟩ + (1 - α) ⟨√clip(|f̂² - μ²| / (B₂ - μ²), 10⁻⁶, 1)⟩

with means ⟨·⟩ over the features; the paper sums the first, but the deviation that divides rewards takes that out.
On every frame the predictor learns one of the networks, drawn at random, so the second term estimates 1/√n after n
visits. All else is as in `rnd_full.py`: networks, normalised frames, warm-up and mixing.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.rnd import PixelStatistics, feature_network
from offpiste.bonuses.rnd_full import RndFullOptions, is_padded
from offpiste.neural import Adam, load_module, save_module
from offpiste.parsing import Range

_MIN_RATIO = 1e-6


@dataclass(frozen=True)
class DrndOptions(RndFullOptions):
    """Distributional random network distillation (Yang et al., 2024)."""

    alpha: Annotated[float, Range(min=0, max=1)] = 0.9
    """α: weight of the distance from the mean of the networks; the rest is that of the estimated count."""
    targets: Annotated[int, Range(min=2, max=64)] = 5
    """N: how many random networks there are."""


class Drnd:
    """Pays the distance from the mean of several random networks, and an estimate of 1/√n from their variance."""

    Options = DrndOptions

    def __init__(self, options: DrndOptions, context: Context) -> None:
        self.warm_up_steps = min(options.warm_up_steps, context.min_history_steps)
        self._alpha = options.alpha
        self._generator = context.generator
        self._device = torch.device(context.device)
        made = [
            feature_network(context, options.features, hidden, padded=is_padded(context))
            for hidden in (*options.targets * [0], 2)
        ]
        self._targets = nn.ModuleList(made[:-1]).requires_grad_(False)
        self._predictor = made[-1]
        self._optimizer = Adam(self._predictor.parameters(), options.learning_rate, epsilon=1e-5)
        self._pixels = PixelStatistics(context.frame_shape)
        self._loss: float | None = None  # not part of the state

    def observe(self, transition: Transition) -> float:
        """Return the reward of the newest frame, then train the predictor on one random network's features of it."""
        self._pixels.observe(transition.frame)
        if self._pixels.observed <= self.warm_up_steps:
            return 0.0
        normal = self._pixels.normalise(transition.frame).astype(np.float32)
        x = torch.from_numpy(normal)[None, None].to(self._device)
        targets = torch.cat([target(x) for target in self._targets])  # [targets, features]
        (predicted,) = self._predictor(x)
        paid = float(reward(predicted.detach(), targets, self._alpha))
        loss = (predicted - targets[int(self._generator.integers(len(targets)))]).square().mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._loss = float(loss.detach())
        return paid

    def scalars(self) -> dict[str, float]:
        """Return the predictor's loss on the last frame; empty before the first."""
        return {} if self._loss is None else {"predictor_loss": self._loss}

    def state(self) -> dict[str, Any]:
        """Return all networks, Adam's moments and the statistics as plain arrays."""
        trained = save_module(self._predictor, self._optimizer, "predictor/")
        return trained | save_module(self._targets, prefix="targets/") | self._pixels.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        load_module(state, self._predictor, self._optimizer, "predictor/")
        load_module(state, self._targets, prefix="targets/")
        self._pixels.load_state(state)


def reward(predicted: Tensor, targets: Tensor, alpha: float) -> Tensor:
    """Return the reward of predicted features [features] and those of the random networks [targets, features]."""
    mean = targets.mean(0)
    variance = (targets - mean).square().mean(0)  # B₂ - μ²
    ratio = (predicted.square() - mean.square()).abs() / variance.clamp_min(torch.finfo(variance.dtype).tiny)
    count = ratio.clamp(_MIN_RATIO, 1.0).sqrt()
    return alpha * (predicted - mean).square().mean() + (1.0 - alpha) * count.mean()
