"""SIGTERM, SIGUSR1 and Ctrl-C, caught so that a run can write a checkpoint first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""By SIGUSR1, Slurm warns of a time limit."""


class StopSignal:
    """The signal that asked the process to stop, or None."""

    number: int | None = None

    def __call__(self, number: int, _frame: object) -> None:
        """Store the signal; a second Ctrl-C ends the process at once, without a checkpoint."""
        if self.number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Catch these signals within the block; a block within another has its `StopSignal`.

    Does nothing outside the main thread.
    """
    stop = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    around = signal.getsignal(signal.SIGTERM)
    if isinstance(around, StopSignal):
        yield around
        return
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
