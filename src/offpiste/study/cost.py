"""The cost of a run: memory, bytes written and kept, and time at a given or measured rate.

Network sizes are counted; bytes per frame, the process itself and CTS, which grows, are measured
(benchmarks/speed/replay_memory.py and bonus_cost.py, benchmarks/faults/preemption.py). The figures serve to reserve
resources, so they round up.
"""

import dataclasses
import time

from offpiste.config import RunConfig, value_network
from offpiste.methods import METHODS
from offpiste.store.layout import MILESTONES
from offpiste.worlds.base import MAX_ACTIONS
from offpiste.worlds.registry import find

MEASURE_SECONDS = 10.0
MEASURE_WARM_STEPS = 400

_ENTRY_BYTES = 400  # a replay entry with its compressed frame, typically
_RESERVED_ENTRY_BYTES = 1_300  # the same in memory while a checkpoint is restored, when there are several copies
_LEAF_BYTES = 8  # its priority in a checkpoint
_PROCESS_GB = 0.9  # Python, torch, numba and Ray's worker
_RECORD_BYTES = 1_500_000  # tables of 200 iterations


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one run needs and keeps."""

    memory_gb: float
    written_mb_per_second: float
    """While it trains."""
    kept_gb: float
    run_days: float | None
    """At the given rate; None without one."""


def cost(config: RunConfig, keep: str, steps_per_second: float | None = None) -> Cost:
    """Return the cost of one run; `keep` is that of its study."""
    steps = config.frames // config.world.frame_skip
    weights = 4e-6 * parameters(config)
    bonus = bonus_mb(config.bonus.name, config.game)
    capacity = config.agent.replay_capacity
    checkpoint = 4 * weights + bonus + 1e-6 * _LEAF_BYTES * capacity
    new_frames = 1e-6 * _ENTRY_BYTES * (steps_per_second or 0.0)
    iterations = steps // config.schedule.iteration_steps
    milestones = sum(1 for number in MILESTONES if number <= iterations)
    kept = (1 + milestones) * (weights + bonus) + 1e-6 * _RECORD_BYTES * iterations / 200
    if keep == "all":
        kept += 2 * checkpoint - weights - bonus + 1e-6 * _ENTRY_BYTES * min(steps, capacity)
    return Cost(
        memory_gb=_PROCESS_GB + 1e-9 * _RESERVED_ENTRY_BYTES * capacity + 1e-3 * (6 * weights + 2 * bonus),
        written_mb_per_second=checkpoint / (60 * config.machine.checkpoint_minutes) + new_frames,
        kept_gb=1e-3 * kept,
        run_days=all_steps(config) / steps_per_second / 86_400 if steps_per_second else None,
    )


def bonus_mb(bonus: str, game: str) -> float:
    """Return the megabytes of a bonus in a checkpoint; a bonus that is not built in counts as the largest that is."""
    worlds = find(game).constants
    by_name = {row.bonus.name: row.checkpoint_mb for row in METHODS.values() if row.bonus_class}
    sizes = {"none": 0.0} | {name: mb.get(worlds, mb["atari"]) for name, mb in by_name.items()}
    return sizes.get(bonus, max(sizes.values()))


def all_steps(config: RunConfig) -> float:
    """Return the agent steps of a run, including evaluation."""
    training = config.frames / config.world.frame_skip
    evaluations = config.bonus.heads  # a second one by the extrinsic head alone
    return training * (1 + evaluations * config.schedule.evaluation_steps / config.schedule.iteration_steps)


def parameters(config: RunConfig) -> int:
    """Return the number of parameters of the value network, for the full action set."""
    agent = config.agent
    convolutions, features = value_network(agent, config.world.state_shape)
    count = sum(each.outputs * (each.inputs * each.kernel**2 + 1) for each in convolutions)
    outputs = config.bonus.heads * MAX_ACTIONS * agent.value_atoms
    connected = agent.hidden_units * (features + 1) + outputs * (agent.hidden_units + 1)
    return count + connected * (2 if config.exploration.noisy else 1)


def measure(config: RunConfig, seconds: float = MEASURE_SECONDS) -> float:
    """Return the agent steps per second of this run on this machine while it learns, measured over so many seconds.

    The replay is nearly empty, which changes the rate by a few percent at most. Warming up takes a little longer.
    """
    from offpiste.run.loop import Loop
    from offpiste.run.process import prepare

    agent = dataclasses.replace(config.agent, min_history_steps=min(config.agent.min_history_steps, MEASURE_WARM_STEPS))
    exploration = dataclasses.replace(config.exploration, epsilon_decay_steps=1)
    prepare(config.machine)
    loop = Loop(dataclasses.replace(config, agent=agent, exploration=exploration))
    steps = loop.steps()
    while not loop.learning:
        next(steps)
    for _ in range(2 * agent.update_period_steps):
        next(steps)  # the first updates compile and allocate
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        next(steps)
        done += 1
    return done / (time.perf_counter() - start)
