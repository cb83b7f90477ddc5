"""Our own training loop as a worker of `peers`. Arguments: history steps, precision, threads."""

import sys
from itertools import islice

from benchmarks.shared.warm_loop import GREEDY
from benchmarks.speed.peer_workers.serving import serve
from offpiste.config import AgentConfig, MachineConfig, RunConfig
from offpiste.run.loop import Loop
from offpiste.run.process import prepare


def main() -> None:
    """Build the loop and serve."""
    history_steps = int(sys.argv[1])
    config = RunConfig(
        game="pong",
        agent=AgentConfig(
            precision="bf16" if sys.argv[2] == "bf16" else "fp32",
            replay_capacity=100_000,
            min_history_steps=history_steps,
        ),
        exploration=GREEDY,
        machine=MachineConfig(threads=int(sys.argv[3])),
    )
    prepare(config.machine)
    loop = Loop(config)
    steps = loop.steps()

    def play(count: int) -> None:
        for _ in islice(steps, count):
            pass

    def updates() -> int:
        row = loop.tracker.partial_iteration()
        return row.updates if row else 0

    serve(play, updates, history_steps)


if __name__ == "__main__":
    main()
