"""The figures of a report that show curves: those of the paper, by name, and one per game."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes

from offpiste.analysis.curves import Curves, Thinned
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import frames_text, label, title
from offpiste.analysis.paper import HARD, MONTEZUMA
from offpiste.analysis.reference import Published
from offpiste.report.drawing import (
    Detail,
    Drawing,
    add_legend,
    draw_curves,
    draw_published,
    draw_rewarded,
    draw_seeds,
    grid_of_axes,
    new_figure,
    reach,
    short,
    style,
    tidy,
)
from offpiste.report.look import MUTED, Look, file_name, looks, series_look
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import reference_scores

FOUR_GAMES = (MONTEZUMA, "gravitar", "private_eye", "venture")
"""Of the paper's four-game panel our sources only say that there is one; these are Montezuma and three hard games."""
PAPER_FIGURES = {
    "montezuma_comparison": ("The methods on Montezuma’s Revenge", (MONTEZUMA,), 1),
    "four_games": ("Montezuma’s Revenge beside three other hard games", FOUR_GAMES, 2),
    "hard_games": ("The other hard games", HARD, 3),
    "training_set": ("The training games, where exploration is not the difficulty", SUITES["training"], 3),
}
"""Title, games and columns of the paper's panels, by name."""
TITLES = {name: heading for name, (heading, _, _) in PAPER_FIGURES.items()} | {
    "montezuma_seeds": "Montezuma’s Revenge, seed by seed"
}
"""What each of the paper's figures is called; the fifth is drawn apart."""
_ROW = 2.35
"""Inches of one row of panels."""
_MOST_LINES = 60
"""With more seeds in all than this, curves of seeds hide each other, and so do bands."""
_MEAN = "Lines are means over seeds; their runs are too many to draw."
_BAND = "Lines with markers are means over seeds; bands are 95% bootstrap intervals of the mean and only describe."
_ABOUT: dict[Detail, str] = {"mean": _MEAN, "band": _BAND, "seeds": f"{_BAND} Thin lines are seeds."}
_GREY = "Grey: mean and range of the published runs, each series by itself."


def paper_figures(evidence: Evidence) -> list[Drawing]:
    """Return the figures of the paper for which there are curves: of several games, if it shows several."""
    drawn = []
    for name, (_, wanted, _) in PAPER_FIGURES.items():
        games = [game for game in wanted if has_curves(evidence, game)]
        if len(games) >= min(2, len(wanted)):
            drawn.append(panels(evidence, name, games))
    return [*drawn, *montezuma_seeds(evidence)]


def has_curves(evidence: Evidence, game: str) -> bool:
    """Whether there is a curve of a game to draw."""
    return bool(our_frames(evidence, game)) or bool(evidence.published(game))


def our_frames(evidence: Evidence, game: str) -> float:
    """Return how far the curves of our runs on a game reach; 0 where there is none."""
    ends = [0.0]
    for (name, _), found in evidence.curves.items():
        known = np.isfinite(found.values).any(axis=0) if name == game and found.values.size else np.zeros(0, bool)
        ends += [float(found.frames[known].max())] if known.any() else []
    return max(ends)


def overlaid(evidence: Evidence, game: str) -> list[Published]:
    """Return the published curves that share axes with ours: where we have come beyond their first iterations."""
    ours = our_frames(evidence, game)
    return [found for found in evidence.published(game) if not ours or ours >= 2 * found.iteration_frames]


def panels(evidence: Evidence, name: str, games: Sequence[str]) -> Drawing:
    """Return the curves of one of the paper's figures, side by side: those of its games that have some."""
    heading, wanted, columns = PAPER_FIGURES[name]
    missing = [title(game) for game in wanted if game not in games]
    columns = min(columns, len(games))
    with style(name):
        rows = math.ceil(len(games) / columns)
        figure = new_figure(3.6 if len(games) == 1 else _ROW * rows + 0.4)
        for axes, game in zip(grid_of_axes(figure, rows, columns, len(games)), games, strict=True):
            _draw_game(evidence, axes, game, "band")
        add_legend(figure, _legend(evidence, games))
    sentences = ["Training return over frames.", _BAND]
    sentences += [_GREY] * any(overlaid(evidence, game) for game in games)
    sentences += [f"Without {', '.join(missing)}: no curve yet."] * bool(missing)
    sentences += ["Which four games the paper shows we do not know; these are our choice."] * (name == "four_games")
    return Drawing(name, heading, " ".join(sentences), figure)


def montezuma_seeds(evidence: Evidence) -> list[Drawing]:
    """Return every seed's own curve on Montezuma's Revenge, method by method, if there is any."""
    ours = {
        method: evidence.curves[MONTEZUMA, method]
        for method in evidence.methods
        if (MONTEZUMA, method) in evidence.curves and np.isfinite(evidence.curves[MONTEZUMA, method].values).any()
    }
    joined = [found for found in evidence.published(MONTEZUMA) if found.runs_joined]
    count = len(ours) + len(joined)
    if not count:
        return []
    drawn = looks(evidence.methods)
    with style("montezuma_seeds"):
        columns = 3 if count in (3, 5, 6, 9) else min(4, count)
        figure = new_figure(_ROW * math.ceil(count / columns))
        grid = grid_of_axes(figure, math.ceil(count / columns), columns, count, sharey=True)
        for axes, (method, found) in zip(grid, ours.items(), strict=False):
            draw_seeds(axes, found.frames, found.values, drawn[method], width=1.0, alpha=0.9)
            tidy(axes, f"{short(label(method))}, {len(found.runs)} seed{'s' * (len(found.runs) != 1)}", frames=True)
        for axes, published in zip(grid[len(ours) :], joined, strict=True):
            draw_seeds(axes, *published.curves(), series_look(published.series), width=1.0, alpha=0.9)
            tidy(axes, short(series_look(published.series).label), frames=True)
        for axes in grid[::columns]:
            axes.set_ylabel("return")
    caption = "Training return over frames, a line per seed: where seeds differ, their mean is a run that never was."
    unjoined = [found.series for found in evidence.published(MONTEZUMA) if not found.runs_joined]
    if unjoined:
        caption += f" The files of {', '.join(unjoined)} do not say which values belong to one run."
    return [Drawing("montezuma_seeds", TITLES["montezuma_seeds"], caption, figure)]


def game_figure(evidence: Evidence, game: str) -> Drawing:
    """Return a game's curves with every seed, final scores as points, and published curves beside if not among them."""
    name = file_name(game, evidence.part)
    published = evidence.published(game)
    apart = [] if overlaid(evidence, game) else published
    scored = [method for method in evidence.methods if evidence.finals(game, method).size]
    with style(name):
        figure = new_figure(3.3)
        ratios = [3.0] + [1.1 + 0.12 * len(scored)] * bool(scored) + [2.0] * bool(apart)
        curves, *others = grid_of_axes(figure, 1, len(ratios), len(ratios), width_ratios=ratios)
        detail = _detail(evidence.curves[pair] for pair in evidence.curves if pair[0] == game)
        _draw_game(evidence, curves, game, detail)
        curves.set_title("training return")
        if scored:
            _draw_scores(evidence, others[0], game, scored)
        for found in apart:
            draw_published(others[-1], found)
            tidy(others[-1], "published, over their own frames", frames=True)
        add_legend(figure, _legend(evidence, (game,), apart))
    ours = our_frames(evidence, game)
    sentences = [_ABOUT[detail] if ours else "No run of ours has a curve here."]
    if any(curves.windows for (name, _), curves in evidence.curves.items() if name == game):
        sentences.append("Runs of few iterations are drawn by windows of some thousand steps.")
    thinned = [
        left for (name, _), curves in evidence.curves.items() if name == game for left in curves.thinned.values()
    ]
    if thinned:
        sentences.append(_left(thinned))
    if scored:
        at = frames_text(evidence.horizons[game])
        sentences.append(f"Points are the final scores at {at} frames, one per seed, with their median.")
    sentences += [_GREY] * bool(published)
    if apart:
        sentences.append(f"Ours end at {frames_text(ours)} frames, where the published curves have hardly begun.")
    return Drawing(name, title(game), " ".join(sentences), figure)


def _left(thinned: Sequence[Thinned]) -> str:
    """Return what is drawn of runs whose windows are not all there, and what is not."""
    lost = sum(left.returned[1] - left.returned[0] for left in thinned)
    total = sum(left.returned[1] for left in thinned)
    runs = "one of these runs" if len(thinned) == 1 else f"{len(thinned)} of these runs"
    said = f"The records of {runs} lack windows, so returns are drawn by iterations, which are whole."
    if any(left.rewarded for left in thinned):
        said += " Stars are single episodes with a reward, at their return."
    if round(lost, 6):
        said += f" Of {total:,g} points in all, {lost:,g} came in episodes that are not in the records."
    return said


def cells_figure(evidence: Evidence, game: str) -> Drawing | None:
    """Return the cells that runs on a game have found over frames, every seed a line; None where none is counted."""
    found = {
        method: curves
        for method in evidence.methods
        if (curves := evidence.cells.get((game, method))) is not None and np.isfinite(curves.values).any()
    }
    if not found:
        return None
    name = f"{file_name(game, evidence.part)}_cells"
    drawn = looks(evidence.methods)
    with style(name):
        figure = new_figure(2.9)
        (axes,) = grid_of_axes(figure, 1, 1, 1)
        detail = _detail(found.values())
        for method, curves in found.items():
            draw_curves(axes, curves, drawn[method], detail)
        tidy(axes, "cells found", frames=True)
        axes.set_ylim(bottom=0)
        add_legend(figure, (drawn[method] for method in found))
    caption = (
        "Cells visited so far in training, over frames: how much of the game was seen, whatever it paid. "
        f"{_ABOUT[detail]}"
    )
    return Drawing(name, f"{title(game)}: cells found", caption, figure)


def _detail(curves: Iterable[Curves]) -> Detail:
    """Return how much of so many curves a reader can distinguish."""
    return "mean" if sum(len(each.values) for each in curves) > _MOST_LINES else "seeds"


def _draw_game(evidence: Evidence, axes: Axes, game: str, detail: Detail) -> None:
    ours = our_frames(evidence, game)
    drawn = looks(evidence.methods)
    for published in overlaid(evidence, game):
        draw_published(axes, published, ours or np.inf)
    for method in evidence.methods:
        if (game, method) in evidence.curves:
            draw_curves(axes, evidence.curves[game, method], drawn[method], detail)
            draw_rewarded(axes, evidence.curves[game, method], drawn[method])
    tidy(axes, short(title(game)), "return", frames=True)
    reach(axes, _random_play(game))


def _draw_scores(evidence: Evidence, axes: Axes, game: str, methods: Sequence[str]) -> None:
    """Draw final scores: a point per seed, a bar at the median."""
    drawn = looks(evidence.methods)
    for column, method in enumerate(methods):
        scores, look = np.sort(evidence.finals(game, method)), drawn[method]
        spread = (np.arange(scores.size) % 3 - 1) * 0.13 if scores.size > 1 else np.zeros(1)
        points = {"color": look.colour, "marker": look.marker, "linestyle": "", "alpha": 0.75, "markeredgewidth": 0}
        axes.plot(column + spread, scores, **points)
        axes.plot([column - 0.32, column + 0.32], [np.median(scores)] * 2, color=look.colour, linewidth=1.4)
    tidy(axes, "evaluation" if evidence.measures.get(game) == "evaluation" else "final score")
    reach(axes, _random_play(game))
    low, high = axes.get_ylim()
    scale = reference_scores(game)
    for score, what in ((scale.random, "random"), (scale.top, scale.label)):
        if scale.known and low <= score <= high:
            axes.axhline(score, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
            axes.text(len(methods) - 0.45, score, what, fontsize=7, color=MUTED, ha="right", va="bottom")
    names = [short(label(method)) for method in methods]
    axes.set_xticks(range(len(methods)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.grid(visible=False, axis="x")


def _random_play(game: str) -> float:
    """Return what random play scores, or 0 where that is not known."""
    scale = reference_scores(game)
    return scale.random if scale.known else 0.0


def _legend(evidence: Evidence, games: Iterable[str], published: Iterable[Published] = ()) -> list[Look]:
    games = list(games)
    drawn = looks(evidence.methods)
    methods = [method for method in evidence.methods if any((game, method) in evidence.curves for game in games)]
    series = {found.series for game in games for found in overlaid(evidence, game)} | {
        each.series for each in published
    }
    return [drawn[method] for method in methods] + [series_look(name) for name in sorted(series, reverse=True)]
