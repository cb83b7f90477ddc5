"""The rows of environments of others: of any, by its name alone, and of three tasks of MiniGrid."""

from dataclasses import replace
from typing import Any

import numpy as np

from offpiste.config import WorldConfig
from offpiste.worlds.base import World
from offpiste.worlds.families import GYMNASIUM, LOCATION, SETTINGS, family_of
from offpiste.worlds.games import Game, Returns


def open_environment(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> World:  # noqa: ARG001
    """Return the world of an environment; the seed of the run does not change it."""
    from offpiste.worlds.gym import GymWorld, make  # imports OpenCV

    return GymWorld(game, make(game), config, generator)


def default_row(name: str) -> Game:
    """Return the row of a name module:NAME, without importing anything."""
    module, _, environment = name.partition(":")
    family = family_of(environment) if module == GYMNASIUM else None
    known = SETTINGS if family is None else SETTINGS | {"world": SETTINGS["world"] | family.world}
    location = LOCATION if family is not None and family.position is not None else None
    return Game(name, opener=open_environment, settings=known, constants="small_worlds", location=location)


def _minigrid_row(name: str, environment: str, title: str, random_return: float) -> Game:
    known = default_row(f"{GYMNASIUM}:{environment}")
    return replace(
        known,
        name=name,
        suite="minigrid_small",
        title=title,
        environment=known.name,
        settings=known.settings | {table: known.settings[table] | own for table, own in _MINIGRID.items()},
        returns=Returns(random_return, 1.0),
    )


_MINIGRID: dict[str, dict[str, Any]] = {
    "agent": {"convolution_channels": [16], "batch_size": 64, "learning_rate": 1e-3},
    "schedule": {"iteration_steps": 2_500, "evaluation_steps": 0},
    "exploration": {"epsilon_decay_steps": 20_000},
}
"""Where tasks of the suite differ from `SETTINGS`, so that a run takes minutes.

- One convolution, as the small worlds: it sees 2 × 2 cells at each of 7 × 7 places.
- No evaluation: one frame does not show all that was seen, and without ε an agent may turn on the spot for ever. The
  score is that of training, with ε at 0.05, over the last ten iterations, a quarter of the run.
"""
MINIGRID_ROWS = (
    _minigrid_row("minigrid_door_key", "MiniGrid-DoorKey-5x5-v0", "MiniGrid DoorKey", 0.022),
    _minigrid_row("minigrid_multi_room", "MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid MultiRoom", 0.008),
    _minigrid_row("minigrid_key_corridor", "MiniGrid-KeyCorridorS3R1-v0", "MiniGrid KeyCorridor", 0.020),
)
"""The smallest of the three kinds of tasks on which papers on bonuses test most: a key and its door, rooms in a row,
and a key that is needed elsewhere. Each episode has another map. Random play was measured over 1,166, 5,252 and 931
episodes (standard errors 0.003, 0.001, 0.003). 1 is a bound that no episode reaches: a goal pays less the later it is.
"""
