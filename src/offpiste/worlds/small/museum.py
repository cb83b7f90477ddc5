"""Museum: distraction. The goal, a coin, is six steps down the corridor; the other way is a large hall without reward.

The coin sends the player back to the start. Every cell of the hall has a different frame, so that novelty leads there;
what that costs shows in the area under the training curve.
"""

from typing import ClassVar

import numpy as np

from offpiste.worlds.small.grid import GOAL, PLAYER, WALL, Cells, Outcome, SmallWorld, State, moved

HALL = 12
_ROWS = HALL + 2
_CORRIDOR = _ROWS - 1
_DOOR_COLUMN = 5
_START, _COIN = (_CORRIDOR, _DOOR_COLUMN + 1), (_CORRIDOR, _DOOR_COLUMN + 7)


def _plan() -> Cells:
    cells = np.full((_ROWS, _ROWS), WALL, np.uint8)
    cells[:HALL, :HALL] = 0
    cells[HALL, _DOOR_COLUMN] = 0
    cells[_CORRIDOR, _DOOR_COLUMN : _COIN[1] + 1] = 0
    return cells


_PLAN = _plan()


class Museum(SmallWorld):
    """A state is row and column."""

    shape: ClassVar[tuple[int, int]] = (_ROWS, _ROWS)
    limit = 20

    def starts(self) -> list[Outcome]:
        """Return the cell in the corridor between the door and the coin."""
        return [Outcome(1.0, _START)]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move; the coin sends the player back to the start."""
        cell = moved((state[0], state[1]), action, _PLAN != WALL)
        return [Outcome(1.0, _START, 1.0) if cell == _COIN else Outcome(1.0, cell)]

    def cells(self, state: State) -> Cells:
        """Return the plan, the coin and the player."""
        cells = _PLAN.copy()
        cells[_COIN] = GOAL
        cells[state] = PLAYER
        return cells
