"""The progress of a run, for whoever watches it."""

from collections import deque
from dataclasses import dataclass

from offpiste.config import RunConfig
from offpiste.run.loop import Loop
from offpiste.run.tracker import Step


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    state: str
    """running, paused, finished or failed."""
    frames: int
    target_frames: int
    steps: int
    """Agent steps of training and evaluation together."""
    iteration: int
    episodes: int
    epsilon: float
    steps_per_second: float | None
    seconds_left: float | None
    """At the current rate; None without one, and during the warm-up, which is faster than learning."""
    learning: bool
    """False during the warm-up."""
    last_return: float | None
    mean_return: float | None
    """Over the last 100 training episodes of this process."""
    rooms: int | None
    cells: int | None
    note: str
    """A warning, for example that a checkpoint could not be written; mostly empty."""


class Meter:
    """Measures how far a loop is, and how fast."""

    def __init__(self, config: RunConfig, loop: Loop, note: str = "") -> None:
        self.note = note
        """What is unusual about this attempt now."""
        self._loop = loop
        self._skip = config.world.frame_skip
        self._target_steps = config.frames // self._skip
        self._asked_frames = config.frames
        self._learning = loop.learning
        self._returns: deque[float] = deque(maxlen=100)
        self._marks: deque[tuple[float, int]] = deque(maxlen=120)

    @property
    def done(self) -> bool:
        """Whether the run has the frames that were asked for."""
        return self._loop.tracker.counted_steps >= self._target_steps

    @property
    def target_frames(self) -> int:
        """The frames asked for, or those that the run already has where these are more."""
        return max(self._asked_frames, self._loop.tracker.counted_steps * self._skip)

    def count(self, step: Step) -> None:
        """Count the return of an episode that ended in training."""
        if step.episode is not None and step.episode.phase == "train":
            self._returns.append(step.episode.game_return)

    def mark(self, now: float) -> None:
        """Note where training is at this time, for its rate."""
        if self._loop.learning != self._learning:
            self._learning = self._loop.learning
            self._marks.clear()  # the warm-up is faster, so its rate would promise too much
        self._marks.append((now, self._loop.tracker.training_steps))

    def progress(self, state: str, *notes: str) -> Progress:
        """Return the progress in this state, with further notes."""
        rate = self._rate()
        tracker, learning = self._loop.tracker, self._loop.learning
        left = max(0, self._target_steps - tracker.counted_steps)
        totals = tracker.coverage.totals()
        return Progress(
            state=state,
            frames=tracker.counted_steps * self._skip,
            target_frames=self.target_frames,
            steps=tracker.all_steps,
            iteration=tracker.iteration,
            episodes=tracker.episodes["train"],
            epsilon=tracker.epsilon(tracker.training_steps),
            steps_per_second=rate,
            seconds_left=left / rate if rate and learning and state == "running" else None,
            learning=learning,
            last_return=self._returns[-1] if self._returns else None,
            mean_return=sum(self._returns) / len(self._returns) if self._returns else None,
            rooms=totals["rooms_total"],
            cells=totals["cells_total"],
            note="; ".join(filter(None, (self.note, *notes))),
        )

    def _rate(self) -> float | None:
        (first_time, first), (last_time, last) = (self._marks[0], self._marks[-1]) if self._marks else ((0, 0), (0, 0))
        return (last - first) / (last_time - first_time) if last_time > first_time else None
