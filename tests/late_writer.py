"""A late writer: a process that sleeps at any operation on its store and wakes after another attempt has written."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from offpiste.errors import Superseded
from tests.store_steps import interrupted_before


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
            with interrupted_before(step, meanwhile) as slept, suppress(Superseded):
                act()
            more = bool(slept)
            return more

        yield sleep
