"""How things look and what they are called, the same in every figure and on the page.

Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart; lines differ in dashes and markers
too, for print in grey. Ink and greys are names for the page's own, which turn with light and dark.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from offpiste.methods import METHODS
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import SUITES, WORLDS, find

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
    # References to read the others against: grey, told apart by dashes and marker.
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
        place = min(free, key=lambda place: (place - wanted) % len(_OTHERS)) if free else wanted
        free.pop(place, None)
        found[name] = Look(label(name), *_OTHERS[place])
    return found


def label(method: str) -> str:
    """Return what a method is called on the page."""
    return METHODS[method].label if method in METHODS else method


def series_look(series: str) -> Look:
    """Return how a published series is drawn: in grey, without markers, each in its own."""
    number = {"dopamine tf": 0, "dopamine jax": 1}.get(series, 1)
    dashes = (SOLID, DASHED)[number] if series in _SERIES else DOTTED
    return Look(_SERIES.get(series, f"{series}, published"), PUBLISHED_GREYS[number], dashes, "")


def title(game: str) -> str:
    """Return the name of a game as people write it."""
    return find(game).title or game.replace("_", " ").title()


def file_name(game: str) -> str:
    """Return the name of a game's files and of its anchor on the page; a game may be called anything in a store."""
    if re.fullmatch(r"[a-z0-9_]{1,60}", game):
        return f"game_{game}"
    kept = re.sub(r"[^a-z0-9_]+", "-", game.lower())[:40]
    return f"game_{kept}-{hashlib.sha256(game.encode()).hexdigest()[:12]}"


def in_words(text: str) -> str:
    """Return a sentence with games and methods called as people do."""
    names = {game: title(game) for game in (*GAMES, *SUITES["small_worlds"])} | {
        method: label(method) for method in METHODS
    }
    return re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), text).replace("'", "’")


def ordered_methods(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of their table, the paper's first, then others by name."""
    indices = {name: index for index, name in enumerate(METHODS)}
    return sorted(set(methods), key=lambda name: (indices.get(name, len(indices)), name))


def ordered_games(games: Iterable[str]) -> list[str]:
    """Return games in the order of the table of worlds, the paper's first, then others by name."""
    rows = dict.fromkeys((*GAMES, *SUITES["small_worlds"], *WORLDS))
    indices = {name: index for index, name in enumerate(rows)}
    return sorted(set(games), key=lambda game: (indices.get(game, indices.get(find(game).name, len(indices))), game))


def frames_text(frames: float) -> str:
    """Return a number of frames in short: 200M, 8k, 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if frames >= size:
            return f"{frames / size:.4g}{unit}"
    return f"{frames:.4g}"
