"""Wallpaper: every episode looks new. Three rooms with offset doors, faintly papered anew at each reset.

A bonus that pays for what a frame looks like finds all of them new, wherever the player goes.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from offpiste.worlds.small.grid import GOAL, PLAYER, WALL, Cells, Outcome, SmallWorld, State, moved
from offpiste.worlds.small.rooms import ROOM, WIDTH, three_rooms

SHADES = (24, 40)
"""Of wallpaper, the last left out: faint, but on both sides of 32, where pseudo-counts begin to see another shade."""
_START, _GOAL = (ROOM - 1, 0), (0, WIDTH - 1)
_ROOMS = three_rooms((0, ROOM - 1))


class Wallpaper(SmallWorld):
    """A state is row and column."""

    shape: ClassVar[tuple[int, int]] = (ROOM, WIDTH)
    limit = 30

    def starts(self) -> list[Outcome]:
        """Return the corner in which an episode starts."""
        return [Outcome(1.0, _START)]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move; the goal puts the player back at the start."""
        cell = moved((state[0], state[1]), action, _ROOMS != WALL)
        return [Outcome(1.0, _START, 1.0) if cell == _GOAL else Outcome(1.0, cell)]

    def cells(self, state: State) -> Cells:
        """Return the rooms, the goal and the player."""
        cells = _ROOMS.copy()
        cells[_GOAL] = GOAL
        cells[state] = PLAYER
        return np.asarray(cells)

    def first_looks(self) -> NDArray[np.uint8]:
        """Draw a wallpaper over the whole frame."""
        return self.np_random.integers(*SHADES, size=self.state_shape[1:], dtype=np.uint8)

    def decorate(self, frame: NDArray[np.uint8], looks: NDArray[np.uint8]) -> None:
        """Paper everything that is not brighter."""
        np.maximum(frame, looks, out=frame)
