"""The profile of a benchmark: every method on every game, a cell each, suite beside suite; and what happened there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.analysis.findings import Benchmark
from offpiste.analysis.small_worlds import LADDER
from offpiste.analysis.stats import Array, Interval, mean_interval
from offpiste.analysis.summary import Summary
from offpiste.report.contrasts import Contrast
from offpiste.report.evidence import Evidence
from offpiste.report.look import label, title
from offpiste.report.tables import Table, table_of
from offpiste.seeding import stream


@dataclass(frozen=True)
class Cell:
    """One method on one game."""

    suite: str
    game: str
    method: str
    seeds: int
    score: float
    """Mean normalised score."""
    interval: Interval
    area: float
    """Mean normalised area under the training curve."""
    area_interval: Interval
    better: bool
    """Whether it is shown to beat the baseline, corrected for all methods on the game."""
    found: int
    """Runs whose training saw a reward."""
    first_reward: float
    """Median of the frames until then; infinite where most never did."""
    learned: int
    kept: int
    avoided: int

    @property
    def happened(self) -> str:
        """What happened, in words."""
        told = f"{self.found} found, {self.learned} learned, {self.kept} kept of {self.seeds}"
        return f"{told}; {self.avoided} found but avoided" if self.avoided else told


@dataclass(frozen=True)
class Panel:
    """The cells of one suite, by method."""

    heading: str
    games: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[Cell | None, ...]], ...]
    """What the method is called, whether it is the first that only serves as a reference, and a cell for each game."""
    shows: str
    """score, area or outcome."""


def cells(evidence: Evidence, benchmark: Benchmark, compared: Sequence[Contrast]) -> list[Cell]:
    """Return a cell for each method and game of a benchmark that have runs."""
    better = {(each.games[0], each.method) for each in compared if each.call == "better"}
    runs: dict[tuple[str, str], list[Summary]] = {}
    for run in evidence.runs:
        if evidence.counts(evidence.summaries[run.name]):
            runs.setdefault((run.game, run.method), []).append(evidence.summaries[run.name])
    found = []
    for suite, games in suites(benchmark).items():
        for game in games:
            for method in (method for method in evidence.methods if (game, method) in runs):
                mine = runs[game, method]
                score, area = evidence.normalised(game, method), evidence.normalised_areas(game, method)
                found.append(
                    Cell(
                        suite=suite,
                        game=game,
                        method=method,
                        seeds=len(mine),
                        score=float(score.mean()),
                        interval=_interval(score, f"{game} {method}"),
                        area=float(area.mean()),
                        area_interval=_interval(area, f"{game} {method} area"),
                        better=(game, method) in better,
                        found=sum(each.found for each in mine),
                        first_reward=float(np.median([each.first_reward_frame for each in mine])),
                        learned=sum(each.learned for each in mine),
                        kept=sum(each.kept for each in mine),
                        avoided=sum(each.avoided for each in mine),
                    )
                )
    return found


def suites(benchmark: Benchmark) -> Mapping[str, tuple[str, ...]]:
    """Return the games of a benchmark by suite."""
    return {"tuned": (benchmark.tuned,), "hard": benchmark.hard, "easy": benchmark.easy}


def panels(found: Sequence[Cell], benchmark: Benchmark) -> list[Panel]:
    """Return the profile: scores suite by suite, then the areas that count where exploration is easy."""
    by_suite = suites(benchmark)
    scores = [_panel(found, suite, games, suite, "score") for suite, games in by_suite.items()]
    return [*scores, _panel(found, "easy", by_suite["easy"], "easy: area under the training curve", "area")]


def outcomes(found: Sequence[Cell], benchmark: Benchmark) -> list[Panel]:
    """Return what happened in how many runs, suite by suite."""
    return [_panel(found, suite, games, suite, "outcome") for suite, games in suites(benchmark).items()]


def profile_table(found: Sequence[Cell]) -> Table:
    """Return the cells as a table, a row each."""
    columns: dict[str, Callable[[Cell], Any]] = {
        "suite": lambda cell: cell.suite,
        "world": lambda cell: title(cell.game),
        "method": lambda cell: label(cell.method),
        "seeds": lambda cell: cell.seeds,
        "score": lambda cell: cell.score,
        "interval": lambda cell: cell.interval,
        "beats ε-greedy": lambda cell: cell.better,
        "area": lambda cell: cell.area,
        "area, interval": lambda cell: cell.area_interval,
        "found": lambda cell: cell.found,
        "first reward": lambda cell: cell.first_reward,
        "learned": lambda cell: cell.learned,
        "kept": lambda cell: cell.kept,
        "found but avoided": lambda cell: cell.avoided,
    }
    return table_of("profile", found, columns)


def _panel(found: Sequence[Cell], suite: str, games: tuple[str, ...], heading: str, shows: str) -> Panel:
    methods = list(dict.fromkeys(cell.method for cell in found))
    methods.sort(key=lambda method: method in LADDER)  # stable: references last
    by_place = {(cell.method, cell.game): cell for cell in found if cell.suite == suite}
    first = next((method for method in methods if method in LADDER), None)
    rows = [
        (label(method), method == first, tuple(by_place.get((method, game)) for game in games)) for method in methods
    ]
    return Panel(heading, games, tuple(rows), shows)


def _interval(values: Array, name: str) -> Interval:
    return mean_interval(values, stream(0, f"report profile {name}"))
