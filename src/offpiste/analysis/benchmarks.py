"""The benchmarks whose findings a report judges, and which of them a run belongs to."""

from collections.abc import Sequence

from offpiste.analysis.findings import Benchmark
from offpiste.analysis.paper import PAPER
from offpiste.analysis.runs import Run
from offpiste.analysis.small_worlds import SMALL_WORLDS

BENCHMARKS = (PAPER, SMALL_WORLDS)


def benchmark_on(game: str) -> Benchmark | None:
    """Return the benchmark that a game belongs to, whatever the runs on it were for."""
    return next((benchmark for benchmark in BENCHMARKS if game in benchmark.games), None)


def benchmark_of(runs: Sequence[Run]) -> Benchmark | None:
    """Return the benchmark that runs on one game belong to; None where they have no number that it is judged by."""
    for benchmark in BENCHMARKS:
        for run in runs:
            evaluated = benchmark.measure != "evaluation" or run.settings["schedule.evaluation_steps"] > 0
            if run.game in benchmark.games and evaluated:
                return benchmark
    return None
