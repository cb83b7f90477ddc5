"""Matplotlib's axes in the style of the report, for the figures that benchmarks draw of their own results."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from offpiste.analysis.names import frames_text
from offpiste.report.drawing import style
from offpiste.report.look import GRID, MUTED, Look
from offpiste.report.panels import fitted

_WIDTH, _DPI = 10.0, 150
_AXES: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}


@contextmanager
def axes_style(name: str = "") -> Iterator[None]:
    """Draw in our style, axes too."""
    with style(name), mpl.rc_context(_AXES):
        yield


def new_figure(height: float, width: float = _WIDTH) -> Figure:
    """Return an empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr, call-arg]
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes, title: str = "", ylabel: str = "", *, frames: bool = False) -> None:
    """Give axes their title and ticks."""
    axes.set_title(title)
    axes.set_ylabel(ylabel)
    axes.tick_params(length=0, pad=4)
    if frames:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: frames_text(value) if value >= 0 else ""))
        axes.set_xlim(left=0)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "−")))


def add_legend(figure: Figure, looks: Iterable[Look], columns: int = 6) -> None:
    """Put the series' names above a figure, in as many rows as that takes."""
    lines = [
        Line2D([], [], color=look.colour, linestyle=look.dashes, marker=look.marker, label=fitted(look.label))
        for look in looks
    ]
    if lines:
        columns = math.ceil(len(lines) / math.ceil(len(lines) / columns))
        figure.legend(handles=lines, loc="outside upper left", ncols=columns, borderaxespad=0.2)


def grid_of_axes(figure: Figure, rows: int, columns: int, count: int, **options: Any) -> Sequence[Axes]:
    """Return that many axes of a grid; the rest of it stays empty."""
    grid = figure.subplots(rows, columns, squeeze=False, **options).flatten()
    for unused in grid[count:]:
        unused.set_axis_off()
    return list(grid[:count])
