"""Wallpaper: every episode looks new. Three rooms with offset doors, and faint new background noise at each reset.

To a bonus that pays for novel frames all of them are novel, wherever the player goes.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from offpiste.worlds.small.grid import GOAL, PLAYER, WALL, Cells, Outcome, SmallWorld, State, moved
from offpiste.worlds.small.rooms import ROOM, WIDTH, three_rooms

SHADES = (24, 40)
"""Range of greys, end excluded: faint, but on both sides of 32, where the second shade of pseudo-counts begins."""
_START, _GOAL = (ROOM - 1, 0), (0, WIDTH - 1)
_ROOMS = three_rooms((0, ROOM - 1))


class Wallpaper(SmallWorld):
    """A state is row and column."""

    shape: ClassVar[tuple[int, int]] = (ROOM, WIDTH)
    limit = 30

    def starts(self) -> list[Outcome]:
        """Return the corner where an episode starts."""
        return [Outcome(1.0, _START)]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move; the goal sends the player back to the start."""
        cell = moved((state[0], state[1]), action, _ROOMS != WALL)
        return [Outcome(1.0, _START, 1.0) if cell == _GOAL else Outcome(1.0, cell)]

    def cells(self, state: State) -> Cells:
        """Return the rooms, the goal and the player."""
        cells = _ROOMS.copy()
        cells[_GOAL] = GOAL
        cells[state] = PLAYER
        return np.asarray(cells)

    def first_looks(self) -> NDArray[np.uint8]:
        """Draw a new wallpaper."""
        return self.np_random.integers(*SHADES, size=self.state_shape[1:], dtype=np.uint8)

    def decorate(self, frame: NDArray[np.uint8], looks: NDArray[np.uint8]) -> None:
        """Draw the wallpaper wherever the frame is darker."""
        np.maximum(frame, looks, out=frame)
