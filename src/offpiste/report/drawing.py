"""Drawings in files, as PDF and PNG from the same shapes as on the page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from fontTools.subset import Options  # type: ignore[import-untyped]
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon
from matplotlib.text import Text as MatplotlibText
from matplotlib.transforms import Affine2D

from offpiste.report.look import INK, Look
from offpiste.report.panels import TEXT, Area, Dot, Drawing, Shape, Stroke, Text, Tiles, fitted, shapes

STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # PDF too depends on it (Matplotlib 3.11): otherwise ε and − make a second font
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with two dollar signs in it is a name
    "savefig.facecolor": "white",
}
_DPI = 150
_UNITS = 110.0
"""Of a panel, to an inch in files."""
_LEVEL = 1
"""Of all shapes, so that each covers those before it; by itself Matplotlib draws lines over discs."""
_GAP = 16.0
_LEGEND_ROW, _LEGEND_COLUMN = 24.0, 190.0


@contextmanager
def style(name: str = "") -> Iterator[None]:
    """Draw in our style; the name goes into the names of parts, so that figures can stand on one page.

    No matplotlibrc counts: one in the current folder, which may be a stranger's store, could have names run by LaTeX.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "svg.hashsalt": name or "offpiste"}):
        yield


def save(drawing: Drawing, folder: Path) -> None:
    """Write a drawing as PDF and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    with style(drawing.name):
        figure = figure_of(drawing)
        figure.savefig(folder / f"{drawing.name}.png")
        with _fonts_without_layout():
            figure.savefig(folder / f"{drawing.name}.pdf", metadata={"CreationDate": None})


def figure_of(drawing: Drawing) -> Figure:
    """Return all panels of a drawing in one figure, side by side and row below row."""
    columns = max(1, min(drawing.columns, len(drawing.panels)))
    lines = [drawing.panels[start : start + columns] for start in range(0, len(drawing.panels), columns)]
    heights = [max(panel.height for panel in line) for line in lines]
    width = max((sum(panel.width + _GAP for panel in line) for line in lines), default=_GAP) + _GAP
    names = _legend_lines(drawing.legend, width)
    height = sum(heights) + _GAP * (len(lines) + 1) + _LEGEND_ROW * len(names)
    figure = Figure(figsize=(width / _UNITS, height / _UNITS), dpi=_DPI)
    FigureCanvasAgg(figure)
    top = _GAP
    for looks in names:
        _draw_legend(figure, looks, height - top)
        top += _LEGEND_ROW
    for line, tall in zip(lines, heights, strict=True):
        left = _GAP
        for panel in line:
            for _, alike in groupby(shapes(panel), key=_style):
                _draw(figure, list(alike), left, height - top)
            left += panel.width + _GAP
        top += tall + _GAP
    return figure


def _style(shape: Shape) -> Any:
    """Return what strokes, or dots, that follow one another share if they can be drawn at once."""
    match shape:
        case Stroke():
            return "stroke", shape.colour, shape.width, shape.opacity, shape.dashes
        case Dot():
            return "dot", shape.colour, shape.filled, shape.opacity
    return id(shape)


def _draw(figure: Figure, alike: Sequence[Shape], left: float, top: float) -> None:
    """Draw shapes of one style of a panel whose upper left corner is there, in units from the lower left of all."""
    shape = alike[0]
    transform = Affine2D().scale(1 / _UNITS).translate(left / _UNITS, top / _UNITS) + figure.dpi_scale_trans
    down = np.array([1.0, -1.0])
    point = 72 / _UNITS
    match shape:
        case Stroke():
            style: dict[str, Any] = {"linestyles": [shape.dashes], "linewidths": point * shape.width}
            paths = [path * down for each in alike if isinstance(each, Stroke) for path in each.paths]
            lines = LineCollection(paths, colors=shape.colour, alpha=shape.opacity, transform=transform, **style)
            figure.add_artist(lines).set_zorder(_LEVEL)
        case Area():
            polygon = Polygon(shape.corners * down, facecolor=shape.colour, alpha=shape.opacity, linewidth=0)
            polygon.set_transform(transform)
            figure.add_artist(polygon).set_zorder(_LEVEL)
        case Dot():
            line = {"linewidth": 0.0} if shape.filled else {"linewidth": 1.5 * point, "edgecolor": shape.colour}
            face = shape.colour if shape.filled else "white"
            discs = [Circle((each.x, -each.y), each.radius) for each in alike if isinstance(each, Dot)]
            collection = PatchCollection(discs, facecolor=face, alpha=shape.opacity, transform=transform, **line)
            figure.add_artist(collection).set_zorder(_LEVEL)
        case Tiles():
            width, height = shape.size
            corners = shape.corners[:, None] + np.array([(0, 0), (width, 0), (width, height), (0, height)])
            tiles = PolyCollection(list(corners * down), facecolors=shape.colour, linewidths=0, transform=transform)
            tiles.set_antialiased(False)
            figure.add_artist(tiles).set_zorder(_LEVEL)
        case Text():
            words = MatplotlibText(
                shape.x,
                -shape.y,
                shape.text,
                color=shape.colour,
                fontsize=TEXT * point * 0.92,
                ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
                fontweight="bold" if shape.bold else "normal",
                va="baseline",
            )
            words.set_transform(transform)
            figure.add_artist(words).set_zorder(_LEVEL)


def _legend_lines(looks: Sequence[Look], width: float) -> list[list[Look]]:
    count = max(1, int((width - _GAP) // _LEGEND_COLUMN))
    return [list(looks[start : start + count]) for start in range(0, len(looks), count)]


def _draw_legend(figure: Figure, looks: Sequence[Look], top: float) -> None:
    for number, look in enumerate(looks):
        left = _GAP + number * _LEGEND_COLUMN
        line = np.array([[0.0, 8.0], [28.0, 8.0]])
        _draw(figure, [Stroke([line], look.colour, 2.5, dashes=look.dashes)], left, top)
        _draw(figure, [Text(34.0, 12.0, fitted(look.label, 20), colour=INK)], left, top)


@contextmanager
def _fonts_without_layout() -> Iterator[None]:
    """Embed fonts without the tables by which text is laid out: a PDF has no use for them, and cutting them is slow.

    Matplotlib has no setting for it. A fontTools that no longer reads this attribute only makes it slow again.
    """
    before = getattr(Options, "_drop_tables_default", [])
    Options._drop_tables_default = [*before, "GDEF", "GPOS", "GSUB"]
    try:
        yield
    finally:
        Options._drop_tables_default = before
