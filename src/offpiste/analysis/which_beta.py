"""Which β? Three scores for every method: with the constant chosen on Deep Sea, with one for all worlds, with its own.

All other constants of a bonus are fixed on Deep Sea. Settings are points of a grid; for a bonus k, in half-decades of
β. Seeds from 100 on choose, those below score. Every choice is that of `choice.best_first`, with scores from 0 for
random play to 1 for the best policy:

transferred  the point chosen on Deep Sea
one for all  for a world, the point with the largest mean over all other families of worlds, each smoothed by itself;
             a family counts once, its diagnostics do not count, and easy worlds count by area
own          the best of the two finalists of a first stage, over the runs of both stages
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from offpiste.analysis.choice import Point, best_first, smoothed
from offpiste.analysis.runs import Run
from offpiste.analysis.small_worlds import EASY, SMALL_WORLDS, TUNED
from offpiste.analysis.stats import Interval, proportion_interval
from offpiste.analysis.summary import LEARNED, Summary
from offpiste.worlds.scores import reference_scores

FIRST_CHOOSING_SEED = 100
STAGE_1_SEEDS, STAGE_2_SEEDS = (100, 101), (102, 103, 104)
FINALISTS = 2
BLANK, PASSIVE = "blank_tv", "noisy_tv_passive"
CONTROLS = (BLANK, PASSIVE)
"""Diagnostics outside the suite: Noisy TV without noise, and with noise that no action controls."""
_ROOMS = ("four_rooms", "noisy_tv", *CONTROLS)
FAMILIES = {world: "rooms" if world in _ROOMS else world for world in (*SMALL_WORLDS.games, *CONTROLS)}
"""By world; worlds on one map are one family."""
EPISODIC = ("oracle_episodic", "e3b", "ride")
"""Methods that only pay within an episode. Deep Sea never revisits, so a choice there says nothing about them."""
WITHOUT_BONUS = ("epsilon_greedy", "noisy_nets", "ez_greedy")
"""On Deep Sea they score 0 with any setting, so nothing is transferred from there; they have a default instead."""
DEFAULT: Point = (0, 0)
"""The setting of a method without a bonus that nobody chose."""

Runs = Mapping[int, tuple[float, float]]
"""By seed, normalised score and area under the training curve."""
Table = Mapping[str, Mapping[Point, Runs]]
"""The runs of one method, by world and point."""
Kind = Literal["transferred", "one for all", "own", "default"]
"""How a constant was chosen; "default" by nobody, for methods without a bonus."""
Key = tuple[str, str, str]
"""Method, and the fingerprints of protocol and method."""


@dataclass(frozen=True)
class Score:
    """What a method scores on a world with the constant that was chosen in one way."""

    point: Point
    runs: Runs
    """On the seeds that score."""

    @property
    def mean(self) -> float:
        """The mean score over seeds."""
        return float(np.mean([score for score, _ in self.runs.values()]))

    @property
    def area(self) -> float:
        """The mean area over seeds."""
        return float(np.mean([area for _, area in self.runs.values()]))

    @property
    def solved(self) -> int:
        """Seeds that come at least half way from random play to the best policy."""
        return sum(score >= LEARNED for score, _ in self.runs.values())

    @property
    def interval(self) -> Interval:
        """The exact interval of the probability that a run solves the world."""
        return proportion_interval(self.solved, len(self.runs))

    @property
    def verdict(self) -> str:
        """Whether the setting works at this budget, as far as the seeds show."""
        if self.interval.high < LEARNED:
            return "does not work at this budget"
        count = f"{self.solved} of {len(self.runs)} solved"
        return "works" if self.interval.low > LEARNED else f"uncertain, {count}"


def tables(summaries: Iterable[Summary], places: Mapping[Key, Point]) -> dict[str, dict[str, dict[Point, Runs]]]:
    """Return by method its finished runs at the points of its grid, whatever their names; others are left out."""
    return placed(summaries, lambda run: places.get((run.method, run.protocol, run.method_fingerprint)))


def placed(
    summaries: Iterable[Summary], place: Callable[[Run], Point | None]
) -> dict[str, dict[str, dict[Point, Runs]]]:
    """Return by method its finished runs that have a place on a grid; others are left out."""
    found: dict[str, dict[str, dict[Point, dict[int, tuple[float, float]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for summary in summaries:
        run = summary.run
        point = place(run)
        numbers = np.array([summary.evaluation, summary.area])
        if point is None or not run.complete or not np.isfinite(numbers).all():
            continue
        scale = reference_scores(run.game)
        score, area = ((numbers - scale.random) / scale.span).tolist()
        found[run.method][run.game][point].setdefault(run.seed, (score, area))
    return {method: {world: dict(runs) for world, runs in own.items()} for method, own in found.items()}


def finalists(points: Mapping[Point, Runs], seeds: Collection[int] = STAGE_1_SEEDS) -> tuple[Point, ...]:
    """Return the two best points of the first stage on a world, the best first."""
    chosen = _of_seeds(points, seeds)
    ranked = best_first(chosen, SMALL_WORLDS.tie, _itself(chosen))
    return tuple(point for point in ranked if chosen[point])[:FINALISTS]


def own(points: Mapping[Point, Runs]) -> Point | None:
    """Return the point chosen on a world itself, over all runs of the seeds that choose; None without any.

    Where a second stage was run, only its finalists can be chosen.
    """
    runs = _of_seeds(points)
    second = {point for point in points if set(points[point]) & set(STAGE_2_SEEDS)}
    allowed = second or {point for point, own_runs in runs.items() if own_runs}
    return next((point for point in best_first(runs, SMALL_WORLDS.tie, _itself(runs)) if point in allowed), None)


def transferred(table: Table) -> Point | None:
    """Return the point chosen on Deep Sea; None without any run there."""
    runs = _of_seeds(table.get(TUNED, {}))
    return next((point for point in best_first(runs, SMALL_WORLDS.tie, _itself(runs)) if runs[point]), None)


def one_for_all(table: Table, world: str = "", *, on_deep_sea: bool = True) -> Point | None:
    """Return the point that is best on all families but that of a world, or on all; None if worlds are missing.

    Only points that were tried on each of these worlds can be chosen. Some methods are not judged by Deep Sea.
    """
    judging = SMALL_WORLDS.games if on_deep_sea else SMALL_WORLDS.games[1:]
    worlds = [each for each in judging if FAMILIES[each] != FAMILIES.get(world)]
    families: dict[str, list[dict[Point, tuple[float, float]]]] = defaultdict(list)
    for each in worlds:
        found = smoothed(_of_seeds(table.get(each, {})))
        families[FAMILIES[each]].append(
            {point: (area if each in EASY else score, area) for point, (score, area) in found.items()}
        )
    common = set.intersection(*(set(found) for family in families.values() for found in family))
    means = {
        point: np.mean([np.mean([found[point] for found in family], axis=0) for family in families.values()], axis=0)
        for point in common
    }
    # Each mean stands for itself: it is smoothed already, so no point has a neighbour two steps apart.
    pairs = {point: [(float(score), float(area))] for point, (score, area) in means.items()}
    apart = {point: tuple(2 * step for step in point) for point in pairs}
    return next(iter(best_first(pairs, SMALL_WORLDS.tie, apart)), None)


def score(table: Table, world: str, point: Point | None, seeds: Collection[int]) -> Score | None:
    """Return what a setting scores on the seeds that were asked for; None where one of these runs is missing."""
    runs = {} if point is None else table.get(world, {}).get(point, {})
    if point is None or not seeds or not set(seeds) <= set(runs):
        return None
    return Score(point, {seed: runs[seed] for seed in sorted(seeds)})


def is_defined(method: str, world: str) -> bool:
    """Return whether a method can score on a world at all."""
    return not (method in EPISODIC and world == TUNED)


def choices(method: str, table: Table, world: str, published: Point | None = None) -> dict[Kind, Point | None]:
    """Return the points with which a method is scored on a world, by how each was chosen.

    `published` is the point of the constant that the first edition chose, which stays. On Deep Sea the own point is the
    transferred one; on a diagnostic there is no other.
    """
    if world in CONTROLS:
        return {"own": own(table.get(world, {}))}
    if method in WITHOUT_BONUS and world == TUNED:
        return {"default": DEFAULT}
    at_home = own(table.get(world, {}))
    for_all = one_for_all(table, world, on_deep_sea=method not in (*EPISODIC, *WITHOUT_BONUS))
    if method in WITHOUT_BONUS:
        return {"default": DEFAULT, "one for all": for_all, "own": at_home}
    carried = transferred(table) if published is None else published
    return {"transferred": carried, "one for all": for_all, "own": carried if world == TUNED else at_home}


def _of_seeds(
    points: Mapping[Point, Runs], seeds: Collection[int] | None = None
) -> dict[Point, list[tuple[float, float]]]:
    """Return the runs of each point on given seeds, or on all that choose."""
    return {
        point: [
            pair
            for seed, pair in sorted(runs.items())
            if (seed in seeds if seeds is not None else seed >= FIRST_CHOOSING_SEED)
        ]
        for point, runs in points.items()
    }


def _itself(points: Iterable[Point]) -> dict[Point, Point]:
    return {point: point for point in points}
