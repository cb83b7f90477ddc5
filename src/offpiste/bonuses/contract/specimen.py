"""One bonus under test: calls that measure their time and restore the global generators."""

import dataclasses
import random
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.bonuses.contract.play import WARM_UP_GAMES, context_of, sampled
from offpiste.bonuses.registry import line_of, seeded_globals
from offpiste.neural import accept_read_only_arrays
from offpiste.seeding import restore_generator, stream
from offpiste.types import Batch, Transition, Weights


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
        self.shown: Sequence[Transition] = ()
        """The steps before the present one, from which it may sample."""
        context = context_of(game, self.generator, self._sample)
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

    def _sample(self, batch_size: int, weights: Weights | None = None) -> Batch | None:
        return sampled(self.shown, batch_size, self.generator, weights)

    def _message_of(self, error: Exception) -> str:
        line = line_of(error, self._file)
        return f"{type(error).__name__}: {error}" + ("" if line is None else f" (line {line} of its file)")


def copy_of(original: Any) -> Any:
    """Return a copy of a transition or a batch, with writable arrays."""
    return dataclasses.replace(original, **{name: array.copy() for name, array in arrays_of(original).items()})


def arrays_of(given: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a transition or a batch by name."""
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
