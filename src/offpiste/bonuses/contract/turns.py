"""Whether a bonus falls for frames visited in turn but not for new ones, and pays for the state that it declares.

A bonus that has observed nothing else takes six steps between frames of noise in turn. As all six are equally frequent,
a running mean and deviation stay where they are, and only what learns these frames falls; where one frame is repeated,
as in `visits.py`, a drifting mean falls too. No frame is both a state and a next state, and the next state depends on
the action, so what learns the wrong frame, pair or action does not fall. New frames of the same noise follow.
"""

from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import MAX_INTRINSIC, PaysFor
from offpiste.bonuses.contract.play import FULL, ROOMS, SEED, Lengths, rooms
from offpiste.bonuses.contract.report import Check, Findings, Stop
from offpiste.bonuses.contract.specimen import Raised, Specimen, paid_for
from offpiste.seeding import stream
from offpiste.types import Transition

PAIRS = 6
"""How many steps are taken in turn, and how many of each kind follow."""
_STATES = 3
_BLOCK = 2 * PAIRS
_UNSETTLED_BLOCKS = 2
"""In these a running mean still moves; later by less than 5% a visit."""
_FALLEN, _BELOW_NEW, _RISEN = 0.9, 0.75, 10.0
"""Shares: of its peak, of what new frames pay, and of what it paid first, beyond which a bonus counts as such."""


@cache
def turns(lengths: Lengths = FULL, *, one_episode: bool = False) -> tuple[Transition, ...]:
    """Return six steps in turn, six between new frames, then six from known to new frames and six from new to known.

    Each of the last twelve has an episode of its own, which a known step ends, unless all are to be one episode.
    """
    draws, shape = stream(SEED, "check noise"), rooms(lengths)[0].state.shape
    (states, following), new, entered_or_left = (
        draws.integers(2, size=(2, PAIRS, *shape), dtype=np.uint8) * np.uint8(255) for _ in range(3)
    )
    known = [_step(states[index % _STATES], index // _STATES, following[index], index) for index in range(PAIRS)]
    last = replace(known[0], terminated=not one_episode)
    steps = [*islice(cycle(known), lengths.turn_steps)]
    steps += [_step(new[0, index], 0, new[1, index], PAIRS + index) for index in range(PAIRS)] + [last]
    for index, one in enumerate(known):
        steps += [_step(one.state, 0, entered_or_left[0, index], 2 * PAIRS + index), last]
        steps += [_step(entered_or_left[1, index], 0, one.next_state, index), last]
    started = 0
    for number, step in enumerate(steps):
        steps[number] = replace(step, episode_step=number - started)
        started = number + 1 if step.over else started
    return tuple(steps)


def judge_turns(
    kind: type[Any], options: Any, lengths: Lengths, findings: Findings, *, learns: bool, writes: bool
) -> None:
    """Let a new bonus take these steps, and judge what it paid where it is meant to measure visits."""
    if not getattr(kind, "measures_visits", True) or getattr(kind, "can_be_negative", False):
        findings.skip(Check.PAYS_FOR, "it declares measures_visits = False or can_be_negative = True")
        return
    steps = turns(lengths, one_episode=getattr(kind, "scope", "lifelong") == "episodic")
    try:
        paid = np.array(paid_for(Specimen(kind, options, SEED, ROOMS), steps, learns=learns, writes=writes))
    except (Raised, Stop) as raised:
        findings.fail(
            Check.SMALL, f"on frames of noise, {raised}; take shapes and the number of actions from the Context"
        )
        findings.skip(Check.PAYS_FOR, "it fails on small frames")
        return
    if not ((paid >= 0.0) & (paid <= MAX_INTRINSIC)).all():
        findings.skip(Check.PAYS_FOR, "some of its bonuses are negative or not finite")
        return
    in_turn, new, rest = np.split(paid, [lengths.turn_steps, lengths.turn_steps + PAIRS])
    _judge_fall(in_turn.reshape(-1, _BLOCK).mean(1), float(new.mean()), lengths, findings)
    _judge_state(float(rest[1::4].mean()), float(rest[3::4].mean()), getattr(kind, "pays_for", None), findings)


def _judge_fall(blocks: NDArray[np.float64], new: float, lengths: Lengths, findings: Findings) -> None:
    """Judge a bonus by its means over two rounds each; what may only be slow passes a quick check."""
    positive = blocks[blocks > 0.0]
    settled, late = blocks[_UNSETTLED_BLOCKS:], float(blocks[-2:].mean())
    peak = float(settled.max())
    if peak == 0.0:  # it pays for the first visits only, or nothing at all
        return
    message = (
        f"{PAIRS} steps in turn paid {_figure(peak)} and, after {lengths.turn_steps // PAIRS} rounds, {_figure(late)}"
    )
    if late > _RISEN * positive[0]:
        findings.fail(
            Check.VISITS,
            f"{PAIRS} steps in turn paid {_figure(float(positive[0]))} at first and, after "
            f"{lengths.turn_steps // PAIRS} rounds, {_figure(late)}; look for a wrong sign in what the visits change",
        )
    elif late >= _FALLEN * peak:
        if lengths == FULL:
            findings.fail(
                Check.VISITS,
                f"{message}; let it learn what it pays for (is a call of optimizer.step() missing?), check it with a "
                "larger step size if it is slow, or declare `measures_visits = False` in the class",
            )
    elif late > _BELOW_NEW * new:
        findings.fail(
            Check.VISITS,
            f"{message}, but new ones only {_figure(new)}: it falls for all frames alike; train on the frames and "
            "actions that it pays for, and do not let it fall with time alone",
        )


def _judge_state(entering: float, leaving: float, declared: object, findings: Findings) -> None:
    message = (
        f"a step from a known frame to a new one paid {_figure(entering)}, one from a new to a known {_figure(leaving)}"
    )
    if declared is None:
        findings.skip(Check.PAYS_FOR, f"it does not declare it; {message}")
    elif declared not in get_args(PaysFor):
        findings.fail(Check.PAYS_FOR, f"pays_for must be one of {', '.join(get_args(PaysFor))}, got {declared!r}")
    elif max(entering, leaving) == 0.0:
        findings.skip(Check.PAYS_FOR, message)
    elif (entering > leaving) == (declared == "next_state") and entering != leaving:
        findings.accept(Check.PAYS_FOR, f"{declared}; {message}")
    else:
        findings.fail(
            Check.PAYS_FOR, f"it declares {declared!r}, but {message}; look whether state and next_state are swapped"
        )


def _step(state: NDArray[np.uint8], action: int, next_state: NDArray[np.uint8], cell: int) -> Transition:
    ram = np.zeros(128, np.uint8)
    ram[0], ram[1] = 8 * (cell % 9), 8 * (cell // 9)  # of Four Rooms, where each next state is another cell
    for array in (state, next_state, ram):
        array.setflags(write=False)
    return Transition(state, action, 0.0, next_state, False, False, 0, ram)


def _figure(value: float) -> str:
    return f"{value:.3g}"
