"""True visit counts, read from the game's RAM: the reference for bonuses that only see frames.

A cell is that of a run's records: 8×8 units within its room and level. The RAM is that after the step, so the reward is
for the cell that the action led to, where the paper's bonuses pay for the frame in which the action was taken. For the
same reason the cell in which an episode starts is not counted until an action leads to it: a bonus does not observe the
RAM after a reset. `OracleLeft` pays as those bonuses do, for the cell that was left, to show what their timing costs.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.bonuses.base import Context, Transition
from offpiste.errors import ConfigError
from offpiste.worlds.games import Location
from offpiste.worlds.registry import WORLDS, location


@dataclass(frozen=True)
class OracleOptions:
    """The oracle has no options."""


class Oracle:
    """Pays 1/√n for entering a cell for the n-th time in the run."""

    Options = OracleOptions

    def __init__(self, options: OracleOptions, context: Context) -> None:  # noqa: ARG002 (the form of every bonus)
        self._location = _known_location(context.game)
        self._counts: dict[int, int] = {}

    def observe(self, transition: Transition) -> float:
        """Count the cell entered and return its reward."""
        _, cell = self._location.locate(transition.ram)
        self._counts[cell] = self._counts.get(cell, 0) + 1
        return 1 / math.sqrt(self._counts[cell])

    def state(self) -> dict[str, Any]:
        """Return the cells and their counts as arrays."""
        return {"cells": np.array([*self._counts], np.int64), "counts": np.array([*self._counts.values()], np.int64)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._counts = dict(zip(state["cells"].tolist(), state["counts"].tolist(), strict=True))


class OracleLeft(Oracle):
    """Pays 1/√n for leaving a cell for the n-th time in the run; the start of an episode is a cell of its own."""

    measures_visits = False  # not of the step that it is shown: a cell is paid for by the step after
    _START = -1

    def __init__(self, options: OracleOptions, context: Context) -> None:
        super().__init__(options, context)
        self._cell = self._START

    def observe(self, transition: Transition) -> float:
        """Count the cell left, return its reward, and note the cell entered."""
        left = self._START if transition.episode_step == 0 else self._cell
        self._counts[left] = self._counts.get(left, 0) + 1
        _, self._cell = self._location.locate(transition.ram)
        return 1 / math.sqrt(self._counts[left])

    def state(self) -> dict[str, Any]:
        """Return the cells and their counts as arrays, and the cell in which the player is."""
        return super().state() | {"cell": self._cell}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        super().load_state(state)
        self._cell = int(state["cell"])


class OracleEpisodic(Oracle):
    """Pays 1/√n for entering a cell for the n-th time in the episode."""

    scope = "episodic"

    def observe(self, transition: Transition) -> float:
        """Count the cell entered and return its reward; clear all counts at the end of the episode."""
        intrinsic = super().observe(transition)
        if transition.over:
            self._counts = {}
        return intrinsic


class OracleProduct:
    """Pays 1/√n · 1/√m for entering a cell for the n-th time in the run and the m-th time in the episode."""

    Options = OracleOptions
    scope = "both"

    def __init__(self, options: OracleOptions, context: Context) -> None:
        self._factors = {"lifelong": Oracle(options, context), "episodic": OracleEpisodic(options, context)}

    def observe(self, transition: Transition) -> float:
        """Count the cell entered, in the run and in the episode, and return its reward."""
        return math.prod(factor.observe(transition) for factor in self._factors.values())

    def state(self) -> dict[str, Any]:
        """Return the cells and counts of run and episode as arrays."""
        return {
            f"{scope}_{key}": array for scope, factor in self._factors.items() for key, array in factor.state().items()
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        for scope, factor in self._factors.items():
            factor.load_state({key: state[f"{scope}_{key}"] for key in ("cells", "counts")})


def _known_location(game: str) -> Location:
    found = location(game)
    if found is None:
        known = ", ".join(name for name, row in WORLDS.items() if row.location is not None)
        raise ConfigError(
            f"the oracle needs a game whose RAM locates the player, got {game}; choose one of {known}, or add its "
            "bytes to offpiste.worlds.games"
        )
    return found
