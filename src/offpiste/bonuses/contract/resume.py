"""Whether a restored bonus continues identically: on Atari, in Four Rooms, and in a new process.

In Four Rooms a bonus is saved late, in the middle of an episode, and frames that were visited in this episode before
come back after it: what counts visits within an episode, or changes after a warm-up, shows only there.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from offpiste.bonuses.contract.new_process import NotFound, Save, paid_in_new_process
from offpiste.bonuses.contract.play import OTHER_SEED, ROOMS, SEED, Lengths, rooms
from offpiste.bonuses.contract.report import Check, Findings, Stop
from offpiste.bonuses.contract.saving import saved_bonus
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, Watch, paid_for
from offpiste.types import Transition

_CARRY = (
    "state() and load_state() must carry all that later bonuses depend on: counts, visits of this episode, statistics, "
    "batches not learned yet, optimisers; without zero_grad() the gradients are part of it, too"
)


def compare_with_restored(
    watch: Watch, twin: Specimen, other: Specimen, saved: SavedBonus | None, steps: Sequence[Transition]
) -> Specimen | None:
    """Compare with a bonus restored from the saved state, and return that, or None where it failed."""
    findings = watch.findings
    repeats, saved_after = findings.results[Check.SEED].outcome == "ok", watch.specimen.observed
    restored = other if saved is not None and _restored(other, saved, findings) else None
    for transition in steps:
        when = watch.specimen.when
        batch = watch.step(transition)
        expected = twin.step(transition, batch, writes=watch.writes)  # state() of the twin was never called
        if repeats and differ(watch.paid[-1], expected):
            findings.fail(
                Check.STATE,
                f"it paid {watch.paid[-1]:.9g} {when} after state() was called, and {expected:.9g} if it was not; "
                "state() must not change the bonus",
            )
        try:
            found = expected if restored is None else restored.step(transition, batch, writes=watch.writes)
        except Raised as raised:
            findings.fail(Check.RESUME, f"once restored, {raised}")
            restored = None
            continue
        if differ(found, expected):
            findings.fail(
                Check.RESUME,
                f"restored after step {saved_after}, it paid {found:.9g} {when} instead of {expected:.9g}; {_CARRY}",
            )
    findings.accept(Check.STATE)
    return restored


def compare_in_rooms(kind: type[Any], options: Any, watch: Watch, lengths: Lengths) -> tuple[Watch, SavedBonus | None]:
    """Let a new bonus play Four Rooms, and compare with one restored on the way; return it, and what was saved."""
    findings, steps = Findings(), rooms(lengths)
    small = Watch(Specimen(kind, options, SEED, ROOMS), findings, lambda _: None)
    for transition in steps[: lengths.rooms_saved_after]:
        small.step(transition)
    comparable = Check.RESUME not in watch.findings.results and not watch.findings.failures.keys() & {
        Check.SEED,
        Check.STATE,
    }
    saved = saved_bonus(small) if comparable else None
    for transition in steps[lengths.rooms_saved_after :]:
        small.step(transition)
    if saved is not None:
        restored = Specimen(kind, options, OTHER_SEED, ROOMS)
        try:
            restored.restore(saved)
            found = paid_for(restored, steps, learns=small.learns, writes=small.writes)
        except (Raised, Stop) as error:
            watch.findings.fail(Check.RESUME, f"once restored on {ROOMS}, {error}")
        else:
            _compare(found, small.paid[saved.observed :], f"on {ROOMS}, restored", _CARRY, saved, watch.findings)
    return small, saved


def compare_with_new_process(
    kind: type[Any],
    settings: Mapping[str, Any],
    played: Sequence[tuple[Watch, SavedBonus]],
    lengths: Lengths,
    findings: Findings,
) -> None:
    """Compare with bonuses restored in a new process, from what was saved in each world."""
    saves = [Save(watch.specimen.game, saved, watch.learns) for watch, saved in played]
    try:
        found = paid_in_new_process(kind, settings, saves, lengths)
    except NotFound as error:
        findings.accept(Check.RESUME, f"in this process; not tried in a new one, since {error}")
        return
    except Raised as raised:
        findings.fail(Check.RESUME, f"restored in a new process, {raised}")
        return
    for paid, (watch, saved) in zip(found, played, strict=True):
        where = f"on {ROOMS}, " if watch.specimen.game == ROOMS else ""
        advice = (
            "hash() of text and bytes, id() and the order of sets change from process to process: use hashlib or "
            "zlib.crc32, and sort"
        )
        _compare(paid, watch.paid[saved.observed :], f"{where}restored in a new process", advice, saved, findings)


def differ(one: float, other: float) -> bool:
    """Return whether two bonuses differ; NaN is as NaN."""
    return one != other and not (math.isnan(one) and math.isnan(other))


def _compare(
    found: Sequence[float],
    expected: Sequence[float],
    how: str,
    advice: str,
    saved: SavedBonus,
    findings: Findings,
) -> None:
    """Compare what a restored bonus paid with what the observed one paid from the same step on."""
    for number, (one, other) in enumerate(zip(found, expected, strict=False), saved.observed + 1):
        if differ(one, other):
            message = f"it paid {one:.9g} at step {number} instead of {other:.9g}"
            findings.fail(Check.RESUME, f"{how} after step {saved.observed}, {message}; {advice}")


def _restored(other: Specimen, saved: SavedBonus, findings: Findings) -> bool:
    try:
        other.restore(saved)
    except Raised as raised:
        findings.fail(Check.RESUME, str(raised))
        return False
    return True
