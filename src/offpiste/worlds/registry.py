"""The table of worlds, one row each, looked up by the name of a run's game.

A new world is a module with the interface of `base.py`, and a row below. Worlds of others have names with a colon,
gymnasium:ID or module:World, or are entry points of installed packages, which hold or return a row. Their code is
imported by `load` and by `open_world` alone: for names that somebody typed, never for those that a store holds.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError, did_you_mean, kind_of
from offpiste.worlds.base import World
from offpiste.worlds.families import SETTINGS, family_of
from offpiste.worlds.foreign import MINIGRID_ROWS, default_row, open_environment
from offpiste.worlds.games import GAMES, Game, Location
from offpiste.worlds.small import deep_sea, suite

SUITE_VERSION = 1
"""Raised when a world is added to a suite, removed or changed; bundles of different versions are not mixed."""

_OTHERS = (
    Game(
        deep_sea.NAME,
        location=deep_sea.LOCATION,
        opener=deep_sea.open_deep_sea,
        settings=deep_sea.SETTINGS,
        constants="deep_sea",
        sizes=deep_sea.SIZES,
    ),
    *suite.ROWS,
    *MINIGRID_ROWS,
)
WORLDS: dict[str, Game] = GAMES | {row.name: row for row in _OTHERS}
"""Every world that has a row, in the order of all lists; other games of the ALE get the defaults."""
SUITES: dict[str, tuple[str, ...]] = {
    name: tuple(row.name for row in WORLDS.values() if row.suite == name)
    for name in ("montezuma", "hard", "training", "small_tuned", "small_hard", "small_easy", "minigrid_small")
}
"""The paper's three suites and those of the small worlds, each in the order of the rows. Scores are never averaged
across suites: the hard games were chosen because ε-greedy fails on them, the easy ones because it does not."""
ENTRY_POINTS = "offpiste.worlds"
_FOREIGN = re.compile(r"[A-Za-z_][\w.]*:[\w.-][\w.:/-]*", re.ASCII)
_loaded: dict[str, Game] = {}
"""Worlds that are not ours, by name, as this process has loaded them."""
SUITES["small_worlds"] = (*SUITES["small_tuned"], *SUITES["small_hard"], *SUITES["small_easy"])


def find(game: str) -> Game:
    """Return the row of a game of any size; a game without one gets the defaults of an ALE game.

    Nothing is imported: a world that is not ours is known by its name alone until it is loaded.
    """
    sized = (row for row in WORLDS.values() if row.sizes and re.fullmatch(row.name.replace("N", r"\d+"), game))
    known = WORLDS.get(game) or _loaded.get(game) or next(sized, None)
    return known or (default_row(game) if ":" in game else Game(game))


def is_ours(game: str) -> bool:
    """Return whether opening a game imports no code but ours, and packages that a row of ours names."""
    return ":" not in game and (find(game).name in WORLDS or game not in _declared())


def load(game: str) -> Game:
    """Return the row of a game that somebody typed; the code of one that is not ours is imported."""
    check_game(game)
    if not is_ours(game) and game not in _loaded:
        from offpiste.worlds.gym import described  # imports OpenCV

        row = find(game) if ":" in game else _row_of(game)
        environment = row.environment or (game if row.opener is open_environment else "")
        _loaded[game] = described(row, environment) if environment else row
    return find(game)


def open_world(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> World:
    """Open a game as the runs of a seed see it; all its randomness is drawn from the generator."""
    row = load(game)
    return row.opener(row.environment or game, config, generator, seed)


def check_game(name: str) -> None:
    """Raise `ConfigError` for a game that does not exist; of a world that is not ours, only its name is checked."""
    row = find(name)
    if row.name in WORLDS:
        names = _names(row)
        if name not in names:
            raise ConfigError(f"{row.name} must be {names[0]} to {names[-1]}, got {name}")
        return
    if ":" in name and not _FOREIGN.fullmatch(name):
        raise ConfigError(f"a world that is not ours must be named gymnasium:ID or module:World, got {name!r:.100}")
    if not is_ours(name):
        return
    from offpiste.worlds.atari import known_games  # imports the emulator

    known = {*known_games(), *(_names(row)[len(row.sizes) // 2] for row in WORLDS.values()), *_declared()}
    if name not in known:
        advice = did_you_mean(name, known)
        if not advice.startswith("; did"):
            stem = name.removesuffix(".py")
            advice = "; `offpiste games` lists them. An environment is named gymnasium:ID, or module:World for one of "
            advice += f"yours, as in gymnasium:{name}" if family_of(name) else f"yours, as in {stem}:World"
        raise ConfigError(f"no game named {name!r}{advice}")


def location(game: str) -> Location | None:
    """Return the RAM bytes that locate the player, or None where unknown."""
    return find(game).location


def settings(game: str) -> dict[str, Any]:
    """Return the settings of a game that differ from the paper's protocol, the same for every method."""
    return find(game).settings


def _names(row: Game) -> list[str]:
    """Return the names of a row's games, one for each size."""
    return [row.name.replace("N", str(size)) for size in row.sizes] or [row.name]


def _declared() -> dict[str, Any]:
    """Return the entry points of installed packages that are worlds, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _row_of(name: str) -> Game:
    """Return the row that an entry point holds or returns."""
    try:
        found = _declared()[name].load()
        row = found() if callable(found) else found
    except Exception as error:
        raise ConfigError(f"cannot load the world {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(row, Game):
        raise ConfigError(f"the entry point {name} of {ENTRY_POINTS} must be an offpiste.Game, got {kind_of(row)}")
    if not row.environment:
        return replace(row, name=name)
    return replace(row, name=name, opener=open_environment, settings=_merged(SETTINGS, row.settings))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings over others, table by table."""
    tables = {key: _merged(base[key], value) for key, value in over.items() if isinstance(base.get(key), dict)}
    return {**base, **over, **tables}
