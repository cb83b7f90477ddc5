"""E3B times RND (Henaff, Jiang and Raileanu, 2023): novelty in the episode times novelty over the run.

i = b · ‖f̂ - f‖, with b of `e3b` for the state in which the action was taken and the error of `rnd`, a norm and not
squared, on the frame that it led to. Both are the registered bonuses, each with its own state. The authors' code has
instead of RND's error the rise of it that NovelD pays, max(n(s') - α n(s), 0), without NovelD's own count of the
episode: that is `lifelong = "noveld"`.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from offpiste.bonuses.base import Batch, Bonus, Context, LearningBonus, LoggingBonus, Product, Transition
from offpiste.bonuses.registry import build
from offpiste.config import BonusConfig
from offpiste.parsing import Range


@dataclass(frozen=True)
class E3bRndOptions:
    """E3B times RND (Henaff, Jiang and Raileanu, 2023)."""

    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Adam step size of both."""
    features: Annotated[int, Range(min=1, max=1_024)] = 128
    """Length of E3B's φ."""
    distilled_features: Annotated[int, Range(min=1, max=4_096)] = 512
    """Outputs of RND's networks, and the width of the predictor's hidden layers; small worlds need fewer."""
    lifelong: Literal["rnd", "noveld"] = "rnd"
    """Whether the second factor is RND's error, or the rise of it that NovelD pays."""


class E3bRnd:
    """Pays the product of E3B and RND's error."""

    Options = E3bRndOptions
    scope = "both"

    def __init__(self, options: E3bRndOptions, context: Context) -> None:
        rate, self._second = options.learning_rate, options.lifelong
        of_episode = BonusConfig("e3b", {"learning_rate": rate, "features": options.features})
        of_run = BonusConfig(self._second, {"learning_rate": rate, "features": options.distilled_features})
        self._parts: dict[str, Bonus] = {"episodic": _made(of_episode, context), "lifelong": _made(of_run, context)}

    def observe(self, transition: Transition) -> float:
        """Return the product, and show both what they learn from."""
        return Product(episodic=self._parts["episodic"].observe(transition), lifelong=self._lifelong(transition))

    def _lifelong(self, transition: Transition) -> float:
        if self._second == "rnd":
            return math.sqrt(self._parts["lifelong"].observe(replace(transition, state=transition.next_state)))
        paid = self._parts["lifelong"].observe(transition)
        return paid.factors["lifelong"]  # type: ignore[attr-defined, no-any-return]

    def learn(self, batch: Batch) -> None:
        """Let E3B learn from a batch."""
        for part in self._parts.values():
            if isinstance(part, LearningBonus):
                part.learn(batch)

    def scalars(self) -> dict[str, Any]:
        """Return what both log."""
        logging = [part for part in self._parts.values() if isinstance(part, LoggingBonus)]
        return {name: value for part in logging for name, value in part.scalars().items()}

    def state(self) -> dict[str, Any]:
        """Return the states of both, by factor."""
        return {f"{name}/{key}": value for name, part in self._parts.items() for key, value in part.state().items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for name, part in self._parts.items():
            own = {key.removeprefix(f"{name}/"): value for key, value in state.items() if key.startswith(f"{name}/")}
            part.load_state(own)


def _made(config: BonusConfig, context: Context) -> Bonus:
    made = build(config, context)
    assert made is not None  # noqa: S101 (for the type checker)
    return made
