"""The same tuning budget for every bonus: fifteen settings in one small world, by one rule for the grid.

The middle of the grid is the β that scales the typical intrinsic reward of random play to 0.03; settings are half a
decade apart. Typical is the median of what is not zero once the first steps are over, which would dominate a mean, and
a bonus learns from the replay meanwhile as in a run: on untrained features, E3B paid a fiftieth of what it pays later.
A bonus with a learning rate gets five β and three rates, from its default upwards, since a run here is a thousandth as
long as on Atari; any other gets fifteen β. If the best β is at an edge, the grid is extended there once.

The published constants are from grids by an earlier rule, in studies/small_worlds_tuning.toml: their middle scales to
0.03 the median of the first 1,000 steps, zeros included, without calls of `learn`.
"""

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from offpiste.config import BonusConfig, RunConfig
from offpiste.errors import ConfigError
from offpiste.methods import base_run

GAME = "deep_sea_12"
SEEDS = (100, 101, 102, 103, 104)
"""Seeds of the tuning, which no result uses."""
RANDOM_STEPS = 2_000
SKIPPED_STEPS = 500
"""Of the steps of random play, those at the start that do not count, after those of a bonus's own warm-up."""
MIN_PAID_SHARE = 0.1
"""Of the steps that count; a bonus that pays on fewer has no typical intrinsic reward."""
TYPICAL_INTRINSIC = 0.03
"""Median scaled intrinsic reward, where it is not zero, of random play at the middle of the grid."""
RATE = "learning_rate"
_HALF_DECADE = math.sqrt(10)
_SCALES_WITH_RATES, _SCALES_WITHOUT = 5, 15
_RATES = 3
_EXTENDED_BY = 2
"""Half-decades by which a grid is extended if its best β is at an edge."""


@dataclass(frozen=True)
class Grid:
    """The settings to try for a bonus."""

    scales: tuple[float, ...]
    """Values of β."""
    rates: tuple[float, ...] = ()
    """Learning rates; empty if the bonus has no such option."""

    @property
    def middle(self) -> float:
        """The β in the middle."""
        return self.scales[len(self.scales) // 2]

    def axes(self) -> dict[str, Any]:
        """Return the axes as in the file of a study."""
        axes: dict[str, Any] = {"beta": {"setting": "bonus.scale", "values": list(self.scales)}}
        if self.rates:
            axes["lr"] = {"setting": f"bonus.options.{RATE}", "values": list(self.rates)}
        return axes

    def extended(self, best: float) -> "Grid | None":
        """Return further settings to try if the best β is the min or max of these, else None."""
        if best not in (self.scales[0], self.scales[-1]):
            return None
        sign = 1 if best == self.scales[-1] else -1
        added = (rounded(best * _HALF_DECADE ** (sign * step)) for step in range(1, _EXTENDED_BY + 1))
        return Grid(tuple(sorted(added)), self.rates)


def grid_around(middle: float, rate: float | None) -> Grid:
    """Return the grid around a β, and from the default learning rate upwards where there is one."""
    if rate is None:
        return Grid(half_decades(middle, _SCALES_WITHOUT))
    rates = tuple(rounded(rate * _HALF_DECADE**step) for step in range(_RATES))
    return Grid(half_decades(middle, _SCALES_WITH_RATES), rates)


def calibrated(config: BonusConfig, base: RunConfig | None = None) -> float:
    """Return the β by which random play is typically paid 0.03, on Deep Sea or in the world of a run.

    Imports torch; takes seconds, or a minute.
    """
    return TYPICAL_INTRINSIC / typical_intrinsic(config, base)


def typical_intrinsic(config: BonusConfig, base: RunConfig | None = None) -> float:
    """Return the median absolute intrinsic reward of random play, of the steps on which there is any, before β.

    The run is one with ε = 1 and β = 0, which learns at the latest when steps begin to count; a `ConfigError` refuses a
    bonus that pays too seldom.
    """
    from offpiste.bonuses.base import warm_up_steps
    from offpiste.bonuses.registry import find
    from offpiste.run.loop import Loop
    from offpiste.run.process import prepare

    base = base or base_run(GAME)
    prepare(base.machine)
    exploration = replace(base.exploration, epsilon_start=1.0, epsilon_final=1.0)
    if config.name == "none" or hasattr(find(config.name), "learn"):
        agent = replace(base.agent, min_history_steps=min(base.agent.min_history_steps, SKIPPED_STEPS))
    else:
        agent = replace(base.agent, update_period_steps=10**9)  # random play itself needs no agent that learns
    run = replace(base, seed=SEEDS[0], exploration=exploration, agent=agent, bonus=replace(config, scale=0.0))
    loop = Loop(run)
    if loop.bonus is None:
        raise ValueError(f"the bonus to tune must not be {config.name!r}")
    added = []
    for count in (warm_up_steps(loop.bonus) + SKIPPED_STEPS, RANDOM_STEPS - SKIPPED_STEPS):
        for _ in islice(loop.steps(), count):
            pass
        added.append(loop.replay.added)
    intrinsic = loop.replay.intrinsic[slice(*added)]  # what is no step is 0 there
    paid = np.abs(intrinsic[intrinsic != 0.0])
    counted = RANDOM_STEPS - SKIPPED_STEPS
    if paid.size < MIN_PAID_SHARE * counted:
        raise ConfigError(
            f"to calibrate β, a bonus must pay on >= {MIN_PAID_SHARE:.0%} of the steps of random play, got {paid.size} "
            f"of {counted:,} with {config.name}; let it pay on more visits than the first, or choose β in a study of "
            "your own (docs/your-bonus.md, Tune it)"
        )
    return float(np.median(paid)) / (loop.intrinsic_scale.deviation or 1.0)


def half_decades(middle: float, count: int) -> tuple[float, ...]:
    """Return `count` ascending values around a middle one, half a decade apart."""
    return tuple(rounded(middle * _HALF_DECADE ** (step - count // 2)) for step in range(count))


def rounded(value: float) -> float:
    """Return a value rounded to two digits, short enough for the name of a run."""
    return float(f"{value:.1e}")
