"""Checks of what a bonus is made from, of each call, and of what a call costs."""

from collections.abc import Callable

import numpy as np

from offpiste.bonuses.base import options_class
from offpiste.bonuses.contract.play import FULL, ROOMS
from offpiste.bonuses.contract.report import Check
from offpiste.bonuses.contract.resume import resumes
from offpiste.bonuses.contract.rollouts import Rollouts
from offpiste.checks import Failed, Skipped
from offpiste.config import AgentConfig


def options(rollouts: Rollouts) -> str:
    """Make the options, which must not change during a run."""
    assert rollouts.options is not None  # noqa: S101 (raises where they cannot be made)
    form = options_class(rollouts.kind)
    if not getattr(form, "__dataclass_params__").frozen:  # noqa: B009 (the type checker does not know of it)
        raise Failed(f"{form.__name__} must be frozen; {rollouts.advice_on_options}")
    return ""


def making(rollouts: Rollouts) -> str:
    """Make the bonus."""
    if fault := rollouts.atari.faults.get(Check.MAKING):
        raise Failed(fault, stops=rollouts.atari.ended)
    return ""


def no_fault(check: Check) -> Callable[[Rollouts], str]:
    """Return the check that a whole rollout on Atari has no fault of this kind."""

    def judge(rollouts: Rollouts) -> str:
        if fault := rollouts.atari.faults.get(check):
            raise Failed(fault)
        rollouts.atari.whole()
        return ""

    return judge


def number(rollouts: Rollouts) -> str:
    """Look whether `observe` returns a number, also where arrays are read-only as in a run."""
    if fault := rollouts.atari.faults.get(Check.NUMBER) or rollouts.twin.faults.get(Check.NUMBER):
        raise Failed(fault)
    return ""


def sign(rollouts: Rollouts) -> str:
    """Look for negative bonuses, unless they are declared."""
    if rollouts.declared("can_be_negative", False):
        raise Skipped("it declares can_be_negative = True")
    return no_fault(Check.SIGN)(rollouts)


def learns(rollouts: Rollouts) -> str:
    """Look whether `learn` takes the batches of a run, and changes what is paid."""
    if not rollouts.atari.learns:
        raise Skipped("it has no method learn")
    no_fault(Check.LEARN)(rollouts)
    rooms, without = rollouts.rooms, rollouts.rooms_unlearned
    if rooms.ended or without.ended or Check.LEARN in rooms.faults:
        return ""  # `small` reports it
    if np.array_equal(without.paid, rooms.paid, equal_nan=True):
        message = f"on {ROOMS} it paid the same over {len(without.paid)} steps as without learn"
        if rollouts.lengths != FULL:
            raise Skipped(f"{message}; a full check plays longer")
        raise Failed(f"{message}; is a call of optimizer.step() missing?")
    return ""


def scalars(rollouts: Rollouts) -> str:
    """Look whether `scalars` returns finite numbers, changes nothing, and says the same once restored."""
    atari, compared = rollouts.atari, rollouts.lengths.compared
    if not atari.logs:
        raise Skipped("it has no method scalars")
    if compared in atari.logged and resumes(rollouts):
        other, expected = rollouts.other, atari.logged[compared]
        if fault := other.faults.get(Check.SCALARS):
            raise Failed(f"once restored, {fault}")
        if other.logged[compared] != expected:
            raise Failed(
                f"once restored, it logs {other.logged[compared]} after step {compared} instead of "
                f"{expected}; log numbers of the last step, or of what state() holds"
            )
    return no_fault(Check.SCALARS)(rollouts)


def small(rollouts: Rollouts) -> str:
    """Look for faults that only small frames show."""
    for rollout in (rollouts.atari, rollouts.twin):
        rollout.whole()
    advice = "take shapes and the number of actions from the Context"
    rooms = rollouts.rooms
    if rooms.ended:
        raise Failed(f"on {ROOMS}, {rooms.error}; {advice}")
    for check, fault in rooms.faults.items():
        if check not in rollouts.atari.faults:
            raise Failed(f"on {ROOMS}, {fault}")
    if rollouts.turns.ended:
        raise Failed(f"on frames of noise, {rollouts.turns.error}; {advice}")
    return ""


def cost(rollouts: Rollouts, agent_step_milliseconds: float | None) -> str:
    """Report the processor time of the median call, and its share of an agent step if that is given."""
    rollouts.atari.whole()
    times = rollouts.atari.milliseconds
    period = AgentConfig().update_period_steps
    per_step = float(np.median(times["observe"]))
    message = f"{per_step:.3g} ms per observe"
    if "learn" in times:
        learn = float(np.median(times["learn"]))
        per_step += learn / period
        message += f" and {learn:.3g} ms per learn, every {period} steps"
    message += " on one thread"
    if agent_step_milliseconds is not None:
        share = per_step / agent_step_milliseconds
        message += (
            f", {'under 1%' if share < 0.01 else f'{share:.0%}'} of an agent step of {agent_step_milliseconds:.3g} ms"
        )
        if share > 1.0:
            message += "; training takes more than twice as long as without a bonus"
    return message
