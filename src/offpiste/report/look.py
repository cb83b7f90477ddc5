"""How things look and what they are called, the same in every figure and on the page.

Colours are those of Okabe and Ito (2008), which colour-blind readers can distinguish; lines differ in dashes and
markers too, for print in grey. Ink and greys are names for the page's own, which turn with light and dark.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from offpiste.analysis.names import label, ordered_methods
from offpiste.methods import RANDOM_PLAY

INK = "#1b1d21"
MUTED = "#5c626c"
GRID = "#dfe2e7"
PUBLISHED_GREYS = ("#7d838d", "#a39178")
"""Two greys, one of them warm, that keep two published series apart."""
PAGE_COLOURS = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PUBLISHED_GREYS[0]: "var(--published-1)",
    PUBLISHED_GREYS[1]: "var(--published-2)",
}
"""What a colour of a figure is on the page, where the reader's setting decides."""

ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


@dataclass(frozen=True)
class Look:
    """How a series is drawn."""

    label: str
    colour: str
    dashes: Any
    """As matplotlib writes line styles."""
    marker: Any
    """As matplotlib writes markers."""


SOLID, DASHED, DOTTED, DASH_DOTTED = "-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.5, 1, 1.5))
SHORT, SHORT_DOTTED = (0, (2, 1)), (0, (2, 1, 0.5, 1))
"""Of our later methods alone."""
LONG, LONG_DOTTED, DASH_DOT_DOTTED = (0, (8, 2)), (0, (8, 1.5, 1, 1.5)), (0, (4, 1.5, 1, 1.5, 1, 1.5))
_OWN: dict[str, tuple[str, Any, str]] = {
    "epsilon_greedy": (INK, SOLID, "o"),
    "noisy_nets": (ORANGE, DASHED, "s"),
    "cts": (BLUE, SOLID, "^"),
    "pixelcnn": (SKY, DASH_DOTTED, "v"),
    "icm": (GREEN, DASHED, "D"),
    "rnd": (VERMILION, SOLID, "P"),
    "rnd_released": (PURPLE, DOTTED, "X"),
    "ez_greedy": (INK, DASHED, "8"),
    "simhash": (ORANGE, SOLID, "*"),
    # References to read the others against: grey, distinguished by dashes and marker.
    "oracle": (MUTED, DASHED, "<"),
    "oracle_episodic": (MUTED, DOTTED, ">"),
    "oracle_product": (MUTED, DASH_DOTTED, "h"),
    "oracle_left": (MUTED, LONG, "H"),
    "e3b": (BLUE, SHORT, "s"),
    "noveld": (VERMILION, SHORT, "^"),
    "ngu": (GREEN, SHORT, "v"),
    "rnd_full": (ORANGE, SHORT, "P"),
    "drnd": (PURPLE, SHORT, "P"),
    "disagreement": (GREEN, SHORT_DOTTED, "s"),
    "ride": (BLUE, SHORT_DOTTED, "D"),
    "e3b_rnd": (VERMILION, SHORT_DOTTED, "s"),
    "cfn": (SKY, SHORT, "^"),
    RANDOM_PLAY: (MUTED, SOLID, "D"),
}
_OTHERS = [
    (colour, dashes, marker)
    for (dashes, marker), colour in itertools.product(
        (
            (LONG, "d"),
            (LONG_DOTTED, (4, 1, 0)),  # a star of four points, below of six
            (DASH_DOT_DOTTED, "<"),
            (DASHED, "p"),
            (DASH_DOTTED, (6, 1, 0)),
            (DOTTED, ">"),
            (SOLID, "o"),
        ),
        (PURPLE, GREEN, VERMILION, BLUE, ORANGE, SKY),
    )
    if (colour, dashes) not in {own[:2] for own in _OWN.values()}
]
"""Looks of all other methods: no two share colour and dashes, nor colour and marker, and none shares either with ours.
Yellow is left out, which is hard to see on white."""
_SERIES = {"dopamine tf": "Dopamine TF, published", "dopamine jax": "Dopamine JAX, published"}


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return how methods are drawn: ours always alike, any other by its name.

    Of several others whose names give the same look, the first by name has it and the rest take looks that are free.
    """
    names = ordered_methods(methods)
    wanted = {name: _wanted(name) for name in names if name not in _OWN}
    taken = {index: name for name, index in reversed(wanted.items())}
    free = [index for index in range(len(_OTHERS)) if index not in taken]
    found = {}
    for name in names:
        if name in _OWN:
            found[name] = Look(label(name), *_OWN[name])
            continue
        index = wanted[name]
        if taken[index] != name and free:
            index = min(free, key=lambda each: (each - wanted[name]) % len(_OTHERS))
            free.remove(index)
        found[name] = Look(label(name), *_OTHERS[index])
    return found


def _wanted(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % len(_OTHERS)


def series_look(series: str) -> Look:
    """Return how a published series is drawn: in grey, without markers, each in its own."""
    number = {"dopamine tf": 0, "dopamine jax": 1}.get(series, 1)
    dashes = (SOLID, DASHED)[number] if series in _SERIES else DOTTED
    return Look(_SERIES.get(series, f"{series}, published"), PUBLISHED_GREYS[number], dashes, "")


def file_name(game: str, part: int = 0) -> str:
    """Return the name of a game's files and of its anchor on the page; a game may be called anything in a store."""
    if part:
        return f"{file_name(game)}_{part}"
    if re.fullmatch(r"[a-z0-9_]{1,60}", game):
        return f"game_{game}"
    kept = re.sub(r"[^a-z0-9_]+", "-", game.lower())[:40]
    return f"game_{kept}-{hashlib.sha256(game.encode()).hexdigest()[:12]}"
