"""Maps of visits: brighter where more often, by the same colours on every page and in the first figure of README."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import label, seeds_text, title
from offpiste.analysis.visits import (
    Cell,
    Place,
    Visits,
    flattened,
    ground,
    lays_out_rooms,
    quarters,
    room_places,
    summed,
)
from offpiste.report.look import file_name
from offpiste.report.panels import Axis, Dots, Drawing, Mark, Panel, Squares
from offpiste.worlds import registry

UNVISITED = "#232a38"
"""The ground that nobody visited."""
DARKEST = 0.22
"""Where in the colours a single visit begins, so that it differs from none."""
COLOURS = mpl.colormaps["inferno"].resampled(256)
_LEVELS = 12
"""Shades of a map on a page."""
_SIDE, _ROOMS_SIDE = 138.0, 300.0
"""Width of a map on a page, in pixels where there is room: the names of our methods stand above it in full."""
_GAP = 1
"""Cells between two rooms."""


def shades(visits: Mapping[Place, int], most: int) -> dict[Place, float]:
    """Return how bright cells are, from 0 for none to 1 for so many visits, by their logarithm."""
    return {place: float(np.log1p(min(count, most)) / np.log1p(most)) for place, count in visits.items() if count > 0}


def colour(shade: float) -> str:
    """Return the colour of a visited cell."""
    return to_hex(COLOURS(DARKEST + (1.0 - DARKEST) * shade))


def image(visits: Mapping[Place, int], free: NDArray[np.bool_], most: int) -> NDArray[np.float64]:
    """Return a map as colours, [rows, columns, 4]: what was visited, what could have been, and nothing elsewhere."""
    found = np.zeros((*free.shape, 4))
    found[free] = mpl.colors.to_rgba(UNVISITED)
    for (x, y), shade in shades(visits, most).items():
        found[y, x] = COLOURS(DARKEST + (1.0 - DARKEST) * shade)
    return found


def map_panel(
    name: str,
    game: str,
    cells: Mapping[Cell, int],
    most: int = 0,
    *,
    method: str = "",
    note: str = "",
    extent: Iterable[Cell] = (),
) -> Panel:
    """Return a map of visits; `most` is the count that is brightest, by default the highest of these.

    Maps of one `extent` have their rooms at the same places.
    """
    most = most or _most(game, cells)
    if lays_out_rooms(game):
        rooms, visited = _rooms_of(game, {*cells, *extent}), len({room for room, _, _ in cells})
        count = f"{visited} room{'s' * (visited != 1)}"
        return _rooms_panel(name, rooms, {1.0: cells}, most, method=method, note=note or count)
    places = flattened(cells)
    marks, (columns, rows) = _ground(game, places)
    marks += _squares({place: shade for place, shade in shades(places, most).items() if _within(place, columns, rows)})
    marks += _goal(game, _SIDE / columns)
    return _panel(name, marks, columns, rows, method=method, note=note, up=_is_up(game))


def _most(game: str, cells: Mapping[Cell, int]) -> int:
    return max((cells if lays_out_rooms(game) else flattened(cells)).values(), default=1)


def time_panels(game: str, found: Visits) -> list[Panel]:
    """Return four maps: what was first visited in each quarter of the time is bright, what was known before is dim."""
    panels, known = [], dict[Cell, int]()
    for number, new in enumerate(quarters(found), start=1):
        parts = {0.15: dict(known), 0.85: dict.fromkeys(new, 1)}
        name, note = f"{number} of 4", f"+{len(new)}"
        if lays_out_rooms(game):
            panels.append(_rooms_panel(name, _rooms_of(game, found.counts), parts, 0, note=note))
        else:
            everything = flattened(found.counts)
            marks, (columns, rows) = _ground(game, everything)
            for shade, cells in parts.items():
                places = flattened(cells)
                marks.append(Squares([place for place in places if _within(place, columns, rows)], colour(shade)))
            marks += _goal(game, _SIDE / columns)
            panels.append(_panel(name, marks, columns, rows, note=note, up=_is_up(game)))
        known |= dict.fromkeys(new, 1)
    return panels


def game_maps(evidence: Evidence, game: str, found: Mapping[str, Visits]) -> Drawing | None:
    """Return where each method went on a game, of the seeds that every method has, or of all where they share none."""
    by_method: dict[str, dict[int, Visits]] = {}
    for run in evidence.together:
        if run.game == game and run.name in found:
            by_method.setdefault(run.method, {})[run.seed] = found[run.name]
    if not by_method:
        return None
    shared = set.intersection(*(set(own) for own in by_method.values()))
    maps = {
        method: summed(own[seed] for seed in sorted(shared or own))
        for method in evidence.methods
        if (own := by_method.get(method))
    }
    most = max(_most(game, cells) for cells in maps.values())
    extent = {cell for cells in maps.values() for cell in cells}
    panels = tuple(
        map_panel(label(method), game, cells, most, method=method, extent=extent) for method, cells in maps.items()
    )
    which = f"Seeds {seeds_text(tuple(sorted(shared)))} together" if shared else "All seeds of each method together"
    which = f"Seed {min(shared)}" if len(shared) == 1 else which
    caption = f"Steps of training spent in each cell, the brighter the more. {which}."
    if _goal(game, 1.0):
        caption += " The white dot is the goal."
    if lays_out_rooms(game):
        caption += f" {rooms_caption(game)}"
    return Drawing(
        f"{file_name(game, evidence.part)}_visits", title(game), caption, panels, 3 if lays_out_rooms(game) else 6
    )


def rooms_caption(game: str) -> str:
    """Return how the rooms of a game are laid out."""
    laid = {
        "montezuma_revenge": "as they connect, level by level",
        "pitfall": "in the order of the jungle",
        "hero": "each level as a shaft, downwards",
    }
    how = laid.get(game, "in the order of their numbers, since we do not know how they connect")
    return f"Rooms lie {how}. A run keeps no screens, so there is nothing of the game behind its cells."


@dataclass(frozen=True)
class _Rooms:
    """Rooms side by side, and the part of each that is shown: as much as was ever visited in any."""

    places: dict[int, Place]
    left: int
    top: int
    columns: int
    rows: int
    up: bool

    @property
    def grid(self) -> Place:
        """How many rooms stand side by side, and one above the other."""
        across, down = zip(*self.places.values(), strict=True)
        return max(across) - min(across) + 1, max(down) - min(down) + 1

    def corner(self, room: int) -> Place:
        """Return column and row of the upper left corner of a room on the map."""
        first, top = (min(place[axis] for place in self.places.values()) for axis in (0, 1))
        column, row = self.places[room]
        return (column - first) * (self.columns + _GAP), (row - top) * (self.rows + _GAP)

    def at(self, cell: Cell) -> Place:
        """Return column and row of a cell on the map."""
        room, x, y = cell
        left, top = self.corner(room)
        row = y - self.top
        return left + x - self.left, top + (self.rows - 1 - row if self.up else row)


def _rooms_of(game: str, cells: Iterable[Cell]) -> _Rooms:
    known = [*cells]
    xs, ys = ([cell[axis] for cell in known] for axis in (1, 2))
    left, top = min(xs), min(ys)
    columns, rows = max(xs) - left + 1, max(ys) - top + 1
    places = room_places(game, (cell[0] for cell in known))
    return _Rooms(places, left, top, max(columns, rows // 3), max(rows, columns // 3), _is_up(game))


def _rooms_panel(
    name: str,
    rooms: _Rooms,
    parts: Mapping[float, Mapping[Cell, int]],
    most: int,
    *,
    method: str = "",
    note: str = "",
) -> Panel:
    """Return the rooms of a game as they connect; of the parts the shade, or with `most` that of the visits."""
    marks: list[Mark] = [Squares([rooms.corner(room) for room in rooms.places], UNVISITED, (rooms.columns, rooms.rows))]
    for shade, cells in parts.items():
        located = {rooms.at(cell): count for cell, count in cells.items()}
        marks += _squares(shades(located, most)) if most else [Squares([*located], colour(shade))]
    across, down = rooms.grid
    columns, rows = across * (rooms.columns + _GAP) - _GAP, down * (rooms.rows + _GAP) - _GAP
    return _panel(name, marks, columns, rows, method=method, note=note, side=_ROOMS_SIDE)


def _panel(
    name: str,
    marks: Sequence[Mark],
    columns: int,
    rows: int,
    *,
    method: str = "",
    note: str = "",
    side: float = _SIDE,
    up: bool = False,
) -> Panel:
    y = Axis(0.0, float(rows)) if up else Axis(float(rows), 0.0)
    height = 24.0 + side * min(2.0, max(0.25, rows / columns))
    return Panel(name, tuple(marks), Axis(0.0, float(columns)), y, side + 2.0, height, method, note)


def _ground(game: str, places: Iterable[Place]) -> tuple[list[Mark], Place]:
    """Return what lies below the visits, and columns and rows of the map."""
    free = _free(game)
    if free is not None:
        return [free[0]], free[1]
    visited = [*places]
    columns, rows = (max((place[axis] for place in visited), default=0) + 1 for axis in (0, 1))
    return [Squares([(0, 0)], UNVISITED, (columns, rows))], (columns, rows)


@lru_cache
def _free(game: str) -> tuple[Squares, Place] | None:
    """Return the ground of a small world, which many maps share, and its columns and rows."""
    known = ground(game)
    if known is None:
        return None
    rows, columns = known[0].shape
    return Squares([(int(x), int(y)) for y, x in np.argwhere(known[0])], UNVISITED), (columns, rows)


def _squares(found: Mapping[Place, float]) -> list[Mark]:
    by_level: dict[int, list[Place]] = {}
    for place, shade in found.items():
        by_level.setdefault(round(shade * _LEVELS), []).append(place)
    return [Squares(places, colour(level / _LEVELS)) for level, places in sorted(by_level.items())]


def _goal(game: str, cell: float) -> list[Mark]:
    """Return the goal as a dot that leaves the colour of its cell, so wide on the page, to be seen."""
    known = ground(game)
    if known is None or known[1] is None:
        return []
    row, column = known[1]
    return [Dots([column + 0.5], [row + 0.5], "#ffffff", ["the goal"], radius=min(3.0, 0.3 * cell), opacity=1.0)]


def _within(place: Place, columns: int, rows: int) -> bool:
    return place[0] < columns and place[1] < rows


def _is_up(game: str) -> bool:
    location = registry.location(game)
    return location is not None and location.y_up
