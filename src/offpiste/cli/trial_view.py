"""The result of a trial as tables for a terminal, and what to be warned of."""

from collections.abc import Iterator, Sequence
from statistics import median

from offpiste.analysis.beta_curves import FIRST_K, LAST_K, BetaCurve
from offpiste.analysis.caveats import CLIPPED, Note
from offpiste.analysis.names import title
from offpiste.analysis.scores import Cell
from offpiste.analysis.small_worlds import BONUSES, ORACLE, SMALL_WORLDS


def lines(method: str, profile: Sequence[Cell], *, published: bool) -> Iterator[str]:
    """Yield a table of the method's score in each world, beside ε-greedy, the oracle and the published methods."""
    by_game: dict[str, dict[str, Cell]] = {}
    for cell in profile:
        by_game.setdefault(cell.game, {})[cell.method] = cell
    heads = ("ε-greedy", "oracle", "best", "median")
    yield f"{'':<14}{method:<22}" + "".join(f"{head:>10}" for head in heads)
    for game, row in by_game.items():
        if method not in row:
            continue
        mine = row[method]
        others = sorted(row[name].score for name in BONUSES if name in row and name != method)
        scores = (
            row[SMALL_WORLDS.baseline].score if SMALL_WORLDS.baseline in row else None,
            row[ORACLE].score if ORACLE in row else None,
            others[-1] if others else None,
            median(others) if others else None,
        )
        shown = f"{mine.score:z.2f} [{mine.interval.low:z.2f}, {mine.interval.high:z.2f}]"
        yield f"{title(game):<14}{shown:<22}{''.join(f'{_shown(score):>10}' for score in scores)}"
    yield "Random play scores 0, the optimal policy 1. Best and median are those of the"
    yield "published bonuses. Results in these worlds may not carry over to Atari."
    if not published:
        yield "No published results are installed, so the other columns are empty."


def beta_lines(curves: Sequence[BetaCurve], scales: Sequence[float]) -> Iterator[str]:
    """Yield a table of the method's score in each world over k, with the k that were chosen marked."""
    steps = range(FIRST_K, LAST_K + 1)
    middle = scales[-FIRST_K]
    yield f"Score over k, in half-decades of β around {middle:g} ({scales[0]:g} to {scales[-1]:g})"
    yield f"{'':<15}" + "".join(f"{k:>7} " for k in steps) + "   β = 0"
    for curve in curves:
        name = curve.title + (", area" if curve.measure == "area" else "")
        cells = "".join(_marked(curve, k) for k in steps)
        yield f"{name:<15}{cells}{_shown(curve.without):>8}"
    yield "[ ]: the world's own choice, by one or two seeds of each β; *: Deep Sea's."
    yield "In easy worlds it is the area under the training curve."


def _marked(curve: BetaCurve, k: int) -> str:
    mean = curve.means.get(k)
    shown = f"[{_shown(mean)}]" if curve.chosen.get("own") == k else f" {_shown(mean)} "
    return f"{shown}{'*' if curve.chosen.get('transferred') == k else ' '}".rjust(8)


def warnings(method: str, notes: Sequence[Note]) -> Iterator[str]:
    """Yield a line for each world in which the method's bonus is clipped too often."""
    for note in notes:
        game, _, whose = note.where.partition("/")
        if note.kind == CLIPPED and whose == method:
            yield f"warning: in {title(game)} the bonus is {note.message}"


def _shown(score: float | None) -> str:
    return "–" if score is None else f"{score:z.2f}"
