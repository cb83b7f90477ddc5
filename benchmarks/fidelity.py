"""Is this Rainbow? Our ε-greedy training returns beside the ten published runs of Dopamine's, game by game.

`--train NAME` trains one of the runs below, or continues it, and keeps its records under results/fidelity; it takes
hours, may be stopped at any time, and the same command goes on. Train bf16 where the processor computes in it, fp32
elsewhere. Without it the kept records are compared: per iteration our mean return, the published range, and the
probability of a value at least as far from the published mean, under a t-distribution fitted to the published runs.
Bar: every complete iteration of every kept run lies inside the published range widened by half its width on both sides.
`--figure FILE` draws our curves over the published ones. The published returns (google/dopamine, baselines/atari) are
not ours to ship: `--published` names the file, with columns game, implementation, run, iteration, mean_train_return.
"""

import argparse
import csv
import math
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import stats

from offpiste.config import AgentConfig, RunConfig
from offpiste.run.train import Progress, train
from offpiste.store.records import from_parquet
from offpiste.store.storage import Folder

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "fidelity"
PUBLISHED = ROOT.parent / "shared" / "data" / "dopamine_rainbow_returns.csv"
KEPT_FILES = ("run.json", "episodes.parquet", "iterations.parquet", "timing.parquet", "attempts.parquet")
QUICK_FRAMES = 20_000


@dataclass(frozen=True)
class Planned:
    """One run to compare."""

    game: str
    frames: int
    precision: Literal["fp32", "bf16"]

    @property
    def name(self) -> str:
        """How the command line and the folder of its records call it."""
        return f"{self.game}-{self.precision}"

    @property
    def config(self) -> RunConfig:
        """The run: all defaults but game, precision and length."""
        return RunConfig(game=self.game, frames=self.frames, agent=AgentConfig(precision=self.precision))


PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
PLAN = {
    planned.name: planned
    for planned in (
        Planned(game, frames, precision)
        for precision in PRECISIONS
        for game, frames in (("breakout", 3_000_000), ("freeway", 3_000_000), ("asterix", 2_000_000))
    )
}


@dataclass(frozen=True)
class Compared:
    """One iteration beside the published ones."""

    name: str
    iteration: int
    ours: float
    least: float
    most: float
    probability: float

    @property
    def inside(self) -> bool:
        """Whether ours lies in the published range widened by half its width on both sides."""
        margin = (self.most - self.least) / 2
        return self.least - margin <= self.ours <= self.most + margin


def main() -> int:
    """Train or compare, and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", choices=sorted(PLAN), metavar="NAME", help=f"one of {', '.join(sorted(PLAN))}")
    parser.add_argument("--frames", type=int, help="stop training here, to be continued")
    parser.add_argument("--out", default="runs/fidelity", help="folder of the runs, outside the source tree")
    parser.add_argument("--figure", type=Path, help="draw the comparison to this file (needs the extra `report`)")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--quick", action="store_true", help=f"compare what is kept, and train {QUICK_FRAMES:,} frames")
    options = parser.parse_args()
    if not options.published.exists():
        print(f"the published returns are not at {options.published}; name the file with --published")
        return 2
    if options.train:
        planned = PLAN[options.train]
        if not train_and_keep(planned, options.out, options.frames or planned.frames):
            return 75
    published = read_published(options.published)
    compared = [row for planned in PLAN.values() for row in compare(planned, published)]
    for row in compared:
        print(
            f"{row.name} iteration {row.iteration}: {row.ours:.2f}, published {row.least:.2f} to {row.most:.2f}, "
            f"p = {row.probability:.2f}{'' if row.inside else '  OUTSIDE'}"
        )
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            config = replace(PLAN["breakout-fp32"].config, frames=QUICK_FRAMES)
            last = train(config, Folder(folder))
            print(f"trained {last.frames:,} frames of {config.game}: mean return {last.mean_return or math.nan:.2f}")
    if options.figure:
        draw(compared, published, options.figure)
    missing = [name for name in PLAN if not (RECORDS / name).exists()]
    inside = sum(row.inside for row in compared)
    tail = f"; not yet trained: {', '.join(missing)}" if missing else ""
    print(f"{inside} of {len(compared)} iterations inside the widened published range{tail}")
    return 0 if inside == len(compared) > 0 else 1


def train_and_keep(planned: Planned, out: str, frames: int) -> bool:
    """Train one run and copy its records; return whether it got to the end."""
    folder = Folder(out).below(planned.name)

    def say(progress: Progress) -> None:
        print(f"\r{progress.frames:,} frames, {progress.steps_per_second or 0:.0f} steps/s  ", end="", flush=True)

    last = train(replace(planned.config, frames=frames), folder, say)
    print()
    if last.state != "finished" or folder.local_path is None:
        return False
    kept = RECORDS / planned.name
    kept.mkdir(parents=True, exist_ok=True)
    for name in KEPT_FILES:
        shutil.copy(folder.local_path / name, kept / name)
    return True


def read_published(path: Path) -> dict[tuple[str, int], list[float]]:
    """Return the published returns by game and iteration, counted from 1."""
    returns: dict[tuple[str, int], list[float]] = {}
    with path.open() as lines:
        for row in csv.DictReader(lines):
            key = (row["game"], int(row["iteration"]) + 1)
            returns.setdefault(key, []).append(float(row["mean_train_return"]))
    return returns


def compare(planned: Planned, published: dict[tuple[str, int], list[float]]) -> list[Compared]:
    """Set the complete iterations of one kept run beside the published ones."""
    file = RECORDS / planned.name / "iterations.parquet"
    if not file.exists():
        return []
    rows = []
    for row in from_parquet(file.read_bytes()):
        others = np.array(published[planned.game, row["iteration"]])
        if not row["complete"]:
            continue
        spread = others.std(ddof=1) * math.sqrt(1 + 1 / len(others))
        distance = abs(row["return_mean"] - others.mean()) / spread
        probability = 2 * float(stats.t.sf(distance, len(others) - 1))
        least, most = float(others.min()), float(others.max())
        rows.append(Compared(planned.name, row["iteration"], row["return_mean"], least, most, probability))
    return rows


def draw(compared: list[Compared], published: dict[tuple[str, int], list[float]], file: Path) -> None:
    """Draw one panel per game: published runs as dots and their range as a band, ours as a line."""
    from matplotlib.figure import Figure

    games = list(dict.fromkeys(PLAN[row.name].game for row in compared))
    figure = Figure(figsize=(3.2 * len(games), 2.8), layout="constrained")
    for panel, game in zip(figure.subplots(1, len(games), squeeze=False)[0], games, strict=True):
        ours = [row for row in compared if PLAN[row.name].game == game]
        iterations = range(1, max(PLAN[row.name].frames for row in ours) // 1_000_000 + 1)
        low, high = ([limit(published[game, iteration]) for iteration in iterations] for limit in (min, max))
        panel.fill_between(iterations, low, high, color="#bbbbbb", alpha=0.4, linewidth=0)
        for iteration in iterations:
            values = published[game, iteration]
            panel.plot([iteration] * len(values), values, "o", color="#888888", markersize=2.5)
        panel.plot([], [], "o", color="#888888", markersize=2.5, label="Dopamine, ten published runs")
        for name, colour in zip(dict.fromkeys(row.name for row in ours), ("#0072b2", "#d55e00"), strict=False):
            line = [row for row in ours if row.name == name]
            label = f"offpiste, one run ({PLAN[name].precision})"
            at, values = [row.iteration for row in line], [row.ours for row in line]
            panel.plot(at, values, "-D", color=colour, markersize=4, linewidth=1.2, label=label)
        panel.set_title(game.replace("_", " ").capitalize(), fontsize=10)
        panel.set_xlabel("million frames")
        panel.set_xticks(list(iterations))
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=7, frameon=False, loc="upper left")
    figure.get_axes()[0].set_ylabel("mean training return")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=200)


if __name__ == "__main__":
    sys.exit(main())
