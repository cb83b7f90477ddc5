"""The sbatch file of a study: what it asks for, and what its shell does when Slurm or a user ends the job."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import ConfigError
from offpiste.study import slurm
from offpiste.study.plan import Study
from offpiste.study.slurm import JobArray, jobs_of, script, seconds_of
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


def written(array: JobArray, study: Study = STUDY, file: str = "/f") -> str:
    return script(study, array, file, "0123abcd", "/store")


def test_the_file_asks_for_what_the_slots_need_and_for_the_parts_that_are_left() -> None:
    text = written(JobArray(12, 3, "1:00:00", [1, 2, 3, 7, 9, 10], 3, ["--partition=long"]))
    found = directives(text)
    asked = {key: found[key] for key in ("array", "cpus-per-task", "mem", "time", "signal", "partition")}
    assert asked == {
        "array": "1-3,7,9-10%3",
        "cpus-per-task": "5",
        "mem": "6000M",
        "time": "1:00:00",
        "signal": "B:USR1@180",
        "partition": "long",
    }
    assert "requeue" in found
    assert "gres" not in found
    assert '--file-hash 0123abcd --part "$SLURM_ARRAY_TASK_ID/12" &' in text
    assert directives(written(JobArray(1, 1, "2", [1])))["signal"] == "B:USR1@30"
    assert directives(written(JobArray(1, 1, "2", [1])))["array"] == "1"


@pytest.mark.parametrize(
    ("runs", "jobs", "slots", "expected"), [(10, None, 1, 10), (10, None, 4, 3), (10, 7, 4, 7), (2_500, None, 2, 1_000)]
)
def test_there_are_as_many_parts_as_give_each_slot_a_run_and_arrays_end_at_a_thousand(
    runs: int, jobs: int | None, slots: int, expected: int
) -> None:
    assert jobs_of(tiny_study(seeds=list(range(runs))), jobs, slots) == expected


@pytest.mark.parametrize(("jobs", "slots"), [(0, 1), (4, 1), (None, 0)])
def test_a_part_has_at_least_one_run(jobs: int | None, slots: int) -> None:
    with pytest.raises(ConfigError, match=r"--slots must be >= 1 and --jobs in 1 to 3 \(runs\)"):
        jobs_of(STUDY, jobs, slots)


def test_at_least_one_job_runs_at_once() -> None:
    with pytest.raises(ConfigError, match="--at-once must be >= 1, got 0"):
        written(JobArray(1, 1, "2", [1], 0))


def test_gpus_are_asked_for_in_whole_ones() -> None:
    settings = tiny_study().runs[0]
    assert settings.machine.device == "cpu"
    study = tiny_study(resources={"gpus": 0.4}, settings={"machine": {"device": "cuda"}})
    assert directives(written(JobArray(1, 3, "2", [1]), study))["gres"] == "gpu:2"


@pytest.mark.parametrize("option", ["partition=long", "--comment=x\ntouch PWNED"])
def test_an_option_that_would_be_another_line_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="--sbatch must be one option of sbatch"):
        written(JobArray(1, 1, "2", [1], options=[option]))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_of_files_and_studies_stay_names(name: str, tmp_path: Path) -> None:
    from dataclasses import replace

    text = written(JobArray(1, 1, "2", [1]), replace(STUDY, name=name), f"/{name}.toml")
    assert all(line.startswith("#SBATCH --") for line in text.splitlines()[1:9])
    (line,) = [line for line in text.splitlines() if line.endswith(" &")]
    program = tmp_path / "program"
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)
    command = line.removesuffix(" &").partition(" -m ")[2]
    (failures,) = [line for line in text.splitlines() if line.startswith("failures=")]
    assert re.fullmatch(r"failures=[\w.-]+-\$task\.failures", failures)
    printed = subprocess.check_output(["bash", "-c", f"{program} {command}"], cwd=tmp_path)
    assert printed.decode().split("\0")[3] == f"/{name}.toml"


class Job:
    """A generated file, run by a shell as Slurm does, with a stand-in for the driver and for scontrol."""

    def __init__(self, folder: Path, worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        (folder / "scontrol").write_text('#!/bin/bash\necho "$@" > requeued\n')
        (folder / "worker").write_text(f"#!/bin/bash\n{worker}\n")
        for name in ("scontrol", "worker"):
            (folder / name).chmod(0o755)
        monkeypatch.setattr(slurm, "shell_line", lambda _: str(folder / "worker"))
        (folder / "job").write_text(written(JobArray(1, 1, "2", [1])))
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "8"}
        environment |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
        self.process = subprocess.Popen(["bash", "job"], cwd=folder, env=environment)

    def begun(self) -> "Job":
        """Wait until its driver would take a signal."""
        while not ((self._folder / "begun").exists() and self._is_waiting()):
            time.sleep(0.01)
        return self

    def _is_waiting(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def ends(self) -> tuple[int, str]:
        (self._folder / "may_end").touch()
        code = self.process.wait(timeout=300)
        requeued = self._folder / "requeued"
        return code, requeued.read_text().strip() if requeued.exists() else ""


STOPPED = "trap 'while [ ! -e may_end ]; do sleep 0.05; done; exit 75' TERM; echo > begun; while :; do sleep 0.05; done"
"""A driver that takes its time to end: as long as the test says."""


def test_a_job_whose_time_is_up_requeues_this_task_and_no_other(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch).begun()
    job.process.send_signal(signal.SIGUSR1)
    assert job.ends() == (0, "requeue 7_3")


def test_a_job_whose_driver_ended_by_itself_in_time_is_requeued(tmp_path: Path, monkeypatch: Any) -> None:
    assert Job(tmp_path, "exit 75", monkeypatch).ends() == (0, "requeue 7_3")


def test_a_cancelled_job_stays_cancelled_and_waits_for_its_driver(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch).begun()
    job.process.send_signal(signal.SIGTERM)
    assert job.ends() == (75, "")


def test_a_signal_before_the_warning_or_after_it_changes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, STOPPED, monkeypatch).begun()
    for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM):
        job.process.send_signal(number)
        time.sleep(0.02)
    assert job.ends() == (75, "")


@pytest.mark.parametrize(("worker", "code"), [("exit 0", 0), ("exit 1", 1), ("exit 3", 3), ("kill -9 $$", 137)])
def test_any_other_end_of_the_driver_is_that_of_the_job(
    worker: str, code: int, tmp_path: Path, monkeypatch: Any
) -> None:
    assert Job(tmp_path, worker, monkeypatch).ends() == (code, "")


def test_a_job_whose_machine_fails_is_requeued_three_times_in_a_row(tmp_path: Path, monkeypatch: Any) -> None:
    found = []
    for code in (76, 76, 75, 76, 76, 76, 76, 76):
        (tmp_path / "requeued").unlink(missing_ok=True)
        found.append(Job(tmp_path, f"exit {code}", monkeypatch).ends()[1] != "")
    assert found == [True, True, True, True, True, True, False, False]


def test_a_job_whose_machine_fails_after_it_was_cancelled_stays_cancelled(tmp_path: Path, monkeypatch: Any) -> None:
    job = Job(tmp_path, "trap 'exit 76' TERM; echo > begun; while :; do sleep 0.05; done", monkeypatch).begun()
    job.process.send_signal(signal.SIGTERM)
    assert job.ends() == (76, "")
