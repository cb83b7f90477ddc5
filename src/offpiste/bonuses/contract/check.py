"""The contract of a bonus as a function that anyone can run: `check_bonus(MyBonus)` reports what is wrong.

The bonus observes real play: 2,000 steps in ten games, then one new frame 300 times, then another new frame once, which
must pay more than the last of the repeats, as a bonus that merely decays with time does not. The first frame is then
repeated in two more episodes, where an episodic bonus comes back and a lifelong one does not. Three more bonuses must
pay the same over the first steps: a twin from the same seed and two restored from the saved state, one of these in a
new process. Another plays Deep Sea, where a state is one small frame. A quick check does the same with fewer steps.
Global generators are restored after every call, so that drawing from them is one finding, and does not fail every check
of reproducibility.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from offpiste.bonuses.base import Transition, fault_of_scalars, options_class
from offpiste.bonuses.contract.new_process import NotFound, paid_in_new_process
from offpiste.bonuses.contract.play import (
    FULL,
    OTHER_SEED,
    QUICK,
    SEED,
    SMALL_GAME,
    SMALL_STEPS,
    Lengths,
    random_play,
    visits,
    warm_up,
)
from offpiste.bonuses.contract.report import Check, CheckReport, Findings, Stop
from offpiste.bonuses.contract.saving import saved_bonus, state_bytes
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, Watch, as_in_a_run
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
    takes a tenth of the steps. Restoring the bonus in a new process takes some seconds; `new_process=False` leaves it
    out. `progress` is called with the share that is done.
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
        restored = _compare_with_restored(watch, twin, other, saved, steps[lengths.saved_after : lengths.compared])
        _compare_scalars(watch, restored)
        del twin, other, restored
        if saved is not None and settings is not None and not findings.failures:
            _compare_with_new_process(watch, kind, settings, saved, lengths)
        findings.accept(Check.RESUME)
        for transition in (*steps[lengths.compared :], *repeats):
            watch.step(transition)
        _ask_for_scalars(watch)
    except Raised as raised:
        findings.fail(Check.NUMBER, str(raised))
        raise Stop("observe raised an exception") from raised
    for check in (Check.NUMBER, Check.FINITE, Check.SIGN, Check.INPUTS, Check.GENERATORS, Check.LEARN, Check.SCALARS):
        findings.accept(check)
    judge_visits(np.array(watch.paid[-len(repeats) :]), lengths, getattr(kind, "scope", "lifelong"), findings)
    _play_small_game(kind, options, watch)
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
        if _differ(found, watch.paid[-1]):
            watch.findings.fail(
                Check.SEED,
                f"two bonuses from the same seed paid {watch.paid[-1]:.9g} and {found:.9g} {when}; draw from "
                "context.generator only (layers may draw their initial weights from torch's global generator)",
            )
            watch.findings.skip(Check.RESUME, "the same seed does not give the same bonuses")
    watch.findings.accept(Check.SEED)


def _compare_with_restored(
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
        if repeats and _differ(watch.paid[-1], expected):
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
        if _differ(found, expected):
            findings.fail(
                Check.RESUME,
                f"restored after step {saved_after}, it paid {found:.9g} {when} instead of {expected:.9g}; "
                "state() and load_state() must carry all that later bonuses depend on: counts, statistics, optimisers",
            )
    findings.accept(Check.STATE)
    return restored


def _play_small_game(kind: type[Any], options: Any, watch: Watch) -> None:
    """Let a new bonus play a world of small frames, save it, and restore another from that."""
    findings, advice = Findings(), "take shapes and the number of actions from the Context"
    try:
        specimen, restored = (Specimen(kind, options, seed, SMALL_GAME) for seed in (SEED, OTHER_SEED))
        small = Watch(specimen, findings, lambda _: None)
        for transition in islice(random_play(SMALL_GAME), SMALL_STEPS):
            small.step(transition)
        if watch.findings.results[Check.RESUME].outcome == "ok" and (saved := saved_bonus(small)) is not None:
            restored.restore(saved)
    except (Raised, Stop) as error:
        watch.findings.fail(Check.SMALL, f"on {SMALL_GAME}, {error}; {advice}")
    for check, message in findings.failures.items():
        if watch.findings.results[check].outcome == "ok":  # it fails on small frames only
            watch.findings.fail(Check.SMALL, f"on {SMALL_GAME}, {message}")
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


def _restored(other: Specimen, saved: SavedBonus, findings: Findings) -> bool:
    try:
        other.restore(saved)
    except Raised as raised:
        findings.fail(Check.RESUME, str(raised))
        return False
    return True


def _compare_with_new_process(
    watch: Watch, kind: type[Any], settings: Mapping[str, Any], saved: SavedBonus, lengths: Lengths
) -> None:
    findings = watch.findings
    try:
        found = paid_in_new_process(kind, settings, saved, lengths, learns=watch.learns)
    except NotFound as error:
        findings.accept(Check.RESUME, f"in this process; not tried in a new one, since {error}")
        return
    except Raised as raised:
        findings.fail(Check.RESUME, f"restored in a new process, {raised}")
        return
    pairs = zip(found, watch.paid[saved.observed :], strict=True)
    for number, (one, expected) in enumerate(pairs, saved.observed + 1):
        if _differ(one, expected):
            findings.fail(
                Check.RESUME,
                f"restored in a new process after step {saved.observed}, it paid {one:.9g} at step {number} instead of "
                f"{expected:.9g}; hash() of text and bytes, id() and the order of sets change from process to process: "
                "use hashlib or zlib.crc32, and sort",
            )


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


def _differ(one: float, other: float) -> bool:
    return one != other and not (math.isnan(one) and math.isnan(other))
