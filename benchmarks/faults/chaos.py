"""A study whose workers, machines and driver are killed, and whose store fails, ends as if nothing had happened.

One machine plays a cluster: a Ray head without processors and two more nodes of one each. Real runs of two games and
two methods, with small networks, are trained by `offpiste study run`, once into a folder on a small tmpfs and once into
S3 (`moto_server`, behind a proxy that can refuse writes). Meanwhile: SIGKILL of three workers, of a raylet and of the
driver; SIGTERM of a worker and of a `ray start --block`; a store that refuses writes; a full disk. Then the same
command again. Every digest and every row of the records must equal those of the same runs left alone; steps that were
computed twice are counted. Where a fast machine finishes the study before everything has happened to it, the runs are
made twice as long and resumed. Mounting the tmpfs and closing folders takes root.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.faults.chaos_cluster import Cluster
from benchmarks.faults.chaos_stores import Store, folder_store, s3_store
from benchmarks.shared.left_alone import left_alone
from benchmarks.shared.small_study import settings
from offpiste.config import RunConfig
from offpiste.rows import REPRODUCIBLE
from offpiste.run.digest import digest
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import read_study

STUDY = """
games = ["montezuma_revenge", "freeway"]
methods = ["epsilon_greedy", "cts"]
seeds = {seeds}
frames = {frames}
keep = "all"
resources = {{ cpus = 1, memory_gb = 0.5 }}
"""
CHECKPOINT_MINUTES, LAST_CHECKPOINT_MINUTES = 0.05, 1.0
"""While the study is disturbed, and after that, when on a busy machine little but checkpoints would be made."""
FULL_SEEDS, QUICK_SEEDS = [0, 1, 2, 3, 4, 5], [0, 1]
FRAMES = 4_000
"""To begin with."""
MAX_SECONDS = 3_600.0
MAX_FRAMES = 32_000
REFUSED_SECONDS = 20.0
NOTE_SECONDS = 5.0
"""Between two looks at the status of all runs, which take an S3 server's time."""
MAX_DRAIN_SECONDS = 40.0
"""Ray gives a node 30 seconds to end what it does."""
MAX_SAVING_SECONDS = 30.0
"""A worker saves within a second or two, and the driver hears of it at once."""


def main() -> int:
    """Make both studies suffer and return 0 if nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 runs instead of 24")
    parser.add_argument("--store", choices=("folder", "s3"), action="append", help="default: both")
    parser.add_argument("--chance", type=int, default=0, help="seed of the moments and victims")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # Ray's sockets need a short path
    study = StudyFile(work / "chaos.toml", QUICK_SEEDS if options.quick else FULL_SEEDS, FRAMES)
    good = True
    try:
        for kind in options.store or ("folder", "s3"):
            make_store = folder_store if kind == "folder" else s3_store
            with make_store(work) as store, Cluster(work / kind, study.path, store.location) as cluster:
                study.save_every(CHECKPOINT_MINUTES)
                chaos = Chaos(cluster, store, study, random.Random(options.chance))  # noqa: S311
                alone = chaos.run(work / "alone")
                good &= compare(kind, study.runs, Folder(store.location), alone, cluster)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("every run as if left alone" if good else "FAIL: some run differs")
    return 0 if good else 1


class StudyFile:
    """The study, whose runs can be made longer."""

    def __init__(self, path: Path, seeds: list[int], frames: int) -> None:
        self.path = path
        self._seeds = seeds
        self._frames = frames
        self._checkpoint_minutes = CHECKPOINT_MINUTES
        self._write()

    @property
    def runs(self) -> tuple[RunConfig, ...]:
        """The runs as the file says them now."""
        return read_study(self.path).runs

    def lengthen(self) -> int:
        """Make the runs twice as long and return how long they are."""
        self._frames *= 2
        if self._frames > MAX_FRAMES:
            raise SystemExit("the study ends before anything happens to it")
        self._write()
        return self._frames

    def save_every(self, minutes: float) -> None:
        """Let the runs that are started from now on save that often."""
        self._checkpoint_minutes = minutes
        self._write()

    def _write(self) -> None:
        plain = STUDY.format(seeds=self._seeds, frames=self._frames)
        self.path.write_text(plain + settings(self._checkpoint_minutes))


# What should come out


def tables_of(folder: Folder) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that must be the same whatever happened."""
    return {table: from_parquet(folder.get(f"{table}.parquet") or b"") for table in REPRODUCIBLE}


def compare(kind: str, runs: tuple[RunConfig, ...], store: Folder, alone: list[Folder], cluster: Cluster) -> bool:
    """Print how the study compares with runs left alone, and return whether it is the same."""
    equal, rows_equal, attempts, needed = 0, 0, 0, 0
    for run, wanted in zip(runs, alone, strict=True):
        folder = store.below(run.run_id)
        equal += digest(folder) == digest(wanted)
        tables = tables_of(wanted)
        iterations = [row["iteration"] for row in tables["iterations"] if row["complete"]]
        timed = [row["iteration"] for row in from_parquet(folder.get("timing.parquet") or b"")]
        rows_equal += tables_of(folder) == tables and timed == iterations
        attempts += len(folder.list("attempts"))
        needed += int(max(folder.list("manifests")).partition("-")[0])
    computed = cluster.steps_computed()
    print(
        f"{kind}: {equal} of {len(runs)} digests equal; rows of {rows_equal} neither missing nor twice; {attempts} "
        f"attempts; {computed - needed:,} steps computed twice, {(computed - needed) / needed:.1%} of {needed:,}",
        flush=True,
    )
    return equal == rows_equal == len(runs) and computed >= needed


# What happens to it


class Chaos:
    """One study and what it goes through."""

    def __init__(self, cluster: Cluster, store: Store, study: StudyFile, generator: random.Random) -> None:
        self._cluster = cluster
        self._store = store
        self._study = study
        self._runs = study.runs
        self._generator = generator
        self._start = time.monotonic()

    def run(self, work: Path) -> list[Folder]:
        """Let everything happen in turn, then let the study finish; return the same runs, left alone below a folder."""
        self._cluster.start_driver()
        for _ in range(3):
            self._kill_worker(signal.SIGKILL)
        self._wait_for_log("failed, next try")
        while not self._stop_a_worker_at_work():
            pass
        self._wait_for_progress()
        self._say("SIGKILL of a raylet")
        self._cluster.kill_raylet(0)
        self._wait_for_log("will resume: its machine is gone")
        self._cluster.start_node(0)
        self._let_the_store_fail()
        while not self._stop_a_node_at_work():
            self._cluster.start_node(1)
        self._cluster.start_node(1)
        self._wait_for_progress()
        self._say("SIGKILL of the driver")
        self._cluster.kill_driver()
        time.sleep(2.0)
        self._study.save_every(LAST_CHECKPOINT_MINUTES)
        self._cluster.start_driver()
        with left_alone(self._study.runs, work) as alone:
            code = self._cluster.wait_for_driver(MAX_SECONDS)
            self._say("the study has ended; the same runs, left alone, may take longer")
            folders = alone()
        assert code == 0, f"the study ended with {code}: {self._cluster.log()[-3_000:]}"
        states = {seen.state for seen in status.read_all(Folder(self._store.location), self._study.runs)}
        assert states == {"done"}, states
        self._say("done")
        return folders

    def _stop_a_worker_at_work(self) -> bool:
        """Ask a worker to go; return whether it was at work, and saved and said so."""
        self._kill_worker(signal.SIGTERM)
        said = self._wait_for_log("its worker was stopped", lambda seconds: seconds > MAX_SAVING_SECONDS)
        if not said:
            self._say("it was between two runs at that moment; once more")
        return said

    def _stop_a_node_at_work(self) -> bool:
        """Ask a node to go; return whether it was at work, and its worker saved and said so."""
        self._wait_for_progress()
        self._say("SIGTERM of `ray start --block`")
        self._cluster.stop_node(1)
        said = self._wait_for_log(
            "is going away", lambda seconds: self._cluster.node_has_gone(1) and seconds > MAX_DRAIN_SECONDS
        )
        if not said:
            self._say("it had nothing to do at that moment; once more")
        return said

    def _let_the_store_fail(self) -> None:
        for what, fail in self._store.faults.items():
            self._wait_for_progress()
            self._say(what)
            with fail():
                started = time.monotonic()
                while not self._noted():
                    self._check(started)
                    time.sleep(NOTE_SECONDS)
                self._say("the status says so, and training continues")
                time.sleep(REFUSED_SECONDS)

    def _noted(self) -> bool:
        seen = status.read_all(Folder(self._store.location), self._runs)
        return any("checkpoint failed, next try" in run.note for run in seen if run.state == "running")

    def _kill_worker(self, number: signal.Signals) -> None:
        self._wait_for_progress()
        time.sleep(self._generator.uniform(0.0, 3.0))
        victims: list[int] = []
        started = time.monotonic()
        while not victims:
            self._check(started)
            victims = self._cluster.workers()
            time.sleep(0.1)
        self._say(f"{number.name} of a worker")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._generator.choice(victims), number)

    def _wait_for_progress(self) -> None:
        """Wait until a run that is under way has saved something new."""
        before, started = self._store.manifests(), time.monotonic()
        while not self._store.manifests() - before:
            self._check(started)
            time.sleep(0.3)

    def _wait_for_log(self, text: str, in_vain: Callable[[float], bool] = lambda _: False) -> bool:
        """Wait until the drivers have said this; return False once that is in vain, after so many seconds."""
        started = time.monotonic()
        while text not in self._cluster.log():
            self._check(started)
            if in_vain(time.monotonic() - started):
                return False
            time.sleep(0.3)
        return True

    def _check(self, started: float) -> None:
        """See to it that the study is under way."""
        code = self._cluster.driver_has_ended()
        if time.monotonic() - started > MAX_SECONDS or code not in (None, 0):
            raise SystemExit(f"the study did not get on: {self._cluster.log()[-3_000:]}")
        if code == 0:
            self._say(f"done too soon; the runs continue to {self._study.lengthen():,} frames")
            self._cluster.start_driver()

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
