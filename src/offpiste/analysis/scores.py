"""What each method scores on a game and what happened in its runs there, and how many seeds would show a difference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.analysis import stats
from offpiste.analysis.comparisons import Contrast
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import BASELINE, Benchmark
from offpiste.analysis.stats import Array, Interval, mean_interval
from offpiste.analysis.summary import Summary
from offpiste.seeding import stream
from offpiste.worlds.scores import reference_scores

THRESHOLD_SHARE = 0.1
"""The threshold that a score is asked to pass, as a share of the way from random play to a human or the best policy."""
DIFFERENCES = (0.05, 0.1, 0.25, 0.5)
"""Normalised differences for which the number of seeds is computed."""


@dataclass(frozen=True)
class MethodScores:
    """One method on one game; None where there is no number."""

    method: str
    begun: int
    """Seeds with a run."""
    scored: int
    """Seeds with a score."""
    mean: float | None
    median: float | None
    min: float | None
    max: float | None
    normalised: float | None
    """Median; random play is 0, a human or the best policy 1."""
    area: float | None
    """Median of the mean training return of all iterations."""
    share_above: float | None
    """Of the seeds, that score above the threshold."""
    share_interval: Interval | None
    first_reward_frame: float | None
    """Median."""
    rooms: float | None
    cells: float | None


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


def scores_on(evidence: Evidence, game: str) -> list[MethodScores]:
    """Return the numbers of each method that has runs on a game."""
    found = []
    for method in evidence.methods:
        begun = [each for each in evidence.summaries.values() if (each.run.game, each.run.arm) == (game, method)]
        if not begun:
            continue
        counted = [each for each in begun if evidence.counts(each)]
        scores = evidence.finals(game, method)
        share, interval = stats.above(scores, threshold_of(game)) if scores.size else (None, None)
        medians = {
            name: statistic_of(np.median, [getattr(each, name) for each in counted])
            for name in ("area", "first_reward_frame", "rooms", "cells")
        }
        found.append(
            MethodScores(
                method=method,
                begun=len(begun),
                scored=scores.size,
                mean=statistic_of(np.mean, scores),
                median=statistic_of(np.median, scores),
                min=statistic_of(np.min, scores),
                max=statistic_of(np.max, scores),
                normalised=statistic_of(np.median, evidence.normalised(game, method)),
                share_above=share,
                share_interval=interval,
                **medians,
            )
        )
    return found


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


def mean_interval_of(evidence: Evidence, game: str, method: str) -> Interval | None:
    """Return the 95% interval of the mean score of a method on a game, in points.

    None where no policy is known to be the best, for then nothing bounds a score that was not seen.
    """
    scale, scores = reference_scores(game), evidence.normalised(game, method)
    if "best" not in scale.player or not scores.size:
        return None
    found = _interval(scores, f"{game} {method}")
    return Interval(scale.score_at(found.low), scale.score_at(found.high))


def suites(benchmark: Benchmark) -> Mapping[str, tuple[str, ...]]:
    """Return the games of a benchmark by suite."""
    return {"tuned": (benchmark.tuned,), "hard": benchmark.hard, "easy": benchmark.easy}


def seeds_needed(evidence: Evidence, game: str) -> dict[float, int | None]:
    """Return, by normalised difference, how many seeds would show it, judged by the spread of ε-greedy's scores.

    None where 2,000 would not suffice.
    """
    scores = evidence.normalised(game, BASELINE)
    return {difference: stats.seeds_needed(stats.improvement_after(scores, difference)) for difference in DIFFERENCES}


def threshold_of(game: str) -> float:
    """Return the score that counts as having found something."""
    scale = reference_scores(game)
    return scale.score_at(THRESHOLD_SHARE) if scale.known else 0.0


def statistic_of(statistic: Callable[[Any], Any], values: Any) -> float | None:
    """Return a statistic of the numbers among values, or None where there is none."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[~np.isnan(numbers)]
    return float(statistic(numbers)) if numbers.size else None


def _interval(values: Array, name: str) -> Interval:
    return mean_interval(values, stream(0, f"report profile {name}"))
