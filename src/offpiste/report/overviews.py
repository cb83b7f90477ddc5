"""The figures of a report that look across games: aggregates, profiles, improvement, gain and harm, rankings."""

import math
from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter

from offpiste.analysis.comparisons import (
    Aggregate,
    Contrast,
    Correlation,
    common_games,
    gains,
    performance_profiles,
)
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import label, title
from offpiste.report.drawing import (
    WIDTH,
    Drawing,
    add_legend,
    draw_interval,
    grid_of_axes,
    new_figure,
    short,
    style,
    tidy,
)
from offpiste.report.look import INK, MUTED, Look, looks

_NARROW = 0.62 * WIDTH
_PANEL = 0.28 * WIDTH


def overview_figures(
    evidence: Evidence, compared: Sequence[Contrast], found: Sequence[Aggregate], alike: Sequence[Correlation]
) -> Iterator[Drawing]:
    """Return those figures of which there is anything to draw."""
    if compared:
        yield improvement_figure(evidence, compared)
    if found:
        yield aggregate_figure(evidence, found)
        yield profile_figure(evidence)
    if gains(evidence, "hard") and gains(evidence, "training"):
        yield gain_figure(evidence)
    if alike:
        yield correlation_figure(alike)


def improvement_figure(evidence: Evidence, found: Sequence[Contrast]) -> Drawing:
    """Return the probability of improvement over ε-greedy on each set of games."""
    caption = (
        "In how many of the seed-by-seed pairs a method does better than ε-greedy, a tie counting half: the paper’s "
        "robustness. Bars are exact 95% intervals, each by itself; a filled marker is a difference that holds after "
        "correction."
    )
    return _improvement(evidence, found, "improvement", "Probability of improvement over ε-greedy", caption)


def improvement_by_world_figure(evidence: Evidence, found: Sequence[Contrast]) -> Drawing:
    """Return the probability of improvement over ε-greedy on each small world."""
    caption = (
        "In how many of the seed-by-seed pairs a method does better than ε-greedy, a tie counting half. Bars are exact "
        "95% intervals, each by itself; a filled marker is a method that beats ε-greedy after correction for the "
        "methods on that world."
    )
    heading = "Probability of improvement over ε-greedy, world by world"
    return _improvement(evidence, found, "improvement_by_world", heading, caption)


def improvement_panels(evidence: Evidence, found: Sequence[Contrast]) -> Iterator[Drawing]:
    """Return the probability of improvement over ε-greedy, a small figure for each world, to be put side by side."""
    for world in dict.fromkeys(each.suite for each in found):
        here = [each for each in found if each.suite == world]
        caption = "In how many of the seed-by-seed pairs a method does better than ε-greedy, with 95% intervals."
        name = f"improvement_{here[0].games[0]}"
        yield _improvement(evidence, here, name, f"Probability of improvement in {world}", caption, _PANEL)


def _improvement(
    evidence: Evidence, found: Sequence[Contrast], name: str, heading: str, caption: str, width: float = WIDTH
) -> Drawing:
    drawn = looks(evidence.methods)
    suites = list(dict.fromkeys(each.suite for each in found))
    methods = [method for method in evidence.methods if any(each.method == method for each in found)]
    with style(name):
        columns = min(4, len(suites))
        rows = math.ceil(len(suites) / columns)
        head, row = (0.9, 0.28) if width == WIDTH else (0.5, 0.2)
        figure = new_figure(rows * (head + row * len(methods)), width)
        for axes, suite in zip(grid_of_axes(figure, rows, columns, len(suites), sharey=True), suites, strict=True):
            axes.axvline(0.5, color=MUTED, linewidth=0.8)
            for each in found:
                if each.suite == suite:
                    share, interval = each.comparison.probability, each.comparison.probability_interval
                    marks = {} if each.is_shown else {"markerfacecolor": "none"}
                    draw_interval(axes, methods.index(each.method), share, interval, drawn[each.method], **marks)
            _method_rows(axes, methods, short(suite))
            axes.set_xlim(-0.04, 1.04)
            axes.xaxis.set_major_locator(MultipleLocator(0.25 if width == WIDTH else 0.5))
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return Drawing(name, heading, caption, figure)


def aggregate_figure(evidence: Evidence, found: Sequence[Aggregate]) -> Drawing:
    """Return IQM, median and optimality gap of each method."""
    drawn = looks(evidence.methods)
    names = list(found[0].values)
    with style("aggregates"):
        figure = new_figure(0.9 + 0.3 * len(found))
        for axes, name in zip(grid_of_axes(figure, 1, len(names), len(names), sharey=True), names, strict=True):
            for row, each in enumerate(found):
                draw_interval(axes, row, *each.values[name], drawn[each.method])
            better = "less is better" if name == "optimality gap" else "more is better"
            _method_rows(axes, [each.method for each in found], f"{name} ({better})")
    games, methods = common_games(evidence)
    caption = (
        f"Final scores of {_listed(games)}, where random play is 0 and a human is 1. Bars are 95% stratified "
        "bootstrap intervals: they describe, and are too narrow with few seeds."
    )
    left_out = [label(method) for method in evidence.methods if method not in methods]
    if left_out:
        caption += f" Left out, for lack of a score on one of these games: {', '.join(left_out)}."
    return Drawing("aggregates", "Aggregate scores", caption, figure)


def profile_figure(evidence: Evidence) -> Drawing:
    """Return the share of runs above every score."""
    games, methods = common_games(evidence)
    drawn = looks(evidence.methods)
    thresholds, profiles = performance_profiles(evidence)
    with style("performance_profile"):
        figure = new_figure(3.4)
        (axes,) = grid_of_axes(figure, 1, 1, 1)
        for method, (shares, band) in profiles.items():
            look = drawn[method]
            axes.fill_between(thresholds, band[0], band[1], color=look.colour, alpha=0.1, linewidth=0)
            line = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker, "markevery": 10}
            axes.plot(thresholds, shares, markeredgewidth=0, **line)
        tidy(axes, "share of runs above a score")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("human-normalised score")
        axes.set_ylim(-0.02, 1.02)
        add_legend(figure, (drawn[method] for method in methods))
    caption = (
        f"Over {_listed(games)}. Bands are bootstrap intervals and only describe. A curve that lies above another "
        "everywhere is better at every level."
    )
    return Drawing("performance_profile", "Performance profile", caption, figure)


def gain_figure(evidence: Evidence) -> Drawing:
    """Return the gain on hard games beside the harm on easy ones."""
    hard, easy = gains(evidence, "hard"), gains(evidence, "training")
    drawn = looks(evidence.methods)
    with style("gain_and_harm"):
        figure = new_figure(3.8, _NARROW)
        (axes,) = grid_of_axes(figure, 1, 1, 1)
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        axes.axvline(0.0, color=MUTED, linewidth=0.8)
        for method, (x, across) in hard.items():
            y, up = easy[method]
            colour = drawn[method].colour
            axes.plot([across.low, across.high], [y, y], color=colour, linewidth=1.8, alpha=0.45)
            axes.plot([x, x], [up.low, up.high], color=colour, linewidth=1.8, alpha=0.45)
            axes.plot([x], [y], color=colour, marker=drawn[method].marker, markersize=7, linestyle="")
        tidy(axes)
        axes.set_xlabel("mean gain on the other hard games")
        axes.set_ylabel("mean gain on the training games")
        add_legend(figure, (drawn[method] for method in hard), columns=5)
    caption = (
        "Human-normalised score minus that of ε-greedy, averaged over games. Bars are bootstrap intervals and only "
        "describe. Down and to the right: helps where it is hard, hurts where it is easy."
    )
    return Drawing("gain_and_harm", "Gain on hard games beside harm on easy ones", caption, figure)


def correlation_figure(found: Sequence[Correlation]) -> Drawing:
    """Return how like Montezuma's ranking of methods is to the other games' rankings."""
    names = [title(each.game) if each.game else "mean, other hard games" for each in found]
    with style("rank_correlation"):
        figure = new_figure(0.8 + 0.22 * len(found), _NARROW)
        (axes,) = grid_of_axes(figure, 1, 1, 1)
        axes.axvline(0.0, color=MUTED, linewidth=0.8)
        for row, each in enumerate(found):
            draw_interval(axes, row, each.value, each.interval, Look("", INK, "-", "o"))
        tidy(axes, "rank correlation with Montezuma’s Revenge")
        axes.set_xlim(-1.05, 1.05)
        _rows(axes, names)
    caption = (
        "1: methods rank alike on both games; 0: the rankings are unrelated; −1: reversed. Bars are bootstrap "
        "intervals over seeds and only describe; the verdict above rests on exact tests."
    )
    return Drawing("rank_correlation", "Does Montezuma’s Revenge foretell other games?", caption, figure)


def _method_rows(axes: Axes, methods: Sequence[str], heading: str) -> None:
    tidy(axes, heading)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    _rows(axes, [short(label(method)) for method in methods])


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _listed(games: Sequence[str]) -> str:
    *others, last = (title(game) for game in games)
    return f"{', '.join(others)} and {last}" if others else last
