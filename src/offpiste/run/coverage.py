"""Which rooms and cells a run has visited, when first, and how often.

Where the game's RAM locates the player, a cell is 8×8 pixels within its room and level. Where it does not, a cell is a
downscaled frame as in Go-Explore (Ecoffet et al., 2019): 11×8 pixels in 8 shades by default, hashed to 20 bits, so that
the count is a lower bound that saturates near a million.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste.rows import UNKNOWN
from offpiste.worlds.coarse import COARSE_FRAME, CoarseFrame, coarse_copy
from offpiste.worlds.games import CELLS_PER_ROOM, ROOMS, Location

_FRAME_CELLS = 2**20
NOT_COUNTED: dict[str, int | None] = dict.fromkeys(("rooms_visited", "rooms_new", "cells_visited", "cells_new"))
"""The columns of an evaluation episode, whose coverage is not counted."""


class Coverage:
    """Counts visited rooms and cells, over the run and within the current episode."""

    def __init__(self, location: Location | None, coarse_frame: CoarseFrame = COARSE_FRAME) -> None:
        self._location = location
        self._coarse_frame = coarse_frame
        self._seen_rooms = np.zeros(ROOMS, np.bool_)
        self._seen_cells = np.zeros(_FRAME_CELLS if location is None else ROOMS * CELLS_PER_ROOM, np.bool_)
        self._first_steps = np.full(self._seen_cells.size, UNKNOWN, np.int64)
        self._visits = np.zeros(self._seen_cells.size, np.int64)
        self._knows_rooms = location is not None and location.room is not None
        self.rooms_found = 0
        self.cells_found = 0
        self._rooms: set[int] = set()
        self._cells: set[int] = set()
        self._rooms_new = 0
        self._cells_new = 0

    def visit(self, ram: NDArray[np.uint8], frame: NDArray[np.uint8], step: int) -> None:
        """Count a visit to the player's room and cell after this many training steps."""
        room, cell = (
            (0, frame_cell(frame, self._coarse_frame)) if self._location is None else self._location.locate(ram)
        )
        self._rooms.add(room)
        self._cells.add(cell)
        if not self._seen_rooms[room]:
            self._seen_rooms[room] = True
            self.rooms_found += 1
            self._rooms_new += 1
        if not self._seen_cells[cell]:
            self._seen_cells[cell] = True
            self.cells_found += 1
            self._cells_new += 1
            self._first_steps[cell] = step
        self._visits[cell] += 1

    def end_episode(self) -> dict[str, int | None]:
        """Return the columns of the episode that ended, and begin the next."""
        rooms = (len(self._rooms), self._rooms_new) if self._knows_rooms else (None, None)
        columns = {
            "rooms_visited": rooms[0],
            "rooms_new": rooms[1],
            "cells_visited": len(self._cells),
            "cells_new": self._cells_new,
        }
        self._rooms, self._cells = set(), set()
        self._rooms_new = self._cells_new = 0
        return columns

    def totals(self) -> dict[str, int | None]:
        """Return the columns of an iteration."""
        rooms = self.rooms_found if self._knows_rooms else None
        return {"rooms_total": rooms, "cells_total": self.cells_found}

    def state(self) -> dict[str, Any]:
        """Return all but the steps and visits of `cells()`."""
        return {
            "seen_rooms": np.packbits(self._seen_rooms),
            "seen_cells": np.packbits(self._seen_cells),
            "rooms": sorted(self._rooms),
            "cells": sorted(self._cells),
            "rooms_new": self._rooms_new,
            "cells_new": self._cells_new,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._seen_rooms = np.unpackbits(state["seen_rooms"]).astype(np.bool_)
        self._seen_cells = np.unpackbits(state["seen_cells"]).astype(np.bool_)
        self.rooms_found = int(self._seen_rooms.sum())
        self.cells_found = int(self._seen_cells.sum())
        self._rooms = set(state["rooms"])
        self._cells = set(state["cells"])
        self._rooms_new = state["rooms_new"]
        self._cells_new = state["cells_new"]

    def cells(self) -> dict[str, NDArray[np.int64]]:
        """Return the columns of the table `cells`, one row per visited cell; without columns that are not known."""
        cells = np.flatnonzero(self._seen_cells)
        located = {} if self._location is None else self._location.decode(cells)
        return located | {"cell": cells, "first_step": self._first_steps[cells], "visits": self._visits[cells]}

    def load_cells(self, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Restore from `cells()`, after `load_state`."""
        cells = columns["cell"]
        self._first_steps[cells], self._visits[cells] = columns["first_step"], columns["visits"]


def frame_cell(frame: NDArray[np.uint8], coarse_frame: CoarseFrame = COARSE_FRAME) -> int:
    """Return the cell of a frame: the hash of its coarse copy."""
    return zlib.crc32(coarse_copy(frame, coarse_frame).tobytes()) % _FRAME_CELLS
