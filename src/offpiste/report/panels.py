"""What a drawing is made of: panels with marks on axes, as data; and these as shapes, which pages and files draw alike.

A panel is drawn once as SVG for the page (`svg`) and once as PDF and PNG (`drawing`), from the same shapes: lines,
areas, dots, squares and words in units of which the page shows one as a pixel where there is room.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from offpiste.analysis.names import frames_text
from offpiste.analysis.stats import Array, Interval
from offpiste.report.look import GRID, INK, MUTED, SOLID, Look

TEXT = 13.0
"""Height of text, in units."""
_LETTER = 0.58 * TEXT
"""About the width of a letter."""
_WIDE = 0.65 * TEXT
"""That of a digit, a sign or a capital, in wide fonts such as DejaVu Sans."""
_PAD = 16.0
_NAME_LENGTH = 32
_OVERLAP = 0.1
"""By which tiles are larger than they should be, so that no line shows between them where numbers are rounded."""


@dataclass(frozen=True, eq=False)
class Line:
    """A curve; it is interrupted where a value is not finite."""

    xs: Array
    ys: Array
    colour: str
    dashes: Any = SOLID
    width: float = 1.8
    opacity: float = 1.0
    title: str = ""
    """What is shown where a reader points at it."""


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two curves."""

    xs: Array
    low: Array
    high: Array
    colour: str
    opacity: float = 0.18


@dataclass(frozen=True, eq=False)
class Dots:
    """Points, each with what is shown where a reader points at it."""

    xs: Sequence[float] | Array
    ys: Sequence[float] | Array
    colour: str
    titles: Sequence[str] = ()
    radius: float = 3.5
    filled: bool = True
    opacity: float = 0.8


@dataclass(frozen=True)
class Word:
    """A text at a point, to its right."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, eq=False)
class Squares:
    """Cells of a map, each from a column and a row on, in units of its axes; all of a size and a colour."""

    cells: Sequence[tuple[float, float]]
    colour: str
    size: tuple[float, float] = (1.0, 1.0)


Mark = Line | Band | Dots | Word | Squares


@dataclass(frozen=True)
class Axis:
    """From where to where an axis reaches, and what stands beside it."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    label: str = ""
    lines: bool = False
    """Whether there is a line across the panel at each tick."""


@dataclass(frozen=True)
class Panel:
    """Marks on two axes, below a title."""

    title: str
    marks: tuple[Mark, ...]
    x: Axis
    y: Axis
    width: float = 200.0
    height: float = 150.0
    method: str = ""
    """Whose it is, so that a reader can hide a method; "" for several."""
    note: str = ""
    """Stands to the right of the title."""
    ground: str = ""
    """A colour behind the marks."""


@dataclass(frozen=True)
class Drawing:
    """Panels, with what stands above and below them."""

    name: str
    """Of its files and its anchor."""
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 5
    """In files; a page has as many as there is room for."""
    legend: tuple[Look, ...] = field(default=())


@dataclass(frozen=True, eq=False)
class Stroke:
    """Lines through points, [points, 2] each."""

    paths: Sequence[Array]
    colour: str
    width: float
    opacity: float = 1.0
    dashes: Any = SOLID
    title: str = ""


@dataclass(frozen=True, eq=False)
class Area:
    """A filled polygon, [points, 2]."""

    corners: Array
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A disc, or a ring."""

    x: float
    y: float
    radius: float
    colour: str
    filled: bool
    opacity: float
    title: str = ""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Rectangles of a colour: the left upper corners, [tiles, 2], and the size of all."""

    corners: Array
    size: tuple[float, float]
    colour: str


@dataclass(frozen=True)
class Text:
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    colour: str = MUTED
    bold: bool = False


Shape = Stroke | Area | Dot | Tiles | Text


def shapes(panel: Panel) -> Iterator[Shape]:
    """Yield the shapes of a panel, from back to front; y grows downwards."""
    left, top, right, bottom = inside(panel)

    def place(xs: Any, ys: Any) -> Array:
        across = left + (right - left) * (np.asarray(xs, float) - panel.x.low) / ((panel.x.high - panel.x.low) or 1.0)
        down = bottom - (bottom - top) * (np.asarray(ys, float) - panel.y.low) / ((panel.y.high - panel.y.low) or 1.0)
        return np.stack(np.broadcast_arrays(across, down), axis=-1)

    if panel.title:
        room = panel.width - (_width(f" {panel.note}") if panel.note else 0.0)
        yield Text(0.0, TEXT, fitted(panel.title, room / _LETTER), colour=INK, bold=True)
    if panel.note:
        yield Text(panel.width, TEXT, panel.note, "end")
    if panel.ground:
        yield Tiles(np.array([[left, top]]), (right - left, bottom - top), panel.ground)
    yield from _axes(panel, place)
    for mark in panel.marks:
        yield from _mark(mark, place)


def inside(panel: Panel) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the part of a panel in which marks are."""
    left = max((6.0 + _width(text) for _, text in panel.y.ticks), default=1.0)
    top = TEXT + _PAD if panel.title or panel.note else 7.0
    below = (TEXT + 5.0) * (bool(panel.x.ticks) + bool(panel.x.label))
    right = panel.width - (_width(panel.x.ticks[-1][1]) / 2 if panel.x.ticks else 1.0)
    return left, top, right, panel.height - below - 1.0


def _width(text: str) -> float:
    return sum(_LETTER if each.islower() or each in " ()." else _WIDE for each in text)


def _axes(panel: Panel, place: Any) -> Iterator[Shape]:
    left, top, right, bottom = inside(panel)
    for value, text in panel.y.ticks:
        ((_, y),) = place([panel.x.low], [value])
        if panel.y.lines:
            yield Stroke([np.array([[left, y], [right, y]])], GRID, 1.0)
        yield Text(left - 5.0, y + 0.35 * TEXT, text, "end")
    for value, text in panel.x.ticks:
        ((x, _),) = place([value], [panel.y.low])
        if panel.x.lines:
            yield Stroke([np.array([[x, top], [x, bottom]])], GRID, 1.0)
        yield Text(x, bottom + TEXT + 3.0, text, "middle")
    if panel.x.label:
        yield Text((left + right) / 2, panel.height - 3.0, panel.x.label, "middle")


def _mark(mark: Mark, place: Any) -> Iterator[Shape]:
    match mark:
        case Line():
            known = np.isfinite(mark.ys) & np.isfinite(mark.xs)
            points = place(mark.xs, np.where(known, mark.ys, 0.0))
            breaks = np.flatnonzero(np.diff(known.astype(int)) != 0) + 1
            paths = [
                part for part, ok in zip(np.split(points, breaks), np.split(known, breaks), strict=True) if ok.all()
            ]
            lone = [part for part in paths if len(part) == 1]
            if paths:
                yield Stroke(
                    [part for part in paths if len(part) > 1],
                    mark.colour,
                    mark.width,
                    mark.opacity,
                    mark.dashes,
                    mark.title,
                )
            for ((x, y),) in lone:
                yield Dot(float(x), float(y), 2.0, mark.colour, True, mark.opacity, mark.title)
        case Band():
            known = np.isfinite(mark.low) & np.isfinite(mark.high)
            there, back = place(mark.xs[known], mark.low[known]), place(mark.xs[known], mark.high[known])[::-1]
            if len(there) > 1:
                yield Area(np.concatenate([there, back]), mark.colour, mark.opacity)
        case Dots():
            titles = mark.titles or [""] * len(mark.xs)
            for (x, y), text in zip(place(mark.xs, mark.ys), titles, strict=True):
                yield Dot(float(x), float(y), mark.radius, mark.colour, mark.filled, mark.opacity, text)
        case Word():
            ((x, y),) = place([mark.x], [mark.y])
            yield Text(float(x) + 6.0, float(y) + 0.35 * TEXT, mark.text)
        case Squares():
            if len(mark.cells):
                cells = np.asarray(mark.cells, float)
                corners, opposite = place(*cells.T), place(*(cells + mark.size).T)
                width, height = np.abs(opposite[0] - corners[0])
                size = float(width) + _OVERLAP, float(height) + _OVERLAP
                yield Tiles(np.minimum(corners, opposite), size, mark.colour)


def fitted(name: str, letters: float = _NAME_LENGTH) -> str:
    """Return a name cut to a length that leaves room beside it; tables have it in full."""
    count = min(_NAME_LENGTH, max(4, int(letters)))
    return name if len(name) <= count else f"{name[: count - 1]}…"


def frames_axis(last: float, first: str = "0") -> Axis:
    """Return an axis of frames from 0 on, with a tick at both ends."""
    return Axis(0.0, last, ((0.0, first), (last, frames_text(last))))


def number(value: float) -> str:
    """Return a number for an axis or a title, with few digits."""
    text = f"{value:z,.3g}" if abs(value) < 1000 else f"{value:z,.0f}"
    return text.replace("-", "−")


def numbers(*values: float) -> tuple[tuple[float, str], ...]:
    """Return ticks at values, with digits that suit what lies between them."""
    span = max(values) - min(values)
    digits = 2 - math.floor(math.log10(span)) if span > 0 and math.isfinite(span) else 2
    return tuple((value, number(round(value, max(0, digits - 1)))) for value in sorted(set(values)))


def rows(
    title: str,
    names: Sequence[str],
    marks: Sequence[Mark],
    x: Axis,
    *,
    width: float = 360.0,
    row: float = 22.0,
    method: str = "",
    note: str = "",
) -> Panel:
    """Return a panel with a row for each name, the first on top at 0, the next at 1."""
    ticks = tuple((-float(index), fitted(name, 17)) for index, name in enumerate(names))
    y = Axis(0.5 - len(names), 0.5, ticks)
    below = (TEXT + 5.0) * (bool(x.ticks) + bool(x.label))
    height = (TEXT + _PAD if title or note else 7.0) + row * len(names) + below + 1.0
    return Panel(title, tuple(marks), x, y, width, height, method, note)


def bar(row: float, interval: Interval, colour: str, title: str) -> Line:
    """Return an interval as a wide bar in a row."""
    ends = np.array([interval.low, interval.high])
    return Line(ends, np.array([-row, -row]), colour, width=9.0, opacity=0.25, title=title)


def upright(value: float, count: int) -> Line:
    """Return a line at a value through so many rows."""
    return Line(np.array([value, value]), np.array([0.5 - count, 0.5]), MUTED, width=0.8)


def interval_marks(row: float, value: float, interval: Interval | None, look: Look, **dot: Any) -> list[Mark]:
    """Return a value with its interval as marks in a row."""
    marks: list[Mark] = []
    if interval is not None:
        ends = np.array([interval.low, interval.high])
        marks.append(Line(ends, np.array([-row, -row]), look.colour, width=4.0, opacity=0.4))
    said = f"{look.label}: {number(value)}"
    said += f", 95% interval {number(interval.low)} to {number(interval.high)}" if interval is not None else ""
    return [*marks, Dots([value], [-row], look.colour, [said], **({"radius": 4.5, "opacity": 1.0} | dot))]
