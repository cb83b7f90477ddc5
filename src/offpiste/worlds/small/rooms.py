"""Three rooms in a row: what the key and the wallpaper worlds share."""

import numpy as np

from offpiste.worlds.small.grid import EMPTY, WALL, Cells

ROOM = 3
WIDTH = 3 * ROOM + 2
DOORS = (ROOM, 2 * ROOM + 1)
"""Columns of the two walls between the rooms."""


def three_rooms(door_rows: tuple[int, int]) -> Cells:
    """Return the cells of three rooms, 3 × 3 each, with an opening in each of the two walls between them."""
    cells = np.full((ROOM, WIDTH), EMPTY, np.uint8)
    for column, row in zip(DOORS, door_rows, strict=True):
        cells[:, column] = WALL
        cells[row, column] = EMPTY
    return cells
