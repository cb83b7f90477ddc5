"""What a checkpoint costs with a full replay: size and time, first and one iteration later, and its share of the time.

The replay is filled with a recording of Montezuma's Revenge, repeated and packed anew; the checkpoint goes to a local
disk with fsync. Bar: less than 1% of the time at the default interval.
"""

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass

from offpiste.config import AgentConfig, MachineConfig, RunConfig
from offpiste.run.loop import Loop
from offpiste.store import arrays
from offpiste.store.checkpoints import Checkpoints
from offpiste.store.storage import Folder
from recording import fill, record

MAX_SHARE = 0.01


@dataclass(frozen=True)
class Cost:
    """One checkpoint."""

    megabytes: float
    objects: int
    seconds: float


def main() -> int:
    """Measure two checkpoints and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the entries")
    options = parser.parse_args()
    capacity, later, recorded = (50_000, 12_500, 6_000) if options.quick else (1_000_000, 250_000, 100_000)
    config = RunConfig(agent=AgentConfig(replay_capacity=capacity, min_history_steps=1_000))
    loop = Loop(config)
    recording = record(config.game, recorded)
    fill(loop.replay, recording, capacity)
    loop.update()  # so that the optimiser has its moments
    next(loop.steps())
    folder = tempfile.mkdtemp()
    try:
        checkpoints = Checkpoints(Folder(folder), "000001")
        sizes = {key: len(arrays.pack(value)) / 1e6 for key, value in loop.state().items()}
        print("objects written each time, MB: " + ", ".join(f"{key} {size:.1f}" for key, size in sizes.items()))
        first = save(loop, checkpoints)
        print(f"first: {first.megabytes:.0f} MB in {first.objects} objects, {first.seconds:.2f} s")
        fill(loop.replay, recording, later)
        loop.tracker.training_steps += later
        second = save(loop, checkpoints)
        print(f"one iteration later: {second.megabytes:.0f} MB in {second.objects} objects, {second.seconds:.2f} s")
        start = time.perf_counter()
        restored = checkpoints.restore()
        assert restored is not None
        print(f"read back and verified in {time.perf_counter() - start:.2f} s")
    finally:
        shutil.rmtree(folder)
    share = second.seconds / (60 * MachineConfig().checkpoint_minutes)
    print(
        f"share of training time at the default interval of {MachineConfig().checkpoint_minutes:g} minutes: {share:.2%}"
    )
    return 0 if share < MAX_SHARE else 1


def save(loop: Loop, checkpoints: Checkpoints) -> Cost:
    """Write one checkpoint as training does."""
    start = time.perf_counter()
    mutable = {key: arrays.pack(value) for key, value in loop.state().items()}
    saved = checkpoints.save(loop.tracker.training_steps, mutable, loop.immutable())
    return Cost(saved.written_bytes / 1e6, saved.written_objects, time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
