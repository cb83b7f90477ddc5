"""The tables of a report: made once, written as CSV with all digits and shown on the page with few."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.names import label, title, unused
from offpiste.analysis.reference import PUBLISHED_SCORES, PublishedScores
from offpiste.analysis.scores import DIFFERENCES, MethodScores, scores_on, seeds_needed, statistic_of, threshold_of
from offpiste.analysis.stats import Interval
from offpiste.report.look import file_name
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

SCORED_BY = {
    "final": "the mean training return of a seed’s last ten iterations",
    "evaluation": "the mean return of the evaluation after a seed’s last iteration",
}
"""What a score is, by its measure."""
_ROUNDING = 1e-12
"""Numbers below this are what rounding leaves of 0."""
_SCORE_ROUNDING = 0.0005
"""Scores below this likewise, where they are shown with three digits after the point."""


class Points(float):
    """A score in points: on the page one that is next to nothing is 0.00, without an exponent."""


@dataclass(frozen=True)
class Spread:
    """The scores of some seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        """Return them in one line, as CSV files have them."""
        return f"{shown(self.mean)} ({shown(self.low)} to {shown(self.high)}; {self.seeds})"


@dataclass(frozen=True)
class Table:
    """Rows under named columns; a cell is a text, a number, an interval, a spread, or None for nothing to say."""

    name: str
    """Of its CSV file."""
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    note: str = ""


def table_of(name: str, items: Iterable[Any], columns: Mapping[str, Callable[[Any], Any]], note: str = "") -> Table:
    """Return a table with a row per item, whose cells the columns' functions give."""
    return Table(name, tuple(columns), [tuple(cell(item) for cell in columns.values()) for item in items], note)


def to_csv(table: Table) -> str:
    """Return a table as CSV; an interval takes two columns."""
    two = [any(isinstance(row[index], Interval) for row in table.rows) for index in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = zip(table.columns, two, strict=True)
    writer.writerow(part for name, wide in names for part in ((f"{name}, low", f"{name}, high") if wide else (name,)))
    for row in table.rows:
        cells: list[Any] = []
        for cell, wide in zip(row, two, strict=True):
            if wide:
                cells += [cell.low, cell.high] if isinstance(cell, Interval) else ["", ""]
            else:
                cells.append("" if _is_nothing(cell) else cell)
        writer.writerow(cells)
    return out.getvalue()


def shown(value: Any, more: int = 0) -> str:
    """Return a cell as the page shows it, with so many digits more than usual."""
    if _is_nothing(value):
        return "–"
    if isinstance(value, Interval):
        return f"{shown(value.low, more)} to {shown(value.high, more)}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float | np.floating):
        if math.isinf(value):
            return "never" if value > 0 else "−∞"
        number = float(value)
        size = abs(number)
        if size < (_SCORE_ROUNDING if isinstance(value, Points) else _ROUNDING):
            number = size = 0.0
        digits = more + (0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 0.1 or size == 0 else 3)
        text = f"{number:,.{digits}f}" if size >= 0.001 or size == 0 else f"{number:.{1 + more}g}"
        return text.replace("-", "−")
    return str(value)


def more_digits(table: Table, index: int) -> int:
    """Return how many more digits than usual a column needs so that different numbers look different; 3 at most."""
    numbers = {row[index] for row in table.rows if isinstance(row[index], float | np.floating)}
    numbers = {number for number in numbers if math.isfinite(number)}
    return next((more for more in range(3) if len({shown(number, more) for number in numbers}) == len(numbers)), 3)


def is_numeric(table: Table, index: int) -> bool:
    """Whether a column holds numbers, or nothing yet, which stand to the right."""
    cells = [row[index] for row in table.rows if row[index] is not None]
    return not cells or any(isinstance(cell, int | float | np.number | Interval) for cell in cells)


def game_table(evidence: Evidence, game: str) -> Table:
    """Return the numbers of each method on one game."""
    threshold = threshold_of(game)
    columns: dict[str, Callable[[MethodScores], Any]] = {
        "method": lambda each: label(each.method),
        "seeds": lambda each: f"{each.scored} of {each.begun}",
        "mean": lambda each: each.mean,
        "median": lambda each: each.median,
        "min": lambda each: each.min,
        "max": lambda each: each.max,
        "normalised": lambda each: each.normalised,
        "area": lambda each: each.area,
        f"above {shown(threshold)}": lambda each: each.share_above,
        "exact interval": lambda each: each.share_interval,
        "first reward": lambda each: each.first_reward_frame,
        "rooms": lambda each: each.rooms,
        "cells": lambda each: each.cells,
    }
    scale = reference_scores(game)
    if not scale.known:
        del columns["normalised"]
    known = f" the score where random play is 0 and {scale.player} 1;" if scale.known else ""
    about = f"a tenth of the way from random play to {scale.player}" if scale.known else "no reference score is known"
    note = (
        f"Mean to max: final scores, each {SCORED_BY[evidence.measures.get(game, 'final')]}. The rest are "
        f"medians over seeds:{known} the area under the curve, as mean return of all iterations "
        " (the paper’s sample efficiency); frames until the first reward; rooms and cells found. "
        f"Above {shown(threshold)}: share of seeds that score more ({about})."
    )
    return table_of(file_name(game, evidence.part), scores_on(evidence, game), columns, note)


def score_table(evidence: Evidence) -> Table:
    """Return the final scores of each method on each game: mean, range and number of seeds."""

    def cell(game: str, method: str) -> Spread | None:
        scores = evidence.finals(game, method)
        if not scores.size:
            return None
        return Spread(Points(scores.mean()), Points(scores.min()), Points(scores.max()), scores.size)

    games = [game for game in evidence.games if evidence.scores.get(game)]
    tops = dict.fromkeys(scale.label for game in games if (scale := reference_scores(game)).known)
    columns: dict[str, Callable[[str], Any]] = {
        "game": title,
        "random": lambda game: Points(reference_scores(game).random) if reference_scores(game).known else None,
        " or ".join(tops) or "top": lambda game: reference_scores(game).top if reference_scores(game).known else None,
    }
    for method in evidence.methods:
        columns[unused(label(method), columns)] = lambda game, method=method: cell(game, method)  # type: ignore[misc]
    measured = {measure: [title(game) for game in games if evidence.measures[game] == measure] for measure in SCORED_BY}
    note = "Mean over seeds, in points; below it min to max, and the number of seeds."
    if measured["evaluation"]:
        note += f" A score is {SCORED_BY['evaluation']} on {', '.join(measured['evaluation'])}"
        note += f", and {SCORED_BY['final']} on the others." if measured["final"] else "."
    return table_of("final_scores", games, columns, note)


def published_table(evidence: Evidence) -> Table:
    """Return published final scores with their source and whether they are comparable."""
    against = evidence.why_not_comparable()
    columns: dict[str, Callable[[PublishedScores], Any]] = {
        "published": lambda each: each.name,
        "mark": lambda each: "comparable" if each.comparable and not against else "not comparable",
        "why": lambda each: against if each.comparable and against else each.why,
    }
    for game in [game for game in GAMES if game in evidence.games] or list(GAMES):
        columns[title(game)] = lambda each, game=game: each.scores.get(game)  # type: ignore[misc]
    columns["source"] = lambda each: each.source
    return table_of("published_scores", PUBLISHED_SCORES, columns)


def imports_table(evidence: Evidence) -> Table:
    """Return the published curves of the store with where they come from."""
    columns: dict[str, Callable[[Any], Any]] = {
        "series": lambda each: each.series,
        "game": lambda each: title(each.game),
        "runs": lambda each: len(each.returns),
        "iterations": lambda each: len(each.returns[0]),
        "mean of the last ten": lambda each: statistic_of(np.mean, each.curves()[1][:, -10:]),
        "file": lambda each: each.file,
        "sha256": lambda each: each.sha256,
        "fingerprint": lambda each: each.fingerprint,
    }
    return table_of("published_curves", evidence.records.published, columns)


def runs_table(evidence: Evidence) -> Table:
    """Return every run of the store."""
    columns: dict[str, Callable[[Any], Any]] = {
        "run": lambda each: each.run.name,
        **{name: lambda each, name=name: getattr(each.run, name) for name in ("game", "method", "variant", "seed")},  # type: ignore[misc]
        "frames": lambda each: each.run.frames,
        "target frames": lambda each: each.run.target_frames,
        "state": lambda each: each.run.state,
        "complete": lambda each: each.run.complete,
        "counted": lambda each: each.run.name in evidence.summaries and evidence.counts(each),
        "final score": lambda each: each.final,
        "area": lambda each: each.area,
        "evaluation": lambda each: each.evaluation,
        "first reward frame": lambda each: each.first_reward_frame,
        "rooms": lambda each: each.rooms,
        "cells": lambda each: each.cells,
        "protocol": lambda each: each.run.protocol,
        "method fingerprint": lambda each: each.run.method_fingerprint,
    }
    found = {name: summary for group in evidence.groups for name, summary in group.summaries.items()}
    return table_of("runs", (found[run.name] for run in evidence.records.runs), columns)


def seeds_needed_table(evidence: Evidence) -> Table:
    """Return how many seeds would show a given difference, judged by the spread of ε-greedy's scores."""
    games = [game for each in evidence.benchmarks for game in each.games if evidence.finals(game, BASELINE).size > 1]
    players = " or ".join(dict.fromkeys(reference_scores(game).player for game in games))
    needed = {game: seeds_needed(evidence, game) for game in games}
    columns: dict[str, Callable[[str], Any]] = {
        "game": title,
        "seeds here": lambda game: evidence.finals(game, BASELINE).size,
    }
    for difference in DIFFERENCES:
        columns[f"{difference:.0%} of the scale"] = lambda game, difference=difference: (
            needed[game][difference] or "over 2,000"
        )  # type: ignore[misc]
    note = (
        "Seeds with which one sign test at 5% sees such a difference in four studies of five, were a method’s scores "
        f"those of ε-greedy raised by it; the scale goes from random play to {players}. A rough guide: it takes "
        "the few scores here for the whole distribution."
    )
    return table_of("seeds_needed", games, columns, note)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
