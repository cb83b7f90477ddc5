"""Reference scores for normalisation: random play is 0, a human or the best policy is 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from offpiste.worlds.games import Returns
from offpiste.worlds.registry import find


@dataclass(frozen=True)
class ReferenceScores:
    """The two ends of a game's normalised scale; by default 0 and 1, which leaves raw scores as they are."""

    random: float = 0.0
    """Mean return of uniformly random play."""
    top: float = 1.0
    """Mean return that is normalised to 1."""
    player: str = ""
    """Whose return that is, "a human" or "the best policy"; empty where unknown."""

    @property
    def known(self) -> bool:
        """Whether there are reference scores."""
        return bool(self.player)

    @property
    def label(self) -> str:
        """The player without an article: "human", "best policy"."""
        return self.player.partition(" ")[2]

    @property
    def span(self) -> float:
        """The difference of top and random score."""
        return self.top - self.random

    def score_at(self, share: float) -> float:
        """Return the score whose normalised score is `share`."""
        return self.random + share * self.span


def reference_scores(game: str) -> ReferenceScores:
    """Return the reference scores of a game, from its row or computed once."""
    row = find(game)
    if row.computed_scores is not None:
        return ReferenceScores(*_computed(row.computed_scores, game), "the best policy")
    if row.returns is not None:
        return ReferenceScores(*row.returns, "the best policy (declared)")
    if math.isnan(row.human_score - row.random_score):
        return ReferenceScores()
    return ReferenceScores(row.random_score, row.human_score, "a human")


@cache
def _computed(function: Callable[[str], Returns], game: str) -> Returns:
    return function(game)
