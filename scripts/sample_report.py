"""A small sample report for the docs, from made-up runs that are plainly labelled so, and from real ones if given.

Run as `python -m scripts.sample_report --out FOLDER` from the repository's root.

The made-up runs are of the paper's protocol: seven games, its six methods and five seeds, with effects like those that
it reports; one run is unfinished, one cut short, and a few tune. `--small` makes up runs on the small worlds instead,
ten seeds of every method and of the oracle's ladder. `--store` adds real runs on other games, for example those of
`studies/smoke.toml` on Deep Sea, and published curves. Prints the size of the page and exits non-zero if it is over
3 MB.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.shared.synthetic_store import Curve, learning_curve, write_run
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.small_worlds import LADDER, SMALL_WORLDS
from offpiste.config import RunConfig, ScheduleConfig
from offpiste.methods import base_run
from offpiste.report.page import build
from offpiste.seeding import stream
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

_EASY = {"epsilon_greedy": 1.0, "noisy_nets": 1.05, "cts": 0.6, "pixelcnn": 0.65, "icm": 0.85, "rnd": 0.8}
SHARES = {
    "montezuma_revenge": {
        "epsilon_greedy": 0.02,
        "noisy_nets": 0.35,
        "cts": 0.95,
        "pixelcnn": 0.4,
        "icm": 0.45,
        "rnd": 0.5,
    },
    "gravitar": {"epsilon_greedy": 0.4, "noisy_nets": 0.38, "cts": 0.2, "pixelcnn": 0.25, "icm": 0.3, "rnd": 0.35},
    "asterix": {method: 2 * share for method, share in _EASY.items()},
    "seaquest": _EASY | {"cts": 1.1, "pixelcnn": 1.05},
    "beam_rider": {method: 0.4 * share for method, share in _EASY.items()},
    "space_invaders": {method: 2.5 * share for method, share in _EASY.items()},
    "hero": _EASY,
}
"""By game and method, how far from random to human play its runs end on average."""
SEEDS = 5
SMALL_SEEDS = 10
SMALL_SCHEDULE = ScheduleConfig(iteration_steps=1_000, evaluation_steps=1_500)
EPISODES = 500
MAX_BYTES = 3_000_000
BANNER = "A sample: the runs on the paper’s games are synthetic, that is made up, to show what a report looks like."
SMALL_BANNER = (
    "A sample: the runs on the small worlds are synthetic, that is made up, to show what a report looks like."
)
REAL = " Those on other games are real, and small; published curves are as published."


def main() -> int:
    """Make the sample and print how large its page is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the report")
    parser.add_argument("--store", type=Path, help="add other games and published curves of this store")
    parser.add_argument("--small", action="store_true", help="the small worlds instead of the paper's games")
    parser.add_argument("--quick", action="store_true", help="two games only")
    options = parser.parse_args()
    out, real = options.out.absolute(), options.store and options.store.absolute()
    with tempfile.TemporaryDirectory(prefix="sample-report-") as folder, contextlib.chdir(folder):
        store = Path("synthetic")  # as the page calls it
        if options.small:
            write_small_sample(Folder(store), SMALL_WORLDS.games[:: 4 if options.quick else 1])
        else:
            write_sample(Folder(store), list(SHARES)[: 2 if options.quick else None])
        for other in real.iterdir() if real else ():
            if other.is_dir() and other.name not in GAMES:
                shutil.copytree(other, store / other.name)
        banner = (SMALL_BANNER if options.small else BANNER) + REAL * bool(real)
        report = build(store, out, heading="Sample report", banner=banner)
    size = report.page.stat().st_size
    print(f"{report.page}: {size / 1e6:.2f} MB, {len(report.notes)} weak points")
    return 0 if size <= MAX_BYTES else 1


def write_sample(store: Folder, games: list[str]) -> None:
    """Write the made-up runs."""
    for game in games:
        for method, share in SHARES[game].items():
            for seed in range(SEEDS):
                generator = stream(seed, f"sample {game} {method}")
                lucky = method != "epsilon_greedy" or generator.random() < 0.2 or game != "montezuma_revenge"
                final = reference_scores(game).score_at(share * generator.uniform(0.8, 1.2)) if lucky else 0.0
                curve = learning_curve(final, reference_scores(game).random, abs(final) / 8 + 1)
                unfinished = (game, method, seed) == ("gravitar", "rnd", 4)
                config = replace(base_run(game, method), seed=seed)
                write_run(store, config, curve, EPISODES, done=0.6 if unfinished else 1.0)
    damaged = store.below("gravitar/icm/seed-4").local_path
    assert damaged is not None
    table = damaged / "iterations.parquet"
    table.write_bytes(table.read_bytes()[:-50])
    for scale in (0.05, 0.005, 0.0005):
        for seed in (100, 101):
            config = base_run("montezuma_revenge", "cts")
            config = replace(config, bonus=replace(config.bonus, scale=scale), variant=f"beta={scale}", seed=seed)
            final = reference_scores("montezuma_revenge").score_at(0.9 if scale == 0.0005 else 0.4)
            write_run(store, config, learning_curve(final, 0.0, 200.0), EPISODES)


def write_small_sample(store: Folder, worlds: Iterable[str]) -> None:
    """Write made-up runs on small worlds, each of which finds, learns and keeps with probabilities of its method."""
    for world in worlds:
        scale = reference_scores(world)
        for index, method in enumerate((BASELINE, "noisy_nets", *SMALL_WORLDS.bonuses, *LADDER)):
            for seed in range(SMALL_SEEDS):
                generator = stream(seed, f"sample {world} {method}")
                easy, known = world in SMALL_WORLDS.easy, method in LADDER
                probability = 0.98 if easy or known else 0.05 if method == BASELINE else 0.2 + 0.1 * index
                if world == "noisy_tv" and not known:
                    probability *= 0.3
                finds = generator.random() < probability
                learns = finds and generator.random() < 0.9
                keeps = learns and generator.random() < 0.95
                late = generator.uniform(0.1, 0.5) + 0.15 * (easy and method not in (BASELINE, *LADDER))
                last, best = scale.score_at(0.97 * keeps), scale.score_at(0.97 * learns)
                config = RunConfig(game=world, method=method, seed=seed, frames=20_000, schedule=SMALL_SCHEDULE)
                write_run(
                    store,
                    replace(config, world=replace(config.world, frame_skip=1)),
                    learning_curve(scale.score_at(0.8 * learns), scale.random, 0.02 * scale.span, late),
                    EPISODES,
                    evaluation=_peak_then(best, last),
                    first_reward=late if finds else 2.0,
                )


def _peak_then(best: float, last: float) -> Curve:
    """Return the curve of an agent that comes to its best and ends elsewhere."""
    return lambda _, iterations: np.append(np.linspace(0.0, best, iterations - 1), last)


if __name__ == "__main__":
    sys.exit(main())
