"""Checks that a bonus falls with visits, comes back as its scope says, and pays for the state that it declares."""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import MAX_INTRINSIC, PaysFor, Scope
from offpiste.bonuses.contract.episodes import novelties
from offpiste.bonuses.contract.play import FULL, visits
from offpiste.bonuses.contract.rollouts import Rollouts
from offpiste.bonuses.contract.turns import PAIRS
from offpiste.checks import Failed, Skipped

_BACK = 0.5
"""The share of its fall that an episodic bonus regains in the next episode, and a lifelong one does not."""
_BLOCK = 2 * PAIRS
_UNSETTLED_BLOCKS = 2
"""In these a running mean still moves; later by less than 5% a visit."""
_FALLEN, _BELOW_NEW, _RISEN = 0.9, 0.75, 10.0
"""Shares: of its peak, of what new frames pay, and of what it paid first, beyond which a bonus counts as such."""
_UNDECLARED = "declare `measures_visits = False` in the class"


def falls(rollouts: Rollouts) -> str:
    """Look whether it falls for frames that are visited, and for these alone."""
    _skip_what_measures_no_visits(rollouts)
    _falls_in_turn(rollouts)
    return _falls_on_atari(rollouts)


def scope(rollouts: Rollouts) -> str:
    """Compare how far a bonus that has fallen comes back in the next episodes with the scope declared."""
    _skip_what_measures_no_visits(rollouts)
    try:
        _falls_on_atari(rollouts)
    except Failed:
        raise Skipped("it does not fall as a frame is visited again") from None
    declared, lengths, paid = rollouts.declared("scope", "lifelong"), rollouts.lengths, _paid_for_visits(rollouts)
    if declared not in get_args(Scope):
        raise Failed(f"scope must be one of {', '.join(get_args(Scope))}, got {declared!r}")
    if declared == "both":
        return _both(rollouts)
    repeats, after_truncation = paid[: lengths.repeats], paid[lengths.repeats + 2 :]
    first, last = repeats[: lengths.first].mean(), repeats[-lengths.last :].mean()
    again = [after_truncation[: lengths.first].mean(), paid[-lengths.first :].mean()]
    shares = [(value - last) / (first - last) for value in again]
    kept, advice = {
        "lifelong": (max(shares) < _BACK, 'declare `scope = "episodic"` or `"both"` in the class if that is meant'),
        "episodic": (min(shares) > _BACK, "clear the counts of the episode where transition.over is true"),
    }[declared]
    message = (
        f"{declared}; a frame whose bonus had fallen from {_figure(first)} to {_figure(last)} paid {_figure(again[0])} "
        f"on average over visits 1 to {lengths.first} after truncation, and {_figure(again[1])} after termination"
    )
    if not kept:
        raise Failed(f"{message}; {advice}")
    return message


def _both(rollouts: Rollouts) -> str:
    """Compare a new frame with one that is new in its episode alone, and this with one that is not.

    How far a frame comes back says too little: one factor may lie at a floor, as that of NGU over the run does.
    """
    if rollouts.episodes.ended:
        raise Skipped("it fails on small frames")
    try:
        pays_for(rollouts)
    except Failed:
        raise Skipped("it does not pay for the state that it declares") from None
    except Skipped:
        pass
    new, first, again = novelties(rollouts.episodes.paid)
    message = (
        f"both; in late episodes a new frame paid {_figure(new)}, a known one {_figure(first[0])} on its first visit "
        f"after truncation and {_figure(first[1])} after termination, and {_figure(again)} on its third"
    )
    if again >= _BELOW_NEW * min(first):
        raise Failed(f"{message}; clear one of its parts where transition.over is true")
    if max(first) >= _BELOW_NEW * new:
        if rollouts.lengths != FULL:
            raise Skipped(f"{message}; a slow bonus needs more visits than a quick check has")
        raise Failed(f'{message}; let one of its parts fall over the run, or declare `scope = "episodic"`')
    return message


def pays_for(rollouts: Rollouts) -> str:
    """Compare a step to a new frame with one from a new frame."""
    paid = _paid_in_turn(rollouts)
    if paid is None:
        raise Skipped(_why_not_in_turn(rollouts))
    rest, declared = paid[rollouts.lengths.turn_steps + PAIRS :], rollouts.declared("pays_for", None)
    entering, leaving = float(rest[1::4].mean()), float(rest[3::4].mean())
    message = f"a step from a known frame to a new one paid {entering:.3g}, one from a new to a known {leaving:.3g}"
    if declared is None:
        raise Skipped(f"it does not declare it; {message}")
    if declared not in get_args(PaysFor):
        raise Failed(f"pays_for must be one of {', '.join(get_args(PaysFor))}, got {declared!r}")
    if max(entering, leaving) == 0.0:
        raise Skipped(message)
    if (entering > leaving) != (declared == "next_state") or entering == leaving:
        raise Failed(f"it declares {declared!r}, but {message}; look whether state and next_state are swapped")
    return f"{declared}; {message}"


def _skip_what_measures_no_visits(rollouts: Rollouts) -> None:
    if not rollouts.declared("measures_visits", True):
        raise Skipped("it declares measures_visits = False")
    rollouts.atari.whole()


def _falls_on_atari(rollouts: Rollouts) -> str:
    """Compare the first visits with the last, and these with another new frame."""
    paid, lengths = _paid_for_visits(rollouts), rollouts.lengths
    if not (np.abs(paid) <= MAX_INTRINSIC).all():
        raise Skipped("some of its bonuses are not finite")
    repeats, another = paid[: lengths.repeats], paid[lengths.repeats]
    first, last = repeats[: lengths.first].mean(), repeats[-lengths.last :].mean()
    message = (
        f"a new frame paid {_figure(first)} on average over visits 1 to {lengths.first}, {_figure(last)} over "
        f"{lengths.repeats - lengths.last + 1} to {lengths.repeats}, and then another new one {_figure(another)}"
    )
    # What is new in an episode is so beside its other states, of which the first has none.
    if last < (another if rollouts.declared("scope", "lifelong") == "both" else min(first, another)):
        return message
    if lengths != FULL:
        raise Skipped(f"{message}; a slow bonus needs more visits than a quick check has")
    raise Failed(f"{message}; {_UNDECLARED} if its bonus is not meant to fall with visits")


def _paid_for_visits(rollouts: Rollouts) -> NDArray[np.float64]:
    return np.array(rollouts.atari.whole()[-len(visits(rollouts.lengths)) :])


def _falls_in_turn(rollouts: Rollouts) -> None:
    """Judge means over two rounds each; what may only be slow passes a quick check."""
    paid, lengths = _paid_in_turn(rollouts), rollouts.lengths
    if paid is None:
        return
    in_turn, new = paid[: lengths.turn_steps], float(paid[lengths.turn_steps :][:PAIRS].mean())
    blocks, rounds = in_turn.reshape(-1, _BLOCK).mean(1), lengths.turn_steps // PAIRS
    positive = blocks[blocks > 0.0]
    settled, late = blocks[_UNSETTLED_BLOCKS:], float(blocks[-2:].mean())
    peak = float(settled.max())
    if peak == 0.0:  # it pays for the first visits only, or nothing at all
        return
    if late > _RISEN * positive[0]:
        raise Failed(
            f"{PAIRS} steps in turn paid {float(positive[0]):.3g} at first and, after {rounds} rounds, {late:.3g}; "
            "look for a wrong sign in what the visits change"
        )
    message = f"{PAIRS} steps in turn paid {peak:.3g} and, after {rounds} rounds, {late:.3g}"
    if late >= _FALLEN * peak:
        if lengths == FULL:
            raise Failed(
                f"{message}; let it learn what it pays for (is a call of optimizer.step() missing?), check it with a "
                f"larger step size if it is slow, or {_UNDECLARED}"
            )
    elif late > _BELOW_NEW * new:
        raise Failed(
            f"{message}, but new ones only {new:.3g}: it falls for all frames alike; train on the frames and "
            "actions that it pays for, and do not let it fall with time alone"
        )


def _paid_in_turn(rollouts: Rollouts) -> NDArray[np.float64] | None:
    """Return what it paid for steps in turn, or None where that says nothing."""
    return None if _why_not_in_turn(rollouts) else np.array(rollouts.turns.paid)


def _why_not_in_turn(rollouts: Rollouts) -> str:
    if not rollouts.declared("measures_visits", True) or rollouts.declared("can_be_negative", False):
        return "it declares measures_visits = False or can_be_negative = True"
    rollouts.atari.whole()
    if rollouts.turns.ended:
        return "it fails on small frames"
    paid = np.array(rollouts.turns.paid)
    return "" if ((paid >= 0.0) & (paid <= MAX_INTRINSIC)).all() else "some of its bonuses are negative or not finite"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000.0 else f"{value:.4g}"
