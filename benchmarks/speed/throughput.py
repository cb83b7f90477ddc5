"""How near the whole training loop comes to the bare cost of its parts.

Blocks of real training on Montezuma's Revenge with a warm replay, every action chosen by the network, alternate with
blocks of bare work in the same process: as many bare emulator steps (four frames, two screens, one resize), batch-1
forward passes and updates on one fixed batch. Bar: the loop reaches 0.90 of the bare speed, in fp32 and in bf16.

On a GPU (`--device cuda`) the bar is not judged: there the work around an update is no longer small beside it. Nothing
waits between a block's calls but what the agent itself waits for, since each ends in a transfer to the host.
"""

import argparse
import sys
import time
from collections.abc import Callable

import cv2
import numpy as np

from benchmarks.shared.warm_loop import GREEDY, warm_loop
from offpiste.agent.mixing import targets
from offpiste.config import AgentConfig, MachineConfig, RunConfig
from offpiste.run.loop import Loop
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.worlds.atari import start_emulator
from scripts import measured

MIN_RATIO = 0.90
BLOCK_STEPS = 40
WARM_STEPS = 6_000


def main() -> int:
    """Measure both precisions and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer blocks")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16"), action="append", help="default: both")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    options = measured.parse(parser)
    prepare(MachineConfig(device=options.device, threads=options.threads))
    blocks = 7 if options.quick else 20
    ratios = {}
    for precision in options.precision or ("fp32", "bf16"):
        run = greedy_run(precision, WARM_STEPS // 4 if options.quick else WARM_STEPS, options.device)
        loop = warm_loop(run, 2 * BLOCK_STEPS)
        bare = Bare(loop)
        steps = loop.steps()
        times: dict[str, list[float]] = {"loop": [], "emulator": [], "forward": [], "update": []}
        for _ in range(blocks):
            times["loop"].append(timed(steps.__next__, BLOCK_STEPS))
            times["emulator"].append(timed(bare.emulator_step, BLOCK_STEPS))
            times["forward"].append(timed(bare.forward, BLOCK_STEPS))
            times["update"].append(timed(bare.update, BLOCK_STEPS // loop.config.agent.update_period_steps))
        bare_times = np.sum([times["emulator"], times["forward"], times["update"]], axis=0)
        ratios[precision] = float(np.median(bare_times / np.array(times["loop"])))
        per_step = {name: 1e3 * float(np.median(values)) / BLOCK_STEPS for name, values in times.items()}
        print(
            f"{precision}, {options.device}, {options.threads} thread(s): {1e3 / per_step['loop']:.1f} agent steps/s; "
            f"ms per step: loop {per_step['loop']:.2f}; bare emulator {per_step['emulator']:.2f}, "
            f"forward {per_step['forward']:.2f}, update {per_step['update']:.2f} (a quarter of one)"
        )
    print("loop over bare: " + ", ".join(f"{precision} {ratio:.3f}" for precision, ratio in ratios.items()))
    if options.record:
        threads = "1_thread" if options.threads == 1 else f"{options.threads}_threads"
        figures = {f"ratio_{precision}_{threads}": ratio for precision, ratio in ratios.items()}
        measured.record("benchmarks.speed.throughput", figures)
    return 0 if min(ratios.values()) >= MIN_RATIO or options.device != "cpu" else 1


def greedy_run(precision: str, warm_steps: int, device: str) -> RunConfig:
    """Return a run that learns after so many steps and chooses every action by its network."""
    return RunConfig(
        game="montezuma_revenge",
        agent=AgentConfig(precision="bf16" if precision == "bf16" else "fp32", min_history_steps=warm_steps),
        exploration=GREEDY,
        machine=MachineConfig(device=device),
    )


class Bare:
    """The same work with nothing around it."""

    def __init__(self, loop: Loop) -> None:
        self._agent = loop.agent
        self._emulator = start_emulator("montezuma_revenge", seed=1)
        self._action = self._emulator.getMinimalActionSet()[3]
        height, width = self._emulator.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._batch = loop.replay.sample(loop.config.agent.batch_size)
        self._targets = targets(self._batch, loop.config.bonus, loop.config.agent.discount, loop.config.bonus.scale)
        self._state = stream(0, "state").integers(0, 255, (4, 84, 84), dtype=np.uint8)

    def emulator_step(self) -> None:
        """Four frames, two screens, their maximum, one resize."""
        for frame in range(4):
            self._emulator.act(self._action)
            if frame >= 2:
                self._emulator.getScreenGrayscale(self._screens[frame - 2])
        cv2.resize(self._screens.max(axis=0), (84, 84), interpolation=cv2.INTER_AREA)
        if self._emulator.game_over():
            self._emulator.reset_game()

    def forward(self) -> None:
        """One greedy action."""
        self._agent.greedy_action(self._state)

    def update(self) -> None:
        """One gradient step on the same batch as ever."""
        self._agent.learn(self._batch, self._targets)


def timed(work: Callable[[], object], times: int) -> float:
    """Return the seconds that so many calls take."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
