"""Is this Rainbow? Our ε-greedy training returns beside ten published runs of Dopamine's, game by game.

`--train NAME` trains one of the runs below, or continues it, and puts its records in place of those kept under
results/fidelity, unless those are longer; it takes hours, may be stopped at any time, and the same command resumes it.
Train bf16 where the processor computes in it, fp32 elsewhere. Without it the kept records are compared: per iteration
our mean return, that of random play (the episodes that ended before the first update), the published range, and the
probability of a value at least as far from the published mean, under a t-distribution fitted to the published runs.
Bar: every complete iteration of every kept run lies inside the published range widened by half its width on both
sides. `--figure FILE` draws our curves over the published ones.

The published runs, five of Dopamine in TensorFlow and five in JAX, are taken together, and then each by themselves,
which the bar does not judge. `--published` names the folder of Dopamine's files, or one CSV file of the same numbers;
benchmarks/shared/published.py says what they are called.
"""

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from benchmarks.shared.published import Returns, read_published
from offpiste.config import AgentConfig, RunConfig
from offpiste.run.progress import Progress
from offpiste.run.train import train
from offpiste.store.identity import mismatch, read_run
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "fidelity"
KEPT_FILES = ("run.json", "episodes.parquet", "iterations.parquet", "timing.parquet", "attempts.parquet")
QUICK_FRAMES = 20_000
ITERATION_FRAMES = 1_000_000


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
    results_version: int
    iteration: int
    ours: float
    random_play: float
    published: dict[str, list[float]]
    """By implementation."""

    @property
    def inside(self) -> bool:
        """Whether ours lies in the range of all published runs widened by half its width on both sides."""
        every = pooled(self.published)
        low, high = min(every), max(every)
        margin = (high - low) / 2
        return low - margin <= self.ours <= high + margin

    def __str__(self) -> str:
        """Return the comparison as one line."""
        alone = "; ".join(f"{name} {beside(self.ours, values)}" for name, values in self.published.items())
        return (
            f"{self.name} iteration {self.iteration}: {self.ours:.2f}, random play {self.random_play:.2f}, "
            f"published {beside(self.ours, pooled(self.published))} ({alone}){'' if self.inside else '  OUTSIDE'}"
        )


def pooled(published: dict[str, list[float]]) -> list[float]:
    """Return what all implementations had."""
    return list(chain.from_iterable(published.values()))


def beside(ours: float, others: list[float]) -> str:
    """Return their range, and the probability of one more value at least as far from their mean."""
    spread = np.std(others, ddof=1) * math.sqrt(1 + 1 / len(others))
    probability = 2 * float(stats.t.sf(abs(ours - np.mean(others)) / spread, len(others) - 1))
    return f"{min(others):.2f} to {max(others):.2f}, p = {probability:.2g}"


def main() -> int:
    """Train or compare, and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", choices=sorted(PLAN), metavar="NAME", help=f"one of {', '.join(sorted(PLAN))}")
    parser.add_argument("--frames", type=int, help="stop training here, to be continued")
    parser.add_argument("--out", metavar="FOLDER", help="of the run, with replay and checkpoints; needed with --train")
    parser.add_argument("--figure", type=Path, help="draw the comparison to this file")
    parser.add_argument("--published", type=Path, metavar="PATH", help="folder or file of the published returns")
    parser.add_argument("--quick", action="store_true", help=f"compare what is kept, and train {QUICK_FRAMES:,} frames")
    options = parser.parse_args()
    if options.train and not options.out:
        parser.error("--train needs --out, the folder of the run")
    if options.train:
        planned = PLAN[options.train]
        if not train_and_keep(planned, options.out, options.frames or planned.frames):
            return 75
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            config = replace(PLAN["breakout-fp32"].config, frames=QUICK_FRAMES)
            last = train(config, Folder(folder))
            mean = "no episode ended" if last.mean_return is None else f"mean return {last.mean_return:.2f}"
            print(f"trained {last.frames:,} frames of {config.game}: {mean}")
    if options.published is None or not options.published.exists():
        missing = "" if options.published is None else f": {options.published} is not there"
        print(f"nothing to compare with{missing}; name Dopamine's files with --published")
        return 2
    published = read_published(options.published, dict.fromkeys(planned.game for planned in PLAN.values()))
    compared = [row for planned in PLAN.values() for row in compare(planned, published)]
    for row in compared:
        print(row)
    if options.figure:
        draw(compared, published, options.figure)
    inside = sum(row.inside for row in compared)
    wanted = sum(planned.frames // ITERATION_FRAMES for planned in PLAN.values())
    print(
        f"{inside} of {len(compared)} iterations inside the widened published range; "
        f"{len(compared)} of {wanted} planned ones are trained, by results version "
        + " and ".join(map(str, sorted({row.results_version for row in compared})))
    )
    return 0 if inside == len(compared) > 0 else 1


def train_and_keep(planned: Planned, out: str, frames: int) -> bool:
    """Train one run and copy its records, unless longer ones are kept; return whether it got to the end."""
    folder = Folder(out).below(planned.name)

    def say(progress: Progress) -> None:
        print(f"\r{progress.frames:,} frames, {progress.steps_per_second or 0:.0f} steps/s  ", end="", flush=True)

    last = train(replace(planned.config, frames=frames), folder, say)
    print()
    if last.state != "finished":
        return False
    kept = RECORDS / planned.name
    old = kept / "iterations.parquet"
    if old.exists() and len(complete_iterations(old)) > last.frames // ITERATION_FRAMES:
        print(f"its records stay in {out}: longer ones are kept in {kept}")
        return True
    kept.mkdir(parents=True, exist_ok=True)
    for name in KEPT_FILES:
        data = folder.get(name)
        assert data is not None, f"a finished run has no {name}"
        (kept / name).write_bytes(data)
    return True


def complete_iterations(file: Path) -> list[dict[str, Any]]:
    """Return the complete iterations of a run."""
    return [row for row in from_parquet(file.read_bytes()) if row["complete"]]


def compare(planned: Planned, published: Returns) -> list[Compared]:
    """Set the complete iterations of one kept run beside the published ones of all implementations."""
    folder = RECORDS / planned.name
    if not folder.exists():
        return []
    stored = read_run(Folder(folder))
    why = "no run" if stored is None else mismatch(stored, planned.config, accept_version=True)
    if stored is None or why:
        raise SystemExit(f"{folder} holds {why}")
    episodes = from_parquet((folder / "episodes.parquet").read_bytes())
    before = planned.config.agent.min_history_steps
    random_play = float(np.mean([row["game_return"] for row in episodes if row["end_step"] <= before]))
    return [
        Compared(
            planned.name,
            stored.results_version,
            row["iteration"],
            row["return_mean"],
            random_play,
            published[planned.game, row["iteration"]],
        )
        for row in complete_iterations(folder / "iterations.parquet")
    ]


def draw(compared: list[Compared], published: Returns, file: Path) -> None:
    """Draw one panel per game: published runs as dots, one column per implementation, their range, and ours."""
    from matplotlib.figure import Figure

    columns = {"TensorFlow": (-0.1, "o"), "JAX": (0.1, "s")}
    games = list(dict.fromkeys(PLAN[row.name].game for row in compared))
    figure = Figure(figsize=(3.2 * len(games), 3.2), layout="constrained")
    panels = figure.subplots(1, len(games), squeeze=False)[0]
    for panel, game in zip(panels, games, strict=True):
        ours = [row for row in compared if PLAN[row.name].game == game]
        iterations = range(1, max(PLAN[row.name].frames for row in ours) // ITERATION_FRAMES + 1)
        every = [pooled(published[game, at]) for at in iterations]
        low, high = ([float(limit(values)) for values in every] for limit in (np.min, np.max))
        panel.fill_between(iterations, low, high, color="#bbbbbb", alpha=0.4, linewidth=0)
        for implementation, (aside, marker) in columns.items():
            dots = [(at + aside, value) for at in iterations for value in published[game, at].get(implementation, [])]
            at, values = zip(*dots, strict=True) if dots else ((), ())
            label = f"Dopamine in {implementation}, {len(dots) // len(iterations)} published runs"
            panel.plot(at, values, marker, color="#777777", markersize=2.5, linewidth=0, label=label)
        for name, colour in zip(dict.fromkeys(row.name for row in ours), ("#0072b2", "#d55e00"), strict=False):
            line = [row for row in ours if row.name == name]
            panel.plot(
                [row.iteration for row in line],
                [row.ours for row in line],
                "-D",
                color=colour,
                markersize=6,
                markerfacecolor="none",
                linewidth=1.2,
                label=f"offpiste, one run ({PLAN[name].precision})",
            )
        panel.set_title(game.replace("_", " ").capitalize(), fontsize=10)
        panel.set_xlabel("million frames")
        panel.set_xticks(list(iterations))
        panel.margins(y=0.12)
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("mean training return")
    labels = dict(pair[::-1] for panel in panels for pair in zip(*panel.get_legend_handles_labels(), strict=True))
    figure.legend(labels.values(), labels.keys(), fontsize=7, frameon=False, loc="outside lower center", ncols=3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=200)


if __name__ == "__main__":
    sys.exit(main())
