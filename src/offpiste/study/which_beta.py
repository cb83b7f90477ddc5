"""The studies of *Which β?*: the first by rule, and each later one from the records of those before it.

The first stage tries seven settings of each method in each world: for a bonus the half-decades k = -4 … 2 of β around
the β₀ of its calibration; for a method without one as many points of two axes. The second runs the two finalists of
each world again, and the result runs what was chosen (`analysis/which_beta.py`) on seeds that chose nothing. What the
records have already is not run twice.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from offpiste.analysis.beta_curves import FIRST_K, LAST_K
from offpiste.analysis.choice import Point
from offpiste.analysis.small_worlds import BONUSES, EASY, HARD, LADDER, SMALL_WORLDS, TUNED
from offpiste.analysis.which_beta import (
    BLANK,
    CONTROLS,
    EPISODIC,
    FAMILIES,
    PASSIVE,
    STAGE_1_SEEDS,
    STAGE_2_SEEDS,
    Key,
    Table,
    choices,
    finalists,
)
from offpiste.analysis.which_beta_findings import ON_APPEARANCE, ON_INVERSE_DYNAMICS
from offpiste.config import RunConfig, fingerprint, method_settings, protocol_settings
from offpiste.methods import BY_RULE, METHODS, base_run
from offpiste.methods import SMALL_WORLDS as IN_SMALL_WORLDS
from offpiste.study.plan import Study, make_study
from offpiste.study.tuning import SEEDS as TUNING_SEEDS
from offpiste.study.tuning import grid_around, half_decades

SCALE = "bonus.scale"
ACTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "epsilon_greedy": {
        "exploration.epsilon_final": (0.032, 0.1, 0.32),
        "exploration.epsilon_decay_steps": (950, 3_000, 9_500),
    },
    "noisy_nets": {"exploration.noise_scale": (0.16, 0.5, 1.6), "agent.learning_rate": (9.5e-4, 3e-3, 9.5e-3)},
    "ez_greedy": {"exploration.epsilon_final": (0.032, 0.1, 0.32), "exploration.repeat_exponent": (1.5, 2.0, 3.0)},
}
"""Methods without a bonus: two settings, each with its default in the middle."""
ACTION_POINTS: tuple[Point, ...] = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1))
"""As many settings as a bonus has: the default, its neighbours, and two corners."""
PARTS = {
    "today": (*BONUSES, *LADDER, "oracle_left", "epsilon_greedy", "ez_greedy"),
    "noisy_nets": ("noisy_nets",),
    "zoo": tuple(name for name, row in METHODS.items() if row.source == BY_RULE),
}
"""Methods by part. A part has files and a store of its own: NoisyNets' step size belongs to the protocol, and a report
does not mix protocols."""
ALSO_ON_INVERSE_DYNAMICS = ("disagreement", "ride", "e3b_rnd")
ALSO_ON_APPEARANCE = ("cfn",)
"""Of those that no finding names."""

Grid = Mapping[Point, Mapping[str, Any]]
"""Settings by point, by dotted key."""
Grids = Mapping[str, Grid]
"""By method."""
Content = dict[str, Any]
"""The content of a study's file."""


def bonus_grid(scales: Sequence[float]) -> Grid:
    """Return the grid of a bonus with these ascending β."""
    if len(scales) != LAST_K - FIRST_K + 1:
        raise ValueError(f"a bonus must have {LAST_K - FIRST_K + 1} β, got {len(scales)}")
    return {(k,): {SCALE: scale} for k, scale in zip(range(FIRST_K, LAST_K + 1), scales, strict=True)}


def scales_around(middle: float, tried: Collection[float] = ()) -> tuple[float, ...]:
    """Return the β of k = -4 … 2 around β₀; where one of those tried is as near as rounding, that one."""
    found = half_decades(middle, 2 * -FIRST_K + 1)[: LAST_K - FIRST_K + 1]
    return tuple(next((old for old in tried if abs(old / new - 1) < 0.05), new) for new in found)


def action_grid(method: str) -> Grid:
    """Return the grid of a method without a bonus."""
    axes = ACTIONS[method]
    return {
        point: {key: values[step + 1] for (key, values), step in zip(axes.items(), point, strict=True)}
        for point in ACTION_POINTS
    }


def tried_scales(studies: Iterable[Study]) -> dict[str, tuple[float, tuple[float, ...]]]:
    """Return by method β₀ of the published tuning, and every β that it tried; the first study's grids are around β₀."""
    middles: dict[str, float] = {}
    tried: dict[str, set[float]] = defaultdict(set)
    for study in studies:
        for arm in study.arms:
            values = [float(value) for value in arm.grid["beta"]["values"]]
            middles.setdefault(arm.name, values[len(values) // 2])
            tried[arm.name] |= set(values)
    return {method: (middle, tuple(sorted(tried[method]))) for method, middle in middles.items()}


def grids_of(methods: Iterable[str], published: Iterable[Study], calibrate: Callable[[str], float]) -> dict[str, Grid]:
    """Return the grid of each method: around the published β₀ where there is one, else around that of `calibrate`."""
    tried = tried_scales(published)
    found: dict[str, Grid] = {}
    for method in methods:
        if method in ACTIONS:
            found[method] = action_grid(method)
        else:
            middle, values = tried[method] if method in tried else (calibrate(method), ())
            found[method] = bonus_grid(scales_around(middle, values))
    return found


def read_grids(study: Study) -> dict[str, Grid]:
    """Return the grids that a study of the first stage was written with."""
    scales: dict[str, set[float]] = defaultdict(set)
    for run in study.runs:
        scales[run.method].add(run.bonus.scale)
    return {
        method: action_grid(method) if method in ACTIONS else bonus_grid(sorted(found))
        for method, found in scales.items()
    }


def places_of(grids: Grids) -> dict[Key, Point]:
    """Return the point of every run that could be one of a grid, by method and fingerprints."""
    found = {}
    for method, grid in grids.items():
        for point in grid:
            for world in FAMILIES:
                found[key_of(config_of(world, method, grid, point))] = point
    return found


def config_of(world: str, method: str, grid: Grid, point: Point) -> RunConfig:
    """Return the run of a point on a world."""
    (run,) = make_study("point", {"games": [world], "methods": arms(method, grid, [point]), "seeds": [0]}).runs
    return run


def key_of(run: RunConfig) -> Key:
    """Return by what the records of a run are found."""
    return run.method, fingerprint(protocol_settings(run)), fingerprint(method_settings(run))


def keys_of(studies: Iterable[Study]) -> dict[str, set[Key]]:
    """Return by method what the runs of studies are found by."""
    found: dict[str, set[Key]] = defaultdict(set)
    for study in studies:
        for run in study.runs:
            found[run.method].add(key_of(run))
    return found


def arms(method: str, grid: Grid, points: Collection[Point], games: Sequence[str] = ()) -> list[Content]:
    """Return a method at some points of its grid as tables of a study's file."""
    where = {"games": list(games)} if games else {}
    if method not in ACTIONS:
        values = sorted(grid[point][SCALE] for point in points)
        return [{"name": method, **where, "grid": {"beta": {"setting": SCALE, "values": values}}}] if values else []
    return [{"name": method, **where, "settings": _nested(grid[point])} for point in sorted(points)]


def stage_1(grids: Grids, tuned: Mapping[str, Collection[Key]]) -> dict[str, Content]:
    """Return the studies of the first stage by name: hard worlds, easy ones, controls, and what Deep Sea lacks.

    `tuned` has by method what the published tuning has run on Deep Sea.
    """
    everything = [arm for method, grid in grids.items() for arm in arms(method, grid, list(grid))]
    tuning = [
        arm
        for method, grid in grids.items()
        if method not in (*ACTIONS, *EPISODIC)
        for arm in arms(
            method,
            grid,
            [p for p in grid if key_of(config_of(TUNED, method, grid, p)) not in tuned.get(method, ())],
        )
    ]
    beside = [
        arm
        for world, methods in (
            (BLANK, (*ON_APPEARANCE, *ALSO_ON_APPEARANCE)),
            (PASSIVE, (*ON_INVERSE_DYNAMICS, *ALSO_ON_INVERSE_DYNAMICS)),
        )
        for method in methods
        if method in grids
        for arm in arms(method, grids[method], list(grids[method]), [world])
    ]
    found = {
        "1_hard": {"games": list(HARD), "seeds": list(STAGE_1_SEEDS), "methods": everything},
        "1_easy": {"games": list(EASY), "seeds": list(STAGE_1_SEEDS[:1]), "methods": everything},
        "1_tuned": {"games": [TUNED], "seeds": list(TUNING_SEEDS), "methods": tuning},
        "1_controls": {"seeds": list(STAGE_1_SEEDS), "methods": beside},
    }
    return {name: content | {"keep": "results"} for name, content in found.items() if content["methods"]}


def tuning(rates: Mapping[str, float | None]) -> Content:
    """Return the study on Deep Sea of bonuses that nobody tuned, by their default learning rates: 15 settings each."""
    entries = [
        {"name": method, "grid": grid_around(METHODS[method].constants[IN_SMALL_WORLDS].scale, rate).axes()}
        for method, rate in rates.items()
        if method not in EPISODIC
    ]
    return {"games": [TUNED], "seeds": list(TUNING_SEEDS), "methods": entries, "keep": "results"}


def stage_2(grids: Grids, records: Mapping[str, Table]) -> Content:
    """Return the study of the second stage: the two finalists of each method on each hard world and control."""
    entries = []
    for method, grid in grids.items():
        for world in (*HARD, *CONTROLS):
            entries += arms(method, grid, finalists(records.get(method, {}).get(world, {})), [world])
    return {"seeds": list(STAGE_2_SEEDS), "methods": entries, "keep": "results"}


def result(
    grids: Grids, records: Mapping[str, Table], published: Mapping[str, Point], seeds: Collection[int]
) -> Content:
    """Return the study of what was chosen, on seeds that chose nothing, each setting once and without what is there."""
    entries = []
    for method, grid in grids.items():
        table = records.get(method, {})
        for world in (*SMALL_WORLDS.games, *CONTROLS):
            found = choices(method, table, world, published.get(method)).values()
            wanted = dict.fromkeys(point for point in found if point is not None)
            lacking = [point for point in wanted if not set(seeds) <= set(table.get(world, {}).get(point, {}))]
            own_constants = key_of(base_run(world, method))
            plain = [point for point in lacking if key_of(config_of(world, method, grid, point)) == own_constants]
            entries += [{"name": method, "games": [world]}] * len(plain)
            entries += arms(method, grid, [point for point in lacking if point not in plain], [world])
    return {"seeds": sorted(seeds), "methods": entries, "keep": "results"}


def unfinished(study: Study, grids: Grids, records: Mapping[str, Table]) -> list[str]:
    """Return the names of the runs of a study that the records lack."""
    places = places_of(grids)
    return [
        run.run_id
        for run in study.runs
        if run.seed not in records.get(run.method, {}).get(run.game, {}).get(places[key_of(run)], {})
    ]


def published_points(grids: Grids) -> dict[str, Point]:
    """Return the point of each method whose constant the first edition published."""
    places = places_of(grids)
    found = {method: places.get(key_of(base_run(HARD[0], method))) for method in SMALL_WORLDS.published}
    return {method: point for method, point in found.items() if point is not None}


def _nested(settings: Mapping[str, Any]) -> Content:
    found: Content = {}
    for dotted, value in settings.items():
        table, key = dotted.split(".")
        found.setdefault(table, {})[key] = value
    return found
