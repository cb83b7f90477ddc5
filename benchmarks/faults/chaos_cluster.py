"""The cluster that `chaos` makes suffer: Ray nodes on this machine, and the driver of a study, to be killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from secrets import token_hex

from benchmarks.shared.step_counter import VARIABLE, counting_environment, counting_processes, steps_computed
from tests.s3_server import free_port

STARTED = "Ray runtime started."
START_TRIES = 60
"""Ray gives each half a minute, which is too little where the machine is busy."""
SMALL_NODE = ["--block", f"--object-store-memory={80 * 2**20}", "--disable-usage-stats"]


class Cluster:
    """A Ray head and two nodes on this machine, and the driver of a study."""

    def __init__(self, folder: Path, file: Path, location: str) -> None:
        folder.mkdir()
        self._folder = folder
        self._command = ["study", "run", str(file), "--store", location, "--address"]
        self._port = free_port()
        self._environment = os.environ | {
            **counting_environment(folder),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # 15 otherwise, and a busy machine would hardly let them get on
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
        argv = ["-m", "offpiste", *self._command, f"127.0.0.1:{self._port}"]
        self._driver = self._start(sys.executable, argv, "driver")

    def kill_driver(self) -> None:
        """Kill the study's driver."""
        assert self._driver is not None
        self._driver.kill()
        self._driver.wait()

    def driver_has_ended(self) -> int | None:
        """Return the driver's exit code once it has ended."""
        assert self._driver is not None
        return self._driver.poll()

    def wait_for_driver(self, max_seconds: float) -> int:
        """Return the exit code of the driver."""
        assert self._driver is not None
        return self._driver.wait(timeout=max_seconds)

    def workers(self) -> list[int]:
        """Return the processes that compute steps of runs; Ray names them after their tasks."""
        counting = counting_processes(self._folder)
        return [pid for pid in self._ours() if pid in counting and "/seed-" in command_of(pid)]

    def log(self) -> str:
        """Return what the drivers said."""
        return (self._folder / "driver.log").read_text() if (self._folder / "driver.log").exists() else ""

    def steps_computed(self) -> int:
        """Return the steps that all workers computed together."""
        return steps_computed(self._folder)

    def _start_ray(self, argv: list[str], name: str) -> "subprocess.Popen[bytes]":
        """Start Ray's processes and return once they are up; try again where Ray gives up too soon."""
        log = self._folder / f"{name}.log"
        for _ in range(START_TRIES):
            before = log.read_text().count(STARTED) if log.exists() else 0
            process = self._start("ray", ["start", *argv, *SMALL_NODE], name)
            while process.poll() is None:
                if log.read_text().count(STARTED) > before:
                    return process
                time.sleep(0.2)
            if name == "head":
                self._kill_all()
        raise SystemExit(f"Ray does not start: {log.read_text()[-2_000:]}")

    def _start(self, program: str, argv: list[str], name: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [program, *argv], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def _kill_all(self) -> None:
        for pid in self._ours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ours(self) -> list[int]:
        mark = f"{VARIABLE}={self._folder / 'counts'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found


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
