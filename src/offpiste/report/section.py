"""What a page is made of: sections, each with a title and parts, which the template lays out one below the other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from offpiste.report.panels import Drawing
from offpiste.report.tables import Table


@dataclass(frozen=True)
class Words:
    """Paragraphs; small ones explain what stands above them."""

    lines: Sequence[str]
    small: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading within a section, with an anchor if it has a name."""

    text: str
    name: str = ""
    more: str = ""


@dataclass(frozen=True)
class Shown:
    """A table, or its first rows, with a link to its CSV file."""

    table: Table
    limit: int | None = None
    wide: tuple[str, ...] = ()
    """Columns that hold sentences."""


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption, and links to its files."""

    drawing: Drawing
    heading: bool = True
    size: str = "curves"
    """How large its panels are on a page: curves, maps, large, rows or whole."""


@dataclass(frozen=True)
class Fold:
    """Parts that a reader opens."""

    summary: str
    parts: Sequence["Part"]
    opened: bool = False


@dataclass(frozen=True)
class Files:
    """Tables that are written but not shown."""

    tables: Sequence[Table]
    about: str = ""


@dataclass(frozen=True)
class Code:
    """Commands."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Custom:
    """A part with a layout of its own: the macro of the template by this name, and what it shows."""

    macro: str
    about: Any


Part = Words | Heading | Shown | Figure | Fold | Files | Code | Custom


@dataclass(frozen=True)
class Section:
    """A part of a page that its bar of contents leads to."""

    key: str
    title: str
    parts: Sequence[Part]


def parts_of(sections: Iterable[Section]) -> Iterator[Part]:
    """Yield all parts of all sections, what is folded away among them."""
    for section in sections:
        yield from _unfolded(section.parts)


def _unfolded(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Fold):
            yield from _unfolded(part.parts)
