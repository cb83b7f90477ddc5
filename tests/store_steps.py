"""A process interrupted before any step that it takes on its store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from offpiste.store.storage import Folder

_METHODS = ("put", "get", "_listed", "delete")


@contextmanager
def interrupted_before(step: int, interrupt: Callable[[], object]) -> Iterator[list[int]]:
    """Call `interrupt` before this step on a store: a call of a folder's methods, or the rename that ends a write.

    Yields a list that holds the step once that has happened. What `interrupt` does on a store does not count.
    """
    happened: list[int] = []
    calls = iter(range(1, 1_000_000))
    counting = [True]

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if counting[0] and next(calls) == step:
                counting[0] = False
                interrupt()
                happened.append(step)
                counting[0] = True
            return method(*arguments)

        return call

    methods: dict[str, Any] = {name: counted(getattr(Folder, name)) for name in _METHODS}
    with mock.patch.multiple(Folder, **methods), mock.patch.object(Path, "replace", counted(Path.replace)):
        yield happened
