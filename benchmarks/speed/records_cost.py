"""What scalars and cells cost: the tracker's calls with and without them, beside a step of Freeway that learns.

The same steps of play, with an intrinsic reward each, are counted by a tracker as it is and by one whose windows and
visits do nothing, in turns. Windows are closed and their rows added to the records. Bar: both together take less than
1% of the time of a default training step.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from offpiste.agent.rainbow import Update
from offpiste.config import AgentConfig, RunConfig
from offpiste.rows import SCALAR_STEPS, ScalarRow
from offpiste.run.loop import Loop
from offpiste.run.process import prepare
from offpiste.run.statistics import IterationStatistics
from offpiste.run.tracker import Tracker
from offpiste.seeding import stream
from offpiste.store.records import RecordLog
from offpiste.types import Transition
from offpiste.worlds.play import episode, random_policy
from scripts import measured

MAX_SHARE = 0.01
UPDATE = Update(np.ones(32), 1.0, 1.0, 0.0, 0.0)
CONFIG = RunConfig(game="freeway", agent=AgentConfig(min_history_steps=500))


class NoWindow(IterationStatistics):
    """Counts nothing."""

    def count_update(self, update: Update) -> None:
        """Do nothing."""

    def count_intrinsic(self, intrinsic: float, *, clipped: bool) -> None:
        """Do nothing."""


class NoCells:
    """Keeps nothing."""

    def __getitem__(self, cell: int) -> int:
        return 0

    def __setitem__(self, cell: int, value: int) -> None:
        pass


def main() -> int:
    """Measure and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps and turns")
    options = measured.parse(parser)
    windows, turns, learned_steps = (2, 5, 200) if options.quick else (8, 15, 2_000)
    prepare(CONFIG.machine)
    loop = Loop(CONFIG)
    play = list(islice(episode(loop.world, random_policy(loop.world, stream(0, "actions"))), 1_000))
    play = [replace(step, terminated=False, truncated=False) for step in play]
    steps = windows * SCALAR_STEPS
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(turns):
        for recorded, found in seconds.items():
            found.append(counting_seconds(play, steps, recorded=recorded) / steps)
    with_records, without = (statistics.median(seconds[recorded]) for recorded in (True, False))
    step_seconds = learning_seconds(loop, learned_steps)
    share = (with_records - without) / step_seconds
    print(f"counting a step: {1e6 * with_records:.1f} µs with scalars and cells, {1e6 * without:.1f} µs without")
    print(f"a training step that learns: {1e3 * step_seconds:.2f} ms")
    print(f"share of training time that scalars and cells take: {share:.3%}")
    if options.record:
        measured.record("benchmarks.speed.records_cost", {"share": share})
    return 0 if share < MAX_SHARE else 1


def counting_seconds(play: list[Transition], steps: int, *, recorded: bool) -> float:
    """Return the time in which a new tracker counts so many steps, and an update every fourth."""
    tracker: Any = Tracker(CONFIG)
    records = RecordLog()
    period = CONFIG.agent.update_period_steps
    if not recorded:
        tracker._window, tracker._window_steps = NoWindow(), steps + 1
        tracker.coverage._visits = tracker.coverage._first_steps = NoCells()
    start = time.perf_counter()
    for number in range(steps):
        if number % period == 0:
            tracker.count_update(UPDATE)
        for name, value in tracker.count_training(play[number % len(play)], 0.5).scalars.items():
            records.add("scalars", ScalarRow(tracker.training_steps, name, value))
    seconds = time.perf_counter() - start
    assert len(records.rows("scalars")) == (steps // SCALAR_STEPS * 13 if recorded else 0)
    return seconds


def learning_seconds(loop: Loop, steps: int) -> float:
    """Return the time of a training step once the agent learns."""
    training = loop.steps()
    while not loop.learning:
        next(training)
    for _ in range(20):
        next(training)
    start = time.perf_counter()
    for _ in range(steps):
        next(training)
    return (time.perf_counter() - start) / steps


if __name__ == "__main__":
    sys.exit(main())
