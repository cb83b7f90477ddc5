"""A trial of a bonus: tune it in one small world, then run it in all of them.

A trial consists of ordinary studies in one store, so it may be killed at any time and resumed.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offpiste.analysis.choice import best_first
from offpiste.analysis.fairness import tuned_points, tuned_settings
from offpiste.analysis.results import Results, load
from offpiste.analysis.small_worlds import SMALL_WORLDS as BENCHMARK
from offpiste.analysis.summary import summarise
from offpiste.config import BonusConfig
from offpiste.errors import OffpisteError
from offpiste.methods import METHODS, SMALL_WORLDS, choose
from offpiste.study.plan import Study, make_study
from offpiste.study.tuning import GAME, RATE, SEEDS, Grid, calibrated, grid_around
from offpiste.worlds.registry import SUITES

QUICK_GAMES, QUICK_SEEDS = ("four_rooms",), 3
"""A hard world in which bonuses differ."""
WITH_RESULTS = SUITES["small_worlds"]
"""The worlds with published results; in others, ε-greedy runs beside the bonus."""


@dataclass(frozen=True)
class Trial:
    """A bonus, the games to run it in, and the number of seeds."""

    bonus: str
    """Name of a method or a bonus, or module:Class."""
    games: tuple[str, ...]
    seeds: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the bonus that are set, in tuning and result alike."""

    @property
    def method(self) -> str:
        """The method name of its runs."""
        return self.bonus if self.bonus in METHODS else choose(None, self.bonus)[0]

    @property
    def bonus_name(self) -> str:
        """The name or module:Class of the bonus itself."""
        return METHODS[self.bonus].bonus.name if self.bonus in METHODS else self.bonus

    @property
    def is_tuned(self) -> bool:
        """Whether its constants for small worlds were tuned and published, or there is no bonus to tune.

        Constants that merely stand in the table of methods may follow a rule or a guess.
        """
        row = METHODS.get(self.bonus)
        return row is not None and (self.bonus in BENCHMARK.published or row.bonus.name == "none")

    @property
    def start(self) -> BonusConfig:
        """The bonus before its tuning: with the options that are set, or as it stands in the table of methods."""
        row = METHODS.get(self.bonus)
        if row is None:
            return BonusConfig(name=self.bonus_name, options=dict(self.options))
        return row.constants.get(SMALL_WORLDS, row.bonus)

    def grid(self) -> Grid:
        """Return the settings to try, around the β of calibration. Imports torch; takes seconds."""
        from offpiste.bonuses.registry import options_of

        rate = getattr(options_of(BonusConfig(self.bonus_name, dict(self.options))), RATE, None)
        return grid_around(calibrated(self.start), rate)

    def tuning(self, grid: Grid) -> tuple[Study, dict[str, Any]]:
        """Return the study of every setting of a grid, and the content of its file."""
        arm = {"grid": grid.axes()}
        if self.options:
            arm["settings"] = {"bonus": {"options": dict(self.options)}}
        return self.study("tuning", arm, [GAME], SEEDS)

    def result(self, setting: dict[str, Any]) -> tuple[Study, dict[str, Any]]:
        """Return the study of all games with one setting, and the content of its file."""
        given = {"options": dict(self.options)} if self.options else {}
        arm = {"settings": {"bonus": given | setting}} if given | setting else {}
        others = [game for game in self.games if game not in WITH_RESULTS]
        baseline = (
            [{"name": BENCHMARK.baseline, "games": others}] if others and self.bonus != BENCHMARK.baseline else []
        )
        return self.study("result", arm, self.games, range(self.seeds), baseline)

    def study(
        self,
        part: str,
        arm: Mapping[str, Any],
        games: Sequence[str],
        seeds: Sequence[int],
        beside: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[Study, dict[str, Any]]:
        """Return a study of the bonus, and the content of its file; `arm` has what is set of it."""
        methods = [self._arm() | dict(arm), *map(dict, beside)]
        content = {"games": list(games), "methods": methods, "seeds": list(seeds), "keep": "results"}
        return make_study(f"try-{self.method}-{part}", content), content

    def _arm(self) -> dict[str, Any]:
        if self.bonus not in METHODS:
            return {"bonus": self.bonus}
        return {"name": self.bonus} if self.is_tuned else {"name": self.bonus, "bonus": self.bonus_name}


def tune(trial: Trial, grid: Grid, location: str, run: Callable[[Study, dict[str, Any]], None]) -> dict[str, Any]:
    """Return the best setting of a grid; if that is at an edge, extend the grid there once.

    `run` runs a study, given with the content of its file, until all its runs are done.
    """
    run(*trial.tuning(grid))
    setting = best_of(trial, load(location))
    if extension := grid.extended(setting["scale"]):
        run(*trial.tuning(extension))
        setting = best_of(trial, load(location))
    return setting


def best_of(trial: Trial, results: Results) -> dict[str, Any]:
    """Return the best setting of the bonus (`analysis/choice.py`) by the finished runs of the tuning."""
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    settings: dict[str, dict[str, Any]] = {}
    tuned: dict[str, dict[str, Any]] = {}
    for summary in summarise(results):
        run = summary.run
        if run.game == GAME and run.method == trial.method and run.variant and run.seed in SEEDS and run.complete:
            scores[run.variant].append((summary.evaluation, summary.area))
            settings[run.variant] = _setting(run.settings)
            tuned[run.variant] = tuned_settings(run)
    if not scores:
        where = ", ".join(results.stores)
        raise OffpisteError(f"no run of the tuning in {where} is finished; `offpiste study status` shows why")
    points = tuned_points(trial.method, GAME, tuned)
    return settings[best_first(scores, BENCHMARK.tie_on(GAME), points)[0]]


def _setting(settings: dict[str, Any]) -> dict[str, Any]:
    """Return scale and options of the bonus, from the flat settings of a run."""
    prefix = "bonus.options."
    options = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    return {"scale": settings["bonus.scale"], "options": options}
