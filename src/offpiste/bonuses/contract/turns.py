"""Steps between frames of noise, for bonuses that fall with time or for the wrong frame.

A bonus that has observed nothing else takes six steps between frames of noise in turn. As all six are equally frequent,
a running mean and deviation stay where they are, and only what learns these frames falls; where one frame is repeated,
as in `visits.py`, a drifting mean falls too. No frame is both a state and a next state, and the next state depends on
the action, so what learns the wrong frame, pair or action does not fall. New frames of the same noise follow.
"""

from dataclasses import replace
from functools import cache
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.contract.play import FULL, SEED, Lengths, rooms
from offpiste.seeding import stream
from offpiste.types import Transition

PAIRS = 6
"""How many steps are taken in turn, and how many of each kind follow."""
_STATES = 3


@cache
def turns(lengths: Lengths = FULL, *, one_episode: bool = False) -> tuple[Transition, ...]:
    """Return six steps in turn, six between new frames, then six from known to new frames and six from new to known.

    Each of the last twelve has an episode of its own, which a known step ends, unless all are to be one episode.
    """
    draws, shape = stream(SEED, "check noise"), rooms(lengths)[0].state.shape
    (states, following), new, entered_or_left = (
        draws.integers(2, size=(2, PAIRS, *shape), dtype=np.uint8) * np.uint8(255) for _ in range(3)
    )
    known = [step_between(states[index % _STATES], index // _STATES, following[index], index) for index in range(PAIRS)]
    last = replace(known[0], terminated=not one_episode)
    steps = [*islice(cycle(known), lengths.turn_steps)]
    steps += [step_between(new[0, index], 0, new[1, index], PAIRS + index) for index in range(PAIRS)] + [last]
    for index, one in enumerate(known):
        steps += [step_between(one.state, 0, entered_or_left[0, index], 2 * PAIRS + index), last]
        steps += [step_between(entered_or_left[1, index], 0, one.next_state, index), last]
    started = 0
    for number, step in enumerate(steps):
        steps[number] = replace(step, episode_step=number - started)
        started = number + 1 if step.over else started
    return tuple(steps)


def step_between(state: NDArray[np.uint8], action: int, next_state: NDArray[np.uint8], cell: int) -> Transition:
    """Return a step that leads to a cell of Four Rooms."""
    ram = np.zeros(128, np.uint8)
    ram[0], ram[1] = 8 * (cell % 9), 8 * (cell // 9)  # of Four Rooms, where each next state is another cell
    for array in (state, next_state, ram):
        array.setflags(write=False)
    return Transition(state, action, 0.0, next_state, False, False, 0, ram)
