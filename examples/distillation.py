"""Random network distillation (Burda et al., 2019) that trains on the agent's batches.

One network predicts what another, random and fixed, makes of a frame. Its squared error
is the bonus: large for frames unlike those in the replay. The package's `rnd` is the
benchmark's form, which takes a step on every frame instead; this one is kept small to
show a bonus that learns: `learn(batch)`, and networks saved by `offpiste.save_module`.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import nn

import offpiste
from offpiste import Batch, Context, Range, Transition


@dataclass(frozen=True)
class DistillationOptions:
    """How fast frames become familiar."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-3
    """Adam step size."""
    features: Annotated[int, Range(min=1, max=1_024)] = 64
    """Outputs of both networks."""


class Distillation:
    """Pays the error of a network that learns a random one by heart."""

    Options = DistillationOptions

    def __init__(self, options: DistillationOptions, context: Context) -> None:
        height, width = context.frame_shape

        def network() -> nn.Module:
            outer = (
                nn.Linear(height * width, 128),
                nn.ReLU(),
                nn.Linear(128, options.features),
            )
            return nn.Sequential(nn.Flatten(), *outer).to(context.device)

        self._device = context.device
        self._target, self._predictor = network(), network()
        self._optimizer = torch.optim.Adam(
            self._predictor.parameters(), options.learning_rate
        )
        self._loss = 0.0

    def observe(self, transition: Transition) -> float:
        """Return the error on the newest frame."""
        with torch.no_grad():
            return float(self._errors(transition.frame[None])[0])

    def learn(self, batch: Batch) -> None:
        """Take a step on the newest frames of a batch's states."""
        loss = self._errors(batch.states[:, -1]).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._loss = float(loss.detach())

    def scalars(self) -> dict[str, float]:
        """Return the loss of the last batch."""
        return {"loss": self._loss}

    def state(self) -> dict[str, Any]:
        """Return both networks, Adam's moments and the loss."""
        trained = offpiste.save_module(self._predictor, self._optimizer, "predictor/")
        return {
            **trained,
            **offpiste.save_module(self._target, prefix="target/"),
            "loss": self._loss,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        offpiste.load_module(state, self._predictor, self._optimizer, "predictor/")
        offpiste.load_module(state, self._target, prefix="target/")
        self._loss = state["loss"]

    def _errors(self, frames: Any) -> Any:
        """Return the squared errors on frames [batch, height, width], as a tensor."""
        scaled = torch.from_numpy(frames).to(self._device, torch.float32) / 255
        with torch.no_grad():
            wanted = self._target(scaled)
        return (self._predictor(scaled) - wanted).square().sum(1)
