"""A rollout: what a bonus pays along given steps, and every fault that shows from outside on the way."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np

from offpiste import arrays
from offpiste.bonuses.base import MAX_INTRINSIC, LearningBonus, LoggingBonus, fault_of_scalars, warm_up_steps
from offpiste.bonuses.contract.play import batch_draws, batch_of, random_steps
from offpiste.bonuses.contract.report import Check
from offpiste.bonuses.contract.saving import fault_of_state, state_bytes
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, arrays_of, copy_of
from offpiste.checks import Skipped
from offpiste.errors import ConfigError, kind_of
from offpiste.seeding import generator_state
from offpiste.types import Transition


@dataclass
class Rollout:
    """What a bonus paid, and what was wrong."""

    first: int = 0
    """How many steps it had observed before."""
    paid: list[float] = field(default_factory=list)
    faults: dict[Check, str] = field(default_factory=dict)
    """The first fault of each kind: what is wrong and what to do about it."""
    ended: str = ""
    """Why it ended before the last step, if it did."""
    error: str = ""
    """What the bonus raised then."""
    learns: bool = False
    """Whether it has a method `learn`."""
    logs: bool = False
    """Whether it has a method `scalars`."""
    writes: bool = False
    """Whether it changed an input."""
    saved: SavedBonus | None = None
    logged: dict[int, Mapping[str, float]] = field(default_factory=dict)
    """Its scalars, by the number of steps observed."""
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    """The processor time of each call, by method."""

    def until(self, step: int) -> list[float]:
        """Return what it paid before this step; a check of a rollout that ended earlier is skipped."""
        if self.ended and self.first + len(self.paid) < step:
            raise Skipped(f"not reached, since {self.ended}")
        return self.paid[: step - self.first]

    def whole(self) -> list[float]:
        """Return all that it paid; a check of a rollout that ended early is skipped."""
        if self.ended:
            raise Skipped(f"not reached, since {self.ended}")
        return self.paid

    def fail(self, check: Check, message: str) -> None:
        """Record a fault, unless this check has one."""
        self.faults.setdefault(check, message)


def roll_out(
    specimen: Specimen,
    steps: Sequence[Transition],
    *,
    read_only: bool = True,
    learn: bool = True,
    save_after: int | None = None,
    log_after: Collection[int] = (),
    observed: Callable[[], None] | None = None,
) -> Rollout:
    """Give a bonus those of the steps that it has not observed, and before them the batches that are due.

    As in a run the arrays of a transition are read-only; otherwise they are copies, of which changes are found. A new
    bonus is first shown its `warm_up_steps`, again and again the same random play.
    """
    rollout = Rollout(specimen.observed, milliseconds=specimen.milliseconds)
    rollout.learns = isinstance(specimen.bonus, LearningBonus)
    rollout.logs = isinstance(specimen.bonus, LoggingBonus)
    if specimen.observed == 0 and not _warmed_up(specimen, rollout, learn=learn):
        return rollout
    draws, learning = batch_draws(), rollout.learns and learn
    for number, transition in enumerate(steps):
        specimen.shown = steps[:number]
        batch = batch_of(specimen.shown, draws) if learning else None
        if number < rollout.first:
            continue
        try:
            if batch is not None:
                learning = _learn(specimen, batch, rollout)
            given = transition if read_only else copy_of(transition)
            value = specimen.call("observe", given)
            _compare_inputs("observe", "transition", transition, given, specimen, rollout)
        except Raised as raised:
            rollout.ended, rollout.error = "observe raised an exception", str(raised)
            rollout.fail(Check.NUMBER, str(raised))
            break
        if not _pay(value, specimen, rollout):
            break
        specimen.observed += 1
        if specimen.observed == save_after:
            rollout.saved = _saved(specimen, rollout)
        if specimen.observed in log_after and rollout.logs:
            _log(specimen, rollout)
        if observed is not None:
            observed()
    return rollout


def _warmed_up(specimen: Specimen, rollout: Rollout, *, learn: bool) -> bool:
    """Show a new bonus the steps that it is not paid for; return whether it raised no exception."""
    try:
        steps = tuple(islice(cycle(random_steps(specimen.game)), warm_up_steps(specimen.bonus)))
        draws = batch_draws()
        for number, transition in enumerate(steps):
            specimen.shown = steps[:number]
            batch = batch_of(specimen.shown, draws) if learn and rollout.learns else None
            if batch is not None:
                specimen.call("learn", copy_of(batch))
            specimen.call("observe", copy_of(transition))
    except ConfigError as error:
        rollout.ended, rollout.error = "its warm-up has no length", str(error)
        rollout.fail(Check.MAKING, rollout.error)
    except Raised as raised:
        rollout.ended, rollout.error = "observe raised an exception", f"in the warm-up, {raised}"
        rollout.fail(Check.NUMBER, rollout.error)
    return not rollout.ended


def _learn(specimen: Specimen, batch: Any, rollout: Rollout) -> bool:
    """Let it learn from a batch; return whether it can learn from more."""
    given = copy_of(batch)
    try:
        specimen.call("learn", given)
    except Raised as raised:
        hint = "learn is called with batches from the replay (see offpiste.bonuses.base.LearningBonus)"
        rollout.fail(Check.LEARN, f"{raised}; {hint}")
        return False
    _compare_inputs("learn", "batch", batch, given, specimen, rollout)
    return True


def _compare_inputs(method: str, what: str, original: Any, given: Any, specimen: Specimen, rollout: Rollout) -> None:
    when = specimen.when
    for name, array in arrays_of(original).items() if given is not original else ():
        if not np.array_equal(array, getattr(given, name)):
            rollout.writes = True
            rollout.fail(Check.INPUTS, f"{method} changed {what}.{name} {when}; work on a copy, {what}.{name}.copy()")
    for library in specimen.drew_from:
        rollout.fail(
            Check.GENERATORS,
            f"{method} drew from the global generator of {library} {when}; draw from context.generator, "
            "which is saved with the run, or from a generator of your own that is part of state()",
        )


def _pay(value: Any, specimen: Specimen, rollout: Rollout) -> bool:
    """Record what it pays; return whether that is a number."""
    when = specimen.when
    if isinstance(value, bool) or not isinstance(value, float | int):
        rollout.fail(Check.NUMBER, f"observe must return a float, got {kind_of(value)} {when}; return float(...)")
    try:
        number = float(value)
    except Exception:
        rollout.ended = rollout.error = "observe returned no number"
        return False
    rollout.paid.append(number)
    if not abs(number) <= MAX_INTRINSIC:  # NaN is not, either
        rollout.fail(
            Check.FINITE,
            f"observe must return a finite number, got {number} {when}; look for divisions by 0, roots and "
            "logarithms of numbers below 0, and exponentials that overflow",
        )
    if number < 0.0:
        rollout.fail(
            Check.SIGN,
            f"observe must return a number >= 0, got {number:.4g} {when}; clip it at 0, or declare "
            "`can_be_negative = True` in the class if that is meant",
        )
    return True


def _saved(specimen: Specimen, rollout: Rollout) -> SavedBonus | None:
    """Return the bonus as a run saves it, or None where it cannot be saved."""
    generator = generator_state(specimen.generator)
    try:
        state = specimen.call("state")
        fault = fault_of_state(state)
    except Raised as raised:
        fault = str(raised)
    if fault is not None:
        rollout.fail(Check.STATE, fault)
        return None
    return SavedBonus(arrays.pack(state), generator, specimen.observed)


def _log(specimen: Specimen, rollout: Rollout) -> None:
    """Ask for its scalars, and look whether the call changes anything."""
    state, generator = state_bytes(specimen), generator_state(specimen.generator)
    try:
        scalars = specimen.call("scalars")
    except Raised as raised:
        rollout.fail(Check.SCALARS, str(raised))
        return
    when = f"after step {specimen.observed:,}"
    drew_from = [f"the global generator of {library}" for library in specimen.drew_from]
    if generator_state(specimen.generator) != generator:
        drew_from.append("context.generator")
    if drew_from:
        rollout.fail(Check.SCALARS, f"scalars drew from {drew_from[0]} {when}; return numbers that are already known")
    if state_bytes(specimen) != state:
        rollout.fail(Check.SCALARS, f"scalars changed what state() returns {when}; it must not change the bonus")
    if fault := fault_of_scalars(scalars):
        rollout.fail(Check.SCALARS, f"{fault} ({when})")
    else:
        rollout.logged[specimen.observed] = dict(scalars)
