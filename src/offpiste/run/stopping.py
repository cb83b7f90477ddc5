"""How a process is told to stop: SIGTERM and Ctrl-C, noted so that it can save first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class StopSignal:
    """Which signal asked the process to stop, if one did."""

    number: int | None = None

    def __call__(self, number: int, _frame: object) -> None:
        """Take the signal; the second Ctrl-C ends the process at once, without a checkpoint."""
        if self.number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Catch SIGTERM and SIGINT for a while, so that a checkpoint can be written first."""
    stop = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
