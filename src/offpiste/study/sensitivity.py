"""How a bonus under trial scores over β: seven half-decades in each of its worlds, by the first stage of *Which β?*.

On Deep Sea the tuning has tried most of them already. What a first stage chooses is a hint: a second stage, and scores
on other seeds, are for a study.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from offpiste.analysis.beta_curves import FIRST_K, BetaCurve, beta_curve
from offpiste.analysis.choice import Point
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.results import Results
from offpiste.analysis.runs import Run
from offpiste.analysis.small_worlds import EASY
from offpiste.analysis.summary import summarise
from offpiste.analysis.which_beta import DEFAULT, FIRST_CHOOSING_SEED, STAGE_1_SEEDS, Kind, own, placed
from offpiste.analysis.which_beta_progress import Count
from offpiste.study.cost import all_steps
from offpiste.study.plan import Study
from offpiste.study.trial import Trial
from offpiste.study.tuning import GAME, SEEDS, Grid
from offpiste.study.which_beta import SCALE, scales_around

Options = Mapping[str, Any]
_OPTION = "bonus.options."


def scales_of(grid: Grid) -> tuple[float, ...]:
    """Return the seven β around the middle of a grid."""
    return scales_around(grid.middle, grid.scales)


def studies_of(
    trial: Trial, scales: Sequence[float], options: Options, tuned: Collection[float]
) -> list[tuple[Study, dict[str, Any]]]:
    """Return the studies, each with the content of its file; `tuned` are the β that the tuning has on Deep Sea."""
    at_home = bool(tuned) and GAME in trial.games
    easy = [game for game in trial.games if game in EASY]
    hard = [game for game in trial.games if game not in EASY and not (at_home and game == GAME)]
    parts: dict[str, tuple[Sequence[str], Sequence[int], Sequence[float]]] = {
        "hard": (hard, STAGE_1_SEEDS, scales),
        "easy": (easy, STAGE_1_SEEDS[:1], scales),
        "tuned": ([GAME] * at_home, SEEDS, [scale for scale in scales if scale not in tuned]),
    }
    given = {"settings": {"bonus": {"options": dict(options)}}} if options else {}
    found = []
    for part, (games, seeds, values) in parts.items():
        if games and values:
            arm = given | {"grid": {"beta": {"setting": SCALE, "values": list(values)}}}
            found.append(trial.study(f"sensitivity-{part}", arm, games, seeds))
    return found


def tuned_scales(trial: Trial, results: Results, options: Options) -> set[float]:
    """Return the β that the tuning has run on Deep Sea with these options."""
    return {run.settings[SCALE] for run in results.runs if run.game == GAME and _is_tried(run, trial, options)}


def minutes(studies: Sequence[Study], steps_per_second: float, slots: int) -> float:
    """Return how long studies take with so many runs at once."""
    return sum(all_steps(run) for study in studies for run in study.runs) / steps_per_second / slots / 60.0


def curves_of(
    trial: Trial, results: Results, scales: Sequence[float], options: Options, transferred: float | None
) -> list[BetaCurve]:
    """Return what the bonus scores over k in each world of the trial, with the k that the world itself chose.

    `transferred` is the β that was chosen on Deep Sea, if there is one; there it is the world's own, too.
    """
    steps = {scale: (FIRST_K + index,) for index, scale in enumerate(scales)}

    def place(run: Run) -> Point | None:
        if run.method == BASELINE and not run.variant:
            return DEFAULT
        return steps.get(run.settings[SCALE]) if _is_tried(run, trial, options) else None

    found = placed(summarise(results), place)
    curves = []
    for world in trial.games:
        points = found.get(trial.method, {}).get(world, {})
        chosen: dict[Kind, Point | None] = {"transferred": steps.get(transferred) if transferred else None}
        chosen["own"] = chosen["transferred"] if world == GAME and transferred else own(points)
        runs = sum(len(of_point) for of_point in points.values())
        marks = {kind: point for kind, point in chosen.items() if point is not None}
        curves.append(beta_curve(world, points, found.get(BASELINE, {}), Count(runs, runs), marks))
    return curves


def _is_tried(run: Run, trial: Trial, options: Options) -> bool:
    own_options = {key.removeprefix(_OPTION): value for key, value in run.settings.items() if key.startswith(_OPTION)}
    return run.method == trial.method and run.seed >= FIRST_CHOOSING_SEED and own_options == dict(options)
