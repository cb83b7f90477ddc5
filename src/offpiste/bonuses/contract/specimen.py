"""One bonus under test: calls that restore the global generators, and checks of all that shows from outside."""

import dataclasses
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.bonuses.base import MAX_INTRINSIC, LearningBonus, LoggingBonus
from offpiste.bonuses.contract.play import WARM_UP_GAMES, batch_draws, batch_of, context_of
from offpiste.bonuses.contract.report import Check, Findings, Stop
from offpiste.bonuses.registry import line_of, seeded_globals
from offpiste.errors import kind_of
from offpiste.neural import accept_read_only_arrays
from offpiste.seeding import restore_generator, stream
from offpiste.types import Batch, Transition


class Raised(Exception):
    """The bonus raised an exception; the message says which."""


@contextmanager
def as_in_a_run() -> Iterator[None]:
    """Compute on one thread, with denormals flushed to 0, and take read-only arrays as tensors without a warning."""
    threads, flushed = torch.get_num_threads(), not (torch.full((), 1e-40) * 1.0).item()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with warnings.catch_warnings():
            accept_read_only_arrays()
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


@dataclasses.dataclass(frozen=True)
class SavedBonus:
    """A bonus as a run saves it."""

    state: bytes
    generator: dict[str, Any]
    observed: int


class Specimen:
    """A bonus under test."""

    def __init__(self, kind: type[Any], options: Any, seed: int, game: str = WARM_UP_GAMES[0]) -> None:
        self.game = game
        self.generator = stream(seed, "bonus")
        self.observed = 0
        self.milliseconds: dict[str, list[float]] = {}
        self.drew_from: list[str] = []
        """The libraries from whose global generators the last call drew."""
        self._resting = _global_states()
        self._file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        context = context_of(game, self.generator)
        with seeded_globals(int(self.generator.integers(2**63))):
            try:
                self.bonus = kind(options, context)
            except Exception as error:
                raise Raised(f"making it raised {self._message_of(error)}") from error

    @property
    def when(self) -> str:
        """The current step, as in "at step 7"."""
        return f"at step {self.observed + 1:,}"

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, measure its time, and restore the global generators."""
        start = time.process_time()  # CPU time: other programs may be running
        try:
            return getattr(self.bonus, method)(*arguments)
        except Exception as error:
            raise Raised(f"{method} raised {self._message_of(error)} {self.when}") from error
        finally:
            self.milliseconds.setdefault(method, []).append(1e3 * (time.process_time() - start))
            states = _global_states()
            self.drew_from = [library for library in states if states[library] != self._resting[library]]
            if self.drew_from:
                _set_global_states(self._resting)

    def restore(self, saved: SavedBonus) -> None:
        """Restore from another bonus that was saved."""
        restore_generator(self.generator, saved.generator)
        self.observed = saved.observed
        self.call("load_state", arrays.unpack(saved.state))

    def step(self, transition: Transition, batch: Batch | None, *, writes: bool) -> float:
        """Let it learn from the batch, if there is one, and observe the transition; return what it pays.

        As in a run the arrays of the transition are read-only, unless the bonus is known to write to them.
        """
        if batch is not None:
            self.call("learn", _copy(batch))
        value = self.call("observe", _copy(transition) if writes else transition)
        self.observed += 1
        return _number(value)

    def _message_of(self, error: Exception) -> str:
        line = line_of(error, self._file)
        return f"{type(error).__name__}: {error}" + ("" if line is None else f" (line {line} of its file)")


class Watch:
    """Gives one bonus step after step, and checks all that shows from outside."""

    def __init__(self, specimen: Specimen, findings: Findings, observed: Callable[[int], None]) -> None:
        self.specimen = specimen
        self._report = observed
        self.findings = findings
        self.learns = isinstance(specimen.bonus, LearningBonus)
        self.logs = isinstance(specimen.bonus, LoggingBonus)
        self.shown: list[Transition] = []
        self.paid: list[float] = []
        self.writes = False
        self._draws = batch_draws()

    def step(self, transition: Transition) -> Batch | None:
        """Give one transition, and before it a batch where one is due; return that batch."""
        batch = batch_of(self.shown, self._draws) if self.learns else None
        if batch is not None:
            try:
                self._call("learn", "batch", batch)
            except Raised as raised:
                self.learns, batch = False, None
                hint = "learn is called with batches from the replay (see offpiste.bonuses.base.LearningBonus)"
                self.findings.fail(Check.LEARN, f"{raised}; {hint}")
        self._check_value(self._call("observe", "transition", transition))
        self.specimen.observed += 1
        self._report(self.specimen.observed)
        self.shown.append(transition)
        return batch

    def _call(self, method: str, what: str, original: Any) -> Any:
        given = _copy(original)
        value = self.specimen.call(method, given)
        when = self.specimen.when
        for name, array in _arrays_of(original).items():
            if not np.array_equal(array, getattr(given, name)):
                self.writes = True
                self.findings.fail(
                    Check.INPUTS, f"{method} changed {what}.{name} {when}; work on a copy, {what}.{name}.copy()"
                )
        for library in self.specimen.drew_from:
            self.findings.fail(
                Check.GENERATORS,
                f"{method} drew from the global generator of {library} {when}; draw from context.generator, "
                "which is saved with the run, or from a generator of your own that is part of state()",
            )
        return value

    def _check_value(self, value: Any) -> None:
        when = self.specimen.when
        if isinstance(value, bool) or not isinstance(value, float | int):
            self.findings.fail(
                Check.NUMBER, f"observe must return a float, got {kind_of(value)} {when}; return float(...)"
            )
        number = _number(value)
        self.paid.append(number)
        if not abs(number) <= MAX_INTRINSIC:  # NaN is not, either
            self.findings.fail(
                Check.FINITE,
                f"observe must return a finite number, got {number} {when}; look for divisions by 0, roots and "
                "logarithms of numbers below 0, and exponentials that overflow",
            )
        if number < 0.0:
            self.findings.fail(
                Check.SIGN,
                f"observe must return a number >= 0, got {number:.4g} {when}; clip it at 0, or declare "
                "`can_be_negative = True` in the class if that is meant",
            )


def paid_for(
    specimen: Specimen, steps: Sequence[Transition], *, learns: bool = False, writes: bool = False
) -> list[float]:
    """Return what a bonus pays for those of the steps that it has not observed, with the batches due at each of them.

    The batches are those that `Watch` gives.
    """
    draws, first, paid = batch_draws(), specimen.observed, []
    for number, transition in enumerate(steps):
        batch = batch_of(steps[:number], draws) if learns else None
        if number >= first:
            paid.append(specimen.step(transition, batch, writes=writes))
    return paid


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        raise Stop("observe returned no number") from error


def _copy(original: Any) -> Any:
    """Return a copy of a transition or a batch, with writable arrays."""
    return dataclasses.replace(original, **{name: array.copy() for name, array in _arrays_of(original).items()})


def _arrays_of(given: Any) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _global_states() -> dict[str, Any]:
    legacy: tuple[Any, ...] = np.random.get_state()  # type: ignore[assignment] # noqa: NPY002 (to check that it is not used)
    version, keys, *rest = legacy
    numpy_state = (version, keys.tobytes(), *rest)
    return {"Python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state().numpy().tobytes()}


def _set_global_states(states: dict[str, Any]) -> None:
    version, keys, *rest = states["numpy"]
    random.setstate(states["Python"])
    np.random.set_state((version, np.frombuffer(keys, np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
