"""Stores of many short runs, made from final scores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from offpiste.analysis.evidence import Evidence, gather
from offpiste.analysis.reference import Published, import_dopamine
from offpiste.analysis.results import load
from offpiste.methods import METHODS
from offpiste.store.storage import Folder
from offpiste.worlds.scores import reference_scores
from tests.analysis.small_store import SCHEDULE, config_of, write_run

Scores = Mapping[tuple[str, str], Sequence[float]]
"""Game and method -> the final score of each seed, from seed 0 on."""


def write_study(store: Folder, scores: Scores, **settings: Any) -> None:
    """Write a run of three iterations for each score; all iterations return it, so that it is the final score too."""
    for (game, method), finals in scores.items():
        for seed, final in enumerate(finals):
            known = METHODS.get(method)
            own = {"exploration": known.exploration, "bonus": known.bonus} if known else {}
            write_run(store, config_of(game, method, seed, **(own | settings)), [final] * 3)


def write_small_worlds(
    store: Folder, scores: Scores, *, returns: Mapping[tuple[str, str], float] | None = None, **settings: Any
) -> None:
    """Write a run of three iterations for each normalised score, which is its last evaluation.

    Training returns a normalised value too, 0 by default.
    """
    schedule = replace(SCHEDULE, evaluation_steps=50)
    for (world, method), evaluations in scores.items():
        scale = reference_scores(world)
        trained = scale.score_at((returns or {}).get((world, method), 0.0))
        for seed, score in enumerate(evaluations):
            config = config_of(world, method, seed, **({"schedule": schedule} | settings))
            write_run(store, config, [trained] * 3, evaluations=[scale.random, scale.random, scale.score_at(score)])


def evidence_of(store: Folder, **options: Any) -> Evidence:
    """Return what a report of a store is made from."""
    return gather(load(store), store.location, **options)


def import_curves(store: Folder, name: str, runs: Sequence[Sequence[float]]) -> Published:
    """Import curves as Dopamine would have written them: run after run, or by iteration for a name with _CNN."""
    assert store.local_path is not None
    points = [(iteration, value) for run in runs for iteration, value in enumerate(run)]
    if name.endswith("_CNN"):
        points.sort(key=lambda point: point[0])
    rows = ", ".join(f'{{"Agent": "Rainbow", "Iteration": {i}, "Value": {value}}}' for i, value in points)
    file = store.local_path.parent / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"[{rows}]")
    (published,) = import_dopamine([file], store)
    return published
