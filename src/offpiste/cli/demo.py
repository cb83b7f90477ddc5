"""`offpiste demo`: a minute or so of Deep Sea, with and without a bonus."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from offpiste.errors import ConfigError
from offpiste.methods import base_run

if TYPE_CHECKING:
    from offpiste.run.loop import Loop

SIZE = 10
CELLS = (SIZE + 1) * (SIZE + 2) // 2
"""That can be reached, those on the floor included."""
ARMS = {"epsilon_greedy": None, "cts": 1.0}
"""The methods shown, and the scale of the bonus that suits this world (`benchmarks/validation/deep_sea.py`)."""
SHADES = (16, 17, 18, 19, 20, 26, 32, 38, 44, 50, 87)
"""Terminal colours from never visited to visited most."""
PLOT_WIDTH = 60
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Arguments:
    """Watch two agents look for a treasure that only a long row of right moves reaches. One explores by chance, the
    other is paid a bonus for pictures it has rarely seen; all else is the same.
    """

    seconds: float = 100.0
    """How long, at most."""
    seed: int = 0
    """Another seed, another story."""


@dataclass
class Contender:
    """One of the two agents and what it has seen."""

    name: str
    loop: "Loop"
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((SIZE + 1, SIZE + 1), np.int64))
    cells: list[int] = field(default_factory=list)
    """Cells found, after each episode."""
    found_after: int | None = None

    def play_episode(self) -> None:
        """Play one episode and note down what it found."""
        from offpiste.worlds.small.deep_sea import TREASURE

        for step in self.loop.steps():
            column, row = (int(byte) // 8 for byte in self.loop.world.ram[:2])
            self.visits[row, column] += 1
            if step.episode is not None:
                self.visits[0, 0] += 1  # where the next one starts
                self.cells.append(self.loop.tracker.coverage.cells_found)
                if step.episode.game_return > TREASURE / 2 and self.found_after is None:
                    self.found_after = len(self.cells)
                return


def main(arguments: Arguments) -> int:
    """Play, draw, and say what to type next."""
    if arguments.seconds <= 0:
        raise ConfigError(f"--seconds is above 0, not {arguments.seconds}")
    console = Console()
    console.print(
        f"Deep Sea, {SIZE} × {SIZE}: each dive is {SIZE} moves, left or right; the treasure lies at the bottom right. "
        f"Chance finds it once in {2**SIZE:,} dives."
    )
    arms = _make_arms(arguments.seed)
    end = time.monotonic() + arguments.seconds
    with _screen(console) as live:
        while time.monotonic() < end and any(arm.found_after is None for arm in arms[1:]):
            for arm in arms:
                arm.play_episode()
            if live is not None:
                live.update(_seas(arms))
        if live is None:
            console.print(_seas(arms))
    for line in plot(arms):
        console.print(line, highlight=False)
    for arm in arms:
        how = (
            "did not find the treasure" if arm.found_after is None else f"found the treasure in dive {arm.found_after}"
        )
        console.print(f"{arm.name}: {how}; saw {arm.cells[-1]} of {CELLS} cells.", highlight=False)
    if all(arm.found_after is None for arm in arms):
        more = f"offpiste demo --seconds {4 * arguments.seconds:g}"
        console.print(f"Time was up after {len(arms[0].cells)} dives; more of it:  {more}", highlight=False)
    console.print("\nNext, a real game, until you stop it:  offpiste train --game freeway --frames 1M", highlight=False)
    return 0


def _make_arms(seed: int) -> list[Contender]:
    from offpiste.run.loop import Loop
    from offpiste.run.process import prepare

    arms = []
    for method, scale in ARMS.items():
        config = replace(base_run(f"deep_sea_{SIZE}", method), seed=seed)
        if scale is not None:
            config = replace(config, bonus=replace(config.bonus, scale=scale))
        prepare(config.machine)
        arms.append(Contender(method, Loop(config)))
    return arms


@contextmanager
def _screen(console: Console) -> Iterator[Live | None]:
    """Yield a live display on a terminal, and nothing elsewhere."""
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield live


def _seas(arms: list[Contender]) -> Table:
    """Return the two seas side by side, brighter where the diver was more often."""
    table = Table.grid(padding=(0, 4))
    table.add_row(*(Text(arm.name, style="bold") for arm in arms))
    table.add_row(*(_sea(arm) for arm in arms))
    table.add_row(*(Text(f"dive {len(arm.cells)}, {arm.cells[-1]} cells found") for arm in arms))
    return table


def _sea(arm: Contender) -> Text:
    most = max(1, int(arm.visits.max()))
    text = Text()
    for row in range(SIZE + 1):
        for column in range(SIZE + 1):
            visits = int(arm.visits[row, column])
            shade = SHADES[round((len(SHADES) - 1) * np.log1p(visits) / np.log1p(most))]
            treasure = row == column == SIZE
            text.append("◆ " if treasure else ("· " if visits else "  "), style=f"color(226) on color({shade})")
        text.append("\n")
    return text


def plot(arms: list[Contender]) -> list[str]:
    """Return lines of text that show the cells found over the dives, one row of bars per agent."""
    dives = max(len(arm.cells) for arm in arms)
    width = min(PLOT_WIDTH, dives)
    lines = ["", f"cells found, of {CELLS}, over {dives} dives"]
    for arm in arms:
        places = [(place + 1) * dives // width - 1 for place in range(width)]
        levels = [arm.cells[min(place, len(arm.cells) - 1)] / CELLS for place in places]
        bars = "".join(BARS[min(len(BARS) - 1, round(level * (len(BARS) - 1)))] for level in levels)
        lines.append(f"{arm.name:<15} {bars}")
    return lines
