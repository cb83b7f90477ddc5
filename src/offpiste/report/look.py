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

ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
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
    marker: str


SOLID, DASHED, DOTTED, DASH_DOTTED, LONG = "-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.5, 1, 1.5)), (0, (8, 2))
_OWN: dict[str, tuple[str, Any, str]] = {
    "epsilon_greedy": (INK, SOLID, "o"),
    "noisy_nets": (ORANGE, DASHED, "s"),
    "cts": (BLUE, SOLID, "^"),
    "pixelcnn": (SKY, DASH_DOTTED, "v"),
    "icm": (GREEN, DASHED, "D"),
    "rnd": (VERMILION, SOLID, "P"),
    "rnd_released": (PURPLE, DOTTED, "X"),
    "simhash": (ORANGE, SOLID, "*"),
    # References to read the others against: grey, distinguished by dashes and marker.
    "oracle": (MUTED, DASHED, "<"),
    "oracle_episodic": (MUTED, DOTTED, ">"),
    "oracle_product": (MUTED, DASH_DOTTED, "h"),
}
# Others differ from these in their marker, and from each other in colour and dashes together.
_OTHERS = [
    (colour, dashes, marker)
    for (dashes, marker), colour in itertools.product(
        ((LONG, "d"), (DOTTED, "H"), (DASH_DOTTED, "p"), (SOLID, "8"), (DASHED, "d")),
        (PURPLE, GREEN, VERMILION, BLUE, ORANGE, SKY, YELLOW),
    )
]
_SERIES = {"dopamine tf": "Dopamine TF, published", "dopamine jax": "Dopamine JAX, published"}


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return how methods are drawn: ours always alike, any other by its name, unless another took that look."""
    found = {}
    free = dict.fromkeys(range(len(_OTHERS)))
    for name in ordered_methods(methods):
        if name in _OWN:
            found[name] = Look(label(name), *_OWN[name])
            continue
        wanted = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % len(_OTHERS)
        index = min(free, key=lambda index: (index - wanted) % len(_OTHERS)) if free else wanted
        free.pop(index, None)
        found[name] = Look(label(name), *_OTHERS[index])
    return found


def series_look(series: str) -> Look:
    """Return how a published series is drawn: in grey, without markers, each in its own."""
    number = {"dopamine tf": 0, "dopamine jax": 1}.get(series, 1)
    dashes = (SOLID, DASHED)[number] if series in _SERIES else DOTTED
    return Look(_SERIES.get(series, f"{series}, published"), PUBLISHED_GREYS[number], dashes, "")


def file_name(game: str) -> str:
    """Return the name of a game's files and of its anchor on the page; a game may be called anything in a store."""
    if re.fullmatch(r"[a-z0-9_]{1,60}", game):
        return f"game_{game}"
    kept = re.sub(r"[^a-z0-9_]+", "-", game.lower())[:40]
    return f"game_{kept}-{hashlib.sha256(game.encode()).hexdigest()[:12]}"
