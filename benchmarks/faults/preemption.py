"""What checkpoints and preemptions cost, how often to save because of that, and whether the formula is right.

Measured: size and seconds of a checkpoint with a full replay of a million real frames, on this disk, first and an
interval later; the seconds from the start of a process to its first step from such a checkpoint; and the max memory
that this takes. From these, for machines that live 1, 6 and 24 hours on average, follows the share of a machine's time
that is lost with 5, 10, 15 and 60 minutes between checkpoints, and the best interval by Young's formula,
√(2 · checkpoint · lifetime). The formula is checked against a simulation of 1,000 runs of 200 million frames on 512
slots.

Bars: at the default interval, checkpoints take under 1% of training time; at a lifetime of 6 hours, that interval loses
less than one percentage point more than the best one (a shorter one writes more, which is printed too); formula and
simulation agree within half a percentage point; and a run takes no more memory than is reserved.
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

from benchmarks.shared.recording import fill, record
from offpiste.config import AgentConfig, MachineConfig, RunConfig
from offpiste.parsing import to_toml
from offpiste.run.loop import Loop
from offpiste.run.writer import save_checkpoint
from offpiste.store.attempts import begin_attempt
from offpiste.store.checkpoints import Checkpoints
from offpiste.store.identity import claim
from offpiste.store.records import RecordLog
from offpiste.store.storage import Folder
from offpiste.study.cost import cost
from scripts import measured

LIFETIMES = (1.0, 6.0, 24.0)
INTERVALS = (5.0, 10.0, 15.0, 60.0)
RUNS, SLOTS = 1_000, 512
STEPS_PER_SECOND = 100.0
MAX_SHARE = 0.01
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
    options = measured.parse(parser)
    if options.record and (options.checkpoint_seconds or options.start_seconds):
        parser.error("--record needs what is measured; leave out --checkpoint-seconds and --start-seconds")
    good = True
    if options.checkpoint_seconds and options.start_seconds:
        checkpoint, start = options.checkpoint_seconds, options.start_seconds
    else:
        config = RunConfig(agent=AgentConfig(replay_capacity=50_000 if options.quick else 1_000_000))
        found = stop_and_start(config)
        checkpoint, start = found.checkpoint_seconds, found.start_seconds
        reserved = cost(config, "results").memory_gb
        print(
            f"from the start of a process to its first step {start:.1f} s, "
            f"with {found.max_memory_gb:.2f} GB at most ({reserved:.2f} GB reserved)"
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
    share = checkpoint / (60 * default)
    print(f"at the default of {default:g} minutes, checkpoints take {share:.2%} of training time")
    good &= share < MAX_SHARE
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
    if options.record:
        figures = {"checkpoint_seconds": checkpoint, "checkpoint_share": share, "start_seconds": start}
        measured.record("benchmarks.faults.preemption", figures)
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
    generator = np.random.default_rng(0)
    work, lifetime = 60.0 * minutes, 3_600.0 * hours
    length = RunConfig().frames / RunConfig().world.frame_skip / STEPS_PER_SECOND
    waiting = [(number, 0.0) for number in range(RUNS)]
    slots = [0.0] * SLOTS
    busy = useful = 0.0
    while waiting:
        begun = heapq.heappop(slots)
        number, done = waiting.pop(0)
        life, left = generator.exponential(lifetime), length - done
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


def stop_and_start(config: RunConfig) -> Measured:
    """Write a checkpoint with a full replay and one an interval later, then start from that in a new process."""
    loop = Loop(config)
    recording = record(config.game, min(100_000, config.agent.replay_capacity // 5))
    fill(loop.replay, recording, config.agent.replay_capacity)
    loop.update()  # so that the optimiser has its moments
    steps = loop.steps()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Folder(Path(temporary) / "run")
        claim(folder, config)
        checkpoints = Checkpoints(folder, begin_attempt(folder, {}))
        for when in ("first", "an interval later"):
            next(steps)
            begun = time.perf_counter()
            saved = save_checkpoint(checkpoints, loop, RecordLog(), {})
            seconds, megabytes = time.perf_counter() - begun, saved.written_bytes / 1e6
            print(f"checkpoint, {when}: {megabytes:.0f} MB in {saved.written_objects} objects, {seconds:.2f} s")
            if when == "first":
                fill(loop.replay, recording, int(60 * config.machine.checkpoint_minutes * STEPS_PER_SECOND))
        del loop, steps, recording
        settings = Path(temporary) / "settings.toml"
        settings.write_text(to_toml(config))
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, "-c", FIRST_STEP, str(settings), folder.location], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first_step = float(process.stdout.readline())
        _, _, usage = os.wait4(process.pid, 0)
        return Measured(seconds, megabytes, first_step - began, usage.ru_maxrss * 1024 / 1e9)


if __name__ == "__main__":
    sys.exit(main())
