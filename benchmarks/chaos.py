"""A study whose workers, machines and driver are killed, and whose store fails, ends as if nothing had happened.

One machine plays a cluster: a Ray head without processors and two more nodes of one each. Real runs of two games and
two methods, with small networks, are trained by `offpiste study run`, once into a folder on a small tmpfs and once into
S3 (`moto_server`, behind a proxy that can refuse writes). Meanwhile: SIGKILL of three workers, of a raylet and of the
driver; SIGTERM of a worker and of a `ray start --block`; a store that refuses writes; a full disk. Then the same
command again. Every digest and every row of the records must equal those of the same runs trained one after the other
and left alone; steps that were computed twice are counted. Where a fast machine finishes the study before everything
has happened to it, the runs are made twice as long and go on. Mounting the tmpfs and closing folders takes root.
"""

import argparse
import contextlib
import http.client
import http.server
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from offpiste.config import RunConfig
from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store.records import REPRODUCIBLE, from_parquet
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import read_study
from s3_server import free_port, s3_location, s3_server

STUDY = """
games = ["montezuma_revenge", "freeway"]
methods = ["epsilon_greedy", "cts"]
seeds = {seeds}
frames = {frames}
keep = "all"
resources = {{ cpus = 1, memory_gb = 0.5 }}

[settings]
world = {{ episode_frames = 1_200 }}
schedule = {{ iteration_steps = 500 }}
exploration = {{ epsilon_decay_steps = 500 }}
machine = {{ checkpoint_minutes = 0.05 }}

[settings.agent]
replay_capacity = 600
min_history_steps = 200
target_update_steps = 200
convolution_channels = [8, 8, 8]
hidden_units = 32
"""
FULL_SEEDS, QUICK_SEEDS = [0, 1, 2, 3, 4, 5], [0, 1]
FULL_FRAMES, QUICK_FRAMES = 8_000, 4_000
TMPFS_MEGABYTES = 300
MOST_SECONDS = 3_600.0
REFUSED_SECONDS = 20.0
MOST_DRAIN_SECONDS = 40.0
"""Ray gives a node 30 seconds to end what it does."""

COUNTER = '''
"""Counts the steps that a Ray worker computes, in a file that survives it."""
import importlib.abc, importlib.util, mmap, os, struct, sys

class Counting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "offpiste.run.loop":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def run_and_count(module):
            run(module)
            steps = module.Loop.steps
            place = open(os.path.join(os.environ["CHAOS_COUNTS"], str(os.getpid())), "w+b")
            place.write(bytes(8))
            place.flush()
            count = mmap.mmap(place.fileno(), 8)
            def counted(self):
                for step in steps(self):
                    count[:] = struct.pack("q", struct.unpack("q", count[:])[0] + 1)
                    yield step
            module.Loop.steps = counted
        spec.loader.exec_module = run_and_count
        return spec

if "CHAOS_COUNTS" in os.environ and any("default_worker.py" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Counting())
'''


def main() -> int:
    """Make both studies suffer and return 0 if nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 runs instead of 24, and for a shorter time")
    parser.add_argument("--store", choices=("folder", "s3"), action="append", help="default: both")
    parser.add_argument("--chance", type=int, default=0, help="seed of the moments and victims")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # Ray's sockets need a short path
    size = (QUICK_SEEDS, QUICK_FRAMES) if options.quick else (FULL_SEEDS, FULL_FRAMES)
    study = StudyFile(work / "chaos.toml", *size)
    good = True
    try:
        for kind in options.store or ("folder", "s3"):
            make_store = folder_store if kind == "folder" else s3_store
            with make_store(work) as store, Cluster(work / kind, study.path, store.location) as cluster:
                Chaos(cluster, store, study, random.Random(options.chance)).run()  # noqa: S311
                good &= compare(kind, study.runs, Folder(store.location), work / "alone", cluster)
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
        self._write()

    @property
    def runs(self) -> tuple[RunConfig, ...]:
        """The runs as the file says them now."""
        return read_study(self.path).runs

    def lengthen(self) -> int:
        """Make the runs twice as long and return how long they are."""
        self._frames *= 2
        self._write()
        return self._frames

    def _write(self) -> None:
        self.path.write_text(STUDY.format(seeds=self._seeds, frames=self._frames))


# What should come out


def left_alone(runs: tuple[RunConfig, ...], folder: Path) -> None:
    """Train all runs one after the other, here; what was trained before is only trained further."""
    start = time.monotonic()
    for run in runs:
        machine = replace(run.machine, checkpoint_minutes=1_000.0)
        train(replace(run, machine=machine), Folder(folder / run.run_id))
    print(f"{len(runs)} runs left alone, one after the other: {time.monotonic() - start:.0f} s", flush=True)


def tables_of(folder: Folder) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that must be the same whatever happened."""
    return {table: from_parquet(folder.get(f"{table}.parquet") or b"") for table in REPRODUCIBLE}


def compare(kind: str, runs: tuple[RunConfig, ...], store: Folder, alone: Path, cluster: "Cluster") -> bool:
    """Print how the study compares with runs left alone, and return whether it is the same."""
    left_alone(runs, alone / str(runs[0].frames))
    equal, rows_equal, attempts, needed = 0, 0, 0, 0
    for run in runs:
        folder, wanted = store.below(run.run_id), Folder(alone / str(run.frames) / run.run_id)
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

    def __init__(self, cluster: "Cluster", store: "Store", study: StudyFile, chance: random.Random) -> None:
        self._cluster = cluster
        self._store = store
        self._study = study
        self._runs = study.runs
        self._chance = chance
        self._start = time.monotonic()

    def run(self) -> None:
        """Let everything happen in turn, then let the study finish."""
        self._cluster.start_driver()
        for _ in range(3):
            self._kill_worker(signal.SIGKILL)
        self._wait_for_log("failed, next try in")
        self._kill_worker(signal.SIGTERM)
        self._wait_for_log("its worker was told to stop")
        self._wait_for_progress()
        self._say("SIGKILL of a raylet")
        self._cluster.kill_raylet(0)
        self._wait_for_log("will go on: its machine is gone")
        self._cluster.start_node(0)
        self._let_the_store_fail()
        while not self._stop_a_node_at_work():
            self._cluster.start_node(1)
        self._cluster.start_node(1)
        self._wait_for_progress()
        self._say("SIGKILL of the driver")
        self._cluster.kill_driver()
        time.sleep(2.0)
        self._cluster.start_driver()
        code = self._cluster.wait_for_driver()
        assert code == 0, f"the study ended with {code}: {self._cluster.log()[-3_000:]}"
        states = {seen.state for seen in status.read_all(Folder(self._store.location), self._study.runs)}
        assert states == {"done"}, states
        self._say("done")

    def _stop_a_node_at_work(self) -> bool:
        """Ask a node to go; tell whether it was at work, and its worker saved and said so."""
        self._wait_for_progress()
        self._say("SIGTERM of `ray start --block`")
        self._cluster.stop_node(1)
        started = time.monotonic()
        while "is going away" not in self._cluster.log():
            self._check(started)
            if self._cluster.node_has_gone(1) and time.monotonic() - started > MOST_DRAIN_SECONDS:
                self._say("it had nothing to do at that moment; once more")
                return False
            time.sleep(0.3)
        return True

    def _let_the_store_fail(self) -> None:
        for what, fail in self._store.faults.items():
            self._wait_for_progress()
            self._say(what)
            with fail():
                started = time.monotonic()
                while not self._noted():
                    self._check(started)
                    time.sleep(0.5)
                self._say("the status says so, and training goes on")
                time.sleep(REFUSED_SECONDS)

    def _noted(self) -> bool:
        seen = status.read_all(Folder(self._store.location), self._runs)
        return any("checkpoint failed, next try" in run.note for run in seen if run.state == "running")

    def _kill_worker(self, number: signal.Signals) -> None:
        self._wait_for_progress()
        time.sleep(self._chance.uniform(0.0, 3.0))
        victims: list[int] = []
        started = time.monotonic()
        while not victims:
            self._check(started)
            victims = self._cluster.workers()
            time.sleep(0.1)
        self._say(f"{number.name} of a worker")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._chance.choice(victims), number)

    def _wait_for_progress(self) -> None:
        """Wait until a run that is under way has saved something new."""
        before, started = self._manifests(), time.monotonic()
        while not self._manifests() - before:
            self._check(started)
            time.sleep(0.3)

    def _manifests(self) -> set[str]:
        store = Folder(self._store.location)
        return {f"{run.run_id}/{name}" for run in self._runs for name in store.below(run.run_id).list("manifests")}

    def _wait_for_log(self, text: str) -> None:
        started = time.monotonic()
        while text not in self._cluster.log():
            self._check(started)
            time.sleep(0.3)

    def _check(self, started: float) -> None:
        """See to it that the study is under way."""
        code = self._cluster.driver_has_ended()
        if time.monotonic() - started > MOST_SECONDS or code not in (None, 0):
            raise SystemExit(f"the study did not get on: {self._cluster.log()[-3_000:]}")
        if code == 0:
            self._say(f"done too soon; the runs go on to {self._study.lengthen():,} frames")
            self._cluster.start_driver()

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {text}", flush=True)


# The cluster


class Cluster:
    """A Ray head and two nodes on this machine, and the driver of a study."""

    def __init__(self, folder: Path, file: Path, location: str) -> None:
        folder.mkdir()
        self._folder = folder
        self._command = ["study", "run", str(file), "--store", location, "--address"]
        self._port = free_port()
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(COUNTER)
        (folder / "counts").mkdir()
        self._environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # 15 otherwise, and a busy machine would hardly let them get on
            "CHAOS_COUNTS": str(folder / "counts"),
            "PYTHONPATH": str(folder / "site"),
            "OMP_NUM_THREADS": "1",
        }
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Cluster":
        head = ["--head", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={self._folder}/ray"]
        try:
            self._nodes[-1] = self._start_ray([*head, "--num-cpus=0"], "head")
            for number in (0, 1):
                self.start_node(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._nodes.values(), self._driver]:
            if process is not None and process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._kill_all()

    def start_node(self, number: int) -> None:
        """Let a node join."""
        self._nodes[number] = self._start_ray([f"--address=127.0.0.1:{self._port}", "--num-cpus=1"], f"node-{number}")

    def kill_raylet(self, number: int) -> None:
        """Kill a node's raylet, and with it all that it started."""
        node = self._nodes[number]
        raylets = [pid for pid in self._ours() if parent_of(pid) == node.pid and "raylet/raylet" in command_of(pid)]
        assert len(raylets) == 1, raylets
        os.kill(raylets[0], signal.SIGKILL)
        node.wait(timeout=120)

    def stop_node(self, number: int) -> None:
        """Ask a node to go."""
        self._nodes[number].send_signal(signal.SIGTERM)

    def node_has_gone(self, number: int) -> bool:
        """Tell whether a node that was asked to go has gone."""
        return self._nodes[number].poll() is not None

    def start_driver(self) -> None:
        """Give the command that runs the study."""
        words = ["-m", "offpiste", *self._command, f"127.0.0.1:{self._port}"]
        self._driver = self._start(sys.executable, words, "driver")

    def kill_driver(self) -> None:
        """Kill the study's driver."""
        assert self._driver is not None
        self._driver.kill()
        self._driver.wait()

    def driver_has_ended(self) -> int | None:
        """Return the driver's exit code once it has ended."""
        assert self._driver is not None
        return self._driver.poll()

    def wait_for_driver(self) -> int:
        """Return the exit code of the driver."""
        assert self._driver is not None
        return self._driver.wait(timeout=MOST_SECONDS)

    def workers(self) -> list[int]:
        """Return the processes that compute steps of runs; Ray names them after their tasks."""
        counting = {path.name for path in (self._folder / "counts").iterdir() if any(path.read_bytes())}
        return [pid for pid in self._ours() if str(pid) in counting and "/seed-" in command_of(pid)]

    def log(self) -> str:
        """Return what the drivers said."""
        return (self._folder / "driver.log").read_text() if (self._folder / "driver.log").exists() else ""

    def steps_computed(self) -> int:
        """Return the steps that all workers computed together."""
        counts = [path.read_bytes() for path in (self._folder / "counts").iterdir()]
        return sum(int.from_bytes(count, sys.byteorder) for count in counts)

    def _start_ray(self, words: list[str], name: str) -> "subprocess.Popen[bytes]":
        """Start Ray's processes and return once they are up; on a busy machine Ray gives up too soon, so try again."""
        log = self._folder / f"{name}.log"
        for _ in range(5):
            before = log.read_text().count(STARTED) if log.exists() else 0
            process = self._start("ray", ["start", *words, *SMALL_NODE], name)
            while process.poll() is None:
                if log.read_text().count(STARTED) > before:
                    return process
                time.sleep(0.2)
            if name == "head":
                self._kill_all()
        raise SystemExit(f"Ray does not start: {log.read_text()[-2_000:]}")

    def _start(self, program: str, words: list[str], name: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [program, *words], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def _kill_all(self) -> None:
        for pid in self._ours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ours(self) -> list[int]:
        mark = f"CHAOS_COUNTS={self._folder / 'counts'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found


STARTED = "Ray runtime started."
SMALL_NODE = ["--block", f"--object-store-memory={80 * 2**20}", "--disable-usage-stats"]


def command_of(pid: int) -> str:
    """Return how a process calls itself."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


# The stores and how they fail


@dataclass(frozen=True)
class Store:
    """Where runs lie, and what can happen to that place."""

    location: str
    faults: dict[str, Callable[[], contextlib.AbstractContextManager[None]]]


@contextlib.contextmanager
def folder_store(work: Path) -> Iterator[Store]:
    """Make a small disk."""
    place = work / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MEGABYTES}m", "none", str(place)], check=True)

    @contextlib.contextmanager
    def closed() -> Iterator[None]:
        folders = [str(path) for name in ("objects", "manifests") for path in place.glob(f"store/*/*/*/{name}")]
        subprocess.run(["chattr", "+i", *folders], check=True)
        try:
            yield
        finally:
            subprocess.run(["chattr", "-i", *folders], check=True)

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        filler = place / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as out:
                while out.write(bytes(2**20)):
                    pass
            with filler.open("r+b") as out:  # room for a status, not for a checkpoint
                out.truncate(filler.stat().st_size - 64 * 1024)
            yield
        finally:
            filler.unlink()

    try:
        yield Store(str(place / "store"), {"a store that refuses writes": closed, "a full disk": full})
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def s3_store(work: Path) -> Iterator[Store]:
    """Start an S3 server, and a proxy before it that can refuse writes."""
    with s3_server(work / "moto.log") as port:
        proxy = Proxy(port)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield Store(s3_location(proxy.server_port, "store"), {"a store that refuses writes": proxy.refusing})
        proxy.shutdown()


PER_CONNECTION = ("transfer-encoding", "content-length", "connection", "expect")


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to an S3 server, except writes of checkpoints while it is told to refuse them."""

    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.target = target
        self.refuses = False

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse for a while."""
        self.refuses = True
        try:
            yield
        finally:
            self.refuses = False


class Passing(http.server.BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass_on(self) -> None:
        body = self._body()
        writes = self.command in ("PUT", "POST") and ("/objects/" in self.path or "/manifests/" in self.path)
        if writes and self.server.refuses:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in PER_CONNECTION}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in (*PER_CONNECTION, "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # what may follow the last part
        return b"".join(parts)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    sys.exit(main())
