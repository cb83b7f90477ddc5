"""The scores that a game's scores are held against: random play is 0 on its scale, a human or the best policy is 1."""

import math
import pkgutil
from dataclasses import dataclass
from functools import cache

from offpiste.worlds.registry import find


@dataclass(frozen=True)
class ReferenceScores:
    """The two ends of a game's scale; by default that of points, for a game whose reference scores are not known."""

    random: float = 0.0
    """Mean return of uniformly random play."""
    top: float = 1.0
    """Mean return of the player that counts as 1."""
    player: str = ""
    """Who that is, "a human" or "the best policy"; empty where it is not known."""

    @property
    def known(self) -> bool:
        """Whether there is any scale but that of points."""
        return bool(self.player)

    @property
    def label(self) -> str:
        """Who that is, without an article: "human", "best policy"."""
        return self.player.partition(" ")[2]

    @property
    def span(self) -> float:
        """How many points lie between random play and the top."""
        return self.top - self.random

    def score_at(self, share: float) -> float:
        """Return the score that lies a share of the way from random play to the top."""
        return self.random + share * self.span


def reference_scores(game: str) -> ReferenceScores:
    """Return the reference scores of a game, typed in its row or computed once."""
    row = find(game)
    if row.computed_scores:
        return ReferenceScores(*_computed(row.computed_scores, game), "the best policy")
    if math.isnan(row.human_score - row.random_score):
        return ReferenceScores()
    return ReferenceScores(row.random_score, row.human_score, "a human")


@cache
def _computed(function: str, game: str) -> tuple[float, float]:
    random, best = pkgutil.resolve_name(function)(game)
    return float(random), float(best)
