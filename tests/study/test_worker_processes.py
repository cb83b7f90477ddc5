"""Workers, their processes and real signals: whatever is killed, runs end as if left alone, and nothing survives."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.marks import Marks
from offpiste.study.plan import Study, read_study
from tests.study.small import TINY

CHATTY = """
from offpiste.bonuses.oracle import Oracle


class Chatty(Oracle):
    def observe(self, transition):
        print("this is no answer to the worker")
        return super().observe(transition)
"""


class Worker:
    """A real worker on a study of long enough runs, and what it leaves."""

    def __init__(self, folder: Path, **content: Any) -> None:
        self.folder = folder
        self.file, self.store = folder / "tiny.toml", Folder(folder / "store")
        settings = TINY["settings"] | {"machine": {"checkpoint_minutes": 0.02}}
        self.file.write_text(tomli_w.dumps(TINY | {"keep": "all", "settings": settings} | content))
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def study(self) -> Study:
        return read_study(self.file)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "offpiste", "study", argv[0], str(self.file), "--store", self.store.location]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen([*command, *argv[1:]], cwd=self.folder, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def wait_for(self, happened: Callable[[], Any]) -> Any:
        """Wait until this is true, and return it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if found := happened():
                return found
            time.sleep(0.02)
        raise AssertionError(self.log)

    def children(self, worker: int) -> list[int]:
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{worker}/task/{worker}/children").read_text().split()]
        return []

    def has_checkpoints(self, count: int) -> bool:
        return sum(bool(self.store.below(run.run_id).list("manifests")) for run in self.study.runs) >= count

    def expect_runs_as_if_left_alone(self) -> None:
        for run in self.study.runs:
            train(run, Folder(self.folder / "alone" / run.run_id))
            assert digest(self.store.below(run.run_id)) == digest(Folder(self.folder / "alone" / run.run_id))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(**content: Any) -> Worker:
        made.append(Worker(tmp_path, **content))
        return made[-1]

    yield make
    for worker in made:
        for process in worker.processes:
            process.kill()
            process.wait()


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_run_resumes_exactly(make: Callable[..., Worker]) -> None:
    worker = make(seeds=[0, 1], frames=2_400)
    process = worker.start("run", "--slots", "2")
    worker.wait_for(lambda: worker.has_checkpoints(2))
    os.kill(worker.children(process.pid)[0], signal.SIGKILL)
    assert process.wait(timeout=240) == 0, worker.log
    assert "failed, next try at once, since it had progressed: its process was killed by SIGKILL" in worker.log
    worker.expect_runs_as_if_left_alone()


@pytest.mark.slow
def test_when_a_worker_is_killed_its_processes_save_and_end_and_the_next_resumes_at_once(
    make: Callable[..., Worker],
) -> None:
    worker = make(seeds=[0, 1], frames=3_000)
    process = worker.start("work", "--slots", "2")
    worker.wait_for(lambda: worker.has_checkpoints(2))
    children = worker.children(process.pid)
    assert len(children) == 2
    process.kill()
    worker.wait_for(lambda: not any(map(is_alive, children)))
    assert {seen.state for seen in status.read_all(worker.store, worker.study.runs)} == {"waiting"}
    assert len(Marks(worker.store, worker.study).read().leases) == 2  # left behind
    assert worker.start("work", "--slots", "2").wait(timeout=240) == 0, worker.log  # without waiting for five minutes
    assert all(len(worker.store.below(run.run_id).list("attempts")) == 2 for run in worker.study.runs)
    assert Marks(worker.store, worker.study).read().leases == {}
    worker.expect_runs_as_if_left_alone()


@pytest.mark.slow
def test_a_stopped_worker_exits_with_75_one_of_a_stopped_study_with_3_and_another_finishes(
    make: Callable[..., Worker],
) -> None:
    worker = make(seeds=[0, 1], frames=3_000)
    process = worker.start("work", "--slots", "2")
    worker.wait_for(lambda: worker.has_checkpoints(2))
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=240) == 75, worker.log
    assert Marks(worker.store, worker.study).read().leases == {}
    status.request_stop(worker.store, "tiny")
    assert worker.start("work", "--slots", "1").wait(timeout=240) == 3
    assert worker.start("stop", "--undo").wait(timeout=240) == 0
    assert worker.start("work", "--slots", "2").wait(timeout=240) == 0, worker.log
    worker.expect_runs_as_if_left_alone()


@pytest.mark.slow
def test_what_a_bonus_prints_does_not_disturb_its_worker(make: Callable[..., Worker], tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    worker = make(games=["deep_sea_4"], methods=[{"bonus": "chatty:Chatty"}], seeds=[0], frames=60, settings={})
    assert worker.start("run").wait(timeout=240) == 0, worker.log
    assert "this is no answer" not in worker.log
