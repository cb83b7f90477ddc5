"""A study of the paper's size as a report: 1,000 runs of 20,000 episodes each, made up and written as run folders.

Each has scalars and cells as a bundle keeps them, so that its page and its maps are drawn too. Bars: loading and the
full report, figures, tables and pages of single runs included, within 60 s and 2 GB of memory. The same for 100 runs
shows how both grow. Each report is made in a process of its own, whose processor time is printed too: on a busy machine
that is the figure to look at, and the one the bar is held to. `--quick` makes the 100 runs only.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.shared.synthetic_store import learning_curve, write_run
from offpiste.methods import PAPER_METHODS, base_run
from offpiste.seeding import stream
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores
from scripts import measured

EPISODES = 20_000
MAX_SECONDS = 60.0
MAX_GIGABYTES = 2.0


def main() -> int:
    """Print the figures and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 runs only")
    parser.add_argument("--out", type=Path, help="keep stores and reports here, and use stores that are there already")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = measured.parse(parser)
    if options.one:
        print(json.dumps(make_report(*options.one)))
        return 0
    folder = options.out or Path(tempfile.mkdtemp(prefix="report-scale-"))
    try:
        took = [check(runs, folder) for runs in ((100,) if options.quick else (100, 1_000))]
    finally:
        if options.out is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.record:
        figures = {name: took[-1][name] for name in ("seconds", "gigabytes")}
        measured.record("benchmarks.speed.report_scale", figures)
    return 0 if all(each["seconds"] <= MAX_SECONDS and each["gigabytes"] <= MAX_GIGABYTES for each in took) else 1


def check(runs: int, folder: Path) -> dict[str, float]:
    """Make a store of so many runs and its report in a process of its own; return what that took."""
    store, report = folder / f"store-{runs}", folder / f"report-{runs}"
    if not store.exists():
        write_store(store, runs)
    size = sum(file.stat().st_size for file in store.rglob("*.parquet")) / 1e6
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.report_scale", "--one", str(store), str(report)],
        capture_output=True,
        text=True,
        check=True,
    )
    took: dict[str, float] = json.loads(ran.stdout)
    page = (report / "index.html").stat().st_size / 1e6
    print(
        f"{runs:>5} runs, {runs * EPISODES / 1e6:g} million episodes, {size:,.0f} MB: load {took['load']:.1f} s, "
        f"report {took['report']:.1f} s, together {took['seconds']:.1f} s of processor time "
        f"({took['wall']:.1f} s by the clock), {took['gigabytes']:.2f} GB at most; page {page:.1f} MB",
        flush=True,
    )
    return took


def make_report(store: str, report: str) -> dict[str, float]:
    """Make a report and return seconds of processor time, by the clock, and max memory."""
    began = time.monotonic()
    from offpiste.analysis.results import load
    from offpiste.report.page import build

    before = time.process_time()
    load(store)
    loaded = time.process_time() - before
    build(store, report, banner="Synthetic: every number on this page is made up.")
    seconds = time.process_time() - loaded  # loading once does not count twice
    return {
        "load": loaded,
        "report": seconds - loaded - before,
        "seconds": seconds,
        "wall": time.monotonic() - began,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def write_store(store: Path, runs: int) -> None:
    """Write so many runs over the paper's games and methods."""
    folder = Folder(store)
    kinds = [(game, method) for game in GAMES for method in PAPER_METHODS]
    for number in range(runs):
        game, method = kinds[number % len(kinds)]
        seed = number // len(kinds)
        final = reference_scores(game).score_at(stream(seed, f"scale {game} {method}").uniform(0.1, 1.0))
        curve = learning_curve(final, reference_scores(game).random, abs(final) / 5 + 1)
        write_run(folder, replace(base_run(game, method), seed=seed), curve, EPISODES, drawn=True)


if __name__ == "__main__":
    sys.exit(main())
