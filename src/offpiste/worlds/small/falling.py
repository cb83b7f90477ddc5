"""Catch and Rain: control with dense rewards. Balls fall; a paddle on the last row moves left or right.

In `Catch` (after bsuite) one ball falls per episode; catching it pays 1, and the episode ends with it. In `Rain` a new
ball falls every fourth step, and each pays 1.
"""

from typing import ClassVar

import numpy as np

from offpiste.worlds.small.grid import BALL, PLAYER, Cells, Outcome, SmallWorld, State

COLUMNS = 5
_MOVES = {"left": -1, "stay": 0, "right": 1}
_RAIN_ROWS = 8
_RAIN_PERIOD = 4


def _paddle(column: int, action: int) -> int:
    return min(max(column + list(_MOVES.values())[action], 0), COLUMNS - 1)


class Catch(SmallWorld):
    """A state is the ball's row, its column and the paddle's column."""

    actions: ClassVar[tuple[str, ...]] = tuple(_MOVES)
    shape: ClassVar[tuple[int, int]] = (10, COLUMNS)
    limit = 10

    def starts(self) -> list[Outcome]:
        """Return one state per column of the ball, which is in the first row."""
        return [Outcome(1 / COLUMNS, (0, column, COLUMNS // 2)) for column in range(COLUMNS)]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move the paddle; the ball falls one row."""
        row, column, paddle = state
        paddle = _paddle(paddle, action)
        caught = row + 2 == self.shape[0] and column == paddle
        return [Outcome(1.0, (row + 1, column, paddle), float(caught))]

    def is_terminal(self, state: State) -> bool:
        """Return whether the ball has reached the paddle's row."""
        return state[0] == self.shape[0] - 1

    def position(self, state: State) -> tuple[int, int, int]:
        """Return the ball's row, the paddle's column, and the ball's column."""
        return state[0], state[2], state[1]

    def cells(self, state: State) -> Cells:
        """Return the ball and the paddle."""
        cells = np.zeros(self.shape, np.uint8)
        cells[state[0], state[1]] = BALL
        cells[-1, state[2]] = PLAYER
        return cells


class Rain(SmallWorld):
    """A state is the row of the upper ball, its column, that of the ball four rows below, and the paddle's column."""

    actions: ClassVar[tuple[str, ...]] = tuple(_MOVES)
    shape: ClassVar[tuple[int, int]] = (_RAIN_ROWS, COLUMNS)
    limit = 40

    def starts(self) -> list[Outcome]:
        """Return one state per pair of columns of the two balls, the upper one in the first row."""
        columns = range(COLUMNS)
        return [Outcome(COLUMNS**-2, (0, upper, lower, COLUMNS // 2)) for upper in columns for lower in columns]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move the paddle; the balls fall one row, and a new one appears at the top every fourth step."""
        row, upper, lower, paddle = state
        paddle = _paddle(paddle, action)
        reward = float(row + 1 == _RAIN_PERIOD - 1 and lower == paddle)
        if row + 1 < _RAIN_PERIOD:
            return [Outcome(1.0, (row + 1, upper, lower, paddle), reward)]
        return [Outcome(1 / COLUMNS, (0, column, upper, paddle)) for column in range(COLUMNS)]

    def position(self, state: State) -> tuple[int, int, int]:
        """Return the upper ball's row, the paddle's column, and the columns of both balls as one number."""
        row, upper, lower, paddle = state
        return row, paddle, COLUMNS * upper + lower

    def cells(self, state: State) -> Cells:
        """Return the balls and the paddle; a ball on the paddle's row has just been caught, or lost."""
        row, upper, lower, paddle = state
        cells = np.zeros(self.shape, np.uint8)
        cells[row, upper] = cells[row + _RAIN_PERIOD, lower] = BALL
        cells[-1, paddle] = PLAYER
        return cells
