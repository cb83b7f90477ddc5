"""The contract of a bonus as a function that anyone can run: `check_bonus(MyBonus)` says in words what is wrong.

One bonus is watched over real play: 2,000 steps in ten games, then one new picture 300 times, and another once, which
must pay more than the last of these: a bonus that merely falls with time does not. During the first of these steps a
twin from the same seed goes beside it, and then also a bonus from another seed that was restored from its saved state;
all must pay the same. Global generators are put back after every call: a bonus that draws from them is told so once,
instead of failing wherever numbers have to repeat.
"""

import dataclasses
import math
import random
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from offpiste.batch import Batch
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.registry import seeded_globals
from offpiste.config import AgentConfig, WorldConfig, from_dict
from offpiste.seeding import generator_state, restore_generator, stream
from offpiste.store import arrays
from offpiste.worlds.base import FRAME_SHAPE, MOST_ACTIONS
from offpiste.worlds.registry import open_world

WARM_UP_GAMES = (
    "montezuma_revenge",
    "freeway",
    "gravitar",
    "private_eye",
    "solaris",
    "pitfall",
    "asterix",
    "space_invaders",
    "hero",
    "beam_rider",
)
NEW_GAME, OTHER_NEW_GAME = "seaquest", "venture"
"""Where the pictures come from that are new after the warm-up."""
WARM_UP_STEPS = 2_000
EPISODE_STEPS = 100
REPEATS = 300
FIRST_REPEATS, LAST_REPEATS = slice(0, 20), slice(199, 300)
SAVED_AFTER_STEPS = 220
"""By then episodes have ended in both ways."""
COMPARED_STEPS = 410
"""By then they have done so once more."""
SEED, OTHER_SEED = 0, 1

Outcome = Literal["ok", "FAILED", "skipped"]


class Check(StrEnum):
    """What is promised by a bonus, in the order of the report."""

    OPTIONS = "options are a frozen dataclass"
    MAKING = "can be made"
    NUMBER = "observe returns a number"
    FINITE = "bonuses are finite"
    SIGN = "bonuses are not negative"
    SEED = "same seed, same bonuses"
    STATE = "state can be saved"
    RESUME = "a restored bonus goes on identically"
    INPUTS = "inputs stay as they were"
    GENERATORS = "global generators stay as they were"
    LEARN = "learns from a batch"
    VISITS = "falls as a picture is visited again"
    COST = "cost"


@dataclass(frozen=True)
class Result:
    """What one check found."""

    check: Check
    outcome: Outcome
    words: str = ""
    """What is wrong and what to do about it, why it was skipped, or what was measured."""


@dataclass(frozen=True)
class Report:
    """What all checks found; as text it is what `offpiste check-bonus` prints."""

    bonus: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> dict[Check, str]:
        """The checks that failed, and the words of each."""
        return {result.check: result.words for result in self.results if result.outcome == "FAILED"}

    def __str__(self) -> str:
        width = shutil.get_terminal_size((120, 24)).columns
        lines = [f"{result.outcome:<9}{result.check}{result.words and ': '}{result.words}" for result in self.results]
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * 9) for line in (self.bonus, *lines))


def check_bonus(
    kind: type[Any], options: Mapping[str, Any] | None = None, agent_step_milliseconds: float | None = None
) -> Report:
    """Put a bonus of this class and these options to the test; its cost is told as a share of an agent step, if known.

    The checks do not stop at the first fault, and an exception inside the bonus is a fault like any other.
    """
    findings = _Findings()
    try:
        with as_in_a_run(), seeded_globals(SEED):
            _examine(kind, options or {}, agent_step_milliseconds, findings)
    except _Stop as stop:
        for check in Check:
            findings.skip(check, f"not reached, since {stop}")
    name = f"{kind.__module__}:{kind.__qualname__}"
    return Report(name, tuple(findings.results[check] for check in Check))


@contextmanager
def as_in_a_run() -> Iterator[None]:
    """Compute on one thread, without denormal numbers."""
    threads, flushed = torch.get_num_threads(), not (torch.full((), 1e-40) * 1.0).item()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


@cache
def warm_up() -> tuple[Transition, ...]:
    """Return the same varied steps of real play at every call."""
    steps = WARM_UP_STEPS // len(WARM_UP_GAMES)
    return tuple(transition for game in WARM_UP_GAMES for transition in islice(random_play(game), steps))


@cache
def new_transition(game: str) -> Transition:
    """Return a step from the middle of an episode in a game that the warm-up does not show."""
    return next(islice(random_play(game), EPISODE_STEPS // 2, None))


def random_play(game: str) -> Iterator[Transition]:
    """Play at random in short episodes; the end of the first counts as cut, of the second as game over, and so on."""
    world = open_world(game, WorldConfig(), stream(SEED, f"check {game}"))
    actions = stream(SEED, f"check actions of {game}")
    lost = False
    while True:
        state, _ = world.reset()
        for step in range(EPISODE_STEPS):
            action = int(actions.integers(world.action_count))
            next_state, reward, terminated, truncated, _ = world.step(action)
            if step == EPISODE_STEPS - 1 and not (terminated or truncated):
                terminated, truncated = lost, not lost
            yield Transition(state, action, reward, next_state, terminated, truncated, step, world.ram)
            if terminated or truncated:
                break
            state = next_state
        lost = not lost


class _Stop(Exception):
    """Going on is impossible; the message says why."""


class _Findings:
    """The results so far; of each check the first one counts."""

    def __init__(self) -> None:
        self.results: dict[Check, Result] = {}

    def fail(self, check: Check, words: str) -> None:
        self.results.setdefault(check, Result(check, "FAILED", words))

    def skip(self, check: Check, words: str) -> None:
        self.results.setdefault(check, Result(check, "skipped", words))

    def accept(self, check: Check, words: str = "") -> None:
        self.results.setdefault(check, Result(check, "ok", words))


class _Raised(Exception):
    """The bonus raised an exception; the message says which."""


class _Specimen:
    """A bonus that was made to be watched."""

    def __init__(self, kind: type[Any], options: Any, seed: int) -> None:
        self.generator = stream(seed, "bonus")
        self.observed = 0
        self.milliseconds: dict[str, list[float]] = {}
        self.drew_from: list[str] = []
        """The libraries whose global generators the last call drew from."""
        self._resting = _global_states()
        self._file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        context = Context(WARM_UP_GAMES[0], MOST_ACTIONS, WorldConfig().stack_frames, FRAME_SHAPE, self.generator)
        with seeded_globals(int(self.generator.integers(2**63))):
            try:
                self.bonus = kind(options, context)
            except Exception as error:
                raise _Raised(f"making it raised {self._words_of(error)}") from error

    @property
    def place(self) -> str:
        """Which step it is."""
        return f"at step {self.observed + 1:,}"

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and put the global generators back as they were."""
        start = time.process_time()  # not that of the clock: other programs may be running
        try:
            return getattr(self.bonus, method)(*arguments)
        except Exception as error:
            raise _Raised(f"{method} raised {self._words_of(error)} {self.place}") from error
        finally:
            self.milliseconds.setdefault(method, []).append(1e3 * (time.process_time() - start))
            states = _global_states()
            self.drew_from = [library for library in states if states[library] != self._resting[library]]
            if self.drew_from:
                _set_global_states(self._resting)

    def step(self, transition: Transition, batch: Batch | None, *, writes: bool) -> float:
        """Show a batch, if there is one, and a transition, and return what is paid for it.

        In a run the arrays of a transition are read-only, and so they are here, unless it is known to write.
        """
        if batch is not None:
            self.call("learn", _copy(batch))
        value = self.call("observe", _copy(transition) if writes else transition)
        self.observed += 1
        return _number(value)

    def _words_of(self, error: Exception) -> str:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
        return f"{type(error).__name__}: {error}" + (f" (line {own[-1]} of its file)" if own else "")


class _Watch:
    """Shows one bonus step after step, and notes all that can be seen from outside."""

    def __init__(self, specimen: _Specimen, findings: _Findings) -> None:
        self.specimen = specimen
        self.findings = findings
        self.learns = callable(getattr(specimen.bonus, "learn", None))
        self.shown: list[Transition] = []
        self.paid: list[float] = []
        self.writes = False
        self._draws = stream(SEED, "check batches")

    def step(self, transition: Transition) -> Batch | None:
        """Show one transition, before it a batch where one is due, and return that batch."""
        batch = self._batch_if_due()
        if batch is not None:
            try:
                self._call("learn", "batch", batch)
            except _Raised as raised:
                self.learns, batch = False, None
                hint = "a method of this name is called with batches of replay (see offpiste.bonuses.base.Bonus)"
                self.findings.fail(Check.LEARN, f"{raised}; {hint}")
        self._note(self._call("observe", "transition", transition))
        self.specimen.observed += 1
        self.shown.append(transition)
        return batch

    def _call(self, method: str, what: str, original: Any) -> Any:
        given = _copy(original)
        value = self.specimen.call(method, given)
        place = self.specimen.place
        for name, array in _arrays_of(original).items():
            if not np.array_equal(array, getattr(given, name)):
                self.writes = True
                self.findings.fail(
                    Check.INPUTS, f"{method} changed {what}.{name} {place}; work on a copy, {what}.{name}.copy()"
                )
        for library in self.specimen.drew_from:
            self.findings.fail(
                Check.GENERATORS,
                f"{method} drew from the global generator of {library} {place}; draw from context.generator, "
                "which is saved with the run, or from a generator of your own that is part of state()",
            )
        return value

    def _note(self, value: Any) -> None:
        place = self.specimen.place
        if isinstance(value, bool) or not isinstance(value, float | int):
            self.findings.fail(
                Check.NUMBER, f"observe returned {_kind_of(value)} {place}, and not a float; return float(...)"
            )
        number = _number(value)
        self.paid.append(number)
        if not math.isfinite(number):
            self.findings.fail(
                Check.FINITE,
                f"observe returned {number} {place}; look for divisions by 0, roots and logarithms of numbers "
                "below 0, and exponentials that overflow",
            )
        if number < 0.0:
            self.findings.fail(
                Check.SIGN,
                f"observe returned {number:.4g} {place}; cut it off at 0, or declare `can_be_negative = True` in "
                "the class if that is meant",
            )

    def _batch_if_due(self) -> Batch | None:
        agent = AgentConfig()
        choices = len(self.shown) - agent.return_steps
        if not self.learns or choices < agent.batch_size or len(self.shown) % agent.update_period_steps:
            return None
        indices = self._draws.integers(choices, size=agent.batch_size)
        runs = [self.shown[index : index + agent.return_steps] for index in indices]
        rewards = np.array([[step.reward for step in steps] for steps in runs]).clip(-1.0, 1.0)
        ends = np.array([[step.terminated or step.truncated for step in steps] for steps in runs])
        before_end = np.cumsum(ends, axis=1) - ends == 0
        discounts = agent.discount ** np.arange(agent.return_steps)
        stack = WorldConfig().stack_frames
        frames = np.empty((agent.batch_size, stack + agent.return_steps, *FRAME_SHAPE), np.uint8)
        for row, steps in zip(frames, runs, strict=True):
            row[:stack] = steps[0].state
            for ahead, step in enumerate(steps):
                row[stack + ahead] = step.next_state[-1]
        return Batch(
            indices=indices,
            priorities=np.ones(agent.batch_size),
            frames=frames,
            actions=np.array([steps[0].action for steps in runs]),
            returns=((rewards * before_end) @ discounts).astype(np.float32),
            terminal=np.asarray(ends.any(axis=1)),
        )


def _examine(
    kind: type[Any], settings: Mapping[str, Any], agent_step_milliseconds: float | None, findings: _Findings
) -> None:
    options = _options(kind, settings, findings)
    steps, new, other_new = warm_up(), new_transition(NEW_GAME), new_transition(OTHER_NEW_GAME)
    try:
        specimen, twin, other = (_Specimen(kind, options, seed) for seed in (SEED, SEED, OTHER_SEED))
    except _Raised as raised:
        findings.fail(Check.MAKING, f"{raised}; the class is called with its options and a Context, and nothing else")
        raise _Stop("no bonus could be made") from raised
    findings.accept(Check.MAKING)
    watch = _Watch(specimen, findings)
    _skip_what_is_declared(kind, watch)
    try:
        _compare_with_twin(watch, twin, steps[:SAVED_AFTER_STEPS])
        _compare_with_restored(watch, twin, other, steps[SAVED_AFTER_STEPS:COMPARED_STEPS])
        del twin, other
        for transition in (*steps[COMPARED_STEPS:], *[new] * REPEATS, other_new):
            watch.step(transition)
    except _Raised as raised:
        findings.fail(Check.NUMBER, str(raised))
        raise _Stop("observe raised an exception") from raised
    for check in (Check.NUMBER, Check.FINITE, Check.SIGN, Check.INPUTS, Check.GENERATORS, Check.LEARN):
        findings.accept(check)
    _judge_visits(np.array(watch.paid[-REPEATS - 1 :]), findings)
    findings.accept(Check.COST, _cost(watch, agent_step_milliseconds))


def _options(kind: type[Any], settings: Mapping[str, Any], findings: _Findings) -> Any:
    form = getattr(kind, "Options", None)
    advice = f"give {kind.__name__} an attribute `Options`, a dataclass with @dataclass(frozen=True), be it empty"
    if not (isinstance(form, type) and dataclasses.is_dataclass(form)):
        findings.fail(Check.OPTIONS, f"it has no dataclass of its options; {advice}")
        raise _Stop("it has no Options")
    if not getattr(form, "__dataclass_params__").frozen:  # noqa: B009 (the type checker does not know of it)
        findings.fail(Check.OPTIONS, f"{form.__name__} can be changed once it is made; {advice}")
    try:
        made = from_dict(form, dict(settings), where="bonus.options.")
    except Exception as error:
        findings.fail(Check.OPTIONS, f"{form.__name__} cannot be made from the options given: {error}")
        raise _Stop("its options could not be made") from error
    findings.accept(Check.OPTIONS)
    return made


def _skip_what_is_declared(kind: type[Any], watch: _Watch) -> None:
    if getattr(kind, "can_be_negative", False):
        watch.findings.skip(Check.SIGN, "it declares can_be_negative = True")
    if not getattr(kind, "measures_visits", True):
        watch.findings.skip(Check.VISITS, "it declares measures_visits = False")
    if not watch.learns:
        watch.findings.skip(Check.LEARN, "it has no method learn")


def _compare_with_twin(watch: _Watch, twin: _Specimen, steps: Sequence[Transition]) -> None:
    for transition in steps:
        place = watch.specimen.place
        found = twin.step(transition, watch.step(transition), writes=watch.writes)
        if _differ(found, watch.paid[-1]):
            watch.findings.fail(
                Check.SEED,
                f"two bonuses from the same seed paid {watch.paid[-1]:.9g} and {found:.9g} {place}; draw from "
                "context.generator only (layers may take their first weights from torch's global generator)",
            )
    watch.findings.accept(Check.SEED)


def _compare_with_restored(watch: _Watch, twin: _Specimen, other: _Specimen, steps: Sequence[Transition]) -> None:
    findings = watch.findings
    repeats = findings.results[Check.SEED].outcome == "ok"
    if not repeats:
        findings.skip(Check.RESUME, "what the same seed does not repeat cannot be compared")
    restored = _restored(watch, other)
    for transition in steps:
        place = watch.specimen.place
        batch = watch.step(transition)
        expected = twin.step(transition, batch, writes=watch.writes)  # the twin was never asked for its state
        if repeats and _differ(watch.paid[-1], expected):
            findings.fail(
                Check.STATE,
                f"it paid {watch.paid[-1]:.9g} {place} after state() was called, and {expected:.9g} if it was not; "
                "state() must leave the bonus as it is",
            )
        try:
            found = expected if restored is None else restored.step(transition, batch, writes=watch.writes)
        except _Raised as raised:
            findings.fail(Check.RESUME, f"once restored, {raised}")
            restored = None
            continue
        if _differ(found, expected):
            findings.fail(
                Check.RESUME,
                f"restored after step {SAVED_AFTER_STEPS}, it paid {found:.9g} {place} instead of {expected:.9g}; "
                "state() and load_state() carry all that later bonuses depend on: counts, statistics, optimisers",
            )
    findings.accept(Check.STATE)
    findings.accept(Check.RESUME)


def _restored(watch: _Watch, other: _Specimen) -> _Specimen | None:
    """Save the watched bonus as a run does, and return another that has taken up from there."""
    findings = watch.findings
    generator = generator_state(watch.specimen.generator)
    try:
        state = watch.specimen.call("state")
        fault = _fault_of_state(state)
    except _Raised as raised:
        fault = str(raised)
    if fault is not None:
        findings.fail(Check.STATE, fault)
        findings.skip(Check.RESUME, "its state cannot be saved")
        return None
    restore_generator(other.generator, generator)
    other.observed = watch.specimen.observed
    try:
        other.call("load_state", arrays.unpack(arrays.pack(state)))
    except _Raised as raised:
        findings.fail(Check.RESUME, str(raised))
        return None
    return other


def _fault_of_state(state: Any) -> str | None:
    if not isinstance(state, dict):
        return f"state returned {_kind_of(state)}; return a dictionary of arrays and JSON values"
    for key, value in state.items():
        name = f"state()[{key!r}]"
        try:
            arrays.pack({str(key): value})
        except Exception as error:
            return f"{name}, {_kind_of(value)}, cannot be saved ({error}); return numpy arrays, numbers, texts or lists"
        if not isinstance(key, str) or not _has_text_keys(value):
            return f"{name} has a key that is not text, and JSON makes text of it; return two arrays, keys and values"
    return None


def _judge_visits(paid: NDArray[np.float64], findings: _Findings) -> None:
    first, last, another = paid[FIRST_REPEATS].mean(), paid[LAST_REPEATS].mean(), paid[-1]
    told = (
        f"a new picture paid {_figure(first)} on average over visits 1 to 20, {_figure(last)} over 200 to 300, "
        f"and then another new one {_figure(another)}"
    )
    if not np.isfinite(paid).all():
        findings.skip(Check.VISITS, "some of its bonuses are not finite")
    elif last < min(first, another):
        findings.accept(Check.VISITS, told)
    else:
        findings.fail(
            Check.VISITS,
            f"{told}; declare `measures_visits = False` in the class if it is not meant to tell how often a picture "
            "was seen",
        )


def _cost(watch: _Watch, agent_step_milliseconds: float | None) -> str:
    times = watch.specimen.milliseconds
    period = AgentConfig().update_period_steps
    per_step = float(np.median(times["observe"]))
    words = f"{per_step:.3g} ms per observe"
    if watch.learns:
        learn = float(np.median(times["learn"]))
        per_step += learn / period
        words += f" and {learn:.3g} ms per learn, every {period} steps"
    words += " on one thread"
    if agent_step_milliseconds is not None:
        share = per_step / agent_step_milliseconds
        words += (
            f", {'under 1%' if share < 0.01 else f'{share:.0%}'} of an agent step of {agent_step_milliseconds:.3g} ms"
        )
        if share > 1.0:
            words += "; training takes more than twice as long as without a bonus"
    return words


def _copy(original: Any) -> Any:
    """Return a transition or a batch with arrays that can be written to."""
    return dataclasses.replace(original, **{name: array.copy() for name, array in _arrays_of(original).items()})


def _arrays_of(given: Any) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        raise _Stop("observe returned no number") from error


def _differ(one: float, other: float) -> bool:
    return one != other and not (math.isnan(one) and math.isnan(other))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000.0 else f"{value:.4g}"


def _kind_of(value: Any) -> str:
    kind = type(value)
    return "None" if value is None else f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_text_keys, value))


def _global_states() -> dict[str, Any]:
    legacy: tuple[Any, ...] = np.random.get_state()  # type: ignore[assignment] # noqa: NPY002 (to see that it rests)
    version, keys, *place = legacy
    numpy_state = (version, keys.tobytes(), *place)
    return {"Python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state().numpy().tobytes()}


def _set_global_states(states: dict[str, Any]) -> None:
    version, keys, *place = states["numpy"]
    random.setstate(states["Python"])
    np.random.set_state((version, np.frombuffer(keys, np.uint32), *place))  # noqa: NPY002
    torch.set_rng_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
