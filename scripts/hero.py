"""Where agents went in the small worlds, as pictures for light pages and dark ones: the first of README and the docs.

`python -m scripts.small_worlds` compares them with the results, and draws them anew.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from offpiste.analysis.names import label, seeds_text, title
from offpiste.analysis.results import Results
from offpiste.analysis.visits import Visits, flattened, ground, summed, visits_by_run
from offpiste.report import maps
from offpiste.report.drawing import style

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
GAMES = ("deep_sea_12", "four_rooms", "noisy_tv")
METHODS = ("epsilon_greedy", "rnd", "cts", "simhash", "oracle")
INK = {"light": "#1f2328", "dark": "#f0f6fc"}
"""The colour of text by the reader's scheme; the background is the page itself."""

WIDTH, DPI = 10.4, 200
"""Inches, of 100 pixels each on a page that shows the picture at its full size."""
PANEL, GAP, LEFT, TOP, BELOW = 1.81, 0.15, 0.64, 0.55, 0.48
LABEL, SCORE = 20, 20
"""Sizes of text, in points."""
CARD, CARD_SIZE, DARK_PAGE = ROOT / "docs" / "_static" / "card.png", (1200, 630), "#0d1117"
CARD_TEXT = "Does your\nexploration\nbonus explore?"
SOURCE = "Source"
"""The entry of a picture's metadata that says what it was drawn from."""


@dataclass(frozen=True)
class Map:
    """The visits of a method in one world, summed over seeds, and its score."""

    game: str
    method: str
    visits: dict[tuple[int, int], int]
    """By column and row of a cell."""
    score: float
    """Mean over all seeds, where random play is 0 and the best policy is 1."""


@dataclass(frozen=True)
class Hero:
    """What the picture shows."""

    maps: tuple[Map, ...]
    """Row by row."""
    seeds: tuple[int, ...]
    """Those that every map adds up."""
    score_seeds: int
    """How many each score is a mean over."""

    @property
    def source(self) -> str:
        """A checksum of all that is drawn."""
        shown = [[m.game, m.method, sorted(m.visits.items()), f"{m.score:.2f}"] for m in self.maps]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def stale(hero: Hero) -> list[Path]:
    """Return the pictures that show something else."""
    return [file for page in INK if source_of(file := picture(page)) != hero.source]


def draw_all(hero: Hero) -> None:
    """Draw every picture anew."""
    for page in INK:
        draw(hero, page, picture(page))
    draw_card(picture("dark"))


def picture(page: str) -> Path:
    """Return the file of the picture for light or dark pages."""
    return FIGURES / f"hero-{page}.png"


def source_of(file: Path) -> str | None:
    """Return what a picture was drawn from, or None if it is not there."""
    if not file.exists():
        return None
    with Image.open(file) as image:
        return str(image.info.get(SOURCE))


def read(results: Results, games: Sequence[str] = GAMES, methods: Sequence[str] = METHODS) -> Hero:
    """Return the maps of these worlds and methods, each of the seeds that all of them have."""
    evidence = results.evidence()
    found = visits_by_run(results)
    visits: dict[tuple[str, str], dict[int, Visits]] = defaultdict(dict)
    for run in results.runs:
        if run.name in found and not run.variant:
            visits[run.game, run.method][run.seed] = found[run.name]
    pairs = [(game, method) for game in games for method in methods]
    seeds = sorted(set.intersection(*(set(visits[pair]) for pair in pairs)))
    drawn = tuple(
        Map(*pair, flattened(summed(visits[pair][seed] for seed in seeds)), float(evidence.normalised(*pair).mean()))
        for pair in pairs
    )
    return Hero(drawn, tuple(seeds), min(len(evidence.normalised(*pair)) for pair in pairs))


def caption(hero: Hero) -> str:
    """Return what the picture shows, in two sentences."""
    return (
        f"Where agents went in training, the brighter the more often (seeds {seeds_text(hero.seeds)} together; the "
        f"diamond is the goal), and mean scores of {hero.score_seeds} seeds, from 0 for random play to 1 for the best "
        "policy. ε-greedy stays near the start and bonuses reach the goal; in Noisy TV, which is Four Rooms with a "
        "screen of random pixels, only the oracle does well, which counts true states."
    )


def draw(hero: Hero, page: str, file: Path) -> None:
    """Write the picture for light or dark pages."""
    rows = [[each for each in hero.maps if each.game == game] for game in dict.fromkeys(m.game for m in hero.maps)]
    height = TOP + len(rows) * (PANEL + BELOW)
    with style("hero"):
        figure = Figure(figsize=(WIDTH, height), dpi=DPI)
        FigureCanvasAgg(figure)
        for number, row in enumerate(rows):
            bottom = height - TOP - number * (PANEL + BELOW) - PANEL
            most = max(max(each.visits.values(), default=1) for each in row)
            name = title(row[0].game).rstrip(" 0123456789")
            figure.text(
                0.02, (bottom + PANEL / 2) / height, name, rotation=90, va="center", size=LABEL, color=INK[page]
            )
            for column, each in enumerate(row):
                left = LEFT + column * (PANEL + GAP)
                axes = figure.add_axes((left / WIDTH, bottom / height, PANEL / WIDTH, PANEL / height))
                _draw_map(axes, each, most)
                middle = (left + PANEL / 2) / WIDTH
                score = f"{each.score:z.2f}".replace("-", "−")
                figure.text(middle, (bottom - 0.06) / height, score, ha="center", va="top", size=SCORE, color=INK[page])
                if not number:
                    top = (bottom + PANEL + 0.1) / height
                    figure.text(
                        middle, top, label(each.method).partition(" (")[0], ha="center", size=LABEL, color=INK[page]
                    )
        figure.savefig(file, facecolor="none")
    about = PngInfo()
    about.add_text(SOURCE, hero.source)
    with Image.open(file) as image:
        small = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small.save(file, optimize=True, pnginfo=about)


def draw_card(hero: Path) -> None:
    """Write the picture that a link to the documentation shows elsewhere: the maps, and what this is."""
    with Image.open(hero) as image:
        maps = image.convert("RGBA")
    height = round(CARD_SIZE[1] * 0.94)
    maps = maps.resize((round(maps.width * height / maps.height), height), Image.Resampling.LANCZOS)
    with style("card"):
        figure = Figure(figsize=(CARD_SIZE[0] / 100, CARD_SIZE[1] / 100), dpi=100, facecolor=DARK_PAGE)
        FigureCanvasAgg(figure)
        figure.figimage(np.asarray(maps), CARD_SIZE[0] - maps.width - 12, (CARD_SIZE[1] - height) // 2)
        figure.text(0.03, 0.8, "offpiste", size=38, weight="bold", color=INK["dark"])
        figure.text(0.03, 0.66, CARD_TEXT, size=19, color=INK["dark"], va="top", linespacing=1.5)
        figure.savefig(CARD, facecolor=DARK_PAGE, metadata={"Software": None})


def _draw_map(axes: Axes, shown: Map, most: int) -> None:
    known = ground(shown.game)
    if known is None or known[1] is None:
        raise ValueError(f"{shown.game} is no small world with a goal")
    free, (row, column) = known[0], known[1]
    image = maps.image(shown.visits, free, most)
    axes.imshow(image, interpolation="nearest")
    axes.plot(column, row, marker="D", color="white", markersize=7, markeredgecolor="#14181f", markeredgewidth=1.2)
    axes.set_axis_off()
