"""Find a world by the name of its game: any game of the ALE, or deep_sea_N."""

from typing import Any

import numpy as np

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError, did_you_mean
from offpiste.worlds import deep_sea
from offpiste.worlds.atari import AtariGame, known_games
from offpiste.worlds.base import World
from offpiste.worlds.games import GAMES, Location


def open_world(game: str, config: WorldConfig, generator: np.random.Generator) -> World:
    """Start a game; everything random in it is drawn from the generator."""
    check_game(game)
    size = deep_sea.size_of(game)
    return AtariGame(game, config, generator) if size is None else deep_sea.DeepSea(size, config)


def check_game(name: str) -> None:
    """Refuse a game that does not exist."""
    if deep_sea.size_of(name) is None and name not in known_games():
        known = [*known_games(), deep_sea.NAME.format(14)]
        raise ConfigError(f"no game named {name!r}{did_you_mean(name, known)}")


def location(game: str) -> Location | None:
    """Return the bytes of memory that locate the player, or None where they are not known."""
    if deep_sea.size_of(game) is not None:
        return deep_sea.LOCATION
    return GAMES[game].location if game in GAMES else None


def settings(game: str) -> dict[str, Any]:
    """Return what a run in this world sets differently from the paper's protocol, for every method alike."""
    return {} if deep_sea.size_of(game) is None else deep_sea.SETTINGS
