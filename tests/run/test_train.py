"""A run leaves what it should, and ends the same however it was stopped, killed, refused or taken over."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from offpiste import arrays
from offpiste.bonuses.registry import source_digest
from offpiste.cli import main
from offpiste.config import (
    RESULTS_VERSION,
    BonusConfig,
    ExplorationConfig,
    MachineConfig,
    RunConfig,
    ScheduleConfig,
    WorldConfig,
    fingerprint,
    method_settings,
    protocol_settings,
)
from offpiste.errors import BonusError, CheckpointError, ConfigError, NotFinite, RunMismatch, StoreError, Superseded
from offpiste.parsing import to_dict, to_toml
from offpiste.rows import TABLES
from offpiste.run import train as train_module
from offpiste.run.digest import digest
from offpiste.run.evaluate import evaluate
from offpiste.run.loop import Loop
from offpiste.run.progress import Progress
from offpiste.run.train import train
from offpiste.store import layout
from offpiste.store.attempts import attempt_names, begin_attempt
from offpiste.store.checkpoints import Checkpoint, Checkpoints, newest_objects
from offpiste.store.identity import read_run
from offpiste.store.manifests import read_manifest
from offpiste.store.parquet import from_parquet
from offpiste.store.records import schema
from offpiste.store.storage import Folder
from offpiste.study.task import attempt_of_study, outcome_of
from tests.run.small import AGENT, small_run

NEVER = MachineConfig(checkpoint_minutes=1_000.0)
OFTEN = MachineConfig(checkpoint_minutes=1e-6)
"""A checkpoint after every step."""


def tiny_run(**settings: Any) -> RunConfig:
    """Return a run of 120 steps: two iterations of one episode of 50 steps each, and 20 steps of a third."""
    tiny: dict[str, Any] = {
        "frames": 400,
        "world": WorldConfig(episode_frames=200),
        "agent": replace(AGENT, replay_capacity=80, min_history_steps=30, batch_size=8),
        "schedule": ScheduleConfig(iteration_steps=40),
        "exploration": ExplorationConfig(epsilon_decay_steps=40),
        "machine": NEVER,
    }
    return small_run(**(tiny | settings))


EVALUATED = tiny_run(schedule=ScheduleConfig(iteration_steps=40, evaluation_steps=20), frames=320)
"""Two iterations, each of 50 steps of training and 50 of evaluation."""


@dataclasses.dataclass(frozen=True)
class Finished:
    path: Path
    last: Progress
    digest: str


def finish(config: RunConfig, path: Path, report: Callable[[Progress], None] = lambda _: None) -> Finished:
    last = train(config, Folder(path), report)
    return Finished(path, last, digest(Folder(path)))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finish(tiny_run(), tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def reported_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_module, "PROGRESS_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk; no test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    return from_parquet((path / f"{table}.parquet").read_bytes())


def status(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "status.json").read_text())
    return found


def named(path: Path, index: int = -1) -> dict[str, dict[str, Any]]:
    folder = Folder(path)
    objects: dict[str, dict[str, Any]] = read_manifest(folder, folder.list("manifests")[index])["objects"]
    return objects


def at_call(number: int, act: Callable[[], None]) -> Callable[[Progress], None]:
    """Return a report function that acts at its call of this number."""
    calls = iter(range(1, 1_000_000))

    def report(_: Progress) -> None:
        if next(calls) == number:
            act()

    return report


class Refusing:
    """Lets the store refuse the writes of some names, for a number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: str, times: int) -> None:
        self.left = times
        put = Folder.put

        def refuse(folder: Folder, name: str, data: bytes) -> None:
            if name.startswith(start) and self.left > 0:
                self.left -= 1
                raise StoreError(f"cannot write {name}: the store is away")
            put(folder, name, data)

        monkeypatch.setattr(Folder, "put", refuse)


# What a finished run leaves


def test_a_finished_run_says_what_it_was(undisturbed: Finished) -> None:
    about = json.loads((undisturbed.path / "run.json").read_text())
    config = tiny_run()
    assert about["run_id"] == "montezuma_revenge/epsilon_greedy/seed-0"
    assert about["config"] == to_dict(config)
    assert about["protocol_fingerprint"] == fingerprint(protocol_settings(config))
    assert about["method_fingerprint"] == fingerprint(method_settings(config))
    assert about["results_version"] == RESULTS_VERSION


def test_a_finished_run_reports_and_leaves_its_status(undisturbed: Finished) -> None:
    last = undisturbed.last
    assert (last.state, last.frames, last.target_frames, last.iteration, last.episodes) == ("finished", 400, 400, 3, 2)
    assert last.note == ""
    left = status(undisturbed.path)
    assert {name: left[name] for name in dataclasses.asdict(last)} == dataclasses.asdict(last)
    assert left["attempt"] == attempt_names(Folder(undisturbed.path))[-1]


def test_a_finished_run_has_one_file_per_table_with_its_schema(undisturbed: Finished) -> None:
    assert sorted(path.stem for path in undisturbed.path.glob("*.parquet")) == sorted(TABLES)
    for table in TABLES:
        assert pq.read_schema(undisturbed.path / f"{table}.parquet") == schema(table)
    assert [row["end_step"] for row in rows(undisturbed.path, "episodes")] == [50, 100]


def test_the_row_of_the_iteration_that_was_cut_says_so(undisturbed: Finished) -> None:
    found = [(row["iteration"], row["complete"], row["end_step"]) for row in rows(undisturbed.path, "iterations")]
    assert found == [(1, True, 50), (2, True, 100), (3, False, 120)]


def test_timing_stands_apart(undisturbed: Finished) -> None:
    timing = rows(undisturbed.path, "timing")
    assert [(row["iteration"], row["steps"]) for row in timing] == [(1, 50), (2, 50)]
    assert all(row["steps_per_second"] == pytest.approx(row["steps"] / row["seconds"]) for row in timing)
    for table in ("episodes", "iterations"):
        assert not {"seconds", "finished_at", "steps_per_second", "attempt"} & set(schema(table).names)


def test_the_curves_of_a_local_run_lie_beside_it(undisturbed: Finished) -> None:
    curves = EventAccumulator(str(undisturbed.path / "tensorboard"))
    curves.Reload()
    assert [point.step for point in curves.Scalars("charts/episodic_return")] == [200, 400]
    assert [point.step for point in curves.Scalars("charts/iteration_return")] == [200, 400]


def test_nothing_that_a_run_writes_is_a_pickle(undisturbed: Finished) -> None:
    files = [path for path in undisturbed.path.rglob("*") if path.is_file()]
    kinds = set()
    for path in files:
        data = path.read_bytes()
        assert data[:1] != b"\x80", f"{path} begins like a pickle"
        assert data[:4] != b"PK\x03\x04", f"{path} is a zip file, as torch.save makes"
        if path.parent.name != "objects":
            continue
        if data[:4] == b"PAR1":
            kinds.add("parquet")
        elif data[:4] == b"\x37\xa4\x30\xec":
            kinds.add("zstd dictionary")
        else:
            with safe_open(path, framework="numpy"):
                kinds.add("safetensors")
    assert {"parquet", "safetensors"} <= kinds
    assert not [path for path in files if path.suffix == ".unfinished"]


def test_a_run_of_no_frames_finishes_with_empty_tables(tmp_path: Path) -> None:
    assert train(tiny_run(frames=0), Folder(tmp_path)).state == "finished"
    assert rows(tmp_path, "episodes") == rows(tmp_path, "iterations") == []
    assert len(rows(tmp_path, "attempts")) == 1


# Stopped and continued


def test_two_hundred_frames_and_then_four_hundred_are_four_hundred_at_once(
    undisturbed: Finished, tmp_path: Path
) -> None:
    half = finish(tiny_run(frames=200), tmp_path)
    assert (half.last.state, half.last.frames) == ("finished", 200)
    assert half.digest != undisturbed.digest
    assert [row["complete"] for row in rows(tmp_path, "iterations")] == [True, False]
    assert finish(tiny_run(), tmp_path).digest == undisturbed.digest
    for table in ("episodes", "iterations"):
        assert rows(tmp_path, table) == rows(undisturbed.path, table)
    attempts = rows(tmp_path, "attempts")
    # 50 frames per 40 counted steps: 200 frames are one iteration of 50 steps and 10 more.
    assert [row["start_step"] for row in attempts] == [0, 60]
    assert [row["attempt"] for row in attempts] == attempt_names(Folder(tmp_path))
    assert [row["note"] for row in attempts] == ["", ""]


def test_a_run_on_s3_that_was_continued_equals_one_on_a_disk(
    undisturbed: Finished, new_s3_location: Callable[[], str]
) -> None:
    location = new_s3_location()
    machine = MachineConfig(checkpoint_minutes=0.005)
    assert train(tiny_run(frames=200, machine=machine), Folder(location)).state == "finished"
    assert train(tiny_run(machine=machine), Folder(location)).state == "finished"
    folder = Folder(location)
    assert digest(folder) == undisturbed.digest
    marks = [f"finished-{frames:012d}.json" for frames in (200, 400)]
    files = [*(f"{table}.parquet" for table in TABLES), *marks, "checkpointed.json", "run.json", "status.json"]
    assert folder.list() == sorted(files)
    assert folder.list("tensorboard") == []
    assert from_parquet(folder.get("iterations.parquet") or b"") == rows(undisturbed.path, "iterations")


def test_asking_again_for_the_same_frames_changes_nothing_but_the_attempts(tmp_path: Path) -> None:
    once = finish(tiny_run(frames=200), tmp_path)
    manifests, objects = Folder(tmp_path).list("manifests"), Folder(tmp_path).list("objects")
    again = finish(tiny_run(frames=200), tmp_path)
    assert (again.digest, again.last.state) == (once.digest, "finished")
    assert (Folder(tmp_path).list("manifests"), Folder(tmp_path).list("objects")) == (manifests, objects)
    assert [row["start_step"] for row in rows(tmp_path, "attempts")] == [0, 60]


def test_a_damaged_description_of_an_attempt_does_not_stop_a_run(undisturbed: Finished, tmp_path: Path) -> None:
    finish(tiny_run(frames=200), tmp_path)
    [first] = attempt_names(Folder(tmp_path))
    (tmp_path / f"attempts/{first}.json").write_bytes(b"{")
    assert finish(tiny_run(), tmp_path).digest == undisturbed.digest
    assert [row["start_step"] for row in rows(tmp_path, "attempts")] == [60]


def test_asking_for_fewer_frames_than_are_done_leaves_the_run_as_it_is(undisturbed: Finished, tmp_path: Path) -> None:
    finish(tiny_run(), tmp_path)
    assert finish(tiny_run(frames=100), tmp_path).digest == undisturbed.digest


def test_another_seed_gives_another_run(undisturbed: Finished, tmp_path: Path) -> None:
    assert finish(tiny_run(seed=1), tmp_path).digest != undisturbed.digest


def test_how_often_a_run_is_saved_and_reported_does_not_change_it(
    undisturbed: Finished, tmp_path: Path, reported_at_every_step: None
) -> None:
    reports: list[Progress] = []
    often = finish(tiny_run(machine=OFTEN), tmp_path, reports.append)
    assert often.digest == undisturbed.digest
    assert [int(name.partition("-")[0]) for name in Folder(tmp_path).list("manifests")] == [119, 120]
    assert len(reports) == 120
    assert all(progress.state == "running" for progress in reports)
    # Steps beyond an iteration's 40 do not count: 39 until its episode ends, then 40.
    assert [progress.frames for progress in reports[37:51]] == [152, *[156] * 11, 160, 164]


def test_a_run_trains_in_a_thread_where_signals_cannot_be_caught(tmp_path: Path) -> None:
    found: list[Progress] = []
    thread = threading.Thread(target=lambda: found.append(train(tiny_run(frames=40), Folder(tmp_path))))
    thread.start()
    thread.join()
    assert [progress.state for progress in found] == ["finished"]


def test_a_run_with_evaluation_ends_the_same_however_often_it_is_saved(tmp_path: Path) -> None:
    # The last step is one of evaluation, so the counter of training steps stands still for the last 50 steps.
    seldom = finish(EVALUATED, tmp_path / "seldom")
    often = finish(replace(EVALUATED, machine=OFTEN), tmp_path / "often")
    assert often.digest == seldom.digest
    assert [int(name.partition("-")[0]) for name in Folder(often.path).list("manifests")] == [199, 200]
    for table in ("episodes", "iterations"):
        assert rows(often.path, table) == rows(seldom.path, table)
    assert [row["phase"] for row in rows(seldom.path, "iterations")] == ["train", "evaluation"] * 2
    assert [row["iteration"] for row in rows(seldom.path, "timing")] == [1, 2]


def test_a_run_stopped_within_evaluation_resumes_from_that_very_step(
    tmp_path: Path, reported_at_every_step: None
) -> None:
    whole = finish(EVALUATED, tmp_path / "whole")
    # Steps 51 to 100 are evaluation. The second stop comes 10 steps after the first, still within it.
    stopped = tmp_path / "stopped"
    for calls, step in ((70, 70), (10, 80)):
        last = train(EVALUATED, Folder(stopped), at_call(calls, lambda: signal.raise_signal(signal.SIGTERM)))
        assert last.state == "paused"
        assert int(Folder(stopped).list("manifests")[-1].partition("-")[0]) == step
    assert finish(EVALUATED, stopped).digest == whole.digest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_stopped_by_a_signal_saves_and_resumes_exactly(
    undisturbed: Finished, tmp_path: Path, reported_at_every_step: None, number: int
) -> None:
    before = signal.getsignal(number)
    for calls, done in ((1, 1), (49, 50), (35, 85)):  # the first step, the end of an episode, amid the next
        stopped = train(tiny_run(), Folder(tmp_path), at_call(calls, lambda: signal.raise_signal(number)))
        assert stopped.state == "paused"
        assert status(tmp_path)["state"] == "paused"
        assert len(rows(tmp_path, "episodes")) == stopped.episodes
        assert sum(row["steps"] for row in rows(tmp_path, "iterations")) == done
    assert finish(tiny_run(), tmp_path).digest == undisturbed.digest
    assert [row["start_step"] for row in rows(tmp_path, "attempts")] == [0, 1, 50, 85]
    assert signal.getsignal(number) is before


def test_a_second_interrupt_at_the_keyboard_ends_at_once(tmp_path: Path, reported_at_every_step: None) -> None:
    def interrupt_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(tiny_run(), Folder(tmp_path), at_call(5, interrupt_twice))
    assert Folder(tmp_path).list("manifests") == []


SIGNALLED = """
import os, sys
from offpiste.cli import main
from offpiste.run.writer import Writer
save = Writer.save
def save_and_signal(writer):
    save(writer)
    Writer.save = save
    os.kill(os.getpid(), int(sys.argv[1]))
Writer.save = save_and_signal
code = main(sys.argv[2:])
print("torch._dynamo" in sys.modules)
sys.exit(code)
"""


class Command:
    """`offpiste train` on one run, as a process that can be signalled and as a call."""

    def __init__(self, folder: Path) -> None:
        config = tiny_run(frames=1_600, machine=MachineConfig(checkpoint_minutes=0.004))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.toml").write_text(to_toml(config))
        self.argv = ["train", "--config", str(folder / "settings.toml"), "--out", str(folder)]
        self.path = folder / config.run_id

    def signalled(self, number: signal.Signals) -> subprocess.CompletedProcess[bytes]:
        """Run it in a process that gets a signal once it has written its first checkpoint."""
        words = [sys.executable, "-c", SIGNALLED, str(int(number)), *self.argv]
        return subprocess.run(words, capture_output=True, check=False)


@pytest.fixture(scope="module")
def never_signalled(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    command = Command(tmp_path_factory.mktemp("never"))
    assert main(command.argv) == 0
    return Finished(command.path, train(tiny_run(frames=1_600), Folder(command.path)), digest(Folder(command.path)))


def test_a_process_stopped_by_a_signal_exits_with_75_and_the_same_command_resumes(
    never_signalled: Finished, tmp_path: Path
) -> None:
    command = Command(tmp_path)
    process = command.signalled(signal.SIGTERM)
    assert process.returncode == 75
    assert process.stdout == b"False\n", "it imported torch's compiler, which takes longer than all else at a start"
    assert b"of 1,600 frames; the same command continues" in process.stderr
    assert status(command.path)["state"] == "paused"
    assert main(command.argv) == 0
    assert digest(Folder(command.path)) == never_signalled.digest


def test_a_killed_process_is_resumed_by_the_same_command(never_signalled: Finished, tmp_path: Path) -> None:
    command = Command(tmp_path)
    process = command.signalled(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (command.path / "episodes.parquet").exists()
    assert main(command.argv) == 0
    assert status(command.path)["state"] == "finished"
    assert digest(Folder(command.path)) == never_signalled.digest
    assert len(rows(command.path, "attempts")) == 2


# Whose folder it is


def test_a_folder_with_another_run_is_refused_and_every_difference_named(tmp_path: Path) -> None:
    train(tiny_run(frames=0), Folder(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    other = tiny_run(seed=3, agent=replace(tiny_run().agent, learning_rate=0.5))
    with pytest.raises(RunMismatch) as caught:
        train(other, Folder(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path} holds another run: agent.learning_rate is 6.25e-05 there and 0.5 here; "
        "seed is 0 there and 3 here. Resume that run with its own settings, or store this one elsewhere: "
        "--variant NAME while you tune, or another --out"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_has_more_frames_than_asked_for_is_finished_at_those(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(tiny_run(frames=16), folder)
    before = {path: path.read_bytes() for path in tmp_path.glob("*finished*")}
    assert before
    again = train(tiny_run(frames=8), folder)
    assert (again.state, again.frames, again.target_frames) == ("finished", 16, 16)
    assert {path: path.read_bytes() for path in tmp_path.glob("*finished*")} == before
    assert status(tmp_path)["target_frames"] == 16


def test_frames_and_machine_may_differ_from_one_attempt_to_the_next(tmp_path: Path) -> None:
    train(tiny_run(frames=0), Folder(tmp_path))
    machine = MachineConfig(threads=2, checkpoint_minutes=3.0)
    assert train(tiny_run(frames=8, machine=machine), Folder(tmp_path)).state == "finished"
    assert [row["threads"] for row in rows(tmp_path, "attempts")] == [1, 2]


def test_a_run_of_a_version_with_other_results_is_resumed_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny_run(frames=0), Folder(tmp_path))
    monkeypatch.setattr("offpiste.store.identity.RESULTS_VERSION", RESULTS_VERSION + 1)
    with pytest.raises(RunMismatch, match=rf"results version {RESULTS_VERSION}\).*--accept-version"):
        train(tiny_run(frames=8), Folder(tmp_path))
    assert len(attempt_names(Folder(tmp_path))) == 1
    assert train(tiny_run(frames=8), Folder(tmp_path), accept_version=True).state == "finished"


def test_a_run_whose_bonus_was_edited_is_resumed_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "edited_bonus.py"
    file.write_text("from tests.bonuses.broken import Good\n\n\nclass Mine(Good):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    bonus = BonusConfig(name="edited_bonus:Mine")
    folder = Folder(tmp_path / "run")
    train(tiny_run(frames=8, bonus=bonus), folder)
    assert train(tiny_run(frames=12, bonus=bonus), folder).state == "finished"
    file.write_text(file.read_text() + "# now it is another\n")
    assert train(tiny_run(frames=16, bonus=bonus), folder).state == "finished"  # by the code that was imported
    monkeypatch.delitem(sys.modules, "edited_bonus")
    with pytest.raises(
        RunMismatch, match=r"the bonus edited_bonus:Mine from before its file was changed.*--accept-version"
    ):
        train(tiny_run(frames=20, bonus=bonus), folder)
    assert train(tiny_run(frames=20, bonus=bonus), folder, accept_version=True).state == "finished"


def own_bonus(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> tuple[Path, BonusConfig]:
    """Write a bonus whose `observe` has this body, and return its file and its settings."""
    file = folder / f"{name}.py"
    file.write_text(
        f"from tests.bonuses.broken import Good\n\n\nclass Mine(Good):\n    def observe(self, transition):\n{body}"
    )
    monkeypatch.syspath_prepend(folder)
    return file, BonusConfig(name=f"{name}:Mine")


def test_an_error_in_the_code_of_a_bonus_names_file_and_line_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "        return self.depth(transition)\n\n    def depth(self, _):\n        return [][0]\n"
    file, bonus = own_bonus(tmp_path, monkeypatch, "shallow_bonus", body)
    message = f"the bonus shallow_bonus:Mine failed in {file}, line 9: IndexError: list index out of range"
    with pytest.raises(BonusError, match=re.escape(message)):
        train(tiny_run(bonus=bonus), Folder(tmp_path / "run"))
    assert status(tmp_path / "run")["note"] == message
    outcome = outcome_of(
        lambda: attempt_of_study(tiny_run(bonus=bonus), Folder(tmp_path / "run"), "all", lambda _: None)
    )
    assert (outcome.state, outcome.error) == ("not_retryable", f"BonusError: {message}")


@pytest.mark.parametrize("error", ["OSError('no space')", "MemoryError()"])
def test_an_error_of_the_machine_within_a_bonus_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    _, bonus = own_bonus(tmp_path, monkeypatch, f"poor_{error[:2].lower()}", f"        raise {error}\n")
    kind = {"OSError": OSError, "MemoryError": MemoryError}[error.partition("(")[0]]
    with pytest.raises(kind):
        train(tiny_run(bonus=bonus), Folder(tmp_path / "run"))


def test_a_run_that_recorded_nothing_begins_anew_after_its_bonus_was_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, bonus = own_bonus(tmp_path, monkeypatch, "mended_bonus", "        return [][0]\n")
    folder = Folder(tmp_path / "run")
    with pytest.raises(BonusError):
        train(tiny_run(frames=8, bonus=bonus), folder)
    file.write_text(file.read_text().replace("[][0]", "0.0"))
    monkeypatch.delitem(sys.modules, "mended_bonus")
    assert train(tiny_run(frames=8, bonus=bonus), folder).state == "finished"
    assert read_run(folder).bonus_source == source_digest(bonus.name)  # type: ignore[union-attr]


def test_a_game_that_does_not_exist_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no game named 'montezuma'"):
        train(tiny_run(game="montezuma"), Folder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


# What goes wrong


def test_a_loss_that_is_not_finite_leaves_the_last_checkpoint_and_says_why(
    undisturbed: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny_run(frames=200), Folder(tmp_path))
    half = digest(Folder(tmp_path))
    with monkeypatch.context() as patch:
        from offpiste.agent.rainbow import Rainbow

        learn = Rainbow.learn
        patch.setattr(Rainbow, "learn", lambda *given: replace(learn(*given), loss=float("nan")))
        with pytest.raises(NotFinite, match="the loss must be finite, got nan at step 61"):
            train(tiny_run(machine=MachineConfig(checkpoint_minutes=1e-6)), Folder(tmp_path))
    left = status(tmp_path)
    assert left["state"] == "failed"
    assert left["note"].startswith("the loss must be finite, got nan at step 61")
    assert digest(Folder(tmp_path)) == half
    assert finish(tiny_run(), tmp_path).digest == undisturbed.digest


def test_a_store_that_is_away_for_a_while_does_not_stop_training(
    undisturbed: Finished,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reported_at_every_step: None,
) -> None:
    monkeypatch.setattr(train_module, "FIRST_RETRY_SECONDS", 0.0)
    store = Refusing(monkeypatch, "objects/", times=9)
    reports: list[Progress] = []
    last = train(tiny_run(machine=OFTEN), Folder(tmp_path), reports.append)
    assert store.left == 0
    assert last.state == "finished"
    assert [bool(progress.note) for progress in reports] == [True] * 9 + [False] * 111
    assert reports[0].note.startswith("checkpoint failed, next try in 0 s: cannot write objects/000000000001-000001-")
    assert reports[0].note.endswith("the store is away")
    assert digest(Folder(tmp_path)) == undisturbed.digest


def test_the_wait_between_failed_checkpoints_doubles_up_to_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported_at_every_step: None
) -> None:
    clock = iter(range(0, 10_000_000, 5))  # every look at the clock takes five seconds
    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    Refusing(monkeypatch, "objects/", times=6)
    notes: list[str] = []
    train(tiny_run(machine=MachineConfig(checkpoint_minutes=1.0)), Folder(tmp_path), lambda now: notes.append(now.note))
    waits = [note.partition(" s:")[0].rpartition(" ")[2] for note in dict.fromkeys(notes) if note]
    assert waits[:2] == ["15", "30"]
    assert all(54 <= float(wait) <= 66 for wait in waits[2:])  # a minute, jittered by a tenth
    assert len(waits) == 6


def test_a_store_that_takes_long_to_refuse_is_not_asked_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    refused: list[int] = []
    put = Folder.put

    def tick() -> float:
        now[0] += 1.0
        return now[0]

    def refuse(folder: Folder, name: str, data: bytes) -> None:
        if name.startswith("objects/") and len(refused) < 2:
            refused.append(int(name.removeprefix("objects/").partition("-")[0]))
            now[0] += 100.0
            raise StoreError("no answer")
        put(folder, name, data)

    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=tick))
    monkeypatch.setattr(Folder, "put", refuse)
    train(tiny_run(machine=MachineConfig(checkpoint_minutes=0.5)), Folder(tmp_path))
    # A step takes one tick, and one more where an iteration ends; the wait of 15 counts from the refusal.
    assert 12 <= refused[1] - refused[0] <= 15


def test_a_store_that_is_away_at_the_very_end_is_tried_four_times_and_then_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waits.append))
    store = Refusing(monkeypatch, "objects/", times=1_000)
    notes: list[str] = []
    with pytest.raises(StoreError, match="the store is away"):
        train(tiny_run(frames=40), Folder(tmp_path), lambda progress: notes.append(progress.note))
    assert waits == [1.0, 2.0, 4.0]
    assert store.left == 1_000 - 4
    assert notes[-1].startswith("last write failed, retrying: cannot write objects/")
    left = status(tmp_path)
    assert left["state"] == "failed"
    assert "the store is away" in left["note"]


@pytest.mark.parametrize("start", ["objects/", "manifests/", "episodes", "attempts.parquet"])
def test_a_store_that_comes_back_in_time_for_the_last_write_lets_the_run_finish(
    undisturbed: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    store = Refusing(monkeypatch, start, times=3)
    last = train(tiny_run(frames=40), Folder(tmp_path))
    assert store.left == 0
    assert (last.state, last.note) == ("finished", "")
    assert {path.stem for path in tmp_path.glob("*.parquet")} == set(TABLES)


def test_a_status_that_cannot_be_written_on_the_way_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "STATUS_SECONDS", 0.0)
    refusing = Refusing(monkeypatch, "status.json", times=3)
    last = train(tiny_run(frames=40), Folder(tmp_path))
    assert (last.state, refusing.left) == ("finished", 0)
    assert "status could not be written" in last.note
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "finished"


def test_a_run_is_finished_only_when_its_status_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.run.train.time.sleep", lambda _: None)
    Refusing(monkeypatch, "status.json", times=1_000)
    with pytest.raises(StoreError, match="the store is away"):
        train(tiny_run(frames=40), Folder(tmp_path))


def test_an_older_checkpoint_that_had_to_be_used_is_noted_with_the_attempt(
    undisturbed: Finished, tmp_path: Path
) -> None:
    for frames in (200, 240):
        train(tiny_run(frames=frames), Folder(tmp_path))
    victim = named(tmp_path)["replay"]["name"]
    (tmp_path / victim).unlink()
    reports: list[Progress] = []
    last = finish(tiny_run(), tmp_path, reports.append)
    assert last.digest == undisturbed.digest
    attempts = rows(tmp_path, "attempts")
    assert [row["start_step"] for row in attempts] == [0, 60, 60]
    assert attempts[-1]["note"] == f"resumed from step 60, since a newer checkpoint is broken: {victim} is missing"
    assert reports[0].note == attempts[-1]["note"]


def test_a_run_of_which_no_checkpoint_is_whole_stops_and_is_not_restarted(tmp_path: Path) -> None:
    train(tiny_run(frames=40), Folder(tmp_path))
    victim = named(tmp_path)["agent"]["name"]
    (tmp_path / victim).write_bytes(b"")
    objects = Folder(tmp_path).list("objects")
    with pytest.raises(CheckpointError, match=f"{victim} must have .* bytes, got 0"):
        train(tiny_run(frames=80), Folder(tmp_path))
    assert Folder(tmp_path).list("objects") == objects


def test_an_attempt_that_ended_before_it_took_over_is_listed_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Checkpoints) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "restore", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_run(frames=40), Folder(tmp_path))
    train(tiny_run(frames=40), Folder(tmp_path))
    attempts = rows(tmp_path, "attempts")
    assert [row["attempt"] for row in attempts] == attempt_names(Folder(tmp_path))
    assert [row["note"] for row in attempts] == ["ended before it had taken over", ""]


# Several attempts


def test_an_attempt_stops_when_a_newer_one_has_begun(tmp_path: Path, reported_at_every_step: None) -> None:
    folder = Folder(tmp_path)
    manifests: list[list[str]] = []

    def take_over() -> None:
        begin_attempt(folder, {})
        manifests.append(folder.list("manifests"))

    with pytest.raises(Superseded, match=r"attempt 000002-.* has taken over this run; attempt 000001-.* stops"):
        train(tiny_run(machine=OFTEN), Folder(tmp_path), at_call(30, take_over))
    assert [folder.list("manifests")] == manifests
    assert status(tmp_path)["state"] == "running"  # as it is, by the newer attempt


def test_a_second_attempt_may_finish_the_run_while_the_first_still_works(
    undisturbed: Finished, tmp_path: Path, reported_at_every_step: None
) -> None:
    second: list[Finished] = []
    with pytest.raises(Superseded):
        train(
            tiny_run(machine=OFTEN), Folder(tmp_path), at_call(70, lambda: second.append(finish(tiny_run(), tmp_path)))
        )
    assert second[0].digest == undisturbed.digest == digest(Folder(tmp_path))
    assert status(tmp_path)["state"] == "finished"
    assert [row["start_step"] for row in rows(tmp_path, "attempts")] == [0, 70]


def test_what_was_restored_is_not_held_in_memory_while_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported_at_every_step: None
) -> None:
    train(tiny_run(frames=40), Folder(tmp_path))
    restore = Checkpoints.restore
    held: list[weakref.ref[Checkpoint]] = []

    def watched(checkpoints: Checkpoints) -> Checkpoint | None:
        restored = restore(checkpoints)
        assert restored is not None
        held.append(weakref.ref(restored))
        return restored

    monkeypatch.setattr(Checkpoints, "restore", watched)
    alive: list[bool] = []
    train(tiny_run(frames=80), Folder(tmp_path), lambda _: alive.append(held[0]() is not None))
    assert alive
    assert not any(alive)


# Weights kept for good


@pytest.fixture
def two_kept(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(layout, "MILESTONES", (1, 2))
    return "kept/000001-weights", "kept/000002-weights"


def test_weights_are_kept_after_the_iterations_named_and_outlive_later_checkpoints(
    tmp_path: Path, two_kept: tuple[str, str]
) -> None:
    train(tiny_run(), Folder(tmp_path))
    first = named(tmp_path)
    assert {key for key in first if key.startswith("kept/")} == set(two_kept)
    train(tiny_run(frames=560, machine=OFTEN), Folder(tmp_path))
    later = named(tmp_path)
    for key in two_kept:
        assert later[key] == first[key]
        assert (tmp_path / first[key]["name"]).exists()
    loop = Loop(tiny_run())
    next(step for step in loop.steps() if step.iteration)
    expected, (stored,) = loop.agent.weights(), newest_objects(Folder(tmp_path), two_kept[:1], pytest.fail).values()
    kept = arrays.unpack(stored)
    assert expected.keys() == kept.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(kept[name], value)
    assert len(list(evaluate(Folder(tmp_path), 1, seed=0, iteration=1))) == 1


def test_weights_are_kept_across_an_end_before_any_checkpoint_had_them(
    tmp_path: Path, two_kept: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny_run(frames=120), Folder(tmp_path))
    assert not any(key.startswith("kept/") for key in named(tmp_path))
    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    with monkeypatch.context() as patch:
        Refusing(patch, "objects/", times=1_000)
        with pytest.raises(StoreError):
            train(tiny_run(), Folder(tmp_path))
    train(tiny_run(), Folder(tmp_path))
    assert {key for key in named(tmp_path) if key.startswith("kept/")} == set(two_kept)


def test_the_time_left_is_reported_only_once_the_run_learns(tmp_path: Path, reported_at_every_step: None) -> None:
    seen: list[Progress] = []
    train(tiny_run(), Folder(tmp_path), seen.append)
    assert {progress.learning for progress in seen} == {False, True}
    assert all(progress.learning for progress in seen if progress.seconds_left is not None)
    assert seen[-2].seconds_left is not None
    before, first = next((one, two) for one, two in pairwise(seen) if two.learning and not one.learning)
    assert before.steps_per_second is not None
    assert first.steps_per_second is None  # the rate from before learning would promise too much
