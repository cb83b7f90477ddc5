"""What each bonus pays along one episode of real play: a figure per method, to be looked at, and one number.

A bonus first sees 5,000 steps of uniformly random play, then one episode of the same game from another seed, at most
1,500 steps long, and continues to learn as it does in a run. In Montezuma's Revenge the episode is uniformly random
too, and the figure marks where lives are lost; it never leaves the first room. In Private Eye actions are held for 1 to
7 steps, and every second one drives to the right, so that one new scene follows the other; the figure marks where each
is first seen. Below the curve are the frames of the five highest peaks that are at least 10 steps apart.

The number is the mean rank of the steps that show a scene for the first time: the share of the episode's steps that pay
more than such a step (0: none does; 0.5: as by chance), averaged over all scenes seen neither in the warm-up nor
earlier in the episode. The scene is identified by a byte of the console's memory. The screen may follow it by a frame
or two; of the step at which the byte is new and the next, that one counts whose frame differs more from the one before.
A bonus belongs to the frame of the state in which the action was taken; but ICM pays for what comes next, so there the
step before counts, and the frame is that of the next state. CTS cuts off its gain at 25, which many steps reach; they
are ordered by the gain itself. Some streets of Private Eye look alike whatever their number says: the last row ranks
steps by how far their frame is from the nearest one seen before, as a yardstick.

Bar: every bonus is finite and every figure is written, to `--out`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from benchmarks.shared.bonuses import BONUSES, make_bonus
from benchmarks.shared.recording import random_play
from offpiste.bonuses.base import Transition
from offpiste.bonuses.cts import Cts
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.config import MachineConfig, WorldConfig
from offpiste.methods import METHODS
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.worlds import play
from offpiste.worlds.atari import AtariGame
from offpiste.worlds.registry import location

WARM_STEPS = 5_000
MAX_STEPS = 1_500
PEAKS = 5
APART_STEPS = 10
PAYS_FOR_NEXT = ("icm", "oracle", "oracle_episodic", "oracle_product")
STYLE: Any = {"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 8, "axes.linewidth": 0.6, "pdf.fonttype": 42}
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # distinct for colour-blind readers too (Okabe and Ito, 2008)


@dataclass(frozen=True)
class Plan:
    """How one game is played."""

    game: str
    title: str
    max_held: int = 1
    """Actions are held for 1 to this many steps."""
    drift: float = 0.0
    """The probability that an action is not drawn at random but goes to the right."""
    lives: int | None = None
    """The byte of memory that counts the lives left, where there are any."""


PLANS = (
    Plan("montezuma_revenge", "Montezuma’s Revenge", lives=58),
    Plan("private_eye", "Private Eye", max_held=7, drift=0.5),
)
RIGHT = 3
"""The action in the full set, which Private Eye has."""


@dataclass(frozen=True)
class Episode:
    """What happened in one episode, and what a bonus saw before it."""

    plan: Plan
    warm_up: list[Transition]
    transitions: list[Transition]
    first_sights: list[int]
    """Steps whose state shows a scene for the first time."""
    deaths: list[int]
    """Steps on which a life was lost."""


@dataclass(frozen=True)
class Paid:
    """What a method paid along an episode."""

    episode: Episode
    bonuses: NDArray[np.float64]
    order: NDArray[np.float64]
    """The same before it was cut off, on another scale."""
    peaks: list[int]
    first_sights: list[int]
    frames: list[NDArray[np.uint8]]
    """What was paid for at each peak."""

    @property
    def mean_rank(self) -> float | None:
        """The mean rank of first sights, or None without any."""
        return mean_rank(self.order, self.first_sights)


def main() -> int:
    """Draw all figures, print the ranks, and return 0 if every bonus was finite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="CTS only, after 500 steps")
    parser.add_argument("--method", choices=BONUSES, action="append", help="default: all")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the figures are written")
    parser.add_argument("--dpi", type=int, default=150, help="dots per inch of the PNG files (default 150)")
    parser.add_argument("--pdf", action="store_true", help="as PDF, too")
    options = parser.parse_args()
    prepare(MachineConfig())
    methods = options.method or (("cts",) if options.quick else BONUSES)
    episodes = [record(plan, 500 if options.quick else WARM_STEPS) for plan in PLANS]
    for episode in episodes:
        print(
            f"{episode.plan.game}: {len(episode.transitions):,} steps, {len(episode.deaths)} deaths, "
            f"{len(episode.first_sights)} scenes never seen before"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Paid]] = {}
    for method in methods:
        found[method] = [pay(method, episode) for episode in episodes]
        for paid in found[method]:
            if not np.isfinite(paid.bonuses).all():
                print(f"{method}, {paid.episode.plan.game}: pays what is not a finite number")
                return 1
            above = float(np.mean(METHODS[method].bonus.scale * paid.bonuses > 1))
            print(
                f"{method}, {paid.episode.plan.game}: pays {paid.bonuses.min():.3g} to {paid.bonuses.max():.3g}, "
                f"scaled more than 1 on {above:.0%} of the steps; peaks at {', '.join(map(str, paid.peaks))}"
            )
        with mpl.rc_context(STYLE):
            figure = draw(found[method], method)
            for ending in ("png", "pdf") if options.pdf else ("png",):
                figure.savefig(options.out / f"bonus_episode_{method}.{ending}", dpi=options.dpi)
    print(f"figures in {options.out}; mean rank of the steps that show a scene for the first time (0 is the highest):")
    print(f"{'':<16}" + "".join(f"{plan.game:>20}" for plan in PLANS))
    table = {method: [paid.mean_rank for paid in rows] for method, rows in found.items()}
    table["nearest"] = [mean_rank(distances(episode), episode.first_sights) for episode in episodes]
    for name, row in table.items():
        print(f"{name:<16}" + "".join(f"{'no new scene' if rank is None else f'{rank:.3f}':>20}" for rank in row))
    return 0


def record(plan: Plan, warm_steps: int) -> Episode:
    """Play the warm-up and one episode."""
    warm_up = list(islice(random_play(plan.game, seed=1), warm_steps))
    game = AtariGame(plan.game, WorldConfig(), stream(2, "game"))
    game.reset()
    start = game.ram
    planned = actions(plan, game.action_count)
    transitions = list(islice(play.episode(game, lambda _: next(planned)), MAX_STEPS))
    memory = [start, *(transition.ram for transition in transitions)]
    where = location(plan.game)
    assert where is not None
    assert where.room is not None
    rooms = [int(ram[where.room]) for ram in memory[:-1]]  # of the state in which each action was taken
    known = {int(transition.ram[where.room]) for transition in warm_up}
    frames = np.stack([transition.frame for transition in transitions])
    deaths = []
    if plan.lives is not None:
        lives = np.array([int(ram[plan.lives]) for ram in memory])
        over = np.array([transition.terminated for transition in transitions])
        deaths = np.flatnonzero((np.diff(lives) < 0) | over).tolist()
    return Episode(plan, warm_up, transitions, first_sights(rooms, known, frames), deaths)


def actions(plan: Plan, action_count: int) -> Iterator[int]:
    """Choose actions without looking."""
    generator = stream(2, "actions")
    while True:
        right = generator.random() < plan.drift
        action = RIGHT if right else int(generator.integers(action_count))
        for _ in range(int(generator.integers(1, plan.max_held + 1))):
            yield action


def first_sights(rooms: Sequence[int], known: set[int], frames: NDArray[np.uint8]) -> list[int]:
    """Return the steps whose frames show a room that is neither known nor was seen before."""
    changed = [0.0, *np.mean(frames[1:] != frames[:-1], axis=(1, 2)).tolist(), 0.0]
    seen = set(known)
    steps = []
    for step, room in enumerate(rooms):
        if room not in seen:
            seen.add(room)
            steps.append(step if changed[step] >= changed[step + 1] else step + 1)
    return steps


def pay(method: str, episode: Episode) -> Paid:
    """Let a bonus see the warm-up and then the episode."""
    bonus = make_bonus(method, episode.plan.game)
    for transition in episode.warm_up:
        bonus.observe(transition)
    if isinstance(bonus, Cts):
        order = np.array([bonus.gain(transition.frame) for transition in episode.transitions])
        bonuses = np.array([intrinsic_of_gain(gain) for gain in order.tolist()])
    else:
        order = bonuses = np.array([bonus.observe(transition) for transition in episode.transitions])
    peaks = highest(order)
    ahead = method in PAYS_FOR_NEXT
    at_peaks = [episode.transitions[step] for step in peaks]
    frames = [transition.next_state[-1] if ahead else transition.frame for transition in at_peaks]
    sights = [max(0, step - 1) if ahead else step for step in episode.first_sights]
    return Paid(episode, bonuses, order, peaks, sights, frames)


def highest(order: NDArray[np.float64]) -> list[int]:
    """Return the highest steps that are far enough apart, in the order of time."""
    peaks: list[int] = []
    for step in np.argsort(-order, kind="stable").tolist():
        if all(abs(step - peak) >= APART_STEPS for peak in peaks):
            peaks.append(step)
        if len(peaks) == PEAKS:
            break
    return sorted(peaks)


def mean_rank(order: NDArray[np.float64], steps: Sequence[int]) -> float | None:
    """Return, as a mean over these steps, the share of the other steps that pay more; equal ones count half."""
    if not steps:
        return None
    more = (order > order[steps, None]).sum(axis=1)
    equal = (order == order[steps, None]).sum(axis=1) - 1
    return float(np.mean((more + equal / 2) / (len(order) - 1)))


def distances(episode: Episode) -> NDArray[np.float64]:
    """Return for each step how far its frame is from the nearest before it, in the warm-up or the episode."""
    frames = np.stack([transition.frame[::2, ::2] for transition in episode.warm_up + episode.transitions])
    flat = frames.reshape(len(frames), -1).astype(np.float32)
    squares = np.square(flat).sum(axis=1)
    start = len(episode.warm_up)
    nearest = [
        float(np.min(squares[:now] - 2 * (flat[:now] @ flat[now])) + squares[now]) for now in range(start, len(flat))
    ]
    return np.array(nearest)


def draw(rows: Sequence[Paid], method: str) -> Figure:
    """Return the figure of a method: a curve for each game, and under it the frames of its peaks."""
    figure = Figure(figsize=(7.0, 7.0), layout=ConstrainedLayoutEngine(h_pad=0.05, hspace=0.03))
    grid = figure.add_gridspec(2 * len(rows), PEAKS, height_ratios=[1.6, 1.0] * len(rows))
    for row, paid in enumerate(rows):
        draw_curve(figure.add_subplot(grid[2 * row, :]), paid, method)
        for number, (step, frame) in enumerate(zip(paid.peaks, paid.frames, strict=True)):
            axes = figure.add_subplot(grid[2 * row + 1, number])
            axes.imshow(frame, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"{number + 1}: step {step}", pad=3)
    return figure


def draw_curve(axes: Axes, paid: Paid, method: str) -> None:
    """Draw what was paid along an episode, with deaths, first sights and numbered peaks."""
    episode, bonuses = paid.episode, paid.bonuses
    set_scale(axes, bonuses)
    floor = axes.get_ylim()[0]
    axes.plot(np.maximum(bonuses, floor), color=BLUE, linewidth=0.7)
    for steps, marker, colour, name in (
        (episode.deaths, "X", ORANGE, "life lost"),
        (paid.first_sights, "^", GREEN, "scene first seen"),
    ):
        if steps:
            axes.vlines(steps, *axes.get_ylim(), color=colour, linewidth=0.6, alpha=0.5, zorder=1)
            heights = np.full(len(steps), floor)
            axes.plot(steps, heights, marker, color=colour, markersize=5, clip_on=False, zorder=5, label=name)
    number_peaks(axes, paid)
    axes.margins(x=0.01)
    axes.set_title(f"{episode.plan.title}, {METHODS[method].label}", loc="left")
    axes.set_xlabel("agent step of the episode")
    axes.set_ylabel("bonus, unscaled")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), frameon=False, borderaxespad=0.0, handletextpad=0.1)
    axes.spines[["top", "right"]].set_visible(False)


def set_scale(axes: Axes, bonuses: NDArray[np.float64]) -> None:
    """Leave room for numbers above and marks below; a bonus that is never negative and wide of range gets a log scale.

    What is 0 is then drawn at the lower edge.
    """
    above = bonuses[bonuses > 0]
    logarithmic = bonuses.min() >= 0 and bonuses.max() > 20 * np.median(above)
    low, high = (np.quantile(above, 0.005), bonuses.max()) if logarithmic else (bonuses.min(), bonuses.max())
    if logarithmic:
        axes.set_yscale("log")
        low, high = np.log10(low), np.log10(high)
    low, high = low - 0.1 * (high - low), high + 0.2 * (high - low)
    axes.set_ylim(*((10**low, 10**high) if logarithmic else (low, high)))


def number_peaks(axes: Axes, paid: Paid) -> None:
    """Mark the peaks and number them along the top, moved apart where they would touch."""
    steps = len(paid.bonuses)
    gap = 0.025 * steps
    positions = [float(step) for step in paid.peaks]
    for _ in range(200):
        for left in range(len(positions) - 1):
            lack = gap - (positions[left + 1] - positions[left])
            if lack > 0:
                positions[left] -= lack / 2
                positions[left + 1] += lack / 2
    for number, (step, position) in enumerate(zip(paid.peaks, positions, strict=True), start=1):
        axes.annotate(
            str(number),
            xy=(step, paid.bonuses[step]),
            xytext=(position, 0.97),
            textcoords=("data", "axes fraction"),
            ha="center",
            va="center",
            fontweight="bold",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": "black", "shrinkA": 1, "shrinkB": 2},
        )
    axes.plot(paid.peaks, paid.bonuses[paid.peaks], "o", color="black", markersize=3, zorder=4)


if __name__ == "__main__":
    sys.exit(main())
