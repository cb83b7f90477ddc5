"""A process that sleeps at any step on its store and wakes after others have worked there."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from benchmarks.shared.store_steps import interrupted_before
from offpiste.errors import Superseded


def every_sleep(
    act: Callable[[], object], meanwhile: Callable[[], object], every: int = 1
) -> Iterator[Callable[[], bool]]:
    """Return, for each step that `act` takes on a store, a function that lets it sleep there while others work.

    The function tells whether `act` got so far; the last one does not. Being superseded is a proper end for a sleeper.
    """
    step = 0
    more = True
    while more:
        step += every

        def sleep(step: int = step) -> bool:
            nonlocal more
            with interrupted_before(step, meanwhile) as slept, suppress(Superseded):
                act()
            more = bool(slept)
            return more

        yield sleep
