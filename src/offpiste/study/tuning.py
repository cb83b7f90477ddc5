"""The same chance for every bonus: fifteen settings in one small world, laid out by rule and chosen by rule.

The middle of the grid is the β at which the median bonus of random play comes to 0.03, and settings lie half a decade
apart. (The mean would be that of the first few frames: that of CTS is 554 there, and its median 0.36.) A bonus that
learns has five β and three learning rates, from its own default upwards, for a run here is a thousandth as long as one
on Atari; another has fifteen β. Where the best β is at an edge, the grid is moved once.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
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
"""Of the tuning; no result has them."""
RANDOM_STEPS = 1_000
TYPICAL_BONUS = 0.03
"""That β is to make of the bonus of random play."""
RATE = "learning_rate"
_HALF_DECADE = math.sqrt(10)
_SCALES_WITH_RATES, _SCALES_WITHOUT = 5, 15
_RATES = 3
_MOVED_BY = 2
"""Half-decades by which a grid is moved, where the best of it is at an edge."""


@dataclass(frozen=True)
class Grid:
    """The settings that are tried for a bonus."""

    scales: tuple[float, ...]
    rates: tuple[float, ...] = ()
    """Learning rates; none where the bonus has no such option."""

    @property
    def middle(self) -> float:
        """The β in the middle."""
        return self.scales[len(self.scales) // 2]

    def axes(self) -> dict[str, Any]:
        """Return the axes as a study has them."""
        axes: dict[str, Any] = {"beta": {"setting": "bonus.scale", "values": list(self.scales)}}
        if self.rates:
            axes["lr"] = {"setting": f"bonus.options.{RATE}", "values": list(self.rates)}
        return axes

    def moved(self, best: float) -> "Grid | None":
        """Return the settings to try beside these where the best β is the lowest or the highest, else None."""
        if best not in (self.scales[0], self.scales[-1]):
            return None
        sign = 1 if best == self.scales[-1] else -1
        added = (rounded(best * _HALF_DECADE ** (sign * step)) for step in range(1, _MOVED_BY + 1))
        return Grid(tuple(sorted(added)), self.rates)


def grid_of(bonus: str, options: Mapping[str, Any] | None = None) -> Grid:
    """Return the grid of a bonus, from what it pays in random play. Takes a few seconds, and loads torch."""
    from offpiste.bonuses.registry import options_of

    config = BonusConfig(name=bonus, options=dict(options or {}))
    default = getattr(options_of(config), RATE, None)
    middle = TYPICAL_BONUS / typical_bonus(config)
    if default is None:
        return Grid(half_decades(middle, _SCALES_WITHOUT))
    rates = tuple(rounded(default * _HALF_DECADE**step) for step in range(_RATES))
    return Grid(half_decades(middle, _SCALES_WITH_RATES), rates)


def typical_bonus(config: BonusConfig) -> float:
    """Return the median size of an unscaled bonus over the first steps of random play."""
    from offpiste.run.loop import build_bonus

    run = dataclasses.replace(base_run(GAME), bonus=config)
    world = open_world(GAME, run.world, stream(0, "tuning game"), 0)
    bonus = build_bonus(run, world, stream(0, "tuning bonus"))
    if bonus is None:
        raise ValueError("without a bonus there is nothing to tune")
    played = islice(play(world, random_policy(world, stream(0, "tuning actions"))), RANDOM_STEPS)
    return max(statistics.median(abs(bonus.observe(transition)) for transition in played), 1e-12)


def half_decades(middle: float, count: int) -> tuple[float, ...]:
    """Return so many values around a middle one, rising, each half a decade above the one before."""
    return tuple(rounded(middle * _HALF_DECADE ** (step - count // 2)) for step in range(count))


def rounded(value: float) -> float:
    """Return a value with two digits, so that it can name a run."""
    return float(f"{value:.1e}")


def best_setting(scores: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return the variant with the highest mean score over its seeds, and of equal ones that with the highest area.

    Scores are pairs of score and area by variant.
    """

    def means(variant: str) -> tuple[float, float]:
        score, area = (math.fsum(values) / len(values) for values in zip(*scores[variant], strict=True))
        return round(score, 6), area

    return max(scores, key=means)
