"""The profile of a benchmark: every method on every game as a cell, with score, area and what happened in its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpiste.analysis.comparisons import Contrast
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import Benchmark
from offpiste.analysis.stats import Array, Interval, mean_interval
from offpiste.analysis.summary import Summary
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
    """Whether it is shown to beat the baseline, corrected for the methods of its family on the game."""
    found: int
    """Runs whose training reached the goal."""
    goal_frame: float
    """Median of the frames until then; infinite where most never did."""
    learned: int
    kept: int
    avoided: int

    @property
    def happened(self) -> str:
        """What happened, as a phrase."""
        phrase = f"{self.found} found, {self.learned} learned, {self.kept} kept of {self.seeds}"
        return f"{phrase}; {self.avoided} found but avoided" if self.avoided else phrase


def cells(evidence: Evidence, benchmark: Benchmark, compared: Sequence[Contrast]) -> list[Cell]:
    """Return a cell for each method and game of a benchmark that have runs."""
    better = {(each.games[0], each.method) for each in compared if each.call == "better"}
    runs: dict[tuple[str, str], list[Summary]] = {}
    for run in evidence.together:
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
                        goal_frame=float(np.median([each.goal_frame for each in mine])),
                        learned=sum(each.learned for each in mine),
                        kept=sum(each.kept for each in mine),
                        avoided=sum(each.avoided for each in mine),
                    )
                )
    return found


def suites(benchmark: Benchmark) -> Mapping[str, tuple[str, ...]]:
    """Return the games of a benchmark by suite."""
    return {"tuned": (benchmark.tuned,), "hard": benchmark.hard, "easy": benchmark.easy}


def _interval(values: Array, name: str) -> Interval:
    return mean_interval(values, stream(0, f"report profile {name}"))
