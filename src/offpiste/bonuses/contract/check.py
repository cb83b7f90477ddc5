"""The contract of a bonus as a function that anyone can run: `check_bonus(MyBonus)` reports what is wrong.

The bonus observes real play: 2,000 steps in ten games, then one new frame 300 times, then another new frame once, which
must pay more than the last of the repeats, as a bonus that merely decays with time does not. The first frame is then
repeated in two more episodes, where an episodic bonus comes back and a lifelong one does not. Three more bonuses must
pay the same over the first steps: a twin from the same seed and two restored from the saved state, one of these in a
new process. Others play Four Rooms, where a state is one small frame and frames recur within an episode (`resume.py`),
and take steps between frames of noise in turn (`turns.py`). A quick check does the same with fewer steps. Global
generators are restored after every call, so that drawing from them is one finding, and does not fail every check of
reproducibility.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from offpiste.bonuses.base import Transition, fault_of_scalars, options_class
from offpiste.bonuses.contract.play import FULL, OTHER_SEED, QUICK, ROOMS, SEED, Lengths, rooms, visits, warm_up
from offpiste.bonuses.contract.report import Check, CheckReport, Findings, Stop
from offpiste.bonuses.contract.resume import (
    compare_in_rooms,
    compare_with_new_process,
    compare_with_restored,
    differ,
)
from offpiste.bonuses.contract.saving import saved_bonus, state_bytes
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, Watch, as_in_a_run, paid_for
from offpiste.bonuses.contract.turns import judge_turns
from offpiste.bonuses.contract.visits import judge_visits
from offpiste.bonuses.registry import import_path, seeded_globals
from offpiste.config import AgentConfig
from offpiste.errors import kind_of
from offpiste.parsing import from_dict
from offpiste.seeding import generator_state


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
    findings, lengths = Findings(), QUICK if quick else FULL

    def observed(steps: int) -> None:
        if progress is not None:
            progress(steps / lengths.all_steps)

    try:
        with as_in_a_run(), seeded_globals(SEED):
            given = _options(kind, options or {}, findings)
            watch = _examine(kind, given, dict(options or {}) if new_process else None, lengths, findings, observed)
            findings.accept(Check.COST, _cost(watch, agent_step_milliseconds))
    except Stop as stop:
        for check in Check:
            findings.skip(check, f"not reached, since {stop}")
    return CheckReport(import_path(kind), tuple(findings.results[check] for check in Check))


def _examine(
    kind: type[Any],
    options: Any,
    settings: Mapping[str, Any] | None,
    lengths: Lengths,
    findings: Findings,
    observed: Callable[[int], None],
) -> Watch:
    """Make every check but those of the options and the cost; without settings, none in a new process."""
    steps, repeats = warm_up(lengths), visits(lengths)
    try:
        specimen, twin, other = (Specimen(kind, options, seed) for seed in (SEED, SEED, OTHER_SEED))
    except Raised as raised:
        findings.fail(Check.MAKING, f"{raised}; the class is called with its options and a Context, and nothing else")
        raise Stop("the bonus could not be made") from raised
    findings.accept(Check.MAKING)
    watch = Watch(specimen, findings, observed)
    _skip_what_is_declared(kind, watch)
    try:
        _compare_with_twin(watch, twin, steps[: lengths.saved_after])
        saved = saved_bonus(watch)
        restored = compare_with_restored(watch, twin, other, saved, steps[lengths.saved_after : lengths.compared])
        _compare_scalars(watch, restored)
        del twin, other, restored
        small, saved_small = _play_rooms(kind, options, watch, lengths)
        if settings is not None and saved is not None and small is not None and saved_small is not None:
            compare_with_new_process(kind, settings, ((watch, saved), (small, saved_small)), lengths, findings)
        findings.accept(Check.RESUME)
        for transition in (*steps[lengths.compared :], *repeats):
            watch.step(transition)
        _ask_for_scalars(watch)
    except Raised as raised:
        findings.fail(Check.NUMBER, str(raised))
        raise Stop("observe raised an exception") from raised
    for check in (Check.NUMBER, Check.FINITE, Check.SIGN, Check.INPUTS, Check.GENERATORS, Check.LEARN, Check.SCALARS):
        findings.accept(check)
    judge_turns(kind, options, lengths, findings, learns=watch.learns, writes=watch.writes)
    judge_visits(np.array(watch.paid[-len(repeats) :]), lengths, getattr(kind, "scope", "lifelong"), findings)
    _judge_small(watch, small)
    return watch


def _options(kind: type[Any], settings: Mapping[str, Any], findings: Findings) -> Any:
    form = options_class(kind)
    advice = f"make the `Options` of {kind.__name__} with @dataclass(frozen=True), or leave them out if it has none"
    if not (isinstance(form, type) and dataclasses.is_dataclass(form)):
        findings.fail(Check.OPTIONS, f"`Options` must be a dataclass, got {kind_of(form)}; {advice}")
        raise Stop("its Options are no dataclass")
    if not getattr(form, "__dataclass_params__").frozen:  # noqa: B009 (the type checker does not know of it)
        findings.fail(Check.OPTIONS, f"{form.__name__} must be frozen; {advice}")
    try:
        made = from_dict(form, dict(settings), where="bonus.options.")
    except Exception as error:
        findings.fail(Check.OPTIONS, f"{form.__name__} cannot be made from the options given: {error}")
        raise Stop("its options could not be made") from error
    findings.accept(Check.OPTIONS)
    return made


def _skip_what_is_declared(kind: type[Any], watch: Watch) -> None:
    if getattr(kind, "can_be_negative", False):
        watch.findings.skip(Check.SIGN, "it declares can_be_negative = True")
    if not getattr(kind, "measures_visits", True):
        for check in (Check.VISITS, Check.SCOPE):
            watch.findings.skip(check, "it declares measures_visits = False")
    if not watch.learns:
        watch.findings.skip(Check.LEARN, "it has no method learn")
    if not watch.logs:
        watch.findings.skip(Check.SCALARS, "it has no method scalars")


def _compare_with_twin(watch: Watch, twin: Specimen, steps: Sequence[Transition]) -> None:
    for transition in steps:
        when = watch.specimen.when
        found = twin.step(transition, watch.step(transition), writes=watch.writes)
        if differ(found, watch.paid[-1]):
            watch.findings.fail(
                Check.SEED,
                f"two bonuses from the same seed paid {watch.paid[-1]:.9g} and {found:.9g} {when}; draw from "
                "context.generator only (layers may draw their initial weights from torch's global generator)",
            )
            watch.findings.skip(Check.RESUME, "the same seed does not give the same bonuses")
    watch.findings.accept(Check.SEED)


def _play_rooms(
    kind: type[Any], options: Any, watch: Watch, lengths: Lengths
) -> tuple[Watch | None, SavedBonus | None]:
    """Return a new bonus that played Four Rooms, and as what it was saved on the way, if nothing has failed so far."""
    try:
        small, saved = compare_in_rooms(kind, options, watch, lengths)
    except (Raised, Stop) as error:
        watch.findings.fail(Check.SMALL, f"on {ROOMS}, {error}; take shapes and the number of actions from the Context")
        return None, None
    _judge_learning(kind, options, watch, small, lengths)
    return small, None if watch.findings.failures or small.findings.failures else saved


def _judge_learning(kind: type[Any], options: Any, watch: Watch, small: Watch, lengths: Lengths) -> None:
    """Compare what the bonus paid in Four Rooms with what another pays that never learns from a batch."""
    if not (small.learns and watch.learns):
        return
    try:
        without = paid_for(Specimen(kind, options, SEED, ROOMS), rooms(lengths), writes=small.writes)
    except (Raised, Stop):
        return
    if np.array_equal(without, small.paid, equal_nan=True):
        message = f"on {ROOMS} it paid the same over {len(without)} steps as without learn"
        if lengths == FULL:
            watch.findings.fail(Check.LEARN, f"{message}; is a call of optimizer.step() missing?")
        else:
            watch.findings.skip(Check.LEARN, f"{message}; a full check plays longer")


def _judge_small(watch: Watch, small: Watch | None) -> None:
    """Report what fails on small frames only."""
    for check, message in small.findings.failures.items() if small is not None else ():
        if watch.findings.results[check].outcome == "ok":
            watch.findings.fail(Check.SMALL, f"on {ROOMS}, {message}")
    watch.findings.accept(Check.SMALL)


def _compare_scalars(watch: Watch, restored: Specimen | None) -> None:
    """Compare scalars() of the observed and the restored bonus; after that, both may have changed."""
    expected = _ask_for_scalars(watch)
    if restored is None or expected is None or Check.RESUME in watch.findings.results:  # it differs already
        return
    try:
        found = restored.call("scalars")
    except Raised as raised:
        watch.findings.fail(Check.SCALARS, f"once restored, {raised}")
        return
    if found != expected:
        watch.findings.fail(
            Check.SCALARS,
            f"once restored, it logs {found} after step {restored.observed} instead of "
            f"{expected}; log numbers of the last step, or of what state() holds",
        )


def _ask_for_scalars(watch: Watch) -> Mapping[str, float] | None:
    """Return scalars() of the observed bonus, or None where it has none; check that the call changes nothing."""
    specimen, findings = watch.specimen, watch.findings
    if not watch.logs:
        return None
    state, generator = state_bytes(specimen), generator_state(specimen.generator)
    try:
        found = specimen.call("scalars")
    except Raised as raised:
        findings.fail(Check.SCALARS, str(raised))
        return None
    when = f"after step {specimen.observed:,}"
    drew_from = [f"the global generator of {library}" for library in specimen.drew_from]
    if generator_state(specimen.generator) != generator:
        drew_from.append("context.generator")
    if drew_from:
        findings.fail(Check.SCALARS, f"scalars drew from {drew_from[0]} {when}; return numbers that are already known")
    if state_bytes(specimen) != state:
        findings.fail(Check.SCALARS, f"scalars changed what state() returns {when}; it must not change the bonus")
    if fault := fault_of_scalars(found):
        findings.fail(Check.SCALARS, f"{fault} ({when})")
        return None
    return dict(found)


def _cost(watch: Watch, agent_step_milliseconds: float | None) -> str:
    times = watch.specimen.milliseconds
    period = AgentConfig().update_period_steps
    per_step = float(np.median(times["observe"]))
    message = f"{per_step:.3g} ms per observe"
    if watch.learns:
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
