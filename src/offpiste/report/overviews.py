"""The drawings of a report that look across games: aggregates, profiles, improvement, gain and harm, rankings."""

from collections.abc import Iterator, Sequence

import numpy as np

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
from offpiste.analysis.stats import Interval
from offpiste.report.look import INK, MUTED, Look, looks
from offpiste.report.panels import (
    Axis,
    Band,
    Dots,
    Drawing,
    Line,
    Mark,
    Panel,
    Word,
    interval_marks,
    number,
    numbers,
    rows,
    upright,
)

_SHARES = ((0.0, "0%"), (0.5, "50%"), (1.0, "100%"))


def overview_figures(evidence: Evidence, found: Sequence[Aggregate], alike: Sequence[Correlation]) -> Iterator[Drawing]:
    """Yield those drawings across games of which there is anything to draw."""
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
        "robustness. Bars are exact 95% intervals, each by itself; a filled dot is a difference that holds after "
        "correction."
    )
    return _improvement(evidence, found, "improvement", "Probability of improvement over ε-greedy", caption)


def improvement_by_world_figure(evidence: Evidence, found: Sequence[Contrast]) -> Drawing | None:
    """Return the probability of improvement over ε-greedy on each small world that says anything; None if none does."""
    telling = worlds_that_differ(found)
    silent = [each for each in dict.fromkeys(each.suite for each in found) if each not in telling]
    caption = (
        "In how many of the seed-by-seed pairs a method does better than ε-greedy, a tie counting half. Bars are exact "
        "95% intervals, each by itself; a filled dot is a method that beats ε-greedy after correction for the methods "
        "on that world."
    )
    if silent:
        caption += f" Left out, since no method differs from ε-greedy there: {', '.join(silent)}."
    heading = "Probability of improvement over ε-greedy, world by world"
    shown = [each for each in found if each.suite in telling]
    return _improvement(evidence, shown, "improvement_by_world", heading, caption) if shown else None


def worlds_that_differ(found: Sequence[Contrast]) -> list[str]:
    """Return the worlds on which the pairs with ε-greedy of any method are not all ties, nor undecided."""
    return list(
        dict.fromkeys(
            each.suite for each in found if each.is_shown or not _contains(each.comparison.probability_interval, 0.5)
        )
    )


def improvement_panels(evidence: Evidence, found: Sequence[Contrast]) -> Iterator[Drawing]:
    """Return the probability of improvement over ε-greedy, a drawing for each world, to be put side by side."""
    for world in dict.fromkeys(each.suite for each in found):
        here = [each for each in found if each.suite == world]
        caption = "In how many of the seed-by-seed pairs a method does better than ε-greedy, with 95% intervals."
        name = f"improvement_{here[0].games[0]}"
        yield _improvement(evidence, here, name, f"Probability of improvement in {world}", caption)


def _improvement(evidence: Evidence, found: Sequence[Contrast], name: str, heading: str, caption: str) -> Drawing:
    drawn = looks(evidence.methods)
    methods = [method for method in evidence.methods if any(each.method == method for each in found)]
    panels = []
    for suite in dict.fromkeys(each.suite for each in found):
        marks: list[Mark] = [upright(0.5, len(methods))]
        for each in (each for each in found if each.suite == suite):
            share, interval = each.comparison.probability, each.comparison.probability_interval
            marks += interval_marks(
                methods.index(each.method), share, interval, drawn[each.method], filled=each.is_shown
            )
        panels.append(rows(suite, [label(method) for method in methods], marks, Axis(-0.03, 1.03, _SHARES)))
    return Drawing(name, heading, caption, tuple(panels), min(3, len(panels)))


def aggregate_figure(evidence: Evidence, found: Sequence[Aggregate]) -> Drawing:
    """Return IQM, median and optimality gap of each method."""
    drawn = looks(evidence.methods)
    panels = []
    for name in found[0].values:
        marks: list[Mark] = []
        for row, each in enumerate(found):
            marks += interval_marks(row, *each.values[name], drawn[each.method])
        ends = [end for each in found for end in (each.values[name][1].low, each.values[name][1].high)]
        note = "less is better" if name == "optimality gap" else ""
        names = [label(each.method) for each in found]
        panels.append(rows(name, names, marks, _axis(ends), note=note))
    games, methods = common_games(evidence)
    caption = (
        f"Final scores of {_listed(games)}, where random play is 0 and a human is 1. Bars are 95% stratified "
        "bootstrap intervals: they describe, and are too narrow with few seeds."
    )
    left_out = [label(method) for method in evidence.methods if method not in methods]
    if left_out:
        caption += f" Left out, for lack of a score on one of these games: {', '.join(left_out)}."
    return Drawing("aggregates", "Aggregate scores", caption, tuple(panels), len(panels))


def profile_figure(evidence: Evidence) -> Drawing:
    """Return the share of runs above every score."""
    games, methods = common_games(evidence)
    drawn = looks(evidence.methods)
    thresholds, profiles = performance_profiles(evidence)
    marks: list[Mark] = []
    for method, (shares, band) in profiles.items():
        look = drawn[method]
        marks += [Band(thresholds, band[0], band[1], look.colour, opacity=0.1)]
        marks += [Line(thresholds, shares, look.colour, look.dashes, title=look.label)]
    x = Axis(
        0.0,
        float(thresholds[-1]),
        tuple((v, number(v)) for v in (0.0, float(thresholds[-1]))),
        "human-normalised score",
    )
    y = Axis(-0.02, 1.02, _SHARES, lines=True)
    caption = (
        f"The share of runs above each score, over {_listed(games)}. Bands are bootstrap intervals and only "
        "describe. A "
        "curve that lies above another everywhere is better at every level."
    )
    legend = tuple(drawn[method] for method in methods)
    panel = Panel("", tuple(marks), x, y, width=420.0, height=260.0)
    return Drawing("performance_profile", "Performance profile", caption, (panel,), 1, legend)


def gain_figure(evidence: Evidence) -> Drawing:
    """Return the gain on hard games beside the harm on easy ones."""
    hard, easy = gains(evidence, "hard"), gains(evidence, "training")
    drawn = looks(evidence.methods)
    marks: list[Mark] = []
    xs, ys = [0.0], [0.0]
    for method, (x, across) in hard.items():
        y, up = easy[method]
        colour = drawn[method].colour
        marks.append(Line(np.array([across.low, across.high]), np.array([y, y]), colour, width=3.0, opacity=0.4))
        marks.append(Line(np.array([x, x]), np.array([up.low, up.high]), colour, width=3.0, opacity=0.4))
        said = f"{label(method)}: {number(x)} on hard games, {number(y)} on easy ones"
        marks += [Dots([x], [y], colour, [said], radius=4.5, opacity=1.0), Word(x, y, label(method))]
        xs, ys = [*xs, across.low, across.high], [*ys, up.low, up.high]
    wide, tall = _axis(xs, "gain on the other hard games"), _axis(ys)
    lines = [
        Line(np.array([0.0, 0.0]), np.array([tall.low, tall.high]), MUTED, width=0.8),
        Line(np.array([wide.low, wide.high]), np.array([0.0, 0.0]), MUTED, width=0.8),
    ]
    caption = (
        "Across: gain on the other hard games; up: gain on the training games. Human-normalised score minus that of "
        "ε-greedy, averaged over games. Bars are bootstrap intervals and only describe. Down and to the right: helps "
        "where it is hard, hurts where it is easy."
    )
    panel = Panel("", (*lines, *marks), wide, tall, width=420.0, height=320.0)
    return Drawing("gain_and_harm", "Gain on hard games beside harm on easy ones", caption, (panel,), 1)


def correlation_figure(found: Sequence[Correlation]) -> Drawing:
    """Return how like Montezuma's ranking of methods is to the other games' rankings."""
    names = [title(each.game) if each.game else "mean, hard games" for each in found]
    marks: list[Mark] = [upright(0.0, len(names))]
    for row, (each, name) in enumerate(zip(found, names, strict=True)):
        marks += interval_marks(row, each.value, each.interval, Look(name, INK, "-", "o"))
    caption = (
        "1: methods rank alike on both games; 0: the rankings are unrelated; −1: reversed. Bars are bootstrap "
        "intervals over seeds and only describe; the verdict above rests on exact tests."
    )
    x = Axis(-1.05, 1.05, ((-1.0, "−1"), (0.0, "0"), (1.0, "1")))
    panel = rows("", names, marks, x, width=420.0)
    return Drawing("rank_correlation", "Does Montezuma’s Revenge foretell other games?", caption, (panel,), 1)


def _axis(values: Sequence[float], name: str = "") -> Axis:
    """Return an axis over values, with a tick at both ends."""
    low, high = min(values), max(values)
    slack = 0.06 * ((high - low) or 1.0)
    return Axis(low - slack, high + slack, numbers(low, high), name)


def _contains(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def _listed(games: Sequence[str]) -> str:
    *others, last = (title(game) for game in games)
    return f"{', '.join(others)} and {last}" if others else last
