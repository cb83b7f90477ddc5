"""What the engine costs with a thousand runs: time per run, memory of the driver, and the time of `study status`.

Tiny runs (a few dozen steps of Deep Sea) are trained by `offpiste study run` on a Ray of its own, and as many by bare
calls of `train` in two processes side by side, for comparison. Then `offpiste study status` is timed on the run folders
(`object_store` does so on a Ceph gateway). All of it for 100 and for 1,000 runs, to see how each grows. Bars at 1,000
runs: the status takes under 2 seconds; the driver grows by less than 50 MB; a run costs under 2 seconds more than its
bare call.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.memory import resident_megabytes
from benchmarks.shared.study_status import status_seconds
from scripts import measured

STUDY = """
games = ["deep_sea_4"]
methods = ["epsilon_greedy"]
seeds = {seeds}
frames = 60
keep = "results"
resources = {{ cpus = 1, memory_gb = 0.5 }}

[settings.agent]
replay_capacity = 100
min_history_steps = 30
batch_size = 8
convolution_channels = [4, 4, 4]
hidden_units = 16
"""
BARE_RUNS = 40
MAX_STATUS_SECONDS, MAX_GROWTH_MB, MAX_OVERHEAD_SECONDS = 2.0, 50.0, 2.0

BARE = """
import sys, time
from dataclasses import replace
from offpiste.run.train import train
from offpiste.store.storage import Folder
from offpiste.study.plan import read_study
runs = read_study(sys.argv[1]).runs
half, count = int(sys.argv[3]), int(sys.argv[4])
def one(number):
    run = replace(runs[number % len(runs)], seed=10_000 + number)
    train(run, Folder(sys.argv[2]).below(run.run_id))
one(-1 - half)
start = time.perf_counter()
for number in range(half, count, 2):
    one(number)
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Found:
    """What so many runs took."""

    runs: int
    bare_seconds: float
    """Per run, two at a time."""
    engine_seconds: float
    """The same, without the start of Ray."""
    start_megabytes: float
    end_megabytes: float
    status_seconds: float


def main() -> int:
    """Measure at two sizes and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 and 40 runs")
    options = measured.parse(parser)
    sizes = (10, 40) if options.quick else (100, 1_000)
    print(
        f"{'runs':>6}{'bare call':>12}{'by the engine':>15}{'overhead':>11}{'driver at start':>17}{'at the end':>12}"
        f"{'status':>9}"
    )
    for size in sizes:
        found = run_study(size)
        overhead = found.engine_seconds - found.bare_seconds
        growth = found.end_megabytes - found.start_megabytes
        print(
            f"{size:>6,}{found.bare_seconds:>10.2f} s{found.engine_seconds:>13.2f} s{overhead:>9.2f} s"
            f"{found.start_megabytes:>14.0f} MB{found.end_megabytes:>9.0f} MB{found.status_seconds:>7.1f} s",
            flush=True,
        )
    if options.record:
        figures = {
            "status_seconds": found.status_seconds,
            "overhead_seconds": overhead,
            "driver_start_megabytes": found.start_megabytes,
            "driver_end_megabytes": found.end_megabytes,
        }
        measured.record("benchmarks.speed.thousand_runs", figures)
    good = found.status_seconds < MAX_STATUS_SECONDS and growth < MAX_GROWTH_MB and overhead < MAX_OVERHEAD_SECONDS
    return 0 if good else 1


def run_study(size: int) -> Found:
    """Run a study of this size."""
    with tempfile.TemporaryDirectory() as temporary:
        file, store = Path(temporary) / "thousand.toml", Path(temporary) / "store"
        file.write_text(STUDY.format(seeds=list(range(size))))
        bare = bare_seconds(file, Path(temporary) / "bare")
        seconds, memory = by_the_engine(file, store, Path(temporary) / "log")
        status = status_seconds(file, str(store), size, "done")
    return Found(size, bare, seconds / size, memory[0], memory[-1], status)


def bare_seconds(file: Path, folder: Path) -> float:
    """Return the seconds per run of two processes that call `train` and nothing else."""
    argv = [sys.executable, "-c", BARE, str(file), str(folder)]
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda half: subprocess.check_output([*argv, str(half), str(BARE_RUNS)]), (0, 1))
    return max(map(float, said)) / BARE_RUNS


def by_the_engine(file: Path, store: Path, log: Path) -> tuple[float, list[float]]:
    """Return the seconds from the first submission to the end, and the driver's memory in megabytes meanwhile."""
    argv = ["study", "run", str(file), "--store", str(store), "--ray"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["RAY_worker_niceness"] = "0"  # as the bare calls; 15 otherwise
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "offpiste", *argv], env=environment, stdout=out, stderr=out)
    start, memory = 0.0, []
    while process.poll() is None:
        if not start and re.search(r"runs, 0 done", log.read_text()):
            start = time.perf_counter()
        if start:
            memory.append(resident_megabytes(process.pid))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(log.read_text()[-3_000:])
    return time.perf_counter() - start, [megabytes for megabytes in memory if megabytes]


if __name__ == "__main__":
    sys.exit(main())
