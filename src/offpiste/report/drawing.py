"""The parts that figures are made of: axes, curves, intervals; and a figure as PDF, PNG and SVG for a page."""

import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from fontTools.subset import Options  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from offpiste.analysis import stats
from offpiste.analysis.curves import Curves
from offpiste.analysis.names import frames_text
from offpiste.analysis.reference import Published
from offpiste.analysis.stats import Array, Interval
from offpiste.report.look import GRID, INK, MUTED, PAGE_COLOURS, Look, series_look
from offpiste.seeding import stream

WIDTH = 10.0
"""Inches, in files."""
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
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
    "text.color": INK,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # PDF too depends on it (Matplotlib 3.11): otherwise ε and − make a second font
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with two dollar signs in it is a name
    "savefig.facecolor": "white",
}
_DPI = 150
_POINTS_WITH_MARKS = 12
_BAND_RESAMPLES = 500
_NAME_LENGTH = 32
_ENLARGED = 1.15
"""On the page, where the text of a figure is then as large as a caption."""

Detail = Literal["mean", "band", "seeds"]
"""What is drawn of a method's curves: the mean, its band too, or also every seed."""


@dataclass(frozen=True)
class Drawing:
    """A figure, with what stands beside it."""

    name: str
    title: str
    caption: str
    figure: Figure


@contextmanager
def style(name: str = "") -> Iterator[None]:
    """Draw in our style; the name goes into the names of parts, so that figures can stand on one page.

    No matplotlibrc counts: one in the current folder, which may be a stranger's store, could have names run by LaTeX.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "svg.hashsalt": name or "offpiste"}):
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr, call-arg]
    FigureCanvasAgg(figure)
    return figure


def save(drawing: Drawing, folder: Path) -> str:
    """Write a figure as PDF and PNG, and return it as SVG to stand in a page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = for_page(drawing)
    with style(drawing.name):
        drawing.figure.savefig(folder / f"{drawing.name}.png")
        with _fonts_without_layout():
            drawing.figure.savefig(folder / f"{drawing.name}.pdf", metadata={"CreationDate": None})
    return page


def for_page(drawing: Drawing) -> str:
    """Return a figure as SVG to stand in a page."""
    with style(drawing.name):
        layout = drawing.figure.get_layout_engine()
        if layout and drawing.figure.axes:
            layout.execute(drawing.figure)  # once, and not by drawing everything as savefig does
        drawing.figure.set_layout_engine(None)
        out = io.StringIO()
        drawing.figure.savefig(out, format="svg", facecolor="none", metadata={"Date": None})
    return _for_page(out.getvalue(), drawing)


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


def reach(axes: Axes, level: float) -> None:
    """Have the y axis reach from what is drawn to a level, and over one point at least: one run is no scale."""
    ends = axes.dataLim.intervaly
    low, high = (extreme([level, *ends[np.isfinite(ends)]]) for extreme in (min, max))
    high = max(high, low + 1.0)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def draw_curves(axes: Axes, curves: Curves, look: Look, detail: Detail) -> None:
    """Draw the mean of the seeds, with its bootstrap band, or with that and each seed as a thin line."""
    known = np.isfinite(curves.values).any(axis=0)
    if not known.any():
        return
    frames, values = curves.frames[known], curves.values[:, known]
    some = np.isfinite(values).any(axis=1)  # a seed without a single number only blurs the band
    values = np.where(np.isfinite(values[some]), values[some], np.nan)
    if detail == "seeds":
        draw_seeds(axes, frames, values, look, width=0.6, alpha=0.4)
    if detail != "mean" and len(values) > 1:
        generator = stream(0, f"report band {curves.runs[0].game} {look.label}")
        low, high = stats.curve_band(values, generator, _BAND_RESAMPLES)
        axes.fill_between(frames, low, high, color=look.colour, alpha=0.13, linewidth=0)
    every = max(1, len(frames) // 8)
    axes.plot(
        frames,
        np.nanmean(values, axis=0),
        color=look.colour,
        linestyle=look.dashes,
        marker=look.marker,
        markevery=1 if len(frames) <= _POINTS_WITH_MARKS else (every // 2, every),
        markeredgewidth=0,
    )


def draw_rewarded(axes: Axes, curves: Curves, look: Look) -> None:
    """Draw the rewarded episodes that are left of runs whose windows are not all there."""
    found = [point for left in curves.thinned.values() for point in left.rewarded]
    if found:
        axes.plot(*zip(*found, strict=True), color=look.colour, marker="*", markersize=8, linestyle="", alpha=0.75)


def draw_seeds(axes: Axes, frames: Array, returns: Array, look: Look, *, width: float, alpha: float) -> None:
    """Draw each seed as a line, or as points where it is hardly one."""
    for seed in returns:
        short = np.isfinite(seed).sum() <= 2
        axes.plot(frames, seed, color=look.colour, linewidth=width, alpha=alpha, marker="." if short else "")


def draw_published(axes: Axes, published: Published, last_frame: float = np.inf) -> None:
    """Draw the mean of published runs, and the range from min to max."""
    frames, returns = published.curves()
    kept = np.isfinite(returns).any(axis=0) & (frames <= last_frame)
    if not kept.any():
        return
    look = series_look(published.series)
    frames, returns = frames[kept], returns[:, kept]
    low, high = np.nanmin(returns, axis=0), np.nanmax(returns, axis=0)
    axes.fill_between(frames, low, high, color=look.colour, alpha=0.16, linewidth=0, zorder=1)
    axes.plot(frames, np.nanmean(returns, axis=0), color=look.colour, linestyle=look.dashes, linewidth=1.2, zorder=1.5)


def draw_interval(axes: Axes, row: float, value: float, interval: Interval | None, look: Look, **marks: Any) -> None:
    """Draw a value with its interval as a horizontal bar."""
    if interval is not None:
        axes.plot([interval.low, interval.high], [row, row], color=look.colour, linewidth=2.2, alpha=0.45)
    axes.plot([value], [row], color=look.colour, marker=look.marker, markersize=6, linestyle="", **marks)


def short(name: str) -> str:
    """Return a name cut to a length that leaves room for the axes; tables have it in full."""
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


def add_legend(figure: Figure, looks: Iterable[Look], columns: int = 6) -> None:
    """Put the series' names above a figure, in as many rows as that takes."""
    lines = [
        Line2D([], [], color=look.colour, linestyle=look.dashes, marker=look.marker, label=short(look.label))
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


def _for_page(svg: str, drawing: Drawing) -> str:
    """Return an SVG without what only a file needs, in the page's colours, with short numbers."""
    width = _ENLARGED * drawing.figure.get_figwidth()
    head = (
        f'<svg class="drawing" style="--natural: {width:g}in" role="img" '
        f'aria-label="{escape(f"{drawing.title}. {drawing.caption}", quote=True)}"'
    )
    svg = svg[svg.index(" viewBox") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<defs>\s*<style.*?</defs>\s*", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    return head + re.sub(
        r"<[^>]+>", lambda tag: _tag_for_page(tag[0], used), svg
    )  # tags only: text may look like one of these


def _tag_for_page(tag: str, used: Set[str]) -> str:
    tag = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = re.sub(r' d="[^"]{200,}"', lambda match: _shortened(match[0]), tag)  # markers are short, and too fine for it
    for colour, name in PAGE_COLOURS.items():
        tag = tag.replace(colour, name)
    return tag


def _shortened(path: str) -> str:
    """Return a path with a tenth of a point as its last digit, and without spaces that it does not need."""
    path = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), path)
    return re.sub(r" ?\s([MLCQz]) ?", r"\1", path)
