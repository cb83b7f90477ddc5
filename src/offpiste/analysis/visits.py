"""Where agents went: visits of cells by run, the ground of a small world, and how the rooms of a game lie.

A cell is eight units of the console's memory wide. Coordinates come from a store, so those beyond its range are
left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from offpiste.analysis.records import Records
from offpiste.config import WorldConfig
from offpiste.parsing import from_dict
from offpiste.seeding import stream
from offpiste.worlds import registry
from offpiste.worlds.small import deep_sea
from offpiste.worlds.small.grid import GOAL, best_actions
from offpiste.worlds.small.suite import KINDS

CELL = 8
"""Units of memory that a cell is wide."""
_LEVEL = 256
"""Rooms per level, by their numbers."""
_SCENES = 255
_FIRST_SCENE = 0xC4

Cell = tuple[int, int, int]
"""Room, column and row."""
Place = tuple[int, int]
"""Column and row, of a cell on a map or of a room among the rooms."""


@dataclass(frozen=True)
class Visits:
    """The visits of one run."""

    run: str
    counts: Mapping[Cell, int]
    first_steps: Mapping[Cell, int]


def visits_by_run(records: Records, runs: Iterable[str] | None = None) -> dict[str, Visits]:
    """Return the visits of each run whose player was located, or of these runs."""
    wanted = None if runs is None else set(runs)
    counts: dict[str, dict[Cell, int]] = defaultdict(dict)
    firsts: dict[str, dict[Cell, int]] = defaultdict(dict)
    table = records.query(
        f"SELECT run, coalesce(room, 0) AS room, coalesce(x, 0) // {CELL} AS x, coalesce(y, 0) // {CELL} AS y, "  # noqa: S608 (ours)
        "sum(visits)::BIGINT AS visits, min(first_step) AS first FROM cells "
        "WHERE (x IS NOT NULL OR y IS NOT NULL) AND coalesce(x, 0) BETWEEN 0 AND 255 "
        "AND coalesce(y, 0) BETWEEN 0 AND 255 AND coalesce(room, 0) BETWEEN 0 AND 2047 GROUP BY ALL ORDER BY ALL"
    )
    columns = (table.column(name).to_pylist() for name in ("run", "room", "x", "y", "visits", "first"))
    for run, room, x, y, visits, first in zip(*columns, strict=True):
        if wanted is None or run in wanted:
            counts[run][room, x, y] = visits
            firsts[run][room, x, y] = first
    return {run: Visits(run, own, firsts[run]) for run, own in counts.items()}


def summed(found: Iterable[Visits]) -> dict[Cell, int]:
    """Return the visits of several runs together."""
    total: Counter[Cell] = Counter()
    for each in found:
        total.update(each.counts)
    return dict(total)


@lru_cache
def ground(game: str) -> tuple[NDArray[np.bool_], Place | None] | None:
    """Return which cells of a small world can be visited, [rows, columns], and row and column of its goal, if any."""
    size = game.removeprefix("deep_sea_")
    if size != game and size in map(str, deep_sea.SIZES):
        side = int(size) + 1  # with the floor below its last row
        return np.tri(side, dtype=np.bool_), (side - 1, side - 1)
    if game not in KINDS:
        return None
    world = KINDS[game](from_dict(WorldConfig, registry.settings(game)["world"]), stream(0, "game"))
    goals = [(int(row), int(column)) for row, column in np.argwhere(world.cells(world.state) == GOAL)[:1]]
    places = [world.position(state)[:2] for state in best_actions(world)[-1]]
    places += goals  # one that sends the player back is no state
    rows, columns = (max(indices) + 1 for indices in zip(*places, strict=True))
    free = np.zeros((rows, columns), np.bool_)
    free[tuple(zip(*places, strict=True))] = True
    return free, goals[0] if goals else None


def flattened(cells: Mapping[Cell, int]) -> dict[Place, int]:
    """Return visits by column and row, whatever the room: in small worlds a room is the rest of the state."""
    total: Counter[Place] = Counter()
    for (_, x, y), visits in cells.items():
        total[x, y] += visits
    return dict(total)


def lays_out_rooms(game: str) -> bool:
    """Whether the rooms of a game are places that lie beside one another."""
    location = registry.location(game)
    return game not in KINDS and location is not None and location.room is not None


def room_places(game: str, rooms: Iterable[int]) -> dict[int, Place]:
    """Return where rooms lie, as they connect: a pyramid, a shaft or a line; by number where that is not known."""
    found = sorted(set(rooms))
    by_level: dict[int, list[int]] = defaultdict(list)
    for room in found:
        by_level[room // _LEVEL].append(room % _LEVEL)
    if game == "montezuma_revenge":
        return {room: _in_pyramid(room) for room in found}
    if game == "pitfall":
        order = {scene: step for step, scene in enumerate(_scenes())}
        steps = {room: order.get(room, _SCENES) for room in found}
        steps = {room: step - _SCENES if step > _SCENES // 2 else step for room, step in steps.items()}
        ordered = {step: index for index, step in enumerate(sorted(set(steps.values())))}
        return {room: (ordered[step], 0) for room, step in steps.items()}
    if game == "hero":  # a shaft goes down, and each level has its own
        levels = {level: index for index, level in enumerate(sorted(by_level))}
        return {room: (levels[room // _LEVEL], by_level[room // _LEVEL].index(room % _LEVEL)) for room in found}
    side = max(1, int(np.ceil(np.sqrt(len(found)))))
    return {room: (index % side, index // side) for index, room in enumerate(found)}


def _in_pyramid(room: int) -> Place:
    """Return where a room of Montezuma's Revenge lies: three in the first row of a level, then five, seven, nine."""
    level, within = divmod(room, _LEVEL)
    row = int(np.sqrt(within + 1)) - 1
    first = (row + 1) ** 2 - 1
    return within - first - (row + 1), row + 5 * level


def _scenes() -> list[int]:
    """Return the scenes of Pitfall from the first to the right, by the shift register that makes them."""
    scenes = [_FIRST_SCENE]
    while len(scenes) < _SCENES:
        scene = scenes[-1]
        bit = (scene >> 3 ^ scene >> 4 ^ scene >> 5 ^ scene >> 7) & 1
        scenes.append((scene << 1 | bit) & 0xFF)
    return scenes


def quarters(found: Visits) -> list[set[Cell]]:
    """Return the cells that were first visited in each quarter of the time in which cells were found."""
    last = max(found.first_steps.values(), default=0) + 1
    ends = [last * part / 4 for part in range(5)]
    return [{cell for cell, step in found.first_steps.items() if low <= step < high} for low, high in pairwise(ends)]
