"""`offpiste check-bonus`: check that a bonus keeps the contract of `offpiste.Bonus`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import tyro

from offpiste.cli.bonus_options import set_options, take
from offpiste.cli.output import show_share
from offpiste.methods import choose
from offpiste.parsing import read_settings


@dataclass(frozen=True)
class Arguments:
    """Check a bonus and explain each failure: its values, its randomness, how it is saved and restored, whether it
    decreases with visits, what it costs. It observes 2,343 steps of Atari games, 700 of Four Rooms, where frames are
    small and recur within an episode, and 631 between frames of noise. Options are set as
    in training, by `--bonus.options.OPTION VALUE`. Exit code 0: all checks passed; 1: a check failed.
    """

    bonus: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BONUS")]
    """A class of yours as module:Class, or the name of a bonus."""
    options: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """TOML file with options of the bonus, one `name = value` per line; the others keep their defaults."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Observe a tenth of the Atari games, and do not restore it in a new process: enough while you write it."""
    counts: tyro.conf.FlagCreatePairsOff[bool] = False
    """Check nothing; show in a minute how far it follows true visit counts, along random episodes in Four Rooms."""
    taken: Annotated[dict[str, str], tyro.conf.Fixed, tyro.conf.Suppress] = field(default_factory=dict)
    """Options from the command line, which override the file."""


def defaults(argv: Sequence[str]) -> tuple[list[str], Arguments]:
    """Return the arguments left to parse, and defaults with the options of the bonus."""
    argv, taken = take(argv)
    return argv, Arguments(bonus=tyro.MISSING, taken=taken)


def main(arguments: Arguments) -> int:
    """Check the bonus and print the report."""
    from offpiste.bonuses.contract.check import check_bonus
    from offpiste.bonuses.registry import find

    kind = find(arguments.bonus)
    options = read_settings(arguments.options) if arguments.options else {}
    set_options(options, arguments.taken, arguments.bonus)
    if arguments.counts:
        print(_beside_counts(arguments.bonus, options))
        return 0
    hint = "" if arguments.quick else "; --quick takes a tenth of the Atari steps"
    print(f"checking {arguments.bonus}{hint}", file=sys.stderr, flush=True)
    report = check_bonus(
        kind,
        options,
        agent_step_milliseconds(),
        quick=arguments.quick,
        new_process=not arguments.quick,
        progress=show_share if sys.stderr.isatty() else None,
    )
    print(report)
    return 0 if report.passed else 1


def _beside_counts(bonus: str, options: Mapping[str, Any]) -> str:
    """Return how far a bonus follows true counts, with the constants of its method where there is one."""
    from offpiste.bonuses.contract.play import ROOMS
    from offpiste.bonuses.contract.true_counts import BLOCK_STEPS, STEPS, true_counts

    config = choose(bonus=bonus)[1].bonus_on(ROOMS)
    found = true_counts(replace(config, options={**config.options, **options}))
    return "\n".join(
        (
            f"{bonus} over {STEPS:,} random steps in Four Rooms",
            f"rank correlation with 1/√visits of the {found.pays_for.replace('_', ' ')}",
            f"  over the run         {found.lifelong:5.2f}",
            f"  within {BLOCK_STEPS} steps     {found.near_in_time:5.2f}",
            f"  within the episode   {found.episodic:5.2f}",
        )
    )


def agent_step_milliseconds() -> float:
    """Return the CPU time of one step of the default agent on one thread: an action, and its share of an update."""
    import time
    from collections.abc import Callable

    import numpy as np

    from offpiste.agent.mixing import targets
    from offpiste.agent.rainbow import Rainbow
    from offpiste.bonuses.contract.specimen import as_in_a_run
    from offpiste.config import RunConfig
    from offpiste.seeding import stream
    from offpiste.types import Batch
    from offpiste.worlds.base import MAX_ACTIONS

    config, draws = RunConfig(), stream(0, "check agent")
    size, steps = config.agent.batch_size, config.agent.return_steps
    stack, *frame_shape = config.world.state_shape
    agent = Rainbow(config.agent, config.world.state_shape, MAX_ACTIONS, stream(0, "weights"))
    batch = Batch(
        indices=np.arange(size),
        numbers=np.arange(size),
        priorities=np.ones(size),
        frames=draws.integers(256, size=(size, stack + steps, *frame_shape), dtype=np.uint8),
        actions=draws.integers(MAX_ACTIONS, size=(size, steps)),
        extrinsic=np.zeros((size, steps), np.float32),
        intrinsic=np.zeros((size, steps), np.float32),
        steps=np.full(size, steps),
        terminal=np.zeros(size, np.bool_),
    )
    wanted = targets(batch, config.bonus, config.agent.discount, factor=1.0)

    def median_milliseconds(work: Callable[[], object], times: int) -> float:
        taken = []
        for _ in range(times):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
        return 1e3 * float(np.median(taken))

    with as_in_a_run():
        update = median_milliseconds(lambda: agent.learn(batch, wanted), 7)
        act = median_milliseconds(lambda: agent.greedy_action(batch.frames[0, :stack]), 30)
    return act + update / config.agent.update_period_steps
