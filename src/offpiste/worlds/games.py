"""The row of a world, and the rows of the paper's twelve games: suite, reference scores, RAM bytes.

Random and human scores are those of dqn_zoo and the papers around Agent57 (van Hasselt et al., 2016, and later). RAM
bytes come from AtariARI (Anand et al., 2019), Pitfall's scene from its own RAM; each was checked on real play
(tests/worlds/test_games.py). All other games of the ALE train as well, without a location.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpiste.config import WorldConfig
from offpiste.worlds.base import World

_HIGHEST_LEVEL = 7
ROOMS = 256 * (_HIGHEST_LEVEL + 1)
CELLS_PER_ROOM = 32 * 32
"""A cell is 8×8 units of the player's x and y in RAM."""


@dataclass(frozen=True)
class Location:
    """Indices of the RAM bytes (0–127) that locate the player; None where no such byte is known."""

    room: int | None = None
    x: int | None = None
    y: int | None = None
    level: int | None = None
    y_up: bool = False
    """Whether y grows towards the top of the screen."""

    def locate(self, ram: NDArray[np.uint8]) -> tuple[int, int]:
        """Return the room and the cell in which the player is; unknown parts count as 0."""
        room, row, column = self.position(ram)
        return room, (room * 32 + column) * 32 + row

    def position(self, ram: NDArray[np.uint8]) -> tuple[int, int, int]:
        """Return the room of the player, and row and column of the cell there; unknown parts count as 0."""
        room, level, x, y = (
            int(ram[byte]) if byte is not None else 0 for byte in (self.room, self.level, self.x, self.y)
        )
        return room + 256 * min(level, _HIGHEST_LEVEL), y // 8, x // 8

    def decode(self, cells: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return room, x and y of cells, the inverse of `locate` up to 8 units; without those that have no byte."""
        values = {"room": cells // CELLS_PER_ROOM, "x": cells // 32 % 32 * 8, "y": cells % 32 * 8}
        return {name: value for name, value in values.items() if getattr(self, name) is not None}


class Returns(NamedTuple):
    """Mean returns of an episode under random play and under the best policy."""

    random: float
    best: float


Opener = Callable[[str, WorldConfig, np.random.Generator, int], World]
"""Opens a world, from game, settings, generator and the seed of the run."""


def open_atari(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> World:  # noqa: ARG001
    """Return a game of the ALE; the seed of the run does not change it."""
    from offpiste.worlds.atari import AtariGame  # imports the emulator

    return AtariGame(game, config, generator)


@dataclass(frozen=True)
class Game:
    """One world: how to open it, and all that differs between worlds; the defaults fit any ALE game."""

    name: str
    """The name in a configuration; an N in it stands for each of `sizes`."""
    suite: str = ""
    """The suite that it belongs to; empty for most."""
    random_score: float = math.nan
    """Mean return of uniformly random play; NaN where unknown."""
    human_score: float = math.nan
    """Mean return of a professional tester; NaN where unknown."""
    location: Location | None = None
    title: str = ""
    """Its title in reports, where that is not the name in capitals."""
    opener: Opener = open_atari
    """The function that opens it; what is slow to import, it imports itself."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from the paper's protocol, the same for every method."""
    constants: str = "atari"
    """The key of a method's constants for this world (`Method.constants`)."""
    sizes: range = range(0)
    """Its sizes; empty where there is only one."""
    computed_scores: Callable[[str], Returns] | None = None
    """The function that computes the mean returns of random play and of the best policy, called with the name of the
    game; None where the scores are typed in (`scores.py`)."""
    returns: Returns | None = None
    """The mean returns of random play and of the best policy, where they are declared rather than computed."""
    environment: str = ""
    """The gymnasium environment that it opens, gymnasium:ID or module:World, in place of `opener`."""
    goal_return: float = 0.0
    """An episode with a higher return has reached the goal; 0 where every reward is one."""


GAMES: dict[str, Game] = {
    game.name: game
    for game in (
        Game(
            "montezuma_revenge",
            "montezuma",
            0.0,
            4753.3,
            Location(room=3, x=42, y=43, level=57, y_up=True),
            "Montezuma’s Revenge",
        ),
        Game("freeway", "hard", 0.0, 29.6, Location(y=14, y_up=True)),
        Game("gravitar", "hard", 173.0, 3351.4),
        Game("private_eye", "hard", 24.9, 69571.3, Location(room=92, x=63, y=86, y_up=True)),
        Game("venture", "hard", 0.0, 1187.5, Location(room=90, x=85, y=26)),
        Game("solaris", "hard", 1236.3, 12326.7),
        Game("pitfall", "hard", -229.4, 6463.7, Location(room=1, x=97, y=105)),
        Game("asterix", "training", 210.0, 8503.3),
        Game("seaquest", "training", 68.4, 42054.7, Location(x=70, y=97)),
        Game("beam_rider", "training", 363.9, 16926.5),
        Game("space_invaders", "training", 148.0, 1668.7, Location(x=28)),
        Game("hero", "training", 1027.0, 30826.4, Location(room=28, x=27, y=31, level=117, y_up=True)),
    )
}
"""Every game of the paper, by name."""
