"""The same tuning budget for every bonus: fifteen settings in one small world, by one rule for the grid.

The middle of the grid is the β that scales the median intrinsic reward of a random policy to 0.03; settings are half a
decade apart. (The first few frames would dominate a mean: for CTS it is 554, and the median 0.36.) A bonus with a
learning rate gets five β and three rates, from its default upwards, since a run here is a thousandth as long as on
Atari; any other gets fifteen β. If the best β is at an edge, the grid is extended there once.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from offpiste.config import BonusConfig
from offpiste.methods import base_run
from offpiste.seeding import stream
from offpiste.worlds.play import play, random_policy
from offpiste.worlds.registry import open_world

GAME = "deep_sea_12"
SEEDS = (100, 101, 102, 103, 104)
"""Seeds of the tuning, which no result uses."""
RANDOM_STEPS = 1_000
TYPICAL_INTRINSIC = 0.03
"""Median scaled intrinsic reward of a random policy at the middle of the grid."""
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


def grid_of(bonus: str, options: Mapping[str, Any] | None = None) -> Grid:
    """Return the grid of a bonus, from its intrinsic rewards under a random policy. Imports torch; takes seconds."""
    from offpiste.bonuses.registry import options_of

    config = BonusConfig(name=bonus, options=dict(options or {}))
    default = getattr(options_of(config), RATE, None)
    middle = TYPICAL_INTRINSIC / typical_intrinsic(config)
    if default is None:
        return Grid(half_decades(middle, _SCALES_WITHOUT))
    rates = tuple(rounded(default * _HALF_DECADE**step) for step in range(_RATES))
    return Grid(half_decades(middle, _SCALES_WITH_RATES), rates)


def typical_intrinsic(config: BonusConfig) -> float:
    """Return the median absolute unscaled intrinsic reward over the first steps of a random policy."""
    from offpiste.run.parts import build_bonus

    run = dataclasses.replace(base_run(GAME), bonus=config)
    world = open_world(GAME, run.world, stream(0, "tuning game"), 0)
    bonus = build_bonus(run, world, stream(0, "tuning bonus"))
    if bonus is None:
        raise ValueError(f"the bonus to tune must not be {config.name!r}")
    played = islice(play(world, random_policy(world, stream(0, "tuning actions"))), RANDOM_STEPS)
    return max(statistics.median(abs(bonus.observe(transition)) for transition in played), 1e-12)


def half_decades(middle: float, count: int) -> tuple[float, ...]:
    """Return `count` ascending values around a middle one, half a decade apart."""
    return tuple(rounded(middle * _HALF_DECADE ** (step - count // 2)) for step in range(count))


def rounded(value: float) -> float:
    """Return a value rounded to two digits, short enough for the name of a run."""
    return float(f"{value:.1e}")
