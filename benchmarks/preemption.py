"""How much work preemptions cost, how often to write a checkpoint because of it, and whether the formula is right.

Measured: the seconds that a checkpoint takes with a full replay of a million real pictures, on this disk; the seconds
from the start of a process to its first step from such a checkpoint; and the most memory that this takes. From these,
for machines that live 1, 6 and 24 hours on average, follows the share of a machine's time that is lost with 5, 10, 15
and 60 minutes between checkpoints, and the best interval by Young's formula, √(2 · checkpoint · lifetime). The formula
is checked against a simulation of 1,000 runs of 200 million frames on 512 slots. Bars: formula and simulation agree
within half a percentage point; at a lifetime of 6 hours, the default interval loses less than one percentage point more
than the best one (a shorter one writes more, which is printed too); and a run takes no more memory than is reserved.
"""

import argparse
import heapq
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpiste.config import AgentConfig, MachineConfig, RunConfig
from offpiste.parsing import to_toml
from offpiste.run.loop import Loop
from offpiste.store import arrays
from offpiste.store.checkpoints import Checkpoints, begin_attempt
from offpiste.store.records import RecordLog
from offpiste.store.run_folder import claim
from offpiste.store.storage import Folder
from offpiste.study.cost import cost
from recording import fill, record

LIFETIMES = (1.0, 6.0, 24.0)
INTERVALS = (5.0, 10.0, 15.0, 60.0)
RUNS, SLOTS = 1_000, 512
STEPS_PER_SECOND = 100.0
MAX_DIFFERENCE = 0.005
MAX_MORE_LOST = 0.01

FIRST_STEP = """
import os, sys, time
from offpiste.config import RunConfig
from offpiste.parsing import from_dict, read_settings
from offpiste.run.train import train
from offpiste.store.storage import Folder
def report(progress):
    print(time.time(), flush=True)
    os._exit(0)
train(from_dict(RunConfig, read_settings(sys.argv[1])), Folder(sys.argv[2]), report)
"""


@dataclass(frozen=True)
class Measured:
    """What stopping and starting takes."""

    checkpoint_seconds: float
    checkpoint_megabytes: float
    start_seconds: float
    max_memory_gb: float


def main() -> int:
    """Measure, calculate, simulate, and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a replay of a twentieth, and the simulation once")
    parser.add_argument("--checkpoint-seconds", type=float, help="take this instead of measuring, as for another store")
    parser.add_argument("--start-seconds", type=float, help="take this instead of measuring")
    options = parser.parse_args()
    good = True
    if options.checkpoint_seconds and options.start_seconds:
        checkpoint, start = options.checkpoint_seconds, options.start_seconds
    else:
        config = RunConfig(agent=AgentConfig(replay_capacity=50_000 if options.quick else 1_000_000))
        found = measured(config)
        checkpoint, start = found.checkpoint_seconds, found.start_seconds
        reserved = cost(config, "results").memory_gb
        print(
            f"{found.checkpoint_megabytes:.0f} MB of checkpoint take {checkpoint:.2f} s; from the start of a process "
            f"to its first step {start:.1f} s, with {found.max_memory_gb:.2f} GB at most ({reserved:.2f} GB reserved)"
        )
        good &= found.max_memory_gb <= reserved
        rates = (f"{SLOTS * found.checkpoint_megabytes / (60 * minutes):.0f} at {minutes:g}" for minutes in INTERVALS)
        print(f"{SLOTS} runs write, in MB/s and minutes: {', '.join(rates)}")
    print(f"{'machines live':<15}" + "".join(f"{minutes:>6.0f} min" for minutes in INTERVALS) + "   best by Young")
    for hours in LIFETIMES:
        best = math.sqrt(2 * checkpoint * hours * 3_600) / 60
        shares = [lost_share(minutes, hours, checkpoint, start) for minutes in INTERVALS]
        print(
            f"{hours:>4.0f} hours     "
            + "".join(f"{share:>10.2%}" for share in shares)
            + f"   {best:.1f} min, {lost_share(best, hours, checkpoint, start):.2%}"
        )
    default = MachineConfig().checkpoint_minutes
    best = lost_share(math.sqrt(2 * checkpoint * 6 * 3_600) / 60, 6.0, checkpoint, start)
    at_default = lost_share(default, 6.0, checkpoint, start)
    print(f"at 6 hours, the default of {default:g} minutes loses {at_default - best:.2%} more than the best interval")
    good &= at_default - best < MAX_MORE_LOST
    for hours in LIFETIMES[1:2] if options.quick else LIFETIMES:
        expected = lost_share(default, hours, checkpoint, start)
        simulated = simulate(default, hours, checkpoint, start)
        print(
            f"{RUNS:,} runs on {SLOTS} slots that live {hours:g} hours: {simulated:.2%} lost, {expected:.2%} expected"
        )
        good &= abs(simulated - expected) < MAX_DIFFERENCE
    return 0 if good else 1


def lost_share(minutes: float, hours: float, checkpoint: float, start: float) -> float:
    """Return the share of a machine's time that is no progress, for a memoryless lifetime of this mean.

    A stretch of `work` seconds and its checkpoint succeed together or are done again, and so is every start: the
    expected time of such a stretch is lifetime · e^(start / lifetime) · (e^((work + checkpoint) / lifetime) - 1).
    """
    work, lifetime = 60.0 * minutes, 3_600.0 * hours
    never_lost = work / (work + checkpoint)
    with_loss = work / (lifetime * math.exp(start / lifetime) * math.expm1((work + checkpoint) / lifetime))
    return 1.0 - min(never_lost, with_loss)


def simulate(minutes: float, hours: float, checkpoint: float, start: float) -> float:
    """Return the same share from simulated runs: slots take the next run that waits, and are lost at random moments."""
    chance = np.random.default_rng(0)
    work, lifetime = 60.0 * minutes, 3_600.0 * hours
    length = RunConfig().frames / RunConfig().world.frame_skip / STEPS_PER_SECOND
    waiting = [(number, 0.0) for number in range(RUNS)]
    slots = [0.0] * SLOTS
    busy = useful = 0.0
    while waiting:
        begun = heapq.heappop(slots)
        number, done = waiting.pop(0)
        life, left = chance.exponential(lifetime), length - done
        stretches = math.ceil(left / work)
        needed = start + left + stretches * checkpoint
        if life >= needed:
            saved, spent = left, needed
        else:
            saved = min(left, work * max(0, int((life - start) // (work + checkpoint))))
            spent = life
            waiting.append((number, done + saved))
        busy, useful = busy + spent, useful + saved
        heapq.heappush(slots, begun + spent)
    return 1.0 - useful / busy


def measured(config: RunConfig) -> Measured:
    """Write a checkpoint with a full replay, then start from it in a new process."""
    loop = Loop(config)
    recording = record(config.game, min(100_000, config.agent.replay_capacity // 5))
    fill(loop.replay, recording, config.agent.replay_capacity)
    loop.update()  # so that the optimiser has its moments
    next(loop.steps())
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place) / "run")
        claim(folder, config)
        checkpoints = Checkpoints(folder, begin_attempt(folder, {}))
        save(loop, checkpoints)
        fill(loop.replay, recording, int(60 * config.machine.checkpoint_minutes * STEPS_PER_SECOND))
        loop.tracker.training_steps += 1
        begun = time.perf_counter()
        megabytes = save(loop, checkpoints)
        checkpoint_seconds = time.perf_counter() - begun
        del loop, recording
        settings = Path(place) / "settings.toml"
        settings.write_text(to_toml(config))
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, "-c", FIRST_STEP, str(settings), folder.location], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first_step = float(process.stdout.readline())
        _, _, usage = os.wait4(process.pid, 0)
        return Measured(checkpoint_seconds, megabytes, first_step - began, usage.ru_maxrss * 1024 / 1e9)


def save(loop: Loop, checkpoints: Checkpoints) -> float:
    """Write one checkpoint as training does and return its megabytes."""
    mutable = {key: arrays.pack(value) for key, value in loop.state().items()}
    mutable["records"] = arrays.pack(RecordLog().state())
    step = max(loop.tracker.training_steps, loop.tracker.all_steps)
    return checkpoints.save(step, mutable, loop.immutable()).written_bytes / 1e6


if __name__ == "__main__":
    sys.exit(main())
