"""Drivers, their processes and real signals: whatever is killed, runs end as if left alone, and nothing survives."""

import hashlib
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

from offpiste.parsing import to_dict
from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store.identity import read_run
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import Study, load_bonuses, make_study, read_study
from offpiste.study.processes import Processes
from offpiste.study.task import AttemptOutcome, Task
from tests.study.small import TINY

CHATTY = """
from offpiste.bonuses.oracle import Oracle


class Chatty(Oracle):
    def observe(self, transition):
        print("this is no answer to the driver")
        return super().observe(transition)
"""

PAYING = """
from offpiste.bonuses.oracle import Oracle

VALUE = {value}


class Paying(Oracle):
    def observe(self, transition):
        return VALUE
"""


class Driver:
    """A real driver of a study of long enough runs, and what it leaves."""

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
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if found := happened():
                return found
            time.sleep(0.02)
        raise AssertionError(self.log)

    def children(self, driver: int) -> list[int]:
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{driver}/task/{driver}/children").read_text().split()]
        return []

    def has_checkpoints(self, count: int) -> bool:
        return sum(bool(self.store.below(run.run_id).list("manifests")) for run in self.study.runs) >= count

    def expect_runs_as_if_left_alone(self) -> None:
        for run in self.study.runs:
            train(run, Folder(self.folder / "alone" / run.run_id))
            assert digest(self.store.below(run.run_id)) == digest(Folder(self.folder / "alone" / run.run_id))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(**content: Any) -> Driver:
        made.append(Driver(tmp_path, **content))
        return made[-1]

    yield make
    for driver in made:
        for process in driver.processes:
            process.kill()
            process.wait()


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_run_resumes_exactly(make: Callable[..., Driver]) -> None:
    driver = make(seeds=[0, 1], frames=2_000)
    process = driver.start("run", "--slots", "2")
    driver.wait_for(lambda: driver.has_checkpoints(2))
    os.kill(driver.children(process.pid)[0], signal.SIGKILL)
    assert process.wait(timeout=240) == 0, driver.log
    assert "failed, next try at once, since it had progressed: its process was killed by SIGKILL" in driver.log
    driver.expect_runs_as_if_left_alone()


@pytest.mark.slow
def test_parts_that_are_killed_stopped_or_asked_to_stop_leave_no_process_and_are_continued_at_once(
    make: Callable[..., Driver],
) -> None:
    driver = make(seeds=[0, 1], frames=2_600)
    process = driver.start("work", "--slots", "2")
    driver.wait_for(lambda: driver.has_checkpoints(2))
    children = driver.children(process.pid)
    assert len(children) == 2
    process.kill()
    driver.wait_for(lambda: not any(map(is_alive, children)))
    assert {seen.state for seen in status.read_all(driver.store, driver.study.runs)} == {"waiting"}
    process = driver.start("work", "--slots", "2")
    driver.wait_for(lambda: driver.log.count("resumes at") == 2)  # without waiting for five minutes
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=240) == 75, driver.log
    status.request_stop(driver.store, "tiny")
    assert driver.start("work").wait(timeout=240) == 3
    assert driver.start("stop", "--undo").wait(timeout=240) == 0
    assert not status.stop_requested(driver.store, "tiny")
    parts = [driver.start("work", "--slots", "1", "--part", f"{number}/2") for number in (1, 2)]
    assert [part.wait(timeout=240) for part in parts] == [0, 0], driver.log
    driver.expect_runs_as_if_left_alone()


# One process, and what it is told


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes([None])
    yield made
    made.close()


def outcome_of(processes: Processes) -> AttemptOutcome:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for _, outcome in processes.wait(1.0):
            return outcome
    raise AssertionError("it does not end")


def test_what_a_bonus_prints_is_no_answer_and_a_bonus_edited_meanwhile_is_refused_by_new_processes(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chatty.py").write_text(CHATTY)
    study = load_bonuses(
        make_study(
            "chat", {"games": ["deep_sea_4"], "methods": [{"bonus": "chatty:Chatty"}], "seeds": [0, 1, 2], "frames": 60}
        )
    )
    status.put_file(Folder(tmp_path / "store"), "chat", b"")

    def start(index: int) -> AttemptOutcome:
        run = study.runs[index]
        task = Task(to_dict(run), str(tmp_path / "store"), "chat", "all", study.source_of(run))
        processes.start(run, task)
        assert list(processes.progress()) == [run.run_id]
        return outcome_of(processes)

    assert start(0).state == "finished"
    (before,) = processes._idle.values()
    (tmp_path / "chatty.py").write_text(CHATTY + "\n# changed\n")
    os.kill(before.pid, signal.SIGKILL)
    monkeypatch.setattr("offpiste.study.task.MIN_PAUSE_SECONDS", 0.0)
    found = start(2)
    if found.state == "failed":  # it died before it was asked, or as it was
        found = start(2)
    assert found.state == "machine", found
    assert "is not the one with which the study was started" in found.error
    assert not processes._idle  # it is replaced


@pytest.mark.slow
def test_a_bonus_that_is_edited_during_a_study_pays_what_its_hash_says(make: Callable[..., Driver]) -> None:
    driver = make(methods=[{"bonus": "paying:Paying"}], seeds=[0, 1, 2])
    file = driver.folder / "paying.py"
    file.write_text(PAYING.format(value=1.0))
    started_with = hashlib.sha256(file.read_bytes()).hexdigest()
    folders = [driver.store.below(run.run_id) for run in driver.study.runs]
    process = driver.start("run", "--slots", "1")
    driver.wait_for(lambda: folders[0].list("manifests"))
    file.write_text(PAYING.format(value=2.0))
    assert process.wait(timeout=300) == 0, driver.log
    for folder in folders:
        run, rows = read_run(folder), from_parquet(folder.get("iterations.parquet") or b"")
        assert run is not None
        assert (run.bonus_source, {row["intrinsic_mean"] for row in rows}) == (started_with, {1.0})
    assert driver.start("run", "--slots", "1").wait(timeout=300) == 1, driver.log
    assert driver.log.count("is skipped: the folder holds a run of the bonus paying:Paying from before") == 3
