"""What each bonus costs per agent step, beside the ε-greedy agent's own step and beside bare torch, on one thread.

Blocks of real training on Montezuma's Revenge in fp32 with a warm replay, every action chosen by the network, are
played with each bonus in turn. The bonus is timed inside the loop, where an update has just emptied the caches, and
then thrown away, so that the agent stays the ε-greedy one; its share is its time over the rest of the same block. In
the same rounds, each learned bonus takes turns over recorded steps with bare torch: the same forward and backward
passes and optimiser step from the same weights, written plainly, with inputs ready made. Ratios are medians over the
rounds. Times are processor time: on one thread the same as by the clock, without what other programs take. NoisyNets'
step stands beside ε-greedy's for information.

Everything that learns has first taken 800 steps of its optimiser; `--quick` leaves that out. Denormal numbers, into
which the moments of parameters without a gradient decay about then, count as 0 on both sides, as in a run.

Bars: CTS takes under 3% of the ε-greedy agent's step; bonuses that train networks take at most 1.3 of the bare cost.
CTS is timed after `--cts-frames` frames of random play; how much memory its trees then take is printed, and for every
bonus the size of its object in a checkpoint. What a bonus learns from batches is timed with what it observes.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from benchmarks.shared.bonuses import BONUSES, make_bonus
from benchmarks.shared.memory import resident_megabytes
from benchmarks.shared.recording import random_play
from benchmarks.shared.warm_loop import GREEDY, warm_loop
from benchmarks.speed import bare_bonuses
from offpiste import arrays
from offpiste.bonuses.base import Batch, Bonus, LearningBonus, Transition, Weights
from offpiste.bonuses.contract.play import sampled
from offpiste.config import AgentConfig, ExplorationConfig, MachineConfig, RunConfig
from offpiste.methods import METHODS
from offpiste.run.process import prepare
from offpiste.seeding import stream
from scripts import measured

MAX_CTS_SHARE = 0.03
MAX_RATIO = 1.3
GAME = "montezuma_revenge"
BLOCK_STEPS = 20
"""A multiple of the period of updates, so that all blocks hold equally many."""
BLOCKS = 10
"""Blocks of recorded steps, used over and over."""
WARM_STEPS = 1_000
SETTLED_UPDATES = 800


def main() -> int:
    """Measure, and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds, and 2,000 frames for CTS")
    parser.add_argument("--cts-frames", type=int, metavar="N", help="frames that CTS sees first (default 100,000)")
    options = measured.parse(parser)
    prepare(MachineConfig())
    rounds, settled = (3, 0) if options.quick else (15, SETTLED_UPDATES)
    replay = Recorded()
    bonuses = {name: make_bonus(name, GAME, replay.sample) for name in BONUSES}
    grow(bonuses["cts"], options.cts_frames or (2_000 if options.quick else 100_000))

    inside = InsideTheLoop()
    epsilon_greedy = agent_step(GREEDY, settled, inside)
    noisy_nets = agent_step(METHODS["noisy_nets"].exploration, settled)
    recorded = list(islice(random_play(GAME, seed=1), settled + BLOCKS * BLOCK_STEPS))
    bare = {
        "pixelcnn": bare_bonuses.pixelcnn(recorded),
        "icm": bare_bonuses.icm(recorded, bonuses["icm"]),
        "rnd": bare_bonuses.rnd(recorded, bonuses["rnd"]),
        "rnd_released": bare_bonuses.rnd_released(recorded, bonuses["rnd_released"]),
        "e3b": bare_bonuses.e3b(recorded, bonuses["e3b"]),
        "noveld": bare_bonuses.noveld(recorded, bonuses["noveld"]),
        "ngu": bare_bonuses.ngu(recorded, bonuses["ngu"]),
        "rnd_full": bare_bonuses.rnd_full(recorded, bonuses["rnd_full"]),
        "drnd": bare_bonuses.drnd(recorded, bonuses["drnd"]),
        "disagreement": bare_bonuses.disagreement(recorded, bonuses["disagreement"]),
        "ride": bare_bonuses.ride(recorded, bonuses["ride"]),
        "e3b_rnd": bare_bonuses.e3b_rnd(recorded, bonuses["e3b_rnd"]),
        "cfn": bare_bonuses.cfn(recorded, bonuses["cfn"]),
    }
    batches = cycle([sampled(recorded, AgentConfig().batch_size, stream(index, "batches")) for index in range(BLOCKS)])
    replay.fill(recorded)
    work_of = {name: one_step(bonuses[name], recorded, batches) for name in bare}
    for name, work in bare.items():
        for step in range(settled):
            work_of[name](step)
            work(step)

    agents: dict[str, list[float]] = {"epsilon_greedy": [], "noisy_nets": []}
    costs: dict[str, list[float]] = {name: [] for name in BONUSES}
    shares: dict[str, list[float]] = {name: [] for name in BONUSES}
    ours: dict[str, list[float]] = {name: [] for name in bare}
    theirs: dict[str, list[float]] = {name: [] for name in bare}
    for turn in range(rounds):
        agents["epsilon_greedy"].append(seconds(epsilon_greedy, range(BLOCK_STEPS)))
        agents["noisy_nets"].append(seconds(noisy_nets, range(BLOCK_STEPS)))
        for name in BONUSES:
            inside.bonus, inside.seconds = bonuses[name], 0.0
            whole = seconds(epsilon_greedy, range(BLOCK_STEPS))
            inside.bonus = None
            costs[name].append(inside.seconds)
            shares[name].append(inside.seconds / (whole - inside.seconds))
        first = settled + turn % BLOCKS * BLOCK_STEPS
        block = range(first, first + BLOCK_STEPS)
        for name, work in bare.items():
            ours[name].append(seconds(work_of[name], block))
            theirs[name].append(seconds(work, block))

    ratios = {name: float(np.median(np.divide(ours[name], theirs[name]))) for name in bare}
    share = {name: float(np.median(values)) for name, values in shares.items()}
    steps = {name: milliseconds(values) for name, values in agents.items()}
    print(f"ms per agent step: epsilon_greedy {steps['epsilon_greedy']:.2f}, noisy_nets {steps['noisy_nets']:.2f}")
    print(f"{'bonus':<16}{'ms per step':>12}{'of the step':>13}{'over bare':>11}{'bare ms':>9}{'checkpoint MB':>15}")
    for name in BONUSES:
        beside = f"{ratios[name]:>11.2f}{milliseconds(theirs[name]):>9.2f}" if name in bare else f"{'':>20}"
        print(
            f"{name:<16}{milliseconds(costs[name]):>12.3f}{share[name]:>13.1%}{beside}{checkpoint_megabytes(bonuses[name]):>15.2f}"
        )
    over = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    print(f"cts {share['cts']:.1%} of the epsilon_greedy step; over bare torch: {over}")
    if options.record:
        figures = {f"{name}_milliseconds": value for name, value in steps.items()}
        figures["noisy_nets_share"] = float(np.median(np.divide(agents["noisy_nets"], agents["epsilon_greedy"]))) - 1
        figures |= {f"{name}_share": value for name, value in share.items()}
        figures |= {f"{name}_over_bare": value for name, value in ratios.items()}
        figures |= {f"{name}_megabytes": checkpoint_megabytes(bonus) for name, bonus in bonuses.items()}
        measured.record("benchmarks.speed.bonus_cost", figures)
    return 0 if share["cts"] < MAX_CTS_SHARE and max(ratios.values()) <= MAX_RATIO else 1


def grow(cts: Bonus, frames: int) -> None:
    """Let CTS see so many frames of random play, and print at every power of ten how large it has become."""
    milestones = {frames, *(10**power for power in range(3, 9) if 10**power < frames)}
    play = random_play(GAME, seed=0)
    cts.observe(next(play))  # compiles it, before memory is looked at
    before, spent = resident_megabytes(), 0.0
    for seen, transition in enumerate(islice(play, frames - 1), start=2):
        start = time.process_time()
        cts.observe(transition)
        spent += time.process_time() - start
        if seen in milestones:
            grown = resident_megabytes() - before
            start = time.process_time()
            size = checkpoint_megabytes(cts)
            print(
                f"cts after {seen:,} frames: {grown:.0f} MB of memory, {size:.1f} MB in a checkpoint "
                f"(compressed in {time.process_time() - start:.2f} s), {1e3 * spent / seen:.3f} ms a frame",
                flush=True,
            )


def one_step(bonus: Bonus, recorded: Sequence[Transition], batches: Iterator[Batch | None]) -> Callable[[int], None]:
    """Return what a bonus does in a step of a run: before every fourth, where it learns, it is given a batch."""

    def step(index: int) -> None:
        if isinstance(bonus, LearningBonus) and index % AgentConfig().update_period_steps == 0:
            batch = next(batches)
            assert batch is not None
            bonus.learn(batch)
        bonus.observe(recorded[index])

    return step


class Recorded:
    """Stands in for the replay that bonuses sample: asks for weights of all recorded entries, and has batches ready."""

    def __init__(self) -> None:
        self._recorded: Sequence[Transition] = ()
        self._ready: dict[int, Iterator[Batch | None]] = {}

    def fill(self, recorded: Sequence[Transition]) -> None:
        """Hold these steps, none of which was there before."""
        self._recorded = recorded

    def sample(self, batch_size: int, weights: Weights | None = None) -> Batch | None:
        """Return a batch of these steps, or None while there are none."""
        if not self._recorded:
            return None
        if weights is not None:
            weights(np.arange(len(self._recorded)))
        if batch_size not in self._ready:
            draws = (stream(index, "own batches") for index in range(BLOCKS))
            self._ready[batch_size] = cycle([sampled(self._recorded, batch_size, each) for each in draws])
        return next(self._ready[batch_size])


class InsideTheLoop:
    """Stands in for the bonus of a loop: times whichever bonus is set, and pays nothing."""

    def __init__(self) -> None:
        self.bonus: Bonus | None = None
        self.seconds = 0.0

    def observe(self, transition: Transition) -> float:
        """Let the bonus look and note how long that took."""
        if self.bonus is not None:
            start = time.process_time()
            self.bonus.observe(transition)
            self.seconds += time.process_time() - start
        return 0.0

    def learn(self, batch: Batch) -> None:
        """Let the bonus learn, if it does, and note how long that took."""
        if isinstance(self.bonus, LearningBonus):
            start = time.process_time()
            self.bonus.learn(batch)
            self.seconds += time.process_time() - start

    def state(self) -> dict[str, Any]:
        """Return nothing: this is never saved."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def agent_step(exploration: ExplorationConfig, updates: int, bonus: Bonus | None = None) -> Callable[[object], object]:
    """Return a function that takes one agent step of a run which learns and chooses every action by its network."""
    agent = AgentConfig(min_history_steps=WARM_STEPS)
    config = RunConfig(game=GAME, agent=agent, exploration=exploration)
    steps = warm_loop(config, 2 * BLOCK_STEPS + updates * agent.update_period_steps, bonus).steps()
    return lambda _: next(steps)


def checkpoint_megabytes(bonus: Bonus) -> float:
    """Return the megabytes of a bonus's object in a checkpoint."""
    return len(arrays.pack(bonus.state())) / 1e6


def seconds(work: Callable[[int], object], block: Sequence[int]) -> float:
    """Return the processor time of the work on a block."""
    start = time.process_time()
    for step in block:
        work(step)
    return time.process_time() - start


def milliseconds(blocks: Sequence[float]) -> float:
    """Return the median over blocks of the time of one step."""
    return 1e3 * float(np.median(blocks)) / BLOCK_STEPS


if __name__ == "__main__":
    sys.exit(main())
