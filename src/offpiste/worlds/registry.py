"""The table of worlds, one row each, looked up by the name of a run's game.

A new world is a module with the interface of `base.py`, and a row below.
"""

import pkgutil
import re
from typing import Any

import numpy as np

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError, did_you_mean
from offpiste.worlds.base import World
from offpiste.worlds.games import GAMES, Game, Location
from offpiste.worlds.small import deep_sea, suite

SUITE_VERSION = 1
"""Raised when a world is added to a suite, removed or changed; bundles of different versions are not mixed."""

_OTHERS = (
    Game(
        deep_sea.NAME,
        location=deep_sea.LOCATION,
        opener="offpiste.worlds.small.deep_sea:open_deep_sea",
        settings=deep_sea.SETTINGS,
        constants="deep_sea",
        sizes=deep_sea.SIZES,
    ),
    *suite.ROWS,
)
WORLDS: dict[str, Game] = GAMES | {row.name: row for row in _OTHERS}
"""Every world that has a row, in the order of all lists; other games of the ALE get the defaults."""
SUITES: dict[str, tuple[str, ...]] = {
    name: tuple(row.name for row in WORLDS.values() if row.suite == name)
    for name in ("montezuma", "hard", "training", "small_tuned", "small_hard", "small_easy")
}
"""The paper's three suites and those of the small worlds, each in the order of the rows. Scores are never averaged
across suites: the hard games were chosen because ε-greedy fails on them, the easy ones because it does not."""
SUITES["small_worlds"] = (*SUITES["small_tuned"], *SUITES["small_hard"], *SUITES["small_easy"])


def find(game: str) -> Game:
    """Return the row of a game of any size; a game without one gets the defaults of an ALE game."""
    sized = (row for row in WORLDS.values() if row.sizes and re.fullmatch(row.name.replace("N", r"\d+"), game))
    return WORLDS.get(game) or next(sized, Game(game))


def open_world(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> World:
    """Open a game as the runs of a seed see it; all its randomness is drawn from the generator."""
    check_game(game)
    world: World = pkgutil.resolve_name(find(game).opener)(game, config, generator, seed)
    return world


def check_game(name: str) -> None:
    """Raise `ConfigError` for a game that does not exist."""
    row = find(name)
    if row.name in WORLDS:
        names = _names(row)
        if name not in names:
            raise ConfigError(f"{row.name} must be {names[0]} to {names[-1]}, got {name}")
        return
    from offpiste.worlds.atari import known_games  # imports the emulator

    known = {*known_games(), *(_names(row)[len(row.sizes) // 2] for row in WORLDS.values())}
    if name not in known:
        raise ConfigError(f"no game named {name!r}{did_you_mean(name, known)}")


def location(game: str) -> Location | None:
    """Return the RAM bytes that locate the player, or None where unknown."""
    return find(game).location


def settings(game: str) -> dict[str, Any]:
    """Return the settings of a game that differ from the paper's protocol, the same for every method."""
    return find(game).settings


def _names(row: Game) -> list[str]:
    """Return the names of a row's games, one for each size."""
    return [row.name.replace("N", str(size)) for size in row.sizes] or [row.name]
