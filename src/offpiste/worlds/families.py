"""What is known of environments before any is opened: settings, what to install, frames and true positions.

Every environment of others gets `SETTINGS`. A family is the environments of one package, by the start of their ids; of
those it says more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.worlds.games import Location

GYMNASIUM = "gymnasium"
"""The module of a name, where an id of gymnasium follows."""
LOCATION = Location(x=0, y=1, level=2)
"""The first bytes of RAM are column and row, times 8, and the phase, which is no room."""
SETTINGS: dict[str, Any] = {
    "frames": 100_000,
    "world": {
        "frame_skip": 1,
        "stack_frames": 1,
        "sticky_action_probability": 0.0,
        "frame_size": 84,
        "bootstrap_at_limit": True,
    },
    "agent": {
        "replay_capacity": 50_000,
        "min_history_steps": 1_000,
        "update_period_steps": 4,
        "target_update_steps": 500,
        "batch_size": 32,
        "learning_rate": 5e-4,
        "adam_epsilon": 1e-6,
        "convolution_channels": [16, 32],
        "hidden_units": 128,
    },
    "schedule": {"iteration_steps": 5_000, "evaluation_steps": 1_000},
    "exploration": {"epsilon_decay_steps": 10_000, "epsilon_final": 0.05},
}
"""Of an environment of which nothing is known: between those of the small worlds, where runs take minutes, and the
paper's. One frame is a state; where it does not show all, as a velocity, raise `world.stack_frames`."""


@dataclass(frozen=True)
class Family:
    """Environments of one package."""

    prefixes: tuple[str, ...]
    """What their ids begin with."""
    module: str
    """Imported to register them with gymnasium."""
    install: str
    """What to install where that module is missing."""
    world: dict[str, Any] = field(default_factory=dict)
    """Settings of `world` that differ from `SETTINGS`."""
    frame: Callable[[Any, Any], NDArray[np.uint8]] | None = None
    """Called with the unwrapped environment and its observation, returns the frame in colour, [height, width, 3]."""
    position: Callable[[Any], tuple[int, int, int]] | None = None
    """Called with the unwrapped environment, returns row, column and phase of the player."""
    actions: tuple[str, ...] = ()
    """Names of the actions, for people."""


def family_of(environment: str) -> Family | None:
    """Return the family of a gymnasium id, or None where it has none."""
    return next((family for family in FAMILIES if environment.startswith(family.prefixes)), None)


_VIEW_CELLS = 7
_TILE_PIXELS = 4


def minigrid_frame(environment: Any, observation: Any) -> NDArray[np.uint8]:
    """Return what the agent of MiniGrid sees, as its own `get_frame(agent_pov=True, tile_size=4)` draws it.

    Drawn from the observation, which is already computed: MiniGrid's function takes as long as a step.
    """
    del environment
    cells = observation["image"]  # [column, row, (object, colour, state)] of the agent's own view
    columns, rows = cells.shape[:2]
    tiles = np.empty((rows, _TILE_PIXELS, columns, _TILE_PIXELS, 3), np.uint8)
    agent = (columns // 2, rows - 1)
    for column, of_column in enumerate(cells.tolist()):
        for row, code in enumerate(of_column):
            tiles[row, :, column] = _tile(*code, is_agent=(column, row) == agent)
    return tiles.reshape(rows * _TILE_PIXELS, columns * _TILE_PIXELS, 3)


@cache
def _tile(kind: int, colour: int, state: int, *, is_agent: bool) -> NDArray[np.uint8]:
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import WorldObj

    shown = WorldObj.decode(kind, colour, state)
    up = 3
    tile = Grid.render_tile(shown, agent_dir=up if is_agent else None, highlight=kind != 0, tile_size=_TILE_PIXELS)
    return np.asarray(tile, np.uint8)  # of means, which are cut off as MiniGrid cuts them


_MAX_OPEN_DOORS = 3


def minigrid_position(environment: Any) -> tuple[int, int, int]:
    """Return row and column, and as the phase whether something is carried and how many doors are open, up to 3.

    The map is no part of it: where each episode has a map of its own, its number would make every state a new one.
    """
    column, row = environment.agent_pos
    doors = sum(cell is not None and cell.type == "door" and cell.is_open for cell in environment.grid.grid)
    return int(row), int(column), int(environment.carrying is not None) + 2 * min(doors, _MAX_OPEN_DOORS)


FAMILIES = (
    Family(
        ("MiniGrid-", "BabyAI-"),
        "minigrid",
        "minigrid, as with pip install minigrid",
        {"frame_size": _VIEW_CELLS * _TILE_PIXELS},
        minigrid_frame,
        minigrid_position,
        ("left", "right", "forward", "pick up", "drop", "toggle", "done"),
    ),
)
