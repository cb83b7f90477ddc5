"""Four rooms: coverage. Rooms joined by narrow doors, a coin near the start, the goal in the far corner, and slips.

The gridworld of Sutton, Precup and Singh (1999), 9 × 9. The coin, a small reward that is easy to find, is that of
RiverSwim (Strehl and Littman, 2008). Without it ε-greedy reached the goal on 13 of 30 seeds: where all returns are 0,
the network's errors decide where the agent goes, they change with every update, and within 10,000 steps they had led it
through nearly all cells. Nearer to the start, the coin holds the oracle back, too. An open field was tried first.
`FourRoomsEnds` is the same with a goal that ends the episode: an agent with a bonus learns to avoid such a goal, for
all novelty ends with it. `NoisyTv` has a panel below the rooms and a fifth action that fills it with new random pixels
until the next press; in `NoisyTvPassive` they are new at every step, whatever is done, and in `BlankTv` it stays black.
"""

import numpy as np
from numpy.typing import NDArray

from offpiste.worlds.small.grid import COIN, GOAL, MOVES, PLAYER, WALL, Cells, Outcome, SmallWorld, State, moved

SIZE = 9
SLIP = 0.1
"""Probability that a move is replaced by a random one."""
_PANEL_ROWS = 4
_WALL, _DOOR = SIZE // 2, 1
"""The row and column between the rooms, and how far from the ends of it its two doors are."""
_START, _COIN, _GOAL = (SIZE - 1, 0), (_WALL + 1, _WALL - 1), (0, SIZE - 1)
_REWARDS = {_COIN: 0.05, _GOAL: 1.0}
"""Both send the player back to the start. In an episode there is time for four coins."""


def _rooms() -> NDArray[np.bool_]:
    """Return which cells are free."""
    free = np.ones((SIZE, SIZE), np.bool_)
    free[_WALL] = free[:, _WALL] = False
    for door in (_DOOR, SIZE - 1 - _DOOR):
        free[_WALL, door] = free[door, _WALL] = True
    return free


_FREE = _rooms()


class FourRooms(SmallWorld):
    """The rooms, with an empty panel, so that it differs from the noisy ones by the noise alone."""

    shape = (SIZE + _PANEL_ROWS, SIZE + _PANEL_ROWS)
    limit = 26
    goal_return = 0.5

    def starts(self) -> list[Outcome]:
        """Return the corner where an episode starts."""
        return [Outcome(1.0, _START)]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move, or slip."""
        probabilities = np.full(len(MOVES), SLIP / len(MOVES))
        probabilities[action] += 1 - SLIP
        reached = [moved((state[0], state[1]), move, _FREE) for move in range(len(MOVES))]
        return [Outcome(float(p), *self.at(cell)) for p, cell in zip(probabilities, reached, strict=True)]

    def at(self, cell: tuple[int, int]) -> tuple[State, float]:
        """Return the state and the reward of reaching a cell."""
        return (_START, _REWARDS[cell]) if cell in _REWARDS else (cell, 0.0)

    def cells(self, state: State) -> Cells:
        """Return coin, goal, player, and walls, also beside the rooms; the panel is below."""
        cells = np.zeros(self.shape, np.uint8)
        cells[:SIZE, SIZE:] = WALL
        cells[:SIZE, :SIZE][~_FREE] = WALL
        cells[_COIN], cells[_GOAL] = COIN, GOAL
        cells[state] = PLAYER
        return cells


class FourRoomsEnds(FourRooms):
    """The rooms whose goal ends the episode."""

    def at(self, cell: tuple[int, int]) -> tuple[State, float]:
        """Return the state and the reward of reaching a cell."""
        return (cell, _REWARDS[cell]) if cell == _GOAL else super().at(cell)

    def is_terminal(self, state: State) -> bool:
        """Return whether the goal was reached."""
        return state == _GOAL


class NoisyTv(FourRooms):
    """The rooms with a panel whose noise changes when the fifth action is taken."""

    actions = (*MOVES, "press")

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Move, slip, or stay and press the button."""
        return [Outcome(1.0, state)] if action == len(MOVES) else super().outcomes(state, action)

    def first_looks(self) -> NDArray[np.uint8]:
        """Leave the panel dark."""
        return np.zeros((_PANEL_ROWS * self._scale, self.shape[1] * self._scale), np.uint8)

    def next_looks(self, action: int) -> NDArray[np.uint8]:
        """Draw new pixels where the button was pressed."""
        return self._noise() if action == len(MOVES) else self._looks

    def decorate(self, frame: NDArray[np.uint8], looks: NDArray[np.uint8]) -> None:
        """Draw the panel below the rooms."""
        top = SIZE * self._scale
        frame[top : top + len(looks), : looks.shape[1]] = looks

    def _noise(self) -> NDArray[np.uint8]:
        panel = (_PANEL_ROWS * self._scale, self.shape[1] * self._scale)
        return self.np_random.integers(256, size=panel, dtype=np.uint8)


class NoisyTvPassive(NoisyTv):
    """The rooms with a panel whose noise changes at every step; the fifth action does nothing."""

    def first_looks(self) -> NDArray[np.uint8]:
        """Draw new pixels."""
        return self._noise()

    def next_looks(self, action: int) -> NDArray[np.uint8]:  # noqa: ARG002 (the same for all)
        """Draw new pixels."""
        return self._noise()


class BlankTv(NoisyTv):
    """The rooms with a panel that stays black; a run with the same actions slips where it slips beside the noise."""

    def next_looks(self, action: int) -> NDArray[np.uint8]:
        """Draw new pixels where the button was pressed, so that later draws are those of `NoisyTv`, and show none."""
        super().next_looks(action)
        return self._looks
