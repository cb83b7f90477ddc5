"""`offpiste games`: the worlds that have a row in the table."""

import math
from dataclasses import dataclass

import tyro

from offpiste.worlds.registry import WORLDS


@dataclass(frozen=True)
class Arguments:
    """List the twelve games of the paper, with the scores of random and human play, and worlds that are not of the ALE.

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
    print(f"{'game':<18} {'suite':<10} {'random':>8} {'human':>9}  rooms and cells found are counted by")
    for game in WORLDS.values():
        where = game.location
        told_by = "coarse picture"
        if where is not None:
            told_by = ", ".join(part for part in ("level", "room", "x", "y") if getattr(where, part) is not None)
        print(
            f"{game.name:<18} {game.suite or '–':<10} {_shown(game.random_score):>8} {_shown(game.human_score):>9}  "
            f"{told_by}"
        )
    return 0


def _shown(score: float) -> str:
    return "–" if math.isnan(score) else f"{score:,.1f}"
