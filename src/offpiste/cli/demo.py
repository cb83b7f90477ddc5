"""`offpiste demo`: Deep Sea with and without intrinsic reward, the same on every machine."""

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
from offpiste.methods import METHODS, base_run

if TYPE_CHECKING:
    from offpiste.run.loop import Loop

SIZE = 12
CELLS = (SIZE + 1) * (SIZE + 2) // 2
"""Reachable cells, including the floor."""
SCALES = {"epsilon_greedy": None, "cts": 1.0}
"""The methods shown, each with its β. With 1, CTS finds the goal early, and does not yet keep to it."""
GOALS = 10
"""How often the second agent reaches the goal until the difference is plain."""
SHADES = (53, 54, 90, 126, 162, 197, 202, 208, 214, 220, 229)
"""Terminal colours, from the fewest visits to the most."""
UNVISITED = 236
PROGRESS_EPISODES = 50
"""How often progress is printed where there is no terminal."""
NEXT = "offpiste try simhash --quick"


@dataclass(frozen=True)
class Arguments:
    """Watch two agents learn in Deep Sea, whose goal only a long sequence of right actions reaches. One explores
    ε-greedily, the other with an intrinsic reward for frames that it has rarely seen; all else is equal.
    """

    episodes: int = 600
    """Max number of episodes; it ends when the agent with intrinsic reward has reached the goal ten times."""
    seed: int = 0
    """Random seed of both agents."""


@dataclass
class Contender:
    """One of the two agents, with its visits and its progress."""

    method: str
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((SIZE + 1, SIZE + 1), np.int64))
    """Visits of each cell, by row and column."""
    episodes: int = 0
    goals: int = 0
    """Episodes that reached the goal."""

    @property
    def label(self) -> str:
        """The name of the method for people."""
        return METHODS[self.method].label

    @property
    def cells(self) -> int:
        """Number of cells visited."""
        return int(np.count_nonzero(self.visits))

    def play_episode(self, loop: "Loop") -> None:
        """Play one episode, and count visits and whether it reached the goal."""
        from offpiste.worlds.small.deep_sea import TREASURE

        for step in loop.steps():
            column, row = (int(byte) // 8 for byte in loop.world.ram[:2])
            if step.episode is None:
                self.visits[row, column] += 1
                continue
            self.visits[0, 0] += 1  # where the next episode starts
            self.episodes += 1
            self.goals += step.episode.game_return > TREASURE / 2
            return


def main(arguments: Arguments) -> int:
    """Train both agents, draw their visits, say what came out, and suggest the next command."""
    if arguments.episodes <= 0:
        raise ConfigError(f"--episodes must be > 0, got {arguments.episodes}")
    console = Console()
    console.print(about(), highlight=False)
    contenders = [Contender(method) for method in SCALES]
    with _display(console, contenders) as live:
        for episode in play(contenders, arguments.episodes, arguments.seed):
            if live is not None:
                live.update(grids(contenders))
            elif episode % PROGRESS_EPISODES == 0:
                found = ", ".join(f"{each.label} {_progress(each)}" for each in contenders)
                console.print(f"episode {episode}: {found}", highlight=False)
        if live is None:
            console.print(grids(contenders))
    console.print(punchline(contenders), highlight=False)
    if not any(each.goals for each in contenders):
        console.print(f"For more:  offpiste demo --episodes {4 * arguments.episodes}", highlight=False)
    console.print(f"\nNext, a bonus in a hard world, beside the published methods:\n  {NEXT}", highlight=False)
    return 0


def about() -> str:
    """Return what to watch, in lines no wider than the grids, since its GIF is shown on phones, too."""
    return (
        f"Deep Sea: the goal ◆ is {SIZE} right actions away. Of {2**SIZE:,}\n"
        "random episodes one reaches it. Watch how far each agent\n"
        "spreads: brighter cells were visited more often.\n"
    )


def play(contenders: list[Contender], episodes: int, seed: int) -> Iterator[int]:
    """Train all, an episode each in turn, until the last has reached the goal often; yield the number of each."""
    loops = [_loop(each.method, seed) for each in contenders]
    for episode in range(1, episodes + 1):
        for each, loop in zip(contenders, loops, strict=True):
            each.play_episode(loop)
        yield episode
        if contenders[-1].goals >= GOALS:
            return


def grids(contenders: list[Contender]) -> Table:
    """Return the agents' visits side by side."""
    table = Table.grid(padding=(0, 4))
    table.add_row(*(Text(each.label, style="bold") for each in contenders))
    table.add_row(*(_grid(each.visits) for each in contenders))
    table.add_row(*(Text(f"episode {each.episodes}, {each.cells} of {CELLS} cells") for each in contenders))
    table.add_row(*(Text(f"goal reached {each.goals} times", style="bold") for each in contenders))
    return table


def punchline(contenders: list[Contender]) -> str:
    """Return how often each reached the goal."""
    reached = ", ".join(f"{each.label} {each.goals} of {each.episodes}" for each in contenders)
    return f"\nGoal reached: {reached} episodes."


def _loop(method: str, seed: int) -> "Loop":
    from offpiste.run.loop import Loop
    from offpiste.run.process import prepare

    config, scale = replace(base_run(f"deep_sea_{SIZE}", method), seed=seed), SCALES[method]
    if scale is not None:
        config = replace(config, bonus=replace(config.bonus, scale=scale))
    prepare(config.machine)
    return Loop(config)


@contextmanager
def _display(console: Console, contenders: list[Contender]) -> Iterator[Live | None]:
    """Yield a live display on a terminal, None elsewhere."""
    if not console.is_terminal:
        yield None
        return
    with Live(grids(contenders), console=console, refresh_per_second=8) as live:
        yield live


def _progress(each: Contender) -> str:
    return f"{each.cells} cells and {each.goals} goals"


def _grid(visits: NDArray[np.int64]) -> Text:
    max_visits = max(1, int(visits.max()))
    text = Text()
    for row in range(SIZE + 1):
        for column in range(row + 1):
            count = int(visits[row, column])
            shade = SHADES[round((len(SHADES) - 1) * np.log1p(count) / np.log1p(max_visits))] if count else UNVISITED
            goal = row == column == SIZE
            ink = "bright_white" if goal else f"color({shade})"  # dots are for where there is no colour
            text.append("◆ " if goal else ("· " if count else "  "), style=f"{ink} on color({shade})")
        text.append("\n")
    return text
