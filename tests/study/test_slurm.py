"""The sbatch file of a study: what it asks for, and what its shell does when Slurm or a user ends the job."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import ConfigError
from offpiste.study import slurm
from offpiste.study.slurm import Batch, script, seconds_of
from tests.shell import HOSTILE_NAMES
from tests.study.small import tiny_study

STUDY = tiny_study(resources={"cpus": 1.5, "memory_gb": 2})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1_800), ("1:30", 90), ("24:00:00", 86_400), ("2-00", 172_800), ("1-12:30", 131_400), ("0-0:0:5", 5)],
)
def test_a_time_limit_is_read_as_sbatch_does(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "1h", "1:2:3:4", "-1", "1-"])
def test_another_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--time must be > 0 and written as for sbatch"):
        seconds_of(text)


def directives(text: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH ")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_the_file_asks_for_what_the_slots_need() -> None:
    found = directives(script(STUDY, Batch(5, 3, "1:00:00", ["--partition=long"]), "/f.toml", "/store"))
    asked = {key: found[key] for key in ("array", "cpus-per-task", "mem", "time", "signal", "partition")}
    assert asked == {
        "array": "0-4",
        "cpus-per-task": "5",
        "mem": "6000M",
        "time": "1:00:00",
        "signal": "B:USR1@180",
        "partition": "long",
    }
    assert "requeue" in found
    assert "gres" not in found
    assert directives(script(STUDY, Batch(1, 1, "2"), "/f", "/s"))["signal"] == "B:USR1@30"


def test_gpus_are_asked_for_in_whole_ones() -> None:
    settings = tiny_study().runs[0]
    assert settings.machine.device == "cpu"
    study = tiny_study(resources={"gpus": 0.4}, settings={"machine": {"device": "cuda"}})
    assert directives(script(study, Batch(1, 3, "2"), "/f", "/s"))["gres"] == "gpu:2"


@pytest.mark.parametrize("option", ["partition=long", "--comment=x\ntouch PWNED"])
def test_an_option_that_would_be_another_line_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="--sbatch must be one option of sbatch"):
        script(STUDY, Batch(1, 1, "2", [option]), "/f", "/s")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_of_files_and_studies_stay_names(name: str, tmp_path: Path) -> None:
    from dataclasses import replace

    text = script(replace(STUDY, name=name), Batch(1, 1, "2"), f"/{name}.toml", "/store")
    assert all(line.startswith("#SBATCH --") for line in text.splitlines()[1:9])
    (line,) = [line for line in text.splitlines() if line.endswith(" &")]
    program = tmp_path / "program"
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)
    command = line.removesuffix(" &").partition(" -m ")[2]
    printed = subprocess.check_output(["bash", "-c", f"{program} {command}"], cwd=tmp_path)
    assert printed.decode().split("\0")[3] == f"/{name}.toml"


class Job:
    """A generated file, run by a shell as Slurm does, with a stand-in for the worker and for scontrol."""

    def __init__(self, folder: Path, worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        (folder / "scontrol").write_text('#!/bin/bash\necho "$@" > requeued\n')
        (folder / "worker").write_text(f"#!/bin/bash\necho begun > begun\n{worker}\n")
        for name in ("scontrol", "worker"):
            (folder / name).chmod(0o755)
        monkeypatch.setattr(slurm, "shell_line", lambda _: str(folder / "worker"))
        (folder / "job").write_text(script(STUDY, Batch(1, 1, "2"), "/f", "/s"))
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "8"}
        environment |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
        self.process = subprocess.Popen(["bash", "job"], cwd=folder, env=environment)
        while not (folder / "begun").exists():
            time.sleep(0.01)

    def ends(self) -> tuple[int, str]:
        code = self.process.wait(timeout=20)
        requeued = self._folder / "requeued"
        return code, requeued.read_text().strip() if requeued.exists() else ""


STOPPED = "trap 'sleep 0.2; exit 75' TERM; while :; do sleep 0.05; done"


def test_a_job_whose_time_is_up_requeues_this_task_and_no_other(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch)
    time.sleep(0.1)
    job.process.send_signal(signal.SIGUSR1)
    assert job.ends() == (0, "requeue 7_3")


def test_a_job_whose_worker_ended_by_itself_in_time_is_requeued(tmp_path: Path, monkeypatch: Any) -> None:
    assert Job(tmp_path, "exit 75", monkeypatch).ends() == (0, "requeue 7_3")


def test_a_cancelled_job_stays_cancelled_and_waits_for_its_worker(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch)
    time.sleep(0.1)
    job.process.send_signal(signal.SIGTERM)
    assert job.ends() == (75, "")


def test_a_signal_before_the_warning_or_after_it_changes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch)
    time.sleep(0.1)
    for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM):
        job.process.send_signal(number)
        time.sleep(0.02)
    assert job.ends() == (75, "")


@pytest.mark.parametrize(("worker", "code"), [("exit 0", 0), ("exit 1", 1), ("exit 3", 3), ("kill -9 $$", 137)])
def test_any_other_end_of_the_worker_is_that_of_the_job(
    worker: str, code: int, tmp_path: Path, monkeypatch: Any
) -> None:
    assert Job(tmp_path, worker, monkeypatch).ends() == (code, "")
