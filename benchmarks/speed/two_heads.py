"""What a second value head costs: the time of an agent with two heads over that of one with a single head.

Both train on Montezuma's Revenge with the paper's network, and in Four Rooms with that of the small worlds, in fp32 on
one thread, with a warm replay and every action chosen by the network. The bonus pays nothing and costs nothing, so that
heads alone differ; the second head's return continues over the ends of episodes, which costs most. Blocks of steps of
the two take turns, in an order that alternates, and a ratio is the median over pairs of neighbouring blocks. Times are
processor time, which other programs lengthen less than that by the clock.

Bar: at most 1.15 on both networks.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.shared.warm_loop import GREEDY, warm_loop
from offpiste.bonuses.base import Transition
from offpiste.config import BonusConfig, MachineConfig, RunConfig
from offpiste.methods import base_run
from offpiste.run.process import prepare
from scripts import measured

MAX_RATIO = 1.15
ONE = BonusConfig(name="stub", clip_sum=False)
TWO = replace(ONE, heads=2, ends_with_episode=False)
WARM_STEPS = 1_000
BLOCKS = {"montezuma_revenge": (20, 40, 10), "four_rooms": (200, 30, 10)}
"""Steps of a block, a multiple of the period of updates, and pairs of blocks; these with `--quick`."""


class Silent:
    """Pays nothing."""

    def observe(self, transition: Transition) -> float:  # noqa: ARG002
        """Return 0."""
        return 0.0

    def state(self) -> dict[str, Any]:
        """Return nothing: this is never saved."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def main() -> int:
    """Measure, and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the blocks")
    options = measured.parse(parser)
    prepare(MachineConfig())
    figures: dict[str, float] = {}
    for game, (steps, pairs, few) in BLOCKS.items():
        one, two = (agent_steps(game, bonus, steps) for bonus in (ONE, TWO))
        seconds = paired(one, two, few if options.quick else pairs)
        ratios = seconds[:, 1] / seconds[:, 0]
        low, high = np.quantile(ratios, (0.25, 0.75))
        figures[f"{game}_ratio"] = float(np.median(ratios))
        figures[f"{game}_milliseconds"] = 1e3 * float(np.median(seconds[:, 0])) / steps
        print(
            f"{game}: {figures[f'{game}_milliseconds']:.3f} ms per step with one head; two over one "
            f"{figures[f'{game}_ratio']:.3f}, half of the pairs within {low:.3f} to {high:.3f}",
            flush=True,
        )
    if options.record:
        measured.record("benchmarks.speed.two_heads", figures)
    ratio = max(figures[f"{game}_ratio"] for game in BLOCKS)
    print(f"two heads take {ratio:.3f} of the time of one, at most {MAX_RATIO} wanted")
    return 0 if ratio <= MAX_RATIO else 1


def agent_steps(game: str, bonus: BonusConfig, steps: int) -> Callable[[], float]:
    """Return a function that takes a block of steps of a run that learns, and returns its processor time."""
    base = base_run(game)
    agent = replace(base.agent, min_history_steps=min(base.agent.min_history_steps, WARM_STEPS))
    config: RunConfig = replace(base, agent=agent, exploration=GREEDY, bonus=bonus)
    taken = warm_loop(config, steps, Silent()).steps()

    def block() -> float:
        start = time.process_time()
        for _ in range(steps):
            next(taken)
        return time.process_time() - start

    return block


def paired(one: Callable[[], float], two: Callable[[], float], pairs: int) -> "np.typing.NDArray[np.float64]":
    """Return the seconds [pairs, 2] of blocks of each in turn; which comes first alternates."""
    seconds = np.zeros((pairs, 2))
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            seconds[pair, which] = (one, two)[which]()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
