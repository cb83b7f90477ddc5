"""Whether the small worlds do what they are for, on 30 seeds that are in no result.

On hard worlds ε-greedy scores under 0.2 on at least 24 of 30 seeds, and the oracle, which counts true visits, above 0.8
on at least 24 with the β that was best for it in that world; on easy worlds ε-greedy is above 0.8 on at least 27. The
tuned world is judged as a hard one. A step takes ε-greedy at most 5 ms and RND at most 10, updates included, on one
idle core. Scores are those of the published study: random play is 0, the best policy is 1.

Runs lie in a store, so the same command continues after any stop. What is in a bundle is not trained again:

    python -m benchmarks.validation.small_worlds STORE [--beside results/small_worlds_validation] [--record]
    python -m benchmarks.validation.small_worlds --quick
    python -m benchmarks.validation.small_worlds --speed
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from offpiste.analysis.results import load
from offpiste.analysis.runs import Run
from offpiste.analysis.summary import summarise
from offpiste.config import RunConfig, fingerprint, protocol_settings
from offpiste.methods import base_run
from offpiste.run.loop import Loop
from offpiste.run.process import prepare
from offpiste.run.train import train
from offpiste.store.finished import finished_frames
from offpiste.store.storage import Folder
from offpiste.study.keep import keep_results
from offpiste.worlds.scores import reference_scores
from offpiste.worlds.small.suite import ROWS
from scripts import measured

SEEDS = range(2000, 2030)
TUNING_SEEDS = range(3000, 3005)
SCALES = (0.01, 0.03, 0.1, 0.3)
"""β of the oracle, of which each hard world takes the best."""
LOW, HIGH = 0.2, 0.8
MIN_HARD, MIN_EASY = 24, 27
MAX_MILLISECONDS = {"epsilon_greedy": 5.0, "rnd": 10.0}
QUICK_WORLDS = ("deep_sea_12", "catch")
HARD = tuple(row.name for row in ROWS if row.suite in ("small_tuned", "small_hard"))
EASY = tuple(row.name for row in ROWS if row.suite == "small_easy")
Scores = dict[tuple[str, str], dict[int, float]]
"""By world and arm, and by seed."""


def main() -> int:
    """Train what is missing, judge every world, and return 0 if all bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", help="folder of the runs")
    parser.add_argument("--beside", type=Path, help="bundle of runs that were made before")
    parser.add_argument("--world", action="append", help="only this world; may be given several times")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one seed of two worlds, and the speed")
    parser.add_argument("--speed", action="store_true", help="the speed alone")
    options = measured.parse(parser)
    if options.speed:
        return 0 if speed() else 1
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            held, _ = judge(Stores(Path(folder)), QUICK_WORLDS, SEEDS[:1], (0.1,), options.processes)
        return 0 if all([held, speed()]) else 1
    if not options.store:
        parser.error("give a folder for the runs")
    worlds = options.world or (*HARD, *EASY)
    held, figures = judge(Stores(Path(options.store), options.beside), worlds, SEEDS, SCALES, options.processes)
    if options.record:
        measured.record("benchmarks.validation.small_worlds", figures)
    return 0 if held else 1


def judge(
    stores: "Stores", worlds: Sequence[str], seeds: Sequence[int], scales: Sequence[float], processes: int
) -> tuple[bool, dict[str, float]]:
    """Return whether the worlds do what they are for, and in each how many seeds of ε-greedy and of the oracle do."""
    hard = [world for world in worlds if world in HARD]
    stores.train([run(world, "epsilon_greedy", seed) for world in worlds for seed in seeds], processes)
    if len(scales) > 1:
        tuning = [oracle(world, scale, seed) for world in hard for scale in scales for seed in TUNING_SEEDS]
        stores.train(tuning, processes)
        tuning_scores = stores.scores()
        tuned = {world: best_scale(tuning_scores, world, scales) for world in hard}
    else:
        tuned = dict.fromkeys(hard, scales[0])
    stores.train([oracle(world, tuned[world], seed) for world in hard for seed in seeds], processes)
    scores = stores.scores()
    figures: dict[str, float] = {}
    for world in worlds:
        baseline = [scores[world, "epsilon_greedy"][seed] for seed in seeds]
        if world in EASY:
            figures[f"{world}_baseline"] = reported(world, "epsilon_greedy above", [score > HIGH for score in baseline])
            continue
        arm = oracle(world, tuned[world], 0).variant
        counted = [scores[world, arm][seed] for seed in seeds]
        figures[f"{world}_baseline"] = reported(world, "epsilon_greedy below", [score < LOW for score in baseline])
        figures[f"{world}_oracle"] = reported(world, f"oracle {arm} above", [score > HIGH for score in counted])
    too_few = [name for name, holding in figures.items() if holding < min_share(name) * len(seeds)]
    print(f"too few seeds: {', '.join(too_few)}" if too_few else "the worlds do what they are for")
    return not too_few, figures


def reported(world: str, what: str, holds: Sequence[bool]) -> int:
    """Print and return how many seeds are as they should be."""
    print(
        f"{world:12} {what} {HIGH if what.endswith('above') else LOW}: {sum(holds)} of {len(holds)} seeds", flush=True
    )
    return sum(holds)


def min_share(figure: str) -> float:
    """Return the share of the seeds of which a figure must hold."""
    return (MIN_EASY if figure.rpartition("_")[0] in EASY else MIN_HARD) / len(SEEDS)


def run(world: str, method: str, seed: int) -> RunConfig:
    """Return a run of a method."""
    return replace(base_run(world, method), seed=seed)


def oracle(world: str, scale: float, seed: int) -> RunConfig:
    """Return a run of the oracle with a β."""
    base = run(world, "oracle", seed)
    return replace(base, bonus=replace(base.bonus, scale=scale), variant=f"beta={scale}")


def train_one(store: str, config: RunConfig) -> float:
    """Train one run to its end, keep its records, and return the seconds that took."""
    folder = Folder(store).below(config.run_id)
    start = time.monotonic()
    if finished_frames(folder.list()) < config.frames:
        train(config, folder)
        keep_results(folder)
    return time.monotonic() - start


class Stores:
    """A store for new runs, and a bundle of older ones."""

    def __init__(self, store: Path, beside: Path | None = None) -> None:
        self._store, self._beside = store, beside
        self._made = set() if beside is None else {_key(run) for run in load(beside).runs}
        store.mkdir(parents=True, exist_ok=True)

    def train(self, runs: Iterable[RunConfig], processes: int) -> None:
        """Train all runs that are not finished, and show how far it is."""
        waiting = [run for run in runs if _key(run) not in self._made]
        start = time.monotonic()
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for done, seconds in enumerate(pool.map(train_one, [str(self._store)] * len(waiting), waiting), 1):
                left = (time.monotonic() - start) / done * (len(waiting) - done) / 60
                if seconds > 1 and sys.stderr.isatty():
                    print(f"\r{done} of {len(waiting)} runs, about {left:.0f} min left  ", end="", file=sys.stderr)

    def scores(self) -> Scores:
        """Return the normalised scores of the last evaluation of every run, by world and arm."""
        stores = [*([self._store] if any(self._store.iterdir()) else []), *([self._beside] if self._beside else [])]
        scores: Scores = defaultdict(dict)
        for found in summarise(load(*stores)):
            run, reference = found.run, reference_scores(found.run.game)
            score = (found.evaluation - reference.random) / reference.span
            scores[run.game, run.variant or run.method][run.seed] = score
        return scores


def _key(run: Run | RunConfig) -> tuple[str, str, int, str]:
    protocol = fingerprint(protocol_settings(run)) if isinstance(run, RunConfig) else run.protocol
    return run.game, run.variant or run.method, run.seed, protocol


def best_scale(scores: Scores, world: str, scales: Sequence[float]) -> float:
    """Return the β with which the oracle's mean score is highest; of equal ones, the largest."""

    def mean(scale: float) -> float:
        of_scale = scores[world, oracle(world, scale, 0).variant]
        return statistics.fmean(of_scale[seed] for seed in TUNING_SEEDS)

    return max(reversed(scales), key=mean)


def speed() -> bool:
    """Measure a step on one core, in the world with the largest frames; return whether the bars hold."""
    held = True
    for method, limit in MAX_MILLISECONDS.items():
        config = run("four_rooms", method, 0)
        config = replace(config, exploration=replace(config.exploration, epsilon_decay_steps=1))
        prepare(config.machine)
        loop = Loop(config)
        steps = loop.steps()
        while not loop.learning:
            next(steps)
        taken = []
        for _ in range(8):
            start = time.process_time()
            for _ in islice(steps, 150):
                pass
            taken.append(1e3 * (time.process_time() - start) / 150)
        median = statistics.median(taken)
        held &= median <= limit
        print(f"{method}: {median:.2f} ms of processor time a step, {limit:g} allowed", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main())
