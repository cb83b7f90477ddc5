"""What a bonus scores over β: in its tuning, and in *Which β?*, world by world; and three scores of every method."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from offpiste.analysis.beta_curves import FIRST_K, LAST_K, BetaCurve, ThreeScores
from offpiste.analysis.names import label, ordered_methods, title
from offpiste.analysis.own import Own
from offpiste.analysis.which_beta import Kind
from offpiste.report.look import BLUE, DASHED, DOTTED, INK, MUTED, SOLID, VERMILION, Look
from offpiste.report.panels import Axis, Dots, Drawing, Line, Mark, Panel, Word, number, rows

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


def tuning_figure(look: Look, found: Own) -> Drawing:
    """Return the scores of the tuning over β, a dot for each seed, and what was chosen."""
    betas = [each.beta for each in found.tried if each.beta > 0]
    rates = sorted({each.rate for each in found.tried if each.rate is not None})
    marks: list[Mark] = []
    if found.chosen and found.chosen > 0:
        at = math.log10(found.chosen)
        marks.append(Line(np.array([at, at]), np.array([-0.05, 1.05]), look.colour, width=6.0, opacity=0.2))
    dashes = (SOLID, DASHED, DOTTED)
    for index, rate in enumerate(rates or [None]):
        own_ones = sorted(
            (each for each in found.tried if each.rate == rate and each.beta > 0), key=lambda each: each.beta
        )
        xs = np.array([math.log10(each.beta) for each in own_ones])
        means = np.array([float(np.mean(list(each.scores.values()))) for each in own_ones])
        name = f"learning rate {rate:g}" if rate is not None and len(rates) > 1 else "mean"
        marks.append(Line(xs, means, look.colour, dashes[index % 3], title=name))
        for each, x in zip(own_ones, xs, strict=True):
            said = [f"β {each.beta:g}, seed {seed}: {number(score)}" for seed, score in each.scores.items()]
            marks.append(
                Dots([x] * len(each.scores), list(each.scores.values()), look.colour, said, radius=2.6, opacity=0.6)
            )
    low, high = (math.log10(end(betas)) for end in (min, max)) if betas else (0.0, 1.0)
    ticks = tuple(
        (float(power), f"1e{power}".replace("-", "−")) for power in range(math.ceil(low), math.floor(high) + 1)
    )
    x = Axis(low - 0.15, high + 0.15, ticks or ((low, number(10**low)),), "β")
    y = Axis(-0.06, 1.06, ((0.0, "0"), (1.0, "1")), lines=True)
    chosen = f" The bar is at the β that was chosen, {found.chosen:g}." if found.chosen else ""
    several = f" A line for each learning rate: {', '.join(f'{rate:g}' for rate in rates)}." if len(rates) > 1 else ""
    caption = f"Score on {title(found.tuned_on)} over β in tuning: a dot for each seed, a line through the means."
    caption += several + chosen
    panel = Panel("", tuple(marks), x, y, width=420.0, height=220.0)
    return Drawing("own_beta", f"{label(found.method)}: score over β", caption, (panel,), 1)


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
