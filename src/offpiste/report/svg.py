"""Drawings as SVG to stand in a page: without scripts, ids or sheets of their own, in the colours of the page."""

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any

import numpy as np

from offpiste.analysis.stats import Array
from offpiste.report.look import PAGE_COLOURS, Look
from offpiste.report.panels import TEXT, Area, Dot, Drawing, Panel, Stroke, Text, Tiles, fitted, shapes


def panel_svg(panel: Panel) -> str:
    """Return a panel as an SVG element, which says its title and note to those who cannot see it."""
    said = escape(", ".join(part for part in (panel.title, panel.note) if part), quote=True)
    parts = "".join(_shape(shape) for shape in shapes(panel))
    size = f"0 0 {panel.width:g} {panel.height:g}"
    return f'<svg class="drawing" viewBox="{size}" role="img" aria-label="{said}">{parts}</svg>'


def legend_html(looks: Sequence[Look]) -> str:
    """Return the names of series, each beside a piece of its line."""
    keys = "".join(
        '<span><svg class="key" viewBox="0 0 28 8" aria-hidden="true">'
        f'<path d="M0 4H28" stroke="{_colour(look.colour)}" '
        f'stroke-width="2.5"{_dashes(look.dashes)}/></svg>{escape(fitted(look.label))}</span>'
        for look in looks
    )
    return f'<p class="legend">{keys}</p>' if keys else ""


def _shape(shape: Stroke | Area | Dot | Tiles | Text) -> str:
    match shape:
        case Stroke():
            path = "".join(_path(points) for points in shape.paths)
            style = f'fill="none" stroke="{_colour(shape.colour)}" stroke-width="{shape.width:g}"'
            body = f'<path d="{path}" {style}{_dashes(shape.dashes)}{_opacity(shape.opacity)}'
            return _titled(body, "path", shape.title) if path else ""
        case Area():
            style = f'fill="{_colour(shape.colour)}"{_opacity(shape.opacity)}'
            return f'<path d="{_path(shape.corners)}Z" {style}/>'
        case Dot():
            colour = _colour(shape.colour)
            fill = f'fill="{colour}"' if shape.filled else f'fill="var(--paper)" stroke="{colour}" stroke-width="1.5"'
            place = f'cx="{_short(shape.x)}" cy="{_short(shape.y)}" r="{shape.radius:g}"'
            return _titled(f"<circle {place} {fill}{_opacity(shape.opacity)}", "circle", shape.title)
        case Tiles():
            width, height = (_short(size) for size in shape.size)
            back = _short(-shape.size[0])
            path = "".join(f"M{_short(x)} {_short(y)}h{width}v{height}h{back}z" for x, y in shape.corners)
            return f'<path d="{path}" fill="{_colour(shape.colour)}" shape-rendering="crispEdges"/>'
        case Text():
            bold = ' font-weight="600"' if shape.bold else ""
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            place = f'x="{_short(shape.x)}" y="{_short(shape.y)}" font-size="{TEXT:g}"'
            return f'<text {place}{anchor}{bold} fill="{_colour(shape.colour)}">{escape(shape.text)}</text>'


def _titled(opening: str, tag: str, title: str) -> str:
    return f"{opening}><title>{escape(title)}</title></{tag}>" if title else f"{opening}/>"


def _path(points: Array) -> str:
    """Return lines from point to point, with a tenth of a unit as the last digit."""
    numbers = np.round(points, 1).tolist()
    return f"M{'L'.join(f'{_short(x)} {_short(y)}' for x, y in numbers)}"


@lru_cache(maxsize=1 << 16)
def _short(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def _opacity(value: float) -> str:
    return "" if value == 1.0 else f' opacity="{value:g}"'


def _dashes(dashes: Any) -> str:
    """Return dashes as an attribute, of a solid line too: a name, which chooses the look, adds no attribute."""
    return (
        f' stroke-dasharray="{"none" if isinstance(dashes, str) else " ".join(f"{2 * each:g}" for each in dashes[1])}"'
    )


def _colour(colour: str) -> str:
    return PAGE_COLOURS.get(colour, colour)


def for_page(drawing: Drawing) -> str:
    """Return all panels of a drawing, one after the other."""
    return legend_html(drawing.legend) + "".join(panel_svg(panel) for panel in drawing.panels)
