"""An oracle: counts the places where the player really is, as told by the console's memory.

No bonus that sees pictures can count better, so this is the upper bound that a visit count could reach. A place is a
cell of 8×8 pixels within its room and level, as in the records of a run. The memory is that after the step: the bonus
belongs to the place that the action led to, where our own bonuses pay for the picture in which the action was taken.
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
    """Pays 1/√n for reaching a place for the n-th time."""

    Options = OracleOptions

    def __init__(self, options: OracleOptions, context: Context) -> None:  # noqa: ARG002 (the form of every bonus)
        found = location(context.game)
        if found is None:
            known = ", ".join(name for name, game in GAMES.items() if game.location is not None)
            raise ConfigError(
                f"where the player is in {context.game} is not known, so the oracle cannot count; choose one of "
                f"{known} or deep_sea_N, or add the bytes to offpiste.worlds.games"
            )
        self._location = found
        self._counts: dict[int, int] = {}

    def observe(self, transition: Transition) -> float:
        """Count the place reached and return its bonus."""
        _, cell = self._location.place(transition.ram)
        self._counts[cell] = self._counts.get(cell, 0) + 1
        return 1 / math.sqrt(self._counts[cell])

    def state(self) -> dict[str, Any]:
        """Return the cells and their counts as arrays."""
        return {"cells": np.array([*self._counts], np.int64), "counts": np.array([*self._counts.values()], np.int64)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self._counts = dict(zip(state["cells"].tolist(), state["counts"].tolist(), strict=True))
