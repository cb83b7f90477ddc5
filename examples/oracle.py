"""An oracle: counts the cells where the player really is, as the console's RAM says.

No bonus that sees frames can count better, so this is the upper bound of a visit count.
A cell is 8 × 8 pixels within its room and level, as in the records of a run. The RAM is
that after the step: the reward is for the cell that the action led to, where our own
bonuses pay for the frame in which the action was taken.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste import Context, Transition
from offpiste.errors import ConfigError
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import location


@dataclass(frozen=True)
class OracleOptions:
    """The oracle has no options."""


class Oracle:
    """Pays 1/√n for entering a cell for the n-th time."""

    Options = OracleOptions

    def __init__(self, options: OracleOptions, context: Context) -> None:  # noqa: ARG002
        found = location(context.game)
        if found is None:
            known = ", ".join(
                name for name, game in GAMES.items() if game.location is not None
            )
            raise ConfigError(
                "the oracle needs a game whose RAM locates the player, got "
                f"{context.game}; choose one of {known} or deep_sea_N, or add its "
                "bytes to offpiste.worlds.games"
            )
        self._location = found
        self._counts: dict[int, int] = {}

    def observe(self, transition: Transition) -> float:
        """Count the cell entered and return its reward."""
        _, cell = self._location.locate(transition.ram)
        self._counts[cell] = self._counts.get(cell, 0) + 1
        return 1 / math.sqrt(self._counts[cell])

    def state(self) -> dict[str, Any]:
        """Return the cells and their counts as arrays."""
        return {
            "cells": np.array([*self._counts], np.int64),
            "counts": np.array([*self._counts.values()], np.int64),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._counts = dict(
            zip(state["cells"].tolist(), state["counts"].tolist(), strict=True)
        )
