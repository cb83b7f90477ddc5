"""Runs of *Which β?* made from numbers: every stage of every method, as its studies would leave them."""

from collections.abc import Callable, Collection

from offpiste.analysis.choice import Point
from offpiste.analysis.small_worlds import EASY, TUNED
from offpiste.analysis.which_beta import (
    DEFAULT,
    STAGE_1_SEEDS,
    STAGE_2_SEEDS,
    WITHOUT_BONUS,
    choices,
    finalists,
)
from offpiste.analysis.which_beta_progress import Collected, worlds_of

BONUS_POINTS: tuple[Point, ...] = tuple((k,) for k in range(-4, 3))
ACTION_POINTS: tuple[Point, ...] = (DEFAULT, (-1, 0), (1, 0))
PUBLISHED: Point = (0,)
Truth = Callable[[str, str, Point], float]
"""The score of a method in a world with a setting; its area is the same."""
Runs = dict[str, dict[str, dict[Point, dict[int, tuple[float, float]]]]]


def collect(methods: Collection[str], truth: Truth, seeds: Collection[int], stages: int = 3) -> Collected:
    """Return the runs of the first stages: 1 tries all, 2 the finalists again, 3 scores what was chosen on `seeds`."""
    points = {method: ACTION_POINTS if method in WITHOUT_BONUS else BONUS_POINTS for method in methods}
    published = {method: DEFAULT if method in WITHOUT_BONUS else PUBLISHED for method in methods}
    found: Runs = {method: {world: {} for world in worlds_of(method)} for method in methods}

    def run(method: str, world: str, tried: Collection[Point], of: Collection[int]) -> None:
        for point in tried:
            value = truth(method, world, point)
            found[method][world].setdefault(point, {}).update(dict.fromkeys(of, (value, value)))

    for method in methods:
        for world in worlds_of(method):
            hard = world not in (TUNED, *EASY)
            if world != TUNED:
                run(method, world, points[method], STAGE_1_SEEDS if hard else STAGE_1_SEEDS[:1])
            elif method not in WITHOUT_BONUS:
                run(method, world, points[method], (*STAGE_1_SEEDS, *STAGE_2_SEEDS))
            if hard and stages > 1:
                run(method, world, finalists(found[method][world]), STAGE_2_SEEDS)
        for world in worlds_of(method) if stages > 2 else ():
            chosen = choices(method, found[method], world, published[method])
            run(method, world, [point for point in chosen.values() if point is not None], seeds)
    return Collected(found, points, published)


def without_a_run(collected: Collected, method: str, world: str, point: Point, seed: int) -> Collected:
    """Return the same with one run less."""
    tables = {name: {each: dict(own) for each, own in table.items()} for name, table in collected.tables.items()}
    tables[method][world][point] = {s: pair for s, pair in tables[method][world][point].items() if s != seed}
    return Collected(tables, collected.points, collected.published)
