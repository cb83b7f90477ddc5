"""The drawings of a report that show curves: small multiples of each game, and the paper's figures by name."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from offpiste.analysis.curves import Curves, Thinned
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.names import label, title
from offpiste.analysis.paper import HARD, MONTEZUMA
from offpiste.analysis.reference import Published
from offpiste.analysis.stats import Array
from offpiste.report.look import MUTED, Look, file_name, looks, series_look
from offpiste.report.panels import Axis, Band, Dots, Drawing, Line, Mark, Panel, frames_axis, number, numbers
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import ReferenceScores, reference_scores

FOUR_GAMES = (MONTEZUMA, "gravitar", "private_eye", "venture")
"""Of the paper's four-game panel our sources only say that there is one; these are Montezuma and three hard games."""
PAPER_FIGURES = {
    "montezuma_comparison": ("The methods on Montezuma’s Revenge", (MONTEZUMA,)),
    "four_games": ("Montezuma’s Revenge beside three other hard games", FOUR_GAMES),
    "hard_games": ("The other hard games", HARD),
    "training_set": ("The training games, where exploration is not the difficulty", SUITES["training"]),
}
"""Title and games of the paper's figures, by name."""
TITLES = {name: heading for name, (heading, _) in PAPER_FIGURES.items()}
MAX_SEEDS = 30
"""Thin lines in one panel; more hide each other."""
_SEED_POINTS, _MEAN_POINTS, _HOVERED = 60, 120, 10
"""Points of a thin line and of a mean, and of a mean those that say their numbers."""
_BAND = "Lines are means over seeds; bands are 95% bootstrap intervals of the mean and only describe."


def game_figure(evidence: Evidence, game: str) -> Drawing:
    """Return a game's training returns: a panel for each method and each published series, on one scale of returns."""
    name = file_name(game, evidence.part)
    scale = reference_scores(game)
    found = {method: curves for (each, method), curves in evidence.curves.items() if each == game and _known(curves)}
    published = evidence.published(game)
    thinned = [left for curves in found.values() for left in curves.thinned.values()]
    values = [*(curves.values for curves in found.values()), *(each.curves()[1] for each in published)]
    values += [np.array([value for _, value in left.rewarded]) for left in thinned]
    y = returns_axis(values, scale)
    drawn = multiples(found, y, evidence.methods)
    drawn += [_published_panel(each, y) for each in published]
    sentences = ["Training return over frames, a panel for each method."]
    if any(len(curves.runs) > 1 for curves in found.values()):
        sentences.append(f"Thin lines are seeds. {_BAND}")
    if BASELINE in found and len(found) > 1:
        sentences.append(f"Grey in every panel: the mean of {label(BASELINE)}.")
    if scale.known:
        sentences.append(f"Random play scores {number(scale.random)}, {scale.player} {number(scale.top)}.")
    if any(curves.windows for curves in found.values()):
        sentences.append("Runs of few iterations are drawn by windows of some thousand steps.")
    if thinned:
        sentences.append(left_of(thinned))
    if published:
        sentences.append("Published series stand over their own frames, each by itself.")
        unjoined = [each.series for each in published if not each.runs_joined]
        if unjoined:
            sentences.append(f"The files of {', '.join(unjoined)} do not say which values belong to one run.")
    return Drawing(name, title(game), " ".join(sentences), tuple(drawn))


def cells_figure(evidence: Evidence, game: str) -> Drawing | None:
    """Return the cells that runs on a game have found over frames, likewise; None where none is counted."""
    found = {method: curves for (each, method), curves in evidence.cells.items() if each == game and _known(curves)}
    if not found:
        return None
    top = max(float(np.nanmax(curves.values)) for curves in found.values())
    y = Axis(0.0, max(1.0, top), ((0.0, "0"), (top, number(top))), lines=True)
    caption = (
        "Cells visited so far in training, over frames: how much of the game was seen, whatever it paid. "
        f"Thin lines are seeds. {_BAND}"
    )
    name = f"{file_name(game, evidence.part)}_cells"
    return Drawing(name, f"{title(game)}: cells found", caption, tuple(multiples(found, y, evidence.methods)))


def multiples(found: dict[str, Curves], y: Axis, methods: Sequence[str]) -> list[Panel]:
    """Return a panel for each method: its seeds as thin lines, mean and band, and the mean of ε-greedy in grey."""
    last = max((float(curves.frames[-1]) for curves in found.values()), default=1.0)
    ghost = [mean_line(found[BASELINE], MUTED, opacity=0.45)] if BASELINE in found else []
    drawn = looks(methods)
    panels = []
    for method in (method for method in methods if method in found):
        curves, look = found[method], drawn[method]
        marks = [*(ghost if method != BASELINE else []), *seed_lines(curves, look), *mean_marks(curves, look)]
        for left in (left for left in curves.thinned.values() if left.rewarded):
            frames, returns = zip(*left.rewarded, strict=True)
            marks.append(Dots(frames, returns, look.colour, [f"an episode of {value:g}" for value in returns]))
        note = f"n={len(curves.runs)}"
        panels.append(Panel(look.label, tuple(marks), frames_axis(last), y, method=method, note=note))
    return [replace(panels[0], width=360.0, height=200.0)] if len(panels) == 1 else panels


def mean_marks(curves: Curves, look: Look) -> list[Mark]:
    """Return the mean of seeds with its band, and points that say their numbers."""
    low, high = curves.interval()
    frames, mean = curves.frames, curves.mean
    kept = _kept(frames.size, _MEAN_POINTS)
    said = kept[_kept(kept.size, _HOVERED)]
    said = said[np.isfinite(mean[said])]
    known = np.isfinite(low[kept]) & np.isfinite(high[kept])
    titles = [_said(look.label, frames[at], mean[at], low[at], high[at]) for at in said]
    marks: list[Mark] = []
    if known.any():
        marks.append(Band(frames[kept][known], low[kept][known], high[kept][known], look.colour))
    marks.append(Line(frames[kept], mean[kept], look.colour, look.dashes, title=look.label))
    return [*marks, Dots(frames[said], mean[said], look.colour, titles, radius=2.2, opacity=1.0)]


def mean_line(curves: Curves, colour: str, opacity: float = 1.0) -> Line:
    """Return the mean of seeds alone."""
    kept = _kept(curves.frames.size, _MEAN_POINTS)
    return Line(curves.frames[kept], curves.mean[kept], colour, opacity=opacity, width=2.2, title=label(BASELINE))


def seed_lines(curves: Curves, look: Look) -> Iterator[Mark]:
    """Yield each seed as a thin line, unless they are too many or there is only one."""
    if 1 < len(curves.runs) <= MAX_SEEDS:
        kept = _kept(curves.frames.size, _SEED_POINTS)
        for run, values in zip(curves.runs, curves.values[:, kept], strict=True):
            yield Line(curves.frames[kept], values, look.colour, width=0.8, opacity=0.4, title=f"seed {run.seed}")


def returns_axis(values: Sequence[Array], scale: ReferenceScores) -> Axis:
    """Return an axis from random play to the best policy, or to the highest return where that is far below it."""
    known = np.concatenate([each[np.isfinite(each)] for each in values] or [np.zeros(0)])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    random = scale.random if scale.known else min(low, 0.0)
    ends = [random, high, low]
    if scale.known and high - random > scale.span / 4:
        ends.append(scale.top)
    bottom, top = min(ends), max(max(ends), random + 1.0 if not scale.known or scale.span > 1 else scale.top)
    marked = {random, scale.top if scale.known and scale.top <= top else top}
    slack = 0.04 * (top - bottom)
    return Axis(bottom - slack, top + slack, numbers(*marked), lines=True)


def has_curves(evidence: Evidence, game: str) -> bool:
    """Whether there is a curve of a game to draw, which takes two points, or an episode with a reward."""
    ours = (curves for (each, _), curves in evidence.curves.items() if each == game)
    return any(map(_is_curve, ours)) or bool(evidence.published(game))


def paper_figures(evidence: Evidence) -> list[Drawing]:
    """Return the figures of the paper for which there are curves: of several games, if it shows several."""
    drawn = []
    for name, (_, wanted) in PAPER_FIGURES.items():
        games = [game for game in wanted if has_curves(evidence, game)]
        if len(games) >= min(2, len(wanted)):
            drawn.append(_paper_figure(evidence, name, games))
    return drawn


def _paper_figure(evidence: Evidence, name: str, games: Sequence[str]) -> Drawing:
    """Return all methods on each of these games, as the paper has them: a panel for each game."""
    heading, wanted = PAPER_FIGURES[name]
    drawn = looks(evidence.methods)
    panels, methods = [], dict[str, None]()
    for game in games:
        found = {
            method: evidence.curves[game, method] for method in evidence.methods if (game, method) in evidence.curves
        }
        found = {method: curves for method, curves in found.items() if _known(curves)}
        published = overlaid(evidence, game)
        y = returns_axis(
            [*(c.values for c in found.values()), *(p.curves()[1] for p in published)], reference_scores(game)
        )
        last = max((float(curves.frames[-1]) for curves in found.values()), default=0.0)
        marks = [mark for each in published for mark in _published_marks(each, last or np.inf)]
        last = last or max(float(each.curves()[0][-1]) for each in published)
        marks += [mark for method, curves in found.items() for mark in mean_marks(curves, drawn[method])]
        methods |= dict.fromkeys(found)
        panels.append(Panel(title(game), tuple(marks), frames_axis(last), y, width=360.0, height=230.0))
    missing = [title(game) for game in wanted if game not in games]
    sentences = [f"Training return over frames. {_BAND}"]
    sentences += ["Grey: mean and range of the published runs, each series by itself."] * any(
        overlaid(evidence, game) for game in games
    )
    sentences += [f"Without {', '.join(missing)}: no curve yet."] * bool(missing)
    sentences += ["Which four games the paper shows we do not know; these are our choice."] * (name == "four_games")
    series = sorted({each.series for game in games for each in overlaid(evidence, game)}, reverse=True)
    legend = (*(drawn[method] for method in methods), *map(series_look, series))
    return Drawing(name, heading, " ".join(sentences), tuple(panels), min(3, len(panels)), legend)


def overlaid(evidence: Evidence, game: str) -> list[Published]:
    """Return the published curves that share axes with ours: where we have come beyond their first iterations."""
    ends = [
        float(curves.frames[-1]) for (each, _), curves in evidence.curves.items() if each == game and _known(curves)
    ]
    ours = max(ends, default=0.0)
    return [found for found in evidence.published(game) if not ours or ours >= 2 * found.iteration_frames]


def _published_panel(published: Published, y: Axis) -> Panel:
    look = series_look(published.series)
    frames, returns = published.curves()
    marks = _published_marks(published)
    if published.runs_joined:
        kept = _kept(frames.size, _SEED_POINTS)
        marks = [*(Line(frames[kept], own[kept], look.colour, width=0.8, opacity=0.5) for own in returns), *marks]
    return Panel(look.label, tuple(marks), frames_axis(float(frames[-1])), y)


def _published_marks(published: Published, last: float = np.inf) -> list[Mark]:
    """Return the mean of published runs and the range from min to max."""
    look = series_look(published.series)
    frames, returns = published.curves()
    known = np.isfinite(returns).any(axis=0) & (frames <= last)
    if not known.any():
        return []
    frames, returns = frames[known], returns[:, known]
    band = Band(frames, np.nanmin(returns, axis=0), np.nanmax(returns, axis=0), look.colour)
    return [band, Line(frames, np.nanmean(returns, axis=0), look.colour, look.dashes, title=look.label)]


def left_of(thinned: Sequence[Thinned], which: str = "") -> str:
    """Return what is drawn of runs whose windows are not all there, and what is not; `which` names them."""
    lost = sum(left.returned[1] - left.returned[0] for left in thinned)
    total = sum(left.returned[1] for left in thinned)
    runs = which or ("one of these runs" if len(thinned) == 1 else f"{len(thinned)} of these runs")
    said = f"The records of {runs} lack windows, so returns are drawn by iterations, which are whole."
    if any(left.rewarded for left in thinned):
        said += " Dots are single episodes with a reward, at their return."
    if round(lost, 6):
        said += f" Of {total:,g} points in all, {lost:,g} came in episodes that are not in the records."
    return said


def _said(name: str, frame: float, mean: float, low: float, high: float) -> str:
    interval = f", 95% interval {number(low)} to {number(high)}" if np.isfinite(low) else ""
    return f"{name} at {frame:,.0f} frames: {number(mean)}{interval}"


def _known(curves: Curves) -> bool:
    return bool(curves.values.size and np.isfinite(curves.values).any())


def _is_curve(curves: Curves) -> bool:
    points = int(np.isfinite(curves.values).any(axis=0).sum()) if curves.values.size else 0
    return points > 1 or any(left.rewarded for left in curves.thinned.values())


def _kept(count: int, limit: int) -> Array:
    """Return the indices of at most so many points, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(int))
