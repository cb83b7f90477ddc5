"""What it costs to save and restore an environment of others at the end of a long episode, by a replay of its actions.

MiniGrid's DoorKey, allowed 27,000 steps as the longest episode on Atari, is played at random to its last step, saved,
and restored in another environment. Bar: a snapshot within 10 ms and 100 kB, a restore within 30 s of processor time;
a run makes one snapshot every ten minutes, and one restore when it is resumed.
"""

import argparse
import sys
import time

import gymnasium
import minigrid  # noqa: F401 (registers its environments)
import numpy as np

from offpiste.config import WorldConfig
from offpiste.seeding import stream
from offpiste.worlds.families import family_of
from offpiste.worlds.gym import GymWorld, Opened
from scripts import measured

STEPS, QUICK_STEPS = 27_000, 2_000
MAX_SNAPSHOT_SECONDS, MAX_BYTES, MAX_RESTORE_SECONDS = 0.01, 100_000, 30.0
NAME = "MiniGrid-DoorKey-6x6-v0"
IN_WALLS = (0, 1)
"""Actions that turn: the goal is never reached."""


def main() -> int:
    """Measure and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS:,} steps")
    options = measured.parse(parser)
    steps = QUICK_STEPS if options.quick else STEPS
    world, other = (opened(steps, seed) for seed in (0, 1))
    draws = stream(0, "actions")
    world.reset()
    for _ in range(steps - 1):
        world.step(int(draws.choice(IN_WALLS)))
    start = time.process_time()
    snapshot = world.snapshot()
    saving = time.process_time() - start
    start = time.process_time()
    other.restore(snapshot)
    restoring = time.process_time() - start
    same = all(np.array_equal(world.step(action)[0], other.step(action)[0]) for action in (1, 0))
    print(f"after {steps - 1:,} steps: snapshot {1e3 * saving:.2f} ms, {len(snapshot) / 1e3:.0f} kB")
    print(f"restoring: {restoring:.2f} s, {1e6 * restoring / steps:.0f} µs a step; it continues alike: {same}")
    if options.record:
        figures = {"snapshot_ms": 1e3 * saving, "kilobytes": len(snapshot) / 1e3, "restore_seconds": restoring}
        measured.record("benchmarks.speed.world_snapshots", figures)
    fast = saving < MAX_SNAPSHOT_SECONDS and restoring < MAX_RESTORE_SECONDS
    return 0 if same and fast and len(snapshot) < MAX_BYTES else 1


def opened(steps: int, seed: int) -> GymWorld:
    """Return the world with episodes of so many steps."""
    environment = gymnasium.make(NAME, render_mode="rgb_array", max_steps=steps, max_episode_steps=-1)
    config = WorldConfig(frame_skip=1, stack_frames=1, sticky_action_probability=0.0, frame_size=28)
    return GymWorld(NAME, Opened(environment, None, family_of(NAME)), config, stream(seed, "world"))


if __name__ == "__main__":
    sys.exit(main())
