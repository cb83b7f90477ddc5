"""The interface of a bonus: what it is built from, what it observes and which methods it has.

A bonus observes every training step once, in order, and none of evaluation. It returns its reward unscaled and may
learn while it observes, because a pseudo-count is the change that an update causes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from offpiste.errors import ConfigError, NotFinite, kind_of
from offpiste.field_docs import show_fields
from offpiste.types import Batch, Transition, Weights

__all__ = [
    "Batch",
    "Bonus",
    "Context",
    "LearningBonus",
    "LoggingBonus",
    "NoOptions",
    "PaysFor",
    "Product",
    "Sample",
    "Scope",
    "ScoringBonus",
    "Transition",
    "Weights",
    "fault_of_scalars",
    "no_replay",
    "options_class",
    "scores",
    "warm_up_steps",
]

Scope = Literal["lifelong", "episodic", "both"]
"""Over what a bonus counts visits: the run (lifelong), the episode, or both."""
PaysFor = Literal["state", "next_state"]
"""Whose novelty a bonus pays for: of the state in which the action was taken, or of the one that it led to."""


class Sample(Protocol):
    """Samples the replay for a bonus."""

    def __call__(self, batch_size: int, weights: Weights | None = None, /) -> Batch | None:
        """Return a batch, or None while the replay is empty."""


def no_replay(*_: object) -> Batch | None:
    """Sample a replay in which nothing is."""
    return None


@show_fields
@dataclass(frozen=True)
class Context:
    """The game and the agent that a bonus is built for."""

    game: str
    """For bonuses that read the game's RAM; a bonus for every game ignores it."""
    action_count: int
    """Number of actions."""
    stack_frames: int
    """How many frames make up a state."""
    frame_shape: tuple[int, int]
    """Height and width of a frame."""
    generator: np.random.Generator
    """The bonus's own random stream; the run saves and restores its state."""
    device: str = "cpu"
    """Where networks belong, as torch names it: cpu, cuda:0."""
    discount: float = 0.99
    """The agent's discount factor per step."""
    return_steps: int = 3
    """n of the agent's n-step returns."""
    min_history_steps: int = 20_000
    """Agent steps before the first update: those of `learn` begin then."""
    run_steps: int = 50_000_000
    """Agent steps of training; more, where somebody prolongs the run later."""
    sample: Sample = no_replay
    """Called with a batch size, samples the replay uniformly, drawn from `generator`; None while it is empty.

    Called with weights too, a function from the numbers of all entries held, ascending, to as many weights, it samples
    in proportion to these. The frames of a batch are valid until the next call.
    """


MAX_INTRINSIC = float(np.finfo(np.float32).max)
"""The largest intrinsic reward, unscaled: the replay stores float32."""


class Product(float):
    """An intrinsic reward that is a product: `Product(episodic=0.5, lifelong=2.0)` is the number 1.0."""

    factors: Mapping[str, float]

    def __new__(cls, **factors: float) -> "Product":
        """Multiply factors, which keep their names."""
        made = super().__new__(cls, math.prod(factors.values()))
        made.factors = factors
        return made


class Bonus(Protocol):
    """An intrinsic reward. Any class with these methods will do; it need not inherit from this one.

    The class is called with its options and a `Context`. It may have these attributes:

    - `Options`: a frozen dataclass whose field docstrings document the options; a bonus without it has none;
    - `measures_visits` (default True): the bonus of a frame falls as the frame is observed again and again;
    - `scope` (default "lifelong"): it stays low in later episodes; "episodic", it comes back in the next episode;
      "both", it falls within the episode and over the run;
    - `can_be_negative` (default False);
    - `warm_up_steps` (default 0): so many first steps are observed and not paid, as running statistics must settle;
    - `pays_for`: "state" or "next_state", for whose novelty it pays; where it is declared, `check-bonus` tests it.

    Layers may draw their initial weights from torch's global generator, which is seeded for that; nothing else may draw
    from a global generator.
    """

    def observe(self, transition: Transition) -> float:
        """Return the unscaled intrinsic reward of this step; a `Product` has its factors recorded, too."""

    def state(self) -> dict[str, Any]:
        """Return all that later rewards depend on, as a flat dictionary of arrays and JSON values."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a bonus that declares none."""


def options_class(kind: type[Any]) -> Any:
    """Return what a bonus declares as its options; whether that is a frozen dataclass is for others to say."""
    return getattr(kind, "Options", NoOptions)


def warm_up_steps(bonus: Any) -> int:
    """Return how many first steps of a run a bonus observes without being paid."""
    steps = getattr(bonus, "warm_up_steps", 0)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise ConfigError(f"warm_up_steps of {type(bonus).__name__} must be an int >= 0, got {steps!r}")
    return steps


@runtime_checkable
class LearningBonus(Bonus, Protocol):
    """A bonus that also trains on the agent's batches."""

    def learn(self, batch: Batch) -> None:
        """Train on the batch of an agent update, after the agent.

        The arrays must not be changed, and the frames are valid only until the call returns.
        """


@runtime_checkable
class ScoringBonus(Bonus, Protocol):
    """A bonus that can also score steps of the replay, for `bonus.when = "sample"`."""

    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Return [batch, n]: what `observe` would return now for each of the n steps, before it learns from them.

        It must change nothing and draw no random numbers; what it returns beyond `batch.steps` is ignored.
        """


@runtime_checkable
class LoggingBonus(Bonus, Protocol):
    """A bonus that also logs scalars, for example a loss."""

    def scalars(self) -> Mapping[str, float | Sequence[float]]:
        """Return finite numbers by name, of the last step observed or of what `state()` holds.

        Called at the end of each window of training; it must change nothing and draw no random numbers. Of a list, as
        of the losses of the last steps, the mean is recorded. A number that is not defined yet is left out, and so is
        an empty list.
        """


def scores(bonus: ScoringBonus, batch: Batch) -> NDArray[np.float32]:
    """Return the intrinsic rewards [batch, n] of a batch as a bonus scores them now, 0 after the end of the episode."""
    found = np.asarray(bonus.score(batch))
    if found.shape != batch.intrinsic.shape or found.dtype.kind not in "fiu":
        raise NotFinite(
            f"score must return numbers of shape {batch.intrinsic.shape}, one for each step of the batch, got "
            f"{found.dtype} of shape {found.shape}"
        )
    inside = np.arange(found.shape[1]) < batch.steps[:, None]
    found = np.where(inside, found, 0.0)
    if not (np.abs(found) <= MAX_INTRINSIC).all():  # `not <=` also catches NaN
        raise NotFinite("score must return finite numbers in float32; look for divisions by 0 and roots below 0")
    return found.astype(np.float32)


def fault_of_scalars(scalars: Any) -> str | None:
    """Return what is wrong with the result of a bonus's `scalars()` and what to do about it, or None."""
    if not isinstance(scalars, Mapping):
        return f"scalars() must be a dictionary, got {kind_of(scalars)}; return numbers by name"
    for name, value in scalars.items():
        if not isinstance(name, str):
            return f"the names of scalars() must be str, got {name!r} ({kind_of(name)}); name each number by a str"
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, bool) or not isinstance(number, float | int):
                return f"scalars()[{name!r}] must be a float, got {kind_of(number)}; return float(...)"
            if not math.isfinite(number):
                return f"scalars()[{name!r}] must be finite, got {number}; leave out a number that is not defined yet"
    return None
