"""Figures of *Which β?*: what a bonus scores over β, a panel for each world; and three scores of every method."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from offpiste.analysis.beta_curves import FIRST_K, LAST_K, BetaCurve, ThreeScores
from offpiste.analysis.names import label, ordered_methods
from offpiste.analysis.which_beta import Kind
from offpiste.report.look import BLUE, DASHED, INK, MUTED, VERMILION
from offpiste.report.panels import Axis, Dots, Drawing, Line, Mark, Panel, Word, rows

MARKS = "A dot is the world's own choice, a ring that of Deep Sea, a bar the one for all."
READ = (
    "Mean scores over k, in half-decades of β around β₀, from 0 for random play to 1 for the best policy; in easy "
    f"worlds areas under the training curve. The dashed line is β = 0, which is ε-greedy. {MARKS} Below: runs."
)
THREE = f"Mean scores by how the constant was chosen; in easy worlds areas under the training curve. {MARKS}"
_K = Axis(
    FIRST_K - 0.5, LAST_K + 0.5, tuple((float(k), f"{k}".replace("-", "−")) for k in range(FIRST_K, LAST_K + 1, 2))
)
_SCORES = ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
_COUNTS = -0.24
"""Where the numbers of runs stand, below all scores."""
_CENTRED = 0.38
"""How far to the left a digit has to begin to stand below its point."""
_COLOURS: dict[Kind, str] = {"one for all": BLUE, "transferred": INK, "default": INK, "own": VERMILION}
"""From back to front."""


def beta_figure(name: str, heading: str, curves: Sequence[BetaCurve]) -> Drawing:
    """Return the curves as panels of one size."""
    return Drawing(name, heading, READ, tuple(map(_curve, curves)), columns=4)


def three_scores_figure(worlds: Sequence[ThreeScores]) -> Drawing:
    """Return the three scores of every method, a panel for each world."""
    methods = ordered_methods(method for world in worlds for method in world.scores)
    panels = tuple(_scores(world, methods) for world in worlds)
    return Drawing("three_scores", "Three scores of every method", THREE, panels, columns=3)


def _curve(curve: BetaCurve) -> Panel:
    means = curve.means
    ks, ys = np.array([*means], float), np.array([*means.values()], float)
    said = [f"k = {k}: {mean:z.2f}, {len(curve.values[k])} runs" for k, mean in means.items()]
    marks: list[Mark] = []
    if curve.without is not None:
        ends = np.array([_K.low, _K.high])
        marks.append(Line(ends, np.full(2, curve.without), MUTED, DASHED, 1.2, title=f"β = 0: {curve.without:z.2f}"))
    chosen = {kind: (float(k), means[k], means[k]) for kind, k in curve.chosen.items() if k in means}
    marks += [Line(ks, ys, INK), Dots(ks, ys, INK, said, 2.2, opacity=1.0), *_chosen(chosen, 0.11)]
    marks += [Word(k - _CENTRED, _COUNTS, str(len(found))) for k, found in curve.values.items()]
    y = Axis(-0.34, 1.12, _SCORES, lines=True)
    return Panel(_heading(curve), tuple(marks), _K, y, 210.0, 172.0, note=_note(curve))


def _scores(world: ThreeScores, methods: Sequence[str]) -> Panel:
    marks: list[Mark] = []
    for row, method in enumerate(methods):
        scores = world.scores.get(method, {})
        if len(scores) > 1:
            ends = np.array([min(scores.values()), max(scores.values())])
            marks.append(Line(ends, np.full(2, -row), MUTED, width=1.2))
        marks += _chosen({kind: (value, -float(row), value) for kind, value in scores.items()}, 0.36)
    x = Axis(-0.14, 1.1, _SCORES, lines=True)
    return rows(_heading(world), [label(method) for method in methods], marks, x, note=_note(world))


def _chosen(places: Mapping[Kind, tuple[float, float, float]], reach: float) -> Iterator[Mark]:
    """Yield what was chosen, by x, y and score, so that several show at one place: a bar, a ring on it, a dot in it."""
    for kind in (kind for kind in _COLOURS if kind in places):
        x, y, score = places[kind]
        said, colour = f"{kind}: {score:z.2f}", _COLOURS[kind]
        if kind == "one for all":
            yield Line(np.array([x, x]), np.array([y - reach, y + reach]), colour, width=3.0, title=said)
        elif kind == "own":
            yield Dots([x], [y], colour, [said], 3.6, opacity=1.0)
        else:
            yield Dots([x], [y], colour, [said], 6.0, filled=False, opacity=1.0)


def _heading(shown: BetaCurve | ThreeScores) -> str:
    return shown.title + (" (area)" if shown.measure == "area" else "")


def _note(shown: BetaCurve | ThreeScores) -> str:
    """Return how many runs there are while some are missing."""
    return "" if shown.runs.complete else f"{shown.runs.there} of {shown.runs.wanted} runs"
