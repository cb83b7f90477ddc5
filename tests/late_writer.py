"""A late writer: a process that sleeps at any operation on its store and wakes after another attempt has written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import Superseded
from offpiste.store.storage import Folder


def every_sleep(
    act: Callable[[], object], meanwhile: Callable[[], object], every: int = 1
) -> Iterator[Callable[[], bool]]:
    """Yield, for each store operation of `act`, a function that runs `act` and lets it sleep there during `meanwhile`.

    The function returns whether `act` reached that operation; the last one returns False. `act` may be superseded.
    """
    step = 0
    more = True
    while more:
        step += every

        def sleep(step: int = step) -> bool:
            nonlocal more
            with _asleep_before(step, meanwhile) as slept, suppress(Superseded):
                act()
            more = bool(slept)
            return more

        yield sleep


@contextmanager
def _asleep_before(step: int, meanwhile: Callable[[], object]) -> Iterator[list[int]]:
    """Run `meanwhile` before this operation: a call of a `Folder`'s method, or the rename that ends a write."""
    slept: list[int] = []
    calls = iter(range(1, 1_000_000))
    awake = [True]

    def slow(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if awake[0] and next(calls) == step:
                awake[0] = False
                meanwhile()
                slept.append(step)
                awake[0] = True
            return method(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put", "get", "_listed", "delete"):
            patch.setattr(Folder, name, slow(getattr(Folder, name)))
        patch.setattr(Path, "replace", slow(Path.replace))
        yield slept
