"""Short episodes between frames of noise, for bonuses whose scope is both the episode and the run.

Each episode visits the same five frames, then one more three times. After many of these, four episodes visit a frame
that was never seen before, too, and so three novelties can be compared under the same conditions: of a frame that is
new, of one that is new in this episode alone, and of one that is not new at all. A frame is entered from another and
left to it, both of which the episode has visited, so that a bonus may pay for the state or for the next state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.contract.play import FULL, SEED, Lengths, rooms
from offpiste.bonuses.contract.turns import step_between
from offpiste.seeding import stream
from offpiste.types import Transition

LAST = 4
"""How many episodes visit a new frame; two of them follow a truncation, two a termination."""
_KNOWN = 0, 1, 2, 3, 4, 1
_AGAIN = 5
"""The frame that each episode visits three times."""
_FIRST_NEW = 6
_BACK = 1, 2
_VISITS = 3 * (_AGAIN, *_BACK)
_PLAIN: tuple[int, ...] = *_KNOWN, *_VISITS
_WITH_NEW: tuple[int, ...] = *_KNOWN, _FIRST_NEW, *_BACK, *_VISITS
_ENTERS_NEW, _ENTERS_FIRST, _ENTERS_AGAIN = 5, 8, 14
"""The steps of an episode with a new frame that enter it, and the other one for the first and the third time."""


@cache
def episodes(lengths: Lengths = FULL) -> tuple[Transition, ...]:
    """Return all episodes, truncated and terminated in turn."""
    draws, shape = stream(SEED, "check episodes"), rooms(lengths)[0].state.shape
    frames = draws.integers(2, size=(_FIRST_NEW + LAST, *shape), dtype=np.uint8) * np.uint8(255)
    plain = 2 * (lengths.turn_steps // len(_PLAIN) // 2)
    orders: list[tuple[int, ...]] = [_PLAIN] * plain
    orders += [tuple(cell + number * (cell == _FIRST_NEW) for cell in _WITH_NEW) for number in range(LAST)]
    return tuple(step for number, order in enumerate(orders) for step in _episode(frames, order, number % 2 == 0))


def _episode(frames: NDArray[np.uint8], order: Sequence[int], truncated: bool) -> Iterator[Transition]:
    """Yield the steps from each frame of an order to the next."""
    last = len(order) - 2
    for index, (left, entered) in enumerate(pairwise(order)):
        step = step_between(frames[left], 0, frames[entered], entered)
        ends = index == last
        yield replace(step, episode_step=index, truncated=ends and truncated, terminated=ends and not truncated)


def novelties(paid: Sequence[float]) -> tuple[float, list[float], float]:
    """Return what a new frame was paid, one new in its episode, after truncation and after termination, and one again.

    Of the steps that enter a frame and leave it, the one that is paid more counts; means over the last episodes.
    """
    last = np.array(paid[-LAST * (len(_WITH_NEW) - 1) :]).reshape(LAST, -1)
    new, first, again = (last[:, at : at + 2].max(1) for at in (_ENTERS_NEW, _ENTERS_FIRST, _ENTERS_AGAIN))
    # The first of the last follows an odd number, which was terminated.
    return float(new.mean()), [float(first[1::2].mean()), float(first[0::2].mean())], float(again.mean())
