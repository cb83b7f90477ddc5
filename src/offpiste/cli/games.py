"""`offpiste games`: list the games and worlds."""

from dataclasses import dataclass

import tyro

from offpiste.worlds.registry import WORLDS
from offpiste.worlds.scores import ReferenceScores, reference_scores


@dataclass(frozen=True)
class Arguments:
    """List the twelve games of the paper and the worlds outside the ALE, with the scores of a random policy and of a
    human or the optimal policy.

    Any other ALE game for one player can be trained, too, and any environment of gymnasium; see check-world.
    """

    every: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the names of all games in ale-py instead."""


def main(arguments: Arguments) -> int:
    """Print the list."""
    if arguments.every:
        from offpiste.worlds.atari import known_games

        print("\n".join(known_games()))
        return 0
    print(f"{'game':<21} {'suite':<14} {'random':>8} {'human/best':>10}  cells counted by")
    for game in WORLDS.values():
        location = game.location
        counted_by = "coarse frame"
        if location is not None:
            counted_by = ", ".join(part for part in ("level", "room", "x", "y") if getattr(location, part) is not None)
        scores = ReferenceScores() if game.sizes else reference_scores(game.name)  # a size has its own
        digits = 1 if scores.span >= 10.0 else 2
        random, top = (
            f"{score:z,.{digits}f}".replace("-", "−") if scores.known else "–" for score in (scores.random, scores.top)
        )
        print(f"{game.name:<21} {game.suite or '–':<14} {random:>8} {top:>10}  {counted_by}")
    return 0
