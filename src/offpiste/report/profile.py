"""The profile of a benchmark as panels, suite beside suite: scores, areas, and what happened in how many runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from offpiste.analysis.findings import Benchmark
from offpiste.analysis.names import label, title
from offpiste.analysis.scores import Cell, suites
from offpiste.analysis.small_worlds import LADDER
from offpiste.report.tables import Table, table_of


@dataclass(frozen=True)
class Panel:
    """The cells of one suite, by method."""

    heading: str
    games: tuple[str, ...]
    rows: tuple[tuple[str, str, bool, tuple[Cell | None, ...]], ...]
    """The method and what it is called, whether it is the first that only serves as a reference, and a cell for each
    game."""
    shows: str
    """score, area or outcome."""


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
        "first goal": lambda cell: cell.goal_frame,
        "learned": lambda cell: cell.learned,
        "kept": lambda cell: cell.kept,
        "found but avoided": lambda cell: cell.avoided,
    }
    return table_of("profile", found, columns)


_FILLS = {
    "kept": 'fill="var(--kept)"',
    "learned": 'fill="var(--learned)"',
    "avoided": 'fill="none" stroke="var(--kept)" stroke-width="2"',
    "never": 'fill="var(--line)"',
}
"""How the dot of a seed is drawn, by what happened in its run."""
_STEP, _ACROSS = 12, 5


def dots(cell: Cell) -> str:
    """Return a dot for each seed as SVG, those that got farthest first."""
    learned = max(0, cell.learned - cell.kept)
    never = max(0, cell.seeds - cell.kept - learned - cell.avoided)
    kinds = ["kept"] * cell.kept + ["learned"] * learned + ["avoided"] * cell.avoided + ["never"] * never
    rows = -(-len(kinds) // _ACROSS)
    circles = "".join(
        f'<circle cx="{_STEP * (index % _ACROSS) + 6}" cy="{_STEP * (index // _ACROSS) + 6}" r="4" {_FILLS[kind]}/>'
        for index, kind in enumerate(kinds)
    )
    return f'<svg viewBox="0 0 {_STEP * _ACROSS} {_STEP * rows}" aria-hidden="true">{circles}</svg>'


def dot(kind: str) -> str:
    """Return one such dot, for the key."""
    return f'<svg class="dot" viewBox="0 0 12 12" aria-hidden="true"><circle cx="6" cy="6" r="4" {_FILLS[kind]}/></svg>'


def _panel(found: Sequence[Cell], suite: str, games: tuple[str, ...], heading: str, shows: str) -> Panel:
    methods = list(dict.fromkeys(cell.method for cell in found))
    methods.sort(key=lambda method: method in LADDER)  # stable: references last
    by_method_and_game = {(cell.method, cell.game): cell for cell in found if cell.suite == suite}
    first = next((method for method in methods if method in LADDER), None)
    rows = [
        (method, label(method), method == first, tuple(by_method_and_game.get((method, game)) for game in games))
        for method in methods
    ]
    return Panel(heading, games, tuple(rows), shows)
