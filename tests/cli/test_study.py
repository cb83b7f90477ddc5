"""`offpiste study`: the output and errors of its commands, and what they write to the store."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from offpiste.cli import status_view
from offpiste.config import RunConfig
from offpiste.errors import AccessDenied, MachineError, StoreError
from offpiste.parsing import to_toml
from offpiste.store.storage import Folder
from offpiste.study import child, cost, here, ray_cluster, status
from offpiste.study.driver import StudySummary, Terms
from offpiste.study.marks import Marks, read_status
from offpiste.study.parts import StudyPart
from offpiste.study.plan import read_study
from offpiste.study.status import RunStatus
from tests.cli.test_main import Output
from tests.study.small import TINY, leave_status, tiny_study

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(tomli_w.dumps(TINY))
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


# plan


def rows_of(lines: list[str]) -> dict[str, list[str]]:
    """Return settings, runs and billions of frames by method."""
    return {cells[0]: cells[1:4] for line in lines[5:] if (cells := line.split())[1:2] and cells[1].isdigit()}


def test_the_plan_of_the_paper_has_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["study", "plan", str(STUDIES / "paper.toml")], capsys)
    assert output.code == 0, output.errors
    lines = output.out.splitlines()
    assert lines[0] == "study paper: 360 runs, 72,000,000,000 frames"
    assert lines[1].startswith("games (12): montezuma_revenge, freeway, ")
    assert lines[2] == "seeds (5): 0, 1, 2, 3, 4"
    methods = ("epsilon_greedy", "noisy_nets", "cts", "pixelcnn", "icm", "rnd")
    assert rows_of(lines) == {method: ["1", "60", "12"] for method in methods}
    assert lines[-1] == "time: give --steps-per-second of one run, or --measure it here"


def test_the_plan_of_the_tuning_has_its_numbers_and_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["study", "plan", str(STUDIES / "tuning.toml"), "--steps-per-second", "50", "--runs-per-machine", "10"]
    lines = Output(argv, capsys).out.splitlines()
    assert lines[0] == "study tuning: 660 runs, 132,000,000,000 frames"
    assert rows_of(lines) == {
        "cts": ["8", "40", "8"],
        "pixelcnn": ["25", "125", "25"],
        "icm": ["54", "270", "54"],
        "rnd": ["45", "225", "45"],
    }
    days = 132e9 / 4 / 50 / 86_400 / 10
    assert lines[-1] == f"time: {days:,.1f} machine-days, with 10 runs at once on a machine"


def test_the_rate_may_be_measured_for_each_method(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def measure(run: RunConfig) -> float:
        measured.append(run.run_id)
        return 100 / 86_400  # the study's 300 steps take three days

    monkeypatch.setattr(cost, "measure", measure)
    output = Output(["study", "plan", file, "--measure"], capsys)
    assert measured == ["freeway/epsilon_greedy/seed-0"]
    assert output.out.splitlines()[-1].startswith("time: 3.0 machine-days")


@pytest.mark.parametrize("name", ["smoke", "tuning"])
def test_every_line_of_the_list_trains_one_run_of_the_plan(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["study", "plan", str(STUDIES / f"{name}.toml"), "--list"], capsys)
    lines = output.out.splitlines()
    runs = read_study(STUDIES / f"{name}.toml").runs
    assert len(lines) == len(runs)
    every = max(1, len(runs) // 12)
    for line, run in list(zip(lines, runs, strict=True))[::every]:
        command, *argv = shlex.split(line)
        assert command == "offpiste"
        printed = Output([*argv, "--print-config"], capsys)
        assert printed.code == 0, printed.errors
        assert printed.out == to_toml(run)


def test_an_unknown_key_is_refused_with_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text('gmaes = ["freeway"]\n')
    for command in (["plan"], ["run", "--store", str(tmp_path)], ["status", "--store", str(tmp_path)]):
        output = Output(["study", command[0], str(tmp_path / "x.toml"), *command[1:]], capsys)
        assert (output.code, output.errors) == (1, "offpiste: no setting named 'gmaes'; did you mean 'games'?\n")


# run


@pytest.mark.parametrize(
    ("summary", "code"),
    [(StudySummary(3, 0, 0), 0), (StudySummary(2, 1, 0), 1), (StudySummary(1, 1, 1), 1), (StudySummary(1, 0, 2), 75)],
)
def test_the_exit_code_of_a_study_follows_from_its_summary(
    summary: StudySummary, code: int, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []

    def run_study(*arguments: Any, **named: Any) -> StudySummary:
        calls.append((arguments[0].name, arguments[0].bonus_sources, *arguments[1:3], arguments[4], named))
        return summary

    monkeypatch.setattr(ray_cluster, "run_on_ray", run_study)
    output = Output(["study", "run", file, "--store", "s3://b/x", "--address", "auto"], capsys)
    assert output.code == code
    assert calls == [("tiny", {"none": None}, Path(file).read_bytes(), "s3://b/x", "auto", {"accept_version": False})]
    assert ("`offpiste study retry` tries again" in output.errors) == (code == 1)


def test_without_the_extra_the_error_says_what_to_install(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "not used")
    output = Output(["study", "run", file, "--store", str(tmp_path / "s"), "--ray"], capsys)
    assert output.code == 1
    assert output.errors == "offpiste: a study on Ray needs Ray: pip install 'offpiste[cluster]'\n"


@pytest.mark.parametrize(
    ("argv", "address", "by"),
    [
        ([], "", "here"),
        (["--slots", "3"], "", "here"),
        (["--ray"], "", "ray"),
        (["--address", "auto"], "", "ray"),
        ([], "head:6379", "ray"),
    ],
)
def test_without_an_address_a_study_runs_on_this_machine_without_ray(
    argv: list[str], address: str, by: str, file: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    called: list[str] = []
    for module, name, kind in ((ray_cluster, "run_on_ray", "ray"), (here, "run_here", "here")):

        def run(*_: Any, kind: str = kind, **__: Any) -> StudySummary:
            called.append(kind)
            return StudySummary(3, 0, 0)

        monkeypatch.setattr(module, name, run)
    assert Output(["study", "run", file, "--store", "x", *argv], capsys).code == 0
    assert called == [by]


# work


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (StudySummary(3, 0, 0), 0),
        (StudySummary(2, 1, 0), 1),
        (StudySummary(2, 0, 1, "the study was asked to stop"), 3),
        (StudySummary(2, 0, 1, "interrupted by a signal"), 75),
        (StudySummary(1, 1, 1, "time is up"), 75),
        (StudySummary(3, 0, 0, "time is up"), 0),
    ],
)
def test_the_exit_code_of_a_part_says_whether_to_start_it_again(
    summary: StudySummary, code: int, file: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    called: list[Any] = []

    def run_part(*arguments: Any) -> StudySummary:
        called.append(arguments[1:-1])
        return summary

    monkeypatch.setattr(here, "run_part", run_part)
    monkeypatch.setattr(child, "end_with", lambda _: None)
    argv = ["study", "work", file, "--store", "x", "--slots", "2", "--hours", "1.5", "--part", "2/3"]
    assert Output(argv, capsys).code == code
    assert Output([*argv, "--batch"], capsys).code == code
    content, terms = Path(file).read_bytes(), Terms(1.5)
    assert called == [(content, "x", StudyPart(2, 3), 2, terms), (None, "x", StudyPart(2, 3), 2, terms)]


@pytest.mark.parametrize(
    ("error", "code"), [(MachineError("no GPU"), 76), (StoreError("away"), 76), (AccessDenied("no"), 1)]
)
def test_a_machine_or_a_store_that_fails_has_an_exit_code_of_its_own(
    error: Exception, code: int, file: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def run_part(*_: Any) -> StudySummary:
        raise error

    monkeypatch.setattr(here, "run_part", run_part)
    output = Output(["study", "work", file, "--store", "x"], capsys)
    assert (output.code, output.errors) == (code, f"offpiste: {error}\n")


def test_a_job_refuses_a_store_without_the_study_and_another_file_than_it_was_written_for(
    file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(child, "end_with", lambda _: None)
    argv = ["study", "work", file, "--store", store.location, "--batch", "--slots", "1"]
    output = Output([*argv, "--file-hash", here.file_hash(Path(file).read_bytes())], capsys)
    assert output.code == 76
    assert "does not see the study tiny in" in output.errors
    output = Output([*argv, "--file-hash", "0" * 16], capsys)
    assert output.code == 1
    assert f"{file} was changed since this job was written; stop the study, and submit it again" in output.errors


def test_a_part_whose_runs_are_done_ends_at_once_and_takes_no_stop_back(
    file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    runs = tiny_study().runs
    for run in runs:
        leave_status(store.below(run.run_id), run, "finished", 400)
        store.below(run.run_id).put("results.json", b"{}")
    argv = ["study", "work", file, "--store", store.location, "--slots", "1", "--part"]
    assert [Output([*argv, part], capsys).code for part in ("1/2", "2/2")] == [0, 0]
    assert {name.partition(".")[2] for name in store.list("studies/tiny/marks")} == {"done"}
    status.request_stop(store, "tiny")
    assert Output([*argv, "1/2"], capsys).code == 3
    assert status.stop_requested(store, "tiny")


@pytest.mark.parametrize("command", ["run", "work"])
def test_slots_must_be_at_least_one(command: str, file: str, tmp_path: Path, capsys: Any) -> None:
    output = Output(["study", command, file, "--store", str(tmp_path), "--slots", "0"], capsys)
    assert (output.code, output.errors) == (1, "offpiste: --slots must be >= 1, got 0\n")


# status


def leave_some(store: Folder) -> None:
    done, running, failed = tiny_study().runs
    leave_status(store.below(done.run_id), done, "finished", 400)
    leave_status(
        store.below(running.run_id), running, "running", 100, steps_per_second=20.0, seconds_left=90.0, note="slow disk"
    )
    status.quarantine(store.below(failed.run_id), "ValueError: no", "Traceback")


def test_the_status_lists_totals_first_and_then_runs_that_need_attention(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_some(store)
    output = Output(["study", "status", file, "--store", store.location], capsys)
    assert output.code == 0
    assert output.out.splitlines() == [
        "study tiny: 3 runs: 1 done, 1 running, 0 stale, 0 waiting, 1 failed; "
        "41.7% of 1,200 frames; 20 steps/s together",
        "failed  freeway/epsilon_greedy/seed-2   0.0%  ValueError: no",
        "running freeway/epsilon_greedy/seed-1  25.0%  20 steps/s  ETA 0:01:30  slow disk",
    ]


def test_the_status_as_json_has_every_run(file: str, store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    leave_some(store)
    found = json.loads(Output(["study", "status", file, "--store", store.location, "--json"], capsys).out)
    assert found["counts"] == {"done": 1, "running": 1, "stale": 0, "waiting": 0, "failed": 1}
    assert (found["study"], found["frames"], found["target_frames"]) == ("tiny", 500, 1_200)
    assert [run["state"] for run in found["runs"]] == ["done", "running", "failed"]
    assert found["runs"][1]["seconds_left"] == 90.0


def test_on_a_small_screen_the_status_counts_the_runs_that_it_omits() -> None:
    found = [RunStatus(f"run-{i}", "stale", 1, 2, None, None, 400.0, "", False, False) for i in range(10)]
    lines = list(status_view.lines("many", found, max_lines=5))
    assert len(lines) == 5
    assert lines[1] == "stale   run-0  50.0%  no news for 0:06:40"
    assert lines[-1] == "… and 7 more; --json lists all"
    assert len(list(status_view.lines("many", found))) == 11


def test_the_live_view_ends_when_all_runs_are_done(
    store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tiny_study(seeds=[0])

    def finish(_: float) -> None:
        leave_status(store.below(plan.runs[0].run_id), plan.runs[0], "finished", 400)

    monkeypatch.setattr("offpiste.cli.status_view.time.sleep", finish)
    status.request_stop(store, "tiny")
    status_view.watch(plan, store, "asked to stop")
    shown = capsys.readouterr().out
    assert "1 done" in shown
    assert "asked to stop" in shown


@pytest.mark.parametrize("command", ["status", "status --json", "retry", "stop", "stop --undo", "discard"])
def test_a_store_without_the_study_is_an_error_and_stays_as_it_is(
    command: str, file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["study", *command.split(), file, "--store", store.location]
    if command == "discard":
        argv.append(tiny_study().runs[0].run_id)
    output = Output(argv, capsys)
    assert output.code == 1
    assert f"there is nothing of the study tiny in {store.location}; check --store" in output.errors
    assert store.local_path is not None
    assert not store.local_path.exists()


def test_a_study_that_is_begun_or_has_a_run_trained_by_hand_has_a_status(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, by_hand = Folder(tmp_path / "begun"), Folder(tmp_path / "by hand")
    status.put_file(begun, "tiny", b"")
    leave_status(by_hand.below(tiny_study().runs[1].run_id), tiny_study().runs[1], "paused", 0)
    for store in (begun, by_hand):
        assert Output(["study", "status", file, "--store", store.location], capsys).code == 0


def test_the_status_of_a_study_that_was_asked_to_stop_says_how_to_withdraw_that(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_some(store)
    argv = ["study", "status", file, "--store", store.location]
    assert "asked to stop" not in Output(argv, capsys).out
    assert json.loads(Output([*argv, "--json"], capsys).out)["stop_requested"] is False
    status.request_stop(store, "tiny")
    assert json.loads(Output([*argv, "--json"], capsys).out)["stop_requested"] is True
    follow_the_advice(Output(argv, capsys).out, capsys)
    assert not status.stop_requested(store, "tiny")


def follow_the_advice(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the command that stands in the line about the request to stop."""
    (line,) = [line for line in text.splitlines() if "so nothing of it begins" in line]
    command, *argv = shlex.split(line.split("`")[1])
    assert command == "offpiste"
    assert Output(argv, capsys).code == 0


def test_a_worker_of_a_study_that_was_asked_to_stop_says_how_to_withdraw_that(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    status.begin(store, "tiny", b"")
    status.request_stop(store, "tiny")
    output = Output(["study", "work", file, "--store", store.location], capsys)
    assert output.code == 3
    follow_the_advice(output.errors, capsys)
    assert not status.stop_requested(store, "tiny")


# retry and stop


def test_retry_lifts_the_quarantine_of_all_runs_or_of_one(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    status.put_file(store, "tiny", b"")
    first, second, _ = (run.run_id for run in tiny_study().runs)
    for name in (first, second):
        status.quarantine(store.below(name), "no", "")
    argv = ["study", "retry", file, "--store", store.location]
    assert Output([*argv, "--run", second], capsys).out == f"{second}\n1 runs are no longer quarantined\n"
    assert Output(argv, capsys).out == f"{first}\n1 runs are no longer quarantined\n"
    assert Output(argv, capsys).out == "0 runs are no longer quarantined\n"


def test_retry_of_an_unknown_run_is_refused(file: str, store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    status.put_file(store, "tiny", b"")
    output = Output(
        ["study", "retry", file, "--store", store.location, "--run", "freeway/epsilon_greedy/seed-9"], capsys
    )
    assert output.code == 1
    assert "the study has no run named 'freeway/epsilon_greedy/seed-9'; did you mean" in output.errors


def test_discard_deletes_what_runs_have_left_and_they_are_done_no_longer(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_some(store)
    plan = tiny_study()
    done, running, failed = (run.run_id for run in plan.runs)
    Marks(store, plan).mark_done(done)
    argv = ["study", "discard", file, "--store", store.location]
    refused = Output([*argv, done, running], capsys)
    assert refused.code == 1
    assert f"{running} must not be running; stop the study first" in refused.errors
    assert Output([*argv, done, failed], capsys).out.startswith("2 runs discarded; `offpiste study run` trains them")
    assert [seen.state for seen in read_status(store, plan)] == ["waiting", "running", "waiting"]
    assert Output(argv, capsys).code != 0
    assert "the study has no run named 'x'" in Output([*argv, "x"], capsys).errors


def test_stop_requests_the_stop_and_waits_until_no_run_is_running(
    file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tiny_study().runs[0]
    leave_status(store.below(run.run_id), run, "running", 100)

    def pause(_: float) -> None:
        assert status.stop_requested(store, "tiny")
        leave_status(store.below(run.run_id), run, "paused", 120)

    monkeypatch.setattr("offpiste.cli.study.time.sleep", pause)
    output = Output(["study", "stop", file, "--store", store.location], capsys)
    assert output.code == 0
    lines = [line.split(" ", 1)[1] for line in output.errors.splitlines()]
    assert lines == ["1 runs are running", "0 runs are running"]


def test_with_no_wait_stop_returns_at_once(file: str, store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    run = tiny_study().runs[0]
    leave_status(store.below(run.run_id), run, "running", 100)
    assert Output(["study", "stop", file, "--store", store.location, "--no-wait"], capsys).code == 0
    assert status.stop_requested(store, "tiny")


def test_commands_that_only_read_import_neither_torch_nor_ray(file: str, store: Folder) -> None:
    status.put_file(store, "tiny", b"")
    script = f"""
import subprocess
import sys
from offpiste.cli import main
for argv in (["status"], ["status", "--json"], ["retry"], ["stop"]):
    assert main(["study", argv[0], {file!r}, "--store", {store.location!r}, *argv[1:]]) == 0
loaded = {{"torch", "ray", "numba"}} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# slurm


def test_slurm_writes_the_file_and_lets_nodes_see_the_study(
    file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status.request_stop(store, "tiny")
    argv = ["study", "slurm", file, "--store", store.location, "--jobs", "2", "--at-once", "1"]
    output = Output(argv, capsys)
    assert (output.code, output.out.splitlines()[0]) == (0, "tiny.sbatch: submit it with `sbatch tiny.sbatch`")
    text = (tmp_path / "tiny.sbatch").read_text()
    assert "#SBATCH --array=1-2%1\n" in text
    assert f"study work {file} --store {store.location} --batch --slots 1 --hours 24.0000 --file-hash " in text
    assert here.file_hash(Path(file).read_bytes()) in text
    assert status.is_begun(store, "tiny")
    assert status.stop_requested(store, "tiny")  # only a submission withdraws that
    follow_the_advice(output.out, capsys)
    assert not status.stop_requested(store, "tiny")
    assert Output(argv, capsys).out == "tiny.sbatch: submit it with `sbatch tiny.sbatch`\n"


def test_slurm_leaves_out_parts_in_which_nothing_is_left_and_says_which_runs_it_cannot_train(
    file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second, third = tiny_study(keep="results").runs
    for run in (first, third):  # of the first, a shorter run was finished
        leave_status(store.below(run.run_id), run, "finished", 400 if run is third else 200)
        store.below(run.run_id).put("results.json", b"{}")
    argv = ["study", "slurm", file, "--store", store.location]
    output = Output(argv, capsys)
    assert output.out.splitlines()[0].startswith(f"1 runs are left out, as {first.run_id}: only the results at 200")
    assert "#SBATCH --array=2\n" in (tmp_path / "tiny.sbatch").read_text()
    assert Output(["study", "status", file, "--store", store.location], capsys).out.splitlines()[1] == (
        "3 parts: 2 done, 0 at work, 1 not: 2"
    )
    leave_status(store.below(second.run_id), second, "finished", 400)
    store.below(second.run_id).put("results.json", b"{}")
    assert Output(argv, capsys).out.splitlines()[1:] == ["nothing is left to submit"]


@pytest.mark.parametrize(
    ("script", "code"), [("cat > {}; echo Submitted batch job 7", 0), ("echo no such partition >&2; exit 1", 1)]
)
def test_slurm_submits_the_file_and_withdraws_a_request_to_stop_unless_it_is_refused(
    script: str, code: int, file: str, store: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sbatch").write_text(f"#!/bin/bash\n{script.format(tmp_path / 'submitted')}\n")
    (programs / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    status.request_stop(store, "tiny")
    out = tmp_path / "x.sbatch"
    out.write_text("before")
    argv = ["study", "slurm", file, "--store", store.location, "--out", str(out), "--submit"]
    output = Output([*argv, "--sbatch=--partition=long"], capsys)
    assert output.code == code
    assert ("Submitted batch job 7" in output.out) == (code == 0)
    assert ("sbatch refused" in output.errors) == (code == 1)
    assert status.stop_requested(store, "tiny") == (code == 1)
    if code:
        assert out.read_text() == "before"
    else:
        assert "#SBATCH --partition=long" in out.read_text()
        assert (tmp_path / "submitted").read_text() == out.read_text()


def test_an_option_of_sbatch_after_a_space_is_answered_with_the_form_that_works(
    file: str, store: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["study", "slurm", file, "--store", store.location, "--sbatch", "--partition=long"]
    output = Output(argv, capsys)
    assert output.code == 1
    assert output.errors.endswith(": --sbatch=--partition=long\n")


def test_slurm_refuses_a_store_whose_url_holds_a_key(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = "s3://me:secret@bucket/x?region=r"
    output = Output(["study", "slurm", file, "--store", url], capsys)
    assert output.code == 1
    assert "the store's URL must hold no key" in output.errors
    assert "secret" not in output.errors


def test_without_a_file_the_status_lists_the_studies_in_a_store_or_below_the_current_folder(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Output(["study", "status"], capsys).out == f"no studies in {tmp_path}\n"
    one, other = Folder("one"), Folder("deeper/down/here")
    for store in (one, other):
        status.put_file(store, "tiny", Path(file).read_bytes())
    leave_some(one)
    status.put_file(other, "crooked", b"games = 3")
    lines = Output(["study", "status"], capsys).out.splitlines()
    assert lines[0] == "in one:"
    assert lines[1].startswith("study tiny: 3 runs: 1 done, 1 running, 0 stale, 0 waiting, 1 failed")
    assert lines[2] == "in deeper/down/here:"
    assert lines[3].startswith("study crooked cannot be read: ")
    assert lines[4].startswith("study tiny: 3 runs: 0 done")
    assert Output(["study", "status", "--store", "one"], capsys).out.splitlines() == lines[:2]
    assert "give --store, the folder or URL" in Output(["study", "status", file], capsys).errors


def test_the_status_of_a_running_run_names_its_host_and_its_slurm_job() -> None:
    seen = RunStatus("run", "running", 1, 2, None, None, 1.0, "", False, False, "node3", "12_4")
    assert status_view.line(seen, 3) == "running run  50.0%  on node3 (job 12_4)"
