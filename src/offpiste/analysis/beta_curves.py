"""How a bonus scores over β in a world, as plain data, for the figures of *Which β?* and of `offpiste try`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from offpiste.analysis.choice import Point
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.names import title
from offpiste.analysis.small_worlds import EASY
from offpiste.analysis.which_beta import DEFAULT, FIRST_CHOOSING_SEED, Kind, Runs, Table, score
from offpiste.analysis.which_beta_progress import Collected, Count, choosing, score_keys, scoring, settled

FIRST_K, LAST_K = -4, 2
"""The seven β of a bonus, in half-decades from β₀."""
Measure = Literal["score", "area"]


@dataclass(frozen=True)
class BetaCurve:
    """What a bonus scores in one world with each β, k half-decades from β₀."""

    title: str
    measure: Measure
    """Areas are for easy worlds, where every method comes to score 1."""
    values: Mapping[int, Sequence[float]]
    """The runs that choose, by k; 0 is random play and 1 the best policy."""
    runs: Count
    """How many of them are there."""
    without: float | None = None
    """The mean without a bonus, that is of β = 0: a line, and never a candidate."""
    chosen: Mapping[Kind, int] = field(default_factory=dict)
    """The k by how it was chosen, as far as that is settled."""

    @property
    def means(self) -> dict[int, float]:
        """The mean at each k that was tried."""
        return {k: float(np.mean(found)) for k, found in sorted(self.values.items()) if found}


@dataclass(frozen=True)
class ThreeScores:
    """What methods score in one world by how their constants were chosen; those whose runs are missing are left out."""

    title: str
    measure: Measure
    runs: Count
    """How many of them are there."""
    scores: Mapping[str, Mapping[Kind, float]]
    """By method."""


def measure_of(world: str) -> Measure:
    """Return the number of a run that tells methods apart in a world."""
    return "area" if world in EASY else "score"


def heading(world: str) -> str:
    """Return the name of a world without its size."""
    return title(world).rstrip(" 0123456789")


def beta_curve(
    world: str,
    points: Mapping[Point, Runs],
    baseline: Table,
    count: Count,
    chosen: Mapping[Kind, Point],
    name: str = "",
) -> BetaCurve:
    """Return the curve of a bonus in a world from its runs at each point and from those of ε-greedy."""
    measure = measure_of(world)
    which = 0 if measure == "score" else 1
    values = {
        k: tuple(pair[which] for seed, pair in sorted(runs.items()) if seed >= FIRST_CHOOSING_SEED)
        for (k, *_), runs in points.items()
    }
    default = [
        pair[which] for seed, pair in baseline.get(world, {}).get(DEFAULT, {}).items() if seed < FIRST_CHOOSING_SEED
    ]
    return BetaCurve(
        name or heading(world),
        measure,
        {k: found for k, found in values.items() if found},
        count,
        float(np.mean(default)) if default else None,
        {kind: point[0] for kind, point in chosen.items()},
    )


def curve_of(collected: Collected, method: str, world: str, name: str = "") -> BetaCurve:
    """Return the curve of a bonus of *Which β?* in a world, with the constants that its runs settle."""
    points = collected.table(method).get(world, {})
    chosen = settled(collected, method, world)
    return beta_curve(world, points, collected.table(BASELINE), choosing(collected, method, world), chosen, name)


def three_scores(collected: Collected, world: str, methods: Sequence[str], seeds: Collection[int]) -> ThreeScores:
    """Return the scores of methods in a world by how their constants were chosen, as far as all seeds are there."""
    keys = score_keys(methods, world)
    found: dict[str, dict[Kind, float]] = {}
    for method, points in ((method, settled(collected, method, world)) for method in methods):
        for kind, point in points.items():
            if (method, world, kind) in keys and (own := score(collected.table(method), world, point, seeds)):
                found.setdefault(method, {})[kind] = own.mean if measure_of(world) == "score" else own.area
    return ThreeScores(heading(world), measure_of(world), scoring(collected, keys, seeds), found)
