"""`offpiste demo`: half a minute of Deep Sea, with and without intrinsic reward, the same on every machine."""

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

SIZE = 12
CELLS = (SIZE + 1) * (SIZE + 2) // 2
"""Reachable cells, including the floor."""
SCALES = {"epsilon_greedy": None, "cts": 1.0}
"""The methods shown, each with its β. With 1, CTS finds the goal early, and does not yet keep to it."""
SHADES = (16, 17, 18, 19, 20, 26, 32, 38, 44, 50, 87)
"""Terminal colours, from no visits to the most."""
PROGRESS_EPISODES = 50
"""How often progress is printed where there is no terminal."""
PLOT_WIDTH = 60
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Arguments:
    """Watch two agents learn in Deep Sea, whose goal only a long sequence of right actions reaches. One explores
    ε-greedily, the other with an intrinsic reward for frames that it has rarely seen; all else is equal.
    """

    episodes: int = 400
    """Max number of episodes; it ends when the agent with intrinsic reward has reached the goal."""
    seed: int = 0
    """Random seed of both agents."""


@dataclass
class Contender:
    """One of the two agents, with its visits and its progress."""

    name: str
    loop: "Loop"
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((SIZE + 1, SIZE + 1), np.int64))
    """Visits of each cell, by row and column."""
    cells: list[int] = field(default_factory=list)
    """Cells found so far, after each episode."""
    goal_episode: int | None = None
    """The first episode that reached the goal."""

    def play_episode(self) -> None:
        """Play one episode and record its visits, the cells found and whether it reached the goal."""
        from offpiste.worlds.small.deep_sea import TREASURE

        for step in self.loop.steps():
            column, row = (int(byte) // 8 for byte in self.loop.world.ram[:2])
            self.visits[row, column] += 1
            if step.episode is not None:
                self.visits[0, 0] += 1  # where the next episode starts
                self.cells.append(self.loop.tracker.coverage.cells_found)
                if step.episode.game_return > TREASURE / 2 and self.goal_episode is None:
                    self.goal_episode = len(self.cells)
                return


def main(arguments: Arguments) -> int:
    """Train both agents, draw their visits, and suggest the next command."""
    if arguments.episodes <= 0:
        raise ConfigError(f"--episodes must be > 0, got {arguments.episodes}")
    console = Console()
    console.print(
        f"Deep Sea, {SIZE} × {SIZE}: an episode is {SIZE} actions, left or right; the goal is at the bottom right. A "
        f"random policy reaches it once in {2**SIZE:,} episodes."
    )
    contenders = _make_contenders(arguments.seed)
    with _display(console) as live:
        for episode in range(1, arguments.episodes + 1):
            for each in contenders:
                each.play_episode()
            if live is not None:
                live.update(_grids(contenders))
            elif episode % PROGRESS_EPISODES == 0:
                found = ", ".join(f"{each.name} found {each.cells[-1]} cells" for each in contenders)
                console.print(f"episode {episode}: {found}", highlight=False)
            if contenders[-1].goal_episode is not None:
                break
        if live is None:
            console.print(_grids(contenders))
    for line in plot(contenders):
        console.print(line, highlight=False)
    for each in contenders:
        goal = (
            "did not reach the goal"
            if each.goal_episode is None
            else f"reached the goal in episode {each.goal_episode}"
        )
        console.print(f"{each.name}: {goal}; found {each.cells[-1]} of {CELLS} cells.", highlight=False)
    if all(each.goal_episode is None for each in contenders):
        more = f"offpiste demo --episodes {4 * arguments.episodes}"
        console.print(f"Stopped after {len(contenders[0].cells)} episodes; for more:  {more}", highlight=False)
    console.print("\nNext, a real game, until you stop it:  offpiste train --game freeway --frames 1M", highlight=False)
    return 0


def _make_contenders(seed: int) -> list[Contender]:
    from offpiste.run.loop import Loop
    from offpiste.run.process import prepare

    contenders = []
    for method, scale in SCALES.items():
        config = replace(base_run(f"deep_sea_{SIZE}", method), seed=seed)
        if scale is not None:
            config = replace(config, bonus=replace(config.bonus, scale=scale))
        prepare(config.machine)
        contenders.append(Contender(method, Loop(config)))
    return contenders


@contextmanager
def _display(console: Console) -> Iterator[Live | None]:
    """Yield a live display on a terminal, None elsewhere."""
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield live


def _grids(contenders: list[Contender]) -> Table:
    """Return the agents' visits side by side; brighter cells were visited more often."""
    table = Table.grid(padding=(0, 4))
    table.add_row(*(Text(each.name, style="bold") for each in contenders))
    table.add_row(*(_grid(each.visits) for each in contenders))
    table.add_row(*(Text(f"episode {len(each.cells)}, {each.cells[-1]} cells found") for each in contenders))
    return table


def _grid(visits: NDArray[np.int64]) -> Text:
    max_visits = max(1, int(visits.max()))
    text = Text()
    for row in range(SIZE + 1):
        for column in range(SIZE + 1):
            count = int(visits[row, column])
            shade = SHADES[round((len(SHADES) - 1) * np.log1p(count) / np.log1p(max_visits))]
            goal = row == column == SIZE
            text.append("◆ " if goal else ("· " if count else "  "), style=f"color(226) on color({shade})")
        text.append("\n")
    return text


def plot(contenders: list[Contender]) -> list[str]:
    """Return lines of text that show the cells found over the episodes, one row of bars per agent."""
    episodes = max(len(each.cells) for each in contenders)
    width = min(PLOT_WIDTH, episodes)
    lines = ["", f"cells found, of {CELLS}, over {episodes} episodes"]
    for each in contenders:
        indices = [(bar + 1) * episodes // width - 1 for bar in range(width)]
        levels = [each.cells[min(index, len(each.cells) - 1)] / CELLS for index in indices]
        bars = "".join(BARS[min(len(BARS) - 1, round(level * (len(BARS) - 1)))] for level in levels)
        lines.append(f"{each.name:<15} {bars}")
    return lines
