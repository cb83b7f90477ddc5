"""What a study asks of a real object store: `study status` of 1,000 runs, and the requests of a run under way.

A Ceph gateway on this machine, and a disk beside it. The status is timed as a command, start of Python included: of
runs that are all under way, whose folders are read one by one, and of the same runs once marks say that they are done.
Then a real run is trained by `study work`, and the requests that the gateway logs between two of its checkpoints are
counted. Bars: 2.5 seconds on a disk and 5 on Ceph; no more requests a minute than 7, nor than follow from the intervals
in the code, and one for the minute that the window cuts. Gateway, its disks in memory and the command share this
machine's cores. Needs root and Debian's packages of Ceph.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.ceph_gateway import ceph_gateway
from benchmarks.shared.request_rate import requests_per_minute
from benchmarks.shared.study_status import status_seconds
from offpiste.config import RunConfig
from offpiste.rows import utc_now
from offpiste.store import layout
from offpiste.store.documents import signed
from offpiste.store.identity import claim
from offpiste.store.storage import Folder
from offpiste.study.marks import Marks
from offpiste.study.plan import read_study
from scripts import measured

STUDY = """
games = ["freeway"]
methods = ["epsilon_greedy"]
seeds = {seeds}
frames = "200M"
"""
MAX_SECONDS = {"disk": 2.5, "Ceph": 5.0}
MAX_REQUESTS = 7.0
"""A minute, of a run under way."""
REPETITIONS = 3
SETTLED_SECONDS = 60.0
"""From the start of a driver until its run is under way."""
_REQUEST = re.compile(r'beast: .*?"(GET|PUT|POST|HEAD|DELETE) (\S+) HTTP')


@dataclass(frozen=True)
class Timed:
    """How long the command takes, in seconds: the median of some repetitions."""

    running: float
    done: float


def main() -> int:
    """Measure and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50 runs, and requests of one minute instead of three")
    options = measured.parse(parser)
    runs, minutes = (50, 1) if options.quick else (1_000, 3)
    with tempfile.TemporaryDirectory(prefix="object-store-", dir="/tmp") as temporary:
        work = Path(temporary)
        with ceph_gateway(work / "ceph") as url:
            timed = {"disk": time_status(work, str(work / "store"), runs), "Ceph": time_status(work, url, runs)}
            requests = count_requests(work, url.replace("/store?", "/one?"), minutes)
    good = True
    print(f"{'study status of':<20}{f'{runs:,} under way':>18}{f'{runs:,} done':>18}")
    for name, found in timed.items():
        print(f"on {name:<17}{found.running:>16.1f} s{found.done:>16.1f} s")
        good &= max(found.running, found.done) <= MAX_SECONDS[name]
    expected, rate = requests_per_minute(), requests.total() / minutes
    kinds = ", ".join(f"{count} {kind}" for kind, count in requests.most_common())
    print(f"requests of a run under way in {minutes} min: {kinds}")
    print(f"{rate:.1f} a minute, by the intervals in the code {expected:.1f}")
    good &= 0 < rate <= expected + 1 / minutes and expected <= MAX_REQUESTS
    if options.record:
        figures = {"requests_per_minute": rate}
        for name, found in timed.items():
            figures |= {f"{name.lower()}_running_seconds": found.running, f"{name.lower()}_done_seconds": found.done}
        measured.record("benchmarks.speed.object_store", figures)
    return 0 if good else 1


def time_status(work: Path, where: str, runs: int) -> Timed:
    """Return how long `study status` takes in a store of so many runs."""
    file = work / "many.toml"
    file.write_text(STUDY.format(seeds=list(range(runs))))
    study, store = read_study(file), Folder(where)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda run: write_running(store, run), study.runs))

    def median_seconds(state: str) -> float:
        return statistics.median(status_seconds(file, where, runs, state) for _ in range(REPETITIONS))

    running = median_seconds("running")
    Marks(store, study).mark_done(*(run.run_id for run in study.runs))
    return Timed(running, median_seconds("done"))


def write_running(store: Folder, run: RunConfig) -> None:
    """Write what the command reads of a run under way."""
    folder = store.below(run.run_id)
    stored = claim(folder, run)
    status = {"state": "running", "frames": 1_000_000, "target_frames": run.frames, "iteration": 1, "at": utc_now()}
    folder.put(layout.STATUS, json.dumps(signed(status | stored.identity)).encode())


def count_requests(work: Path, url: str, minutes: int) -> Counter[str]:
    """Return the requests that a driver with one run under way makes in so many minutes, by method."""
    file, log = work / "one.toml", work / "ceph" / "client.rgw.log"
    file.write_text(STUDY.format(seeds=[0]))
    argv = [sys.executable, "-m", "offpiste", "study", "work", str(file), "--store", url]
    worker = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(SETTLED_SECONDS)
        begin = log.stat().st_size
        time.sleep(60.0 * minutes)
        with log.open("rb") as lines:
            lines.seek(begin)
            text = lines.read().decode(errors="replace")
        assert worker.poll() is None, worker.communicate()[1]
    finally:
        worker.terminate()
        worker.communicate()
    return Counter(method for method, path in _REQUEST.findall(text) if path.startswith("/bucket"))


if __name__ == "__main__":
    sys.exit(main())
