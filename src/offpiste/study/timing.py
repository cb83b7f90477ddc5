"""How much time a driver has, and how much the rest of its study takes."""

import time
from collections.abc import Collection, Mapping

LAST_START_SECONDS = 600.0
"""Before the end of its time, in which a driver starts nothing more; a tenth of a shorter time."""
MIN_MARGIN_SECONDS = 120.0
"""Before the end of its time, when a driver lets its runs save; a quarter of a shorter time."""


class Walltime:
    """The time that a driver has."""

    def __init__(self, hours: float | None) -> None:
        self._seconds = float("inf") if hours is None else 3_600.0 * hours
        self._start = time.monotonic()

    def may_start(self) -> bool:
        """Return whether it is worth while to start a run."""
        return self._left() > min(LAST_START_SECONDS, self._seconds / 10)

    def is_up(self, slowest_checkpoint: float) -> bool:
        """Return whether the runs have to save now."""
        return self._left() <= max(min(MIN_MARGIN_SECONDS, self._seconds / 4), 3 * slowest_checkpoint)

    def _left(self) -> float:
        return self._start + self._seconds - time.monotonic()


class TimeLeft:
    """How long the frames left take, at the rate of those that a driver has seen done."""

    def __init__(self, target: Mapping[str, int], before: Mapping[str, int]) -> None:
        """Begin with the frames that each run is to have, and those that it has now; one that is done has all."""
        self._target, self._before, self._start = target, before, time.monotonic()
        self._last: tuple[float, Mapping[str, int]] = (self._start, {})

    def text(self, done: Collection[str], left: Collection[str], in_flight: Mapping[str, int]) -> str:
        """Return the time left as a part of a message, once there is a rate; `in_flight` has frames, where known.

        A run's warm-up is faster than the rest of it, so all takes at least as long as the slowest run at its rate
        since the last message.
        """
        now, progress = time.monotonic(), sum(self._since(run_id, at) for run_id, at in in_flight.items())
        reached = progress + sum(self._since(run_id, self._target[run_id]) for run_id in done)
        rest = sum(self._since(run_id, self._target[run_id]) for run_id in left) - progress
        (last, before), self._last = self._last, (now, dict(in_flight))
        longest = max(
            (
                (self._target[run_id] - at) * (now - last) / (at - before[run_id])
                for run_id, at in in_flight.items()
                if at > before.get(run_id, at)
            ),
            default=0.0,
        )
        if reached <= 0 or rest <= 0:
            return ""
        minutes = max((now - self._start) * rest / reached, longest) / 60
        return f"; about {minutes:,.0f} min left" if minutes < 180 else f"; about {minutes / 60:,.0f} h left"

    def _since(self, run_id: str, frames: int) -> int:
        return max(0, frames - self._before.get(run_id, 0))
