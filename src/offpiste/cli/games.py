"""`offpiste games`: the worlds that have a row in the table."""

from dataclasses import dataclass

import tyro

from offpiste.worlds.registry import WORLDS
from offpiste.worlds.scores import ReferenceScores, reference_scores


@dataclass(frozen=True)
class Arguments:
    """List the twelve games of the paper and worlds that are not of the ALE, each with the scores of random play and of
    a human or the best policy.

    Every other ALE game trains too.
    """

    every: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the names of all games that ale-py ships instead."""


def main(arguments: Arguments) -> int:
    """Print the list."""
    if arguments.every:
        from offpiste.worlds.atari import known_games

        print("\n".join(known_games()))
        return 0
    print(f"{'game':<18} {'suite':<10} {'random':>8} {'human/best':>10}  rooms and cells found are counted by")
    for game in WORLDS.values():
        where = game.location
        told_by = "coarse picture"
        if where is not None:
            told_by = ", ".join(part for part in ("level", "room", "x", "y") if getattr(where, part) is not None)
        scores = ReferenceScores() if game.sizes else reference_scores(game.name)  # a size has its own
        digits = 1 if scores.span >= 10.0 else 2
        random, top = (f"{score:,.{digits}f}" if scores.known else "–" for score in (scores.random, scores.top))
        print(f"{game.name:<18} {game.suite or '–':<10} {random:>8} {top:>10}  {told_by}")
    return 0
