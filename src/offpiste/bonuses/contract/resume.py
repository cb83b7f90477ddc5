"""Checks that the same seed pays the same, and that a restored bonus continues identically.

A bonus is restored on Atari, in Four Rooms, and in a new process. In Four Rooms it is saved late, in the middle of an
episode, and frames that were visited in this episode before come back after it: what counts visits within an episode,
or changes after a warm-up, shows only there.
"""

import math
from collections.abc import Callable, Sequence

from offpiste.bonuses.contract.new_process import NotFound, Save, paid_in_new_process
from offpiste.bonuses.contract.play import ROOMS, WARM_UP_GAMES
from offpiste.bonuses.contract.report import Check
from offpiste.bonuses.contract.rollouts import Rollouts
from offpiste.bonuses.contract.specimen import Raised
from offpiste.checks import Failed, Skipped

_CARRY = (
    "state() and load_state() must carry all that later bonuses depend on: counts, visits of this episode, statistics, "
    "batches not learned yet, optimisers; without zero_grad() the gradients are part of it, too"
)
_HASHES = (
    "hash() of text and bytes, id() and the order of sets change from process to process: use hashlib or zlib.crc32, "
    "and sort"
)


def same_seed(rollouts: Rollouts) -> str:
    """Compare two bonuses from the same seed."""
    until = rollouts.lengths.saved_after
    step, paid, expected = _difference(rollouts.atari.until(until), rollouts.twin.until(until))
    if step is not None:
        raise Failed(
            f"two bonuses from the same seed paid {paid:.9g} and {expected:.9g} at step {step:,}; draw from "
            "context.generator only (layers may draw their initial weights from torch's global generator)"
        )
    return ""


def state(rollouts: Rollouts) -> str:
    """Look whether `state` can be saved, and changes nothing."""
    saved_after, compared = rollouts.lengths.saved_after, rollouts.lengths.compared
    rollouts.atari.until(saved_after)
    if fault := rollouts.atari.faults.get(Check.STATE):
        raise Failed(fault)
    if _fails(same_seed, rollouts):
        return ""
    found, expected = (each.until(compared)[saved_after:] for each in (rollouts.atari, rollouts.twin))
    step, paid, other = _difference(found, expected, saved_after)
    if step is not None:
        raise Failed(
            f"it paid {paid:.9g} at step {step:,} after state() was called, and {other:.9g} if it was not; "
            "state() must not change the bonus"
        )
    return ""


def resume(rollouts: Rollouts) -> str:
    """Compare bonuses restored in this process, on Atari and in Four Rooms, with those that were saved."""
    lengths, atari = rollouts.lengths, rollouts.atari
    atari.until(lengths.saved_after)
    rooms = rollouts.rooms
    if _fails(same_seed, rollouts):
        raise Skipped("the same seed does not give the same bonuses")
    if atari.saved is None:
        raise Skipped("its state cannot be saved")
    expected = rollouts.twin.until(lengths.compared)[lengths.saved_after :]
    _compare(rollouts.other.paid, expected, "restored", lengths.saved_after, _CARRY)
    if rollouts.other.ended:
        raise Failed(rollouts.other.error)
    if rooms.saved is not None and not _fails(state, rollouts):
        saved_after = lengths.rooms_saved_after
        _compare(rollouts.rooms_other.paid, rooms.paid[saved_after:], f"on {ROOMS}, restored", saved_after, _CARRY)
        if rollouts.rooms_other.ended and not rooms.ended:
            raise Failed(f"on {ROOMS}, {rollouts.rooms_other.error}")
    return ""


def resume_in_new_process(rollouts: Rollouts) -> str:
    """Compare restored bonuses with those that were saved, in this process and in a new one."""
    resume(rollouts)
    lengths = rollouts.lengths
    played = ((WARM_UP_GAMES[0], rollouts.atari, lengths.compared), (ROOMS, rollouts.rooms, lengths.rooms_steps))
    saves = [Save(game, rollout.saved) for game, rollout, _ in played if rollout.saved is not None]
    if len(saves) < len(played) or any(rollout.faults for _, rollout, _ in played):
        return ""
    try:
        found = paid_in_new_process(rollouts.kind, rollouts.settings, saves, lengths)
    except NotFound as error:
        return f"in this process; not tried in a new one, since {error}"
    except Raised as raised:
        raise Failed(f"restored in a new process, {raised}") from raised
    for paid, save, (game, rollout, until) in zip(found, saves, played, strict=True):
        where, saved_after = f"on {ROOMS}, " if game == ROOMS else "", save.bonus.observed
        expected = rollout.until(until)[saved_after:]
        _compare(paid, expected, f"{where}restored in a new process", saved_after, _HASHES)
    return ""


def resumes(rollouts: Rollouts) -> bool:
    """Return whether a bonus restored in this process continues identically."""
    try:
        resume(rollouts)
    except (Failed, Skipped):
        return False
    return True


def _fails(check: Callable[[Rollouts], str], rollouts: Rollouts) -> bool:
    try:
        check(rollouts)
    except Failed:
        return True
    return False


def _compare(found: Sequence[float], expected: Sequence[float], how: str, saved_after: int, advice: str) -> None:
    step, paid, other = _difference(found, expected, saved_after)
    if step is not None:
        raise Failed(
            f"{how} after step {saved_after}, it paid {paid:.9g} at step {step:,} instead of {other:.9g}; {advice}"
        )


def _difference(found: Sequence[float], expected: Sequence[float], first: int = 0) -> tuple[int | None, float, float]:
    """Return the first step at which the two paid different bonuses, and these; NaN is as NaN."""
    for step, (one, other) in enumerate(zip(found, expected, strict=False), first + 1):
        if one != other and not (math.isnan(one) and math.isnan(other)):
            return step, one, other
    return None, 0.0, 0.0
