"""The contract of a bonus as a function that anyone can run: `check_bonus(MyBonus)` reports what is wrong.

The contract is the list `CHECKS`. Each check looks at rollouts of the bonus (`rollouts.py`), and returns what it
measured or raises `Failed` or `Skipped`; the checks after it are made all the same. Global generators are restored
after every call of the bonus, so that drawing from them is one fault, and does not fail every check of reproducibility.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from offpiste.bonuses.contract import resume, scoring, values, visits
from offpiste.bonuses.contract.play import FULL, QUICK, SEED
from offpiste.bonuses.contract.report import Check, CheckReport
from offpiste.bonuses.contract.rollouts import Rollouts
from offpiste.bonuses.contract.specimen import as_in_a_run
from offpiste.bonuses.registry import import_path, seeded_globals
from offpiste.checks import Failed, Result, Skipped

CHECKS: Mapping[Check, Callable[[Rollouts], str]] = {
    Check.OPTIONS: values.options,
    Check.MAKING: values.making,
    Check.NUMBER: values.number,
    Check.FINITE: values.no_fault(Check.FINITE),
    Check.SIGN: values.sign,
    Check.SEED: resume.same_seed,
    Check.STATE: resume.state,
    Check.RESUME: resume.resume_in_new_process,
    Check.INPUTS: values.no_fault(Check.INPUTS),
    Check.GENERATORS: values.no_fault(Check.GENERATORS),
    Check.LEARN: values.learns,
    Check.SCALARS: values.scalars,
    Check.SCORE: scoring.scores_as_it_pays,
    Check.VISITS: visits.falls,
    Check.SCOPE: visits.scope,
    Check.PAYS_FOR: visits.pays_for,
    Check.SMALL: values.small,
}
"""What a bonus promises, in the order of the report; its cost follows."""


def check_bonus(
    kind: type[Any],
    options: Mapping[str, Any] | None = None,
    agent_step_milliseconds: float | None = None,
    *,
    quick: bool = False,
    new_process: bool = True,
    progress: Callable[[float], None] | None = None,
) -> CheckReport:
    """Check a bonus of this class with these options; with the time of an agent step, its cost is reported as a share.

    The checks continue after a failure, and an exception inside the bonus is a failure like any other. A quick check
    takes a tenth of the steps on Atari. Restoring the bonus in a new process takes some seconds; `new_process=False`
    leaves it out. `progress` is called with the share that is done.
    """
    cost = partial(values.cost, agent_step_milliseconds=agent_step_milliseconds)
    checks: dict[Check, Callable[[Rollouts], str]] = {**CHECKS, Check.COST: cost}
    if not new_process:
        checks[Check.RESUME] = resume.resume
    rollouts, results, stopped = Rollouts(kind, options or {}, QUICK if quick else FULL, progress), [], ""
    with as_in_a_run(), seeded_globals(SEED):
        for check, judge in checks.items():
            try:
                if stopped:
                    raise Skipped(f"not reached, since {stopped}")
                results.append(Result(check, "ok", judge(rollouts)))
            except Skipped as skipped:
                results.append(Result(check, "skipped", str(skipped)))
            except Failed as failed:
                results.append(Result(check, "FAILED", str(failed)))
                stopped = failed.stops or ""
    if progress is not None:
        progress(1.0)
    return CheckReport(import_path(kind), tuple(results))
