"""What a bonus is given, what it sees and what it must offer.

A bonus is asked once per training step, in order, and never during evaluation. It returns its reward unscaled and may
learn while it looks, because a pseudo-count is the change that an update causes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from offpiste.errors import kind_of
from offpiste.types import Batch, Transition

__all__ = ["Batch", "Bonus", "Context", "LearningBonus", "LoggingBonus", "Scope", "Transition", "fault_of_scalars"]

Scope = Literal["lifelong", "episodic", "both"]
"""Over what a bonus counts visits: the run, the episode, or both."""


@dataclass(frozen=True)
class Context:
    """What a bonus is made for."""

    game: str
    """Its name, for bonuses that read the game's memory; a bonus meant for every game has no use for it."""
    action_count: int
    stack_frames: int
    frame_shape: tuple[int, int]
    generator: np.random.Generator
    """The bonus's own random stream; its state is saved and restored by the run."""
    device: str = "cpu"


class Bonus(Protocol):
    """An intrinsic reward. Any class of this form will do; it need not inherit from this one.

    The class is called with its options and a `Context`, and tells about itself in attributes: `Options`, a frozen
    dataclass of its options, whose field docstrings are their manual; optionally `measures_visits` (default True: the
    bonus of a frame falls as the frame is seen again and again), `scope` (default "lifelong": it stays low in later
    episodes; "episodic": it comes back in the next episode; "both": it comes back in part) and `can_be_negative`
    (default False). Layers may draw their first weights from torch's global generator, which is seeded for that; later
    nothing may.
    """

    def observe(self, transition: Transition) -> float:
        """Return the unscaled bonus of this step."""

    def state(self) -> dict[str, Any]:
        """Return all that later bonuses depend on, as a flat dictionary of arrays and JSON values."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""


@runtime_checkable
class LearningBonus(Bonus, Protocol):
    """A bonus that also trains on what the agent learns from."""

    def learn(self, batch: Batch) -> None:
        """Train on the batch of an update of the agent, after the agent has.

        Its arrays must not be changed, and the frames stay valid only until the call returns.
        """


@runtime_checkable
class LoggingBonus(Bonus, Protocol):
    """A bonus that also has numbers to record, for example a loss."""

    def scalars(self) -> Mapping[str, float]:
        """Return finite numbers by name, of the last observed step or of what `state()` holds.

        It is called at the end of each window of training, and must change nothing and draw no random numbers. A
        number that there is none of at present is left out.
        """


def fault_of_scalars(scalars: Any) -> str | None:
    """Return what is wrong with what a bonus's `scalars()` returned, and what to do, or None."""
    if not isinstance(scalars, Mapping):
        return f"scalars returned {kind_of(scalars)}; return a dictionary of numbers by name"
    for name, value in scalars.items():
        if not isinstance(name, str):
            return f"scalars returned the name {name!r}, {kind_of(name)}; name each number by a str"
        if isinstance(value, bool) or not isinstance(value, float | int):
            return f"scalars()[{name!r}] must be a float, got {kind_of(value)}; return float(...)"
        if not math.isfinite(value):
            return f"scalars()[{name!r}] must be finite, got {value}; leave out a number that there is none of"
    return None
