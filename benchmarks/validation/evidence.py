"""What a bonus does within two million frames of Atari: the questions of docs/evidence.md, answered from results/atari.

Prints the numbers that each question names, and what its rule makes of them; the rules were written down before the
first run. `--figures FOLDER` draws every run. `--published` names the folder of Dopamine's files, or one CSV file of
the same numbers (benchmarks/shared/published.py); without it, the questions about Freeway and Asterix are not answered.
Bar: all runs that the questions need are there.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

import offpiste
from benchmarks.shared.axes import add_legend, axes_style, grid_of_axes, new_figure, tidy
from benchmarks.shared.published import Returns, read_published
from benchmarks.shared.studies import unfinished
from offpiste.analysis.names import frames_text, label
from offpiste.analysis.results import Results
from offpiste.analysis.runs import Run
from offpiste.analysis.summary import first_rewards
from offpiste.methods import RANDOM_PLAY
from offpiste.report.look import INK, PUBLISHED_GREYS, SOLID, Look, looks
from offpiste.store.parquet import from_parquet
from offpiste.study.plan import read_study

ROOT = Path(__file__).parents[2]
RESULTS, STUDIES, SEED_0 = ROOT / "results" / "atari", ROOT / "studies" / "atari", ROOT / "results" / "fidelity"
MONTEZUMA = "montezuma_revenge"
MILLION = 1_000_000
ONLY_IF_SEEN = "3_montezuma"
"""The study that is run only if the oracle exceeds random play."""


@dataclass(frozen=True)
class Explored:
    """What one run of Montezuma's Revenge has visited."""

    run: str
    cells: tuple[int, ...]
    """After each million frames."""
    rooms: tuple[int, ...]
    first_reward: int | None
    """Frames until then; None if there was none."""

    def __str__(self) -> str:
        """Return it as one line."""
        reward = "no reward" if self.first_reward is None else f"first reward after {self.first_reward:,.0f} frames"
        pairs = enumerate(zip(self.cells, self.rooms, strict=True), start=1)
        seen = ", ".join(f"{counted(*pair)} after {million}M" for million, pair in pairs)
        return f"{self.run}: {seen} frames; {reward}"


def counted(cells: int, rooms: int) -> str:
    """Return how much was visited, as a phrase."""
    return f"{cells} cells and {rooms} room{'s' * (rooms != 1)}"


def main() -> int:
    """Print what there is and return 0 if nothing is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", type=Path, default=RESULTS, help="default: results/atari")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the runs into this folder")
    parser.add_argument("--published", type=Path, metavar="PATH", help="folder or file of the published returns")
    options = parser.parse_args()
    results = offpiste.load(options.store)
    published = read_published(options.published, ("freeway", "asterix")) if options.published else {}
    random, others = explored(results)
    oracle = next((each for each in others if "/oracle/" in each.run), None)
    for line in (
        *map(str, [*random, *others]),
        *([] if oracle is None or not random else [can_be_seen(oracle, random)]),
        *explore_more(others, random),
        *returns(results, published),
        *trained(results),
    ):
        print(line)
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        draw_montezuma(results, random, others, options.figures / "evidence_montezuma.png")
        if any(is_short(run) for run in results.runs):
            draw_short(results, options.figures / "evidence_short.png")
        if others:
            most = max(others, key=lambda each: each.cells[-1]).run
            draw_map(results, most, options.figures / "evidence_map.png")
    seen = oracle is not None and bool(random) and exceeds(oracle, random)
    missing = [*missing_runs(results, needs_montezuma=seen)]
    print(f"missing: {', '.join(missing)}" if missing else "all runs are there")
    return 1 if missing else 0


def missing_runs(results: Results, *, needs_montezuma: bool) -> Iterator[str]:
    """Yield the runs of the studies that are not finished."""
    for file in sorted(STUDIES.glob("*.toml")):
        if file.stem != ONLY_IF_SEEN or needs_montezuma:
            yield from unfinished(read_study(file), results)


def is_short(run: Run) -> bool:
    """Return whether a run is one of the short ones, which only show that a method trains."""
    return run.game == MONTEZUMA and run.target_frames < MILLION


def explored(results: Results) -> tuple[list[Explored], list[Explored]]:
    """Return what random play has visited in Montezuma's Revenge, and what the other runs of a million frames have."""
    found: tuple[list[Explored], list[Explored]] = ([], [])
    rewards = first_rewards(results)
    for run in results.runs:
        if run.game == MONTEZUMA and run.target_frames >= MILLION and run.complete:
            cells, rooms = results.columns(
                "SELECT cells_total, rooms_total FROM iterations WHERE phase = 'train' AND complete "  # noqa: S608
                f"AND run = '{run.name}' ORDER BY iteration"
            )
            steps = rewards.get(run.name)
            reward = None if steps is None else steps * int(run.settings["world.frame_skip"])
            found[run.method != RANDOM_PLAY].append(Explored(run.name, tuple(cells), tuple(rooms), reward))
    return found


def exceeds(one: Explored, random: Sequence[Explored]) -> bool:
    """Return whether a run has more cells or more rooms at its end than any random run after a million frames."""
    return one.cells[-1] > max(r.cells[0] for r in random) or one.rooms[-1] > max(r.rooms[0] for r in random)


def can_be_seen(oracle: Explored, random: Sequence[Explored]) -> str:
    """Return whether anything can be seen within this budget: question 1."""
    cells, rooms = max(each.cells[0] for each in random), max(each.rooms[0] for each in random)
    best = f"the best of {len(random)} random runs has {counted(cells, rooms)}"
    if not exceeds(oracle, random):
        return f"1. {best}, and the oracle no more: no bonus can show anything within this budget"
    early = oracle.cells[0] > cells or oracle.rooms[0] > rooms
    when = "after one million frames already" if early else "after two million frames alone, which is unfair to them"
    return f"1. {best}, and the oracle exceeds it {when}"


def explore_more(others: Sequence[Explored], random: Sequence[Explored]) -> Iterator[str]:
    """Yield of each method whether both of its runs have more cells than all random ones: question 2."""
    for method in ("cts", "rnd"):
        cells = [each.cells[0] for each in others if f"/{method}/" in each.run]
        if len(cells) == 2 and random:
            lowest, highest = (extreme(each.cells[0] for each in random) for extreme in (min, max))
            more = min(cells) > highest
            verdict = "explores more than random play" if more else "is not shown to explore more than random play"
            shown = f"{cells[0]} and {cells[1]} cells after one million frames, which has {lowest} to {highest}"
            yield f"2. {label(method)} {verdict}: {shown}"


def second_million(results: Results, game: str, method: str) -> dict[int, float]:
    """Return the mean return over the second million frames, by seed; ε-greedy's seed 0 is in results/fidelity."""
    names, values = results.columns(
        "SELECT run, return_mean FROM iterations WHERE phase = 'train' AND complete AND iteration = 2"
    )
    by_run = dict(zip(names, values, strict=True))
    found = {
        run.seed: by_run[run.name]
        for run in results.runs
        if (run.game, run.method) == (game, method) and run.name in by_run
    }
    if method == "epsilon_greedy":
        rows = from_parquet((SEED_0 / f"{game}-fp32" / "iterations.parquet").read_bytes())
        found[0] = next(row["return_mean"] for row in rows if row["iteration"] == 2)
    return found


def returns(results: Results, published: Returns) -> Iterator[str]:
    """Yield what the second million frames of Freeway and Asterix say: questions 3 and 4."""
    if not published:
        return
    baseline, cts = (second_million(results, "freeway", method) for method in ("epsilon_greedy", "cts"))
    if len(baseline) == len(cts) == 2:
        what = "says nothing"
        if max(cts.values()) < min(baseline.values()):
            what = "CTS is below ε-greedy, as the paper found on easy games"
        elif min(cts.values()) > max(baseline.values()):
            what = "CTS is above ε-greedy, contrary to what the paper found on easy games"
        every = [value for values in published["freeway", 2].values() for value in values]
        yield (
            f"3. Freeway, second million: CTS {spelled(cts)}, ε-greedy {spelled(baseline)}, "
            f"published {min(every):.1f} to {max(every):.1f}: {what}"
        )
    asterix = second_million(results, "asterix", "epsilon_greedy")
    if 1 in asterix:
        jax = published["asterix", 2]["JAX"]
        faster = asterix[1] > max(jax)
        what = "we learn Asterix faster, and the cause is to be found" if faster else "seed 0 was luck"
        yield f"4. Asterix, second million: {spelled(asterix)}, JAX {min(jax):.1f} to {max(jax):.1f}: {what}"


def spelled(by_seed: dict[int, float]) -> str:
    """Return values in the order of their seeds."""
    return " and ".join(f"{by_seed[seed]:.1f}" for seed in sorted(by_seed))


def trained(results: Results) -> Iterator[str]:
    """Yield loss, intrinsic reward and speed of the short runs at their end: question 5."""
    for run in results.runs:
        if is_short(run):
            last = {name: values[-1][1] for name, values in scalars(results, run).items()}
            shown = ", ".join(f"{name} {last[name]:.3g}" for name in SHORT if name in last)
            yield f"5. {run.name}, {run.frames:,} frames: at the end {shown}"


SHORT = {"loss": "loss", "intrinsic/mean": "intrinsic reward, mean", "steps_per_second": "agent steps per second"}
"""The scalars of the short runs that are shown, and their titles."""


def scalars(results: Results, run: Run) -> dict[str, list[tuple[int, float]]]:
    """Return the frames and values of each scalar of a run."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, step, value in zip(
        *results.columns(f"SELECT name, end_step, value FROM scalars WHERE run = '{run.name}' ORDER BY end_step"),  # noqa: S608
        strict=True,
    ):
        found.setdefault(name, []).append((step * run.settings["world.frame_skip"], value))
    return found


def draw_montezuma(results: Results, random: Sequence[Explored], others: Sequence[Explored], file: Path) -> None:
    """Draw what every run of Montezuma's Revenge has visited over frames, with a star at its first reward."""
    by_name = {run.name: run for run in results.runs}
    drawn = looks(list(dict.fromkeys(by_name[each.run].method for each in others)))
    if "oracle" in drawn:  # its grey is that of random play
        drawn["oracle"] = replace(drawn["oracle"], colour=INK, dashes=SOLID)
    play = Look(f"random play, {len(random)} seeds", PUBLISHED_GREYS[0], SOLID, "")
    with axes_style("evidence_montezuma"):
        figure = new_figure(3.0)
        for axes, what in zip(grid_of_axes(figure, 1, 2, 2), ("cells", "rooms"), strict=True):
            for each in (*random, *others):
                run = by_name[each.run]
                look, width = (play, 0.6) if run.method == RANDOM_PLAY else (drawn[run.method], 1.4)
                frames, values = np.array(scalars(results, run)[what]).T
                axes.plot(frames, values, color=look.colour, linewidth=width, linestyle=look.dashes)
                if each.first_reward is not None:
                    at = float(np.interp(each.first_reward, frames, values))
                    axes.plot(each.first_reward, at, "*", color=look.colour, markersize=8)
            tidy(axes, f"{what} visited", frames=True)
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(figure, [play, *(replace(look, marker="") for look in drawn.values())])  # stars are first rewards
        figure.savefig(file, dpi=150)


def draw_short(results: Results, file: Path) -> None:
    """Draw loss, intrinsic reward and speed of the short runs."""
    short = [run for run in results.runs if is_short(run)]
    drawn = looks([run.method for run in short])
    with axes_style("evidence_short"):
        figure = new_figure(2.6)
        for axes, (what, title) in zip(grid_of_axes(figure, 1, len(SHORT), len(SHORT)), SHORT.items(), strict=True):
            for run in short:
                if points := scalars(results, run).get(what):
                    look = drawn[run.method]
                    axes.plot(*zip(*points, strict=True), color=look.colour, linestyle=look.dashes)
            axes.set_xlim(0, max(run.frames for run in short))
            tidy(axes, title, frames=True)
            if what == "intrinsic/mean":  # RND as released pays less than nothing
                axes.set_yscale("symlog", linthresh=0.001)
                axes.set_yticks([-1, -0.1, -0.01, 0, 0.01, 0.1, 1], ["−1", "−0.1", "−0.01", "0", "0.01", "0.1", "1"])
                axes.minorticks_off()
        add_legend(figure, [replace(look, marker="") for look in drawn.values()])
        figure.savefig(file, dpi=150)


def draw_map(results: Results, run: str, file: Path) -> None:
    """Draw the cells that a run visited, room by room in the order of first visits, darker where more often."""
    room, x, y, visits, first = map(
        np.array,
        results.columns(f"SELECT room, x, y, visits, first_step FROM cells WHERE run = '{run}' ORDER BY first_step"),  # noqa: S608
    )
    rooms = list(dict.fromkeys(room.tolist()))
    with axes_style("evidence_map"):
        columns = min(4, len(rooms))
        rows = -(-len(rooms) // columns)
        figure = new_figure(1.9 * rows + 0.2)
        for axes, number in zip(grid_of_axes(figure, rows, columns, len(rooms)), rooms, strict=True):
            here = room == number
            counts = np.full((32, 32), np.nan)  # cells of 8 units of the RAM, whose y grows upwards
            counts[y[here] // 8, x[here] // 8] = np.log10(visits[here])
            axes.imshow(counts, origin="lower", cmap="viridis_r", vmin=0, vmax=float(np.log10(visits.max())))
            axes.set_title(f"room {number}, cells: {here.sum()}, from {frames_text(4 * int(first[here].min()))} frames")
            axes.set_xlim(x.min() // 8 - 1, x.max() // 8 + 1)
            axes.set_ylim(y.min() // 8 - 1, y.max() // 8 + 1)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
        figure.savefig(file, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
