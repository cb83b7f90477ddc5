"""Key and door: subgoals. The key is in the room on one side, the goal behind a locked door on the other.

Three rooms in a row, 3 × 3 cells each; the player starts in the middle one, key and goal lie in opposite corners. Only
the goal pays; it sends the player back to the start and restores the key.
"""

from typing import ClassVar

import numpy as np

from offpiste.worlds.small.grid import DOOR, EMPTY, GOAL, KEY, PLAYER, WALL, Cells, Outcome, SmallWorld, State, moved
from offpiste.worlds.small.rooms import DOORS, ROOM, WIDTH, three_rooms

_MIDDLE = ROOM // 2
_START = (_MIDDLE, WIDTH // 2)
_KEY, _GOAL, _DOOR = (0, 0), (ROOM - 1, WIDTH - 1), (_MIDDLE, DOORS[1])
_ROOMS = three_rooms((_MIDDLE, _MIDDLE))


class KeyDoor(SmallWorld):
    """A state is row, column and whether the player has the key."""

    shape: ClassVar[tuple[int, int]] = (ROOM, WIDTH)
    limit = 28

    def starts(self) -> list[Outcome]:
        """Return the middle of the middle room, without the key."""
        return [Outcome(1.0, (*_START, 0))]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move; the door is a wall without the key."""
        row, column, has_key = state
        open_cells = _ROOMS != WALL
        open_cells[_DOOR] = bool(has_key)
        cell = moved((row, column), action, open_cells)
        if cell == _GOAL:
            return [Outcome(1.0, (*_START, 0), 1.0)]
        return [Outcome(1.0, (*cell, int(has_key or cell == _KEY)))]

    def cells(self, state: State) -> Cells:
        """Return the rooms, the key and the door until the key is taken, the goal and the player."""
        cells = _ROOMS.copy()
        cells[_KEY], cells[_DOOR] = (EMPTY, EMPTY) if state[2] else (KEY, DOOR)
        cells[_GOAL] = GOAL
        cells[state[0], state[1]] = PLAYER
        return np.asarray(cells)
