"""A task of Ray stops when it should; with a real Ray, a study survives the loss of its workers."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from offpiste.config import RunConfig
from offpiste.errors import ConfigError, OffpisteError
from offpiste.parsing import to_dict
from offpiste.run import train as train_module
from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store.storage import Folder
from offpiste.study import ray_cluster, status
from offpiste.study.plan import make_study
from offpiste.study.ray_cluster import RayWorkers, attempt
from offpiste.study.task import Task
from offpiste.study.workers import Pulse
from tests.study.small import TINY, leave_status, tiny_study

RUN = tiny_study().runs[0]


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    status.put_file(folder, "tiny", b"")
    return folder


def tried(store: Folder) -> dict[str, str]:
    return attempt(asdict(Task(to_dict(RUN), store.location, "tiny", "all")))


def test_an_attempt_does_nothing_once_the_study_was_asked_to_stop(store: Folder) -> None:
    status.request_stop(store, "tiny")
    found = tried(store)
    assert (found["state"], found["error"]) == ("paused", "the study was asked to stop")
    assert store.below(RUN.run_id).list() == []


def test_an_attempt_saves_and_ends_when_the_study_is_asked_to_stop(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "stop_seconds", lambda _: 0.0)
    monkeypatch.setattr(train_module, "PROGRESS_SECONDS", 0.0)
    answers = iter([False, False, False, False, True])
    monkeypatch.setattr(status, "stop_requested", lambda *_: next(answers))
    found = tried(store)
    assert (found["state"], found["error"]) == ("paused", "the study was asked to stop")
    assert next(answers, "no more") == "no more"
    assert store.below(RUN.run_id).list("manifests")


def test_an_attempt_saves_and_ends_when_its_machine_is_drained(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["", "it is going away"])
    monkeypatch.setattr(ray_cluster, "DRAIN_SECONDS", 0.0)
    monkeypatch.setattr(ray_cluster, "_why_drained", lambda: next(answers, "it is going away"))
    found = tried(store)
    assert (found["state"], found["error"]) == ("paused", "it is going away")
    assert store.below(RUN.run_id).list("manifests")


class FakeRay:
    """As much of Ray as `RayWorkers` asks for, where no task ever ends."""

    def __init__(self) -> None:
        self.handed_in: list[tuple[bool, dict[str, Any]]] = []
        self.cancelled: list[tuple[object, bool]] = []

    def remote(self, function: Any = None, max_calls: int = 0) -> Any:
        class Remote:
            def options(remote, **options: Any) -> Any:  # noqa: N805
                class Options:
                    def remote(inner, *arguments: Any) -> object:  # noqa: N805
                        self.handed_in.append((max_calls == 1, arguments[0]))
                        return object()

                return Options()

        return Remote() if function is not None else lambda _: Remote()

    def cancel(self, reference: object, *, force: bool) -> None:
        self.cancelled.append((reference, force))


def test_progress_is_that_of_attempts_that_are_newer_than_the_task(store: Folder) -> None:
    workers = RayWorkers(FakeRay(), tiny_study(), store)
    task = Task(to_dict(RUN), store.location, "tiny", "all", newest="000002-aaaaaa")
    workers.start(RUN, task)
    assert workers.progress() == {}
    for attempt_name, expected in (("000002-aaaaaa", {}), ("000003-aaaaaa", {RUN.run_id: Pulse(70, 100)})):
        leave_status(store.below(RUN.run_id), RUN, "running", 100, steps=70, attempt=attempt_name)
        assert workers.progress() == expected


def test_a_bonus_with_a_file_of_its_own_gets_a_new_process_for_each_attempt(store: Folder) -> None:
    ray = FakeRay()
    workers = RayWorkers(ray, tiny_study(), store)
    for source in (None, "0" * 64):
        workers.start(RUN, Task(to_dict(RUN), store.location, "tiny", "all", source))
    assert [new for new, _ in ray.handed_in] == [False, True]
    workers.kill(RUN.run_id)
    assert [force for _, force in ray.cancelled] == [True, True]


def test_only_the_driver_of_ray_writes_a_request_to_stop(store: Folder) -> None:
    RayWorkers(FakeRay(), tiny_study(), store).stop()
    assert status.stop_requested(store, "tiny")


def test_a_store_with_a_key_in_its_url_is_refused_before_ray_sees_it() -> None:
    with pytest.raises(ConfigError, match="the store's URL must hold no key") as refused:
        ray_cluster.run_on_ray(tiny_study(), b"", "s3://me:secret@bucket/x?region=r", print)
    assert "secret" not in str(refused.value)


def test_an_address_that_is_a_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be auto or HOST:PORT, got ray://head:10001; run this on a machine of"):
        ray_cluster.run_on_ray(tiny_study(), b"", str(tmp_path), print, "ray://head:10001")


def test_without_ray_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "kept out of this process")
    with pytest.raises(OffpisteError, match=r"needs Ray: pip install 'offpiste\[cluster\]'"):
        ray_cluster.run_on_ray(tiny_study(), b"", str(tmp_path), print)
    assert list(tmp_path.iterdir()) == []


# With a real Ray

CLIENT = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
assert ray.get(ray.remote(lambda: 7).remote()) == 7
print("let in")
"""

CLUSTER = """
import os, subprocess, sys
from offpiste.study.ray_cluster import _cluster
assert "RAY_AUTH_TOKEN" not in os.environ
with _cluster(None, print) as ray:
    address = ray.get_runtime_context().gcs_address
    def client(**environment):
        command = [sys.executable, "-c", sys.argv[1], address]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=600)
        return done.stdout + done.stderr
    quick = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # it gives up at once, not after 20 s
    assert "let in" in client()
    for refused in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "0" * 64}):
        output = client(**refused, **quick)
        assert "let in" not in output and "InvalidAuthToken" in output, output
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray._private.worker._global_node.webui_url
    print("refused as it should be")
"""


@pytest.mark.slow
def test_a_client_without_the_token_is_refused(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)  # where Ray would look for a token
    done = subprocess.run([sys.executable, "-c", CLUSTER, CLIENT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused as it should be" in done.stdout
    assert not (tmp_path / ".ray" / "auth_token").exists()


@pytest.mark.slow
def test_a_study_survives_the_loss_of_its_workers(tmp_path: Path) -> None:
    content = TINY | {"seeds": [0, 1], "frames": 3_000, "keep": "all"}
    content["settings"] = TINY["settings"] | {"machine": {"checkpoint_minutes": 0.005}}
    killed, stopped = make_study("tiny", content).runs
    file, store = tmp_path / "tiny.toml", Folder(tmp_path / "store")
    file.write_text(tomli_w.dumps(content))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["RAY_worker_niceness"] = "0"  # 15 otherwise, at which other tests leave it hardly any processor time
    command = [sys.executable, "-m", "offpiste", "study", "run", str(file), "--ray", "--store", str(tmp_path / "store")]
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            for run, number in ((killed, signal.SIGKILL), (stopped, signal.SIGTERM)):
                os.kill(wait_for_worker(store, run, process), number)
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        output = log.read()
    assert f"{killed.run_id} failed, next try at once, since it had progressed: WorkerCrashedError" in output
    assert f"{stopped.run_id} will resume: its worker was stopped" in output
    for run in (killed, stopped):
        assert len(store.below(run.run_id).list("attempts")) == 2
        train(run, Folder(tmp_path / "undisturbed" / run.run_id))
        assert digest(store.below(run.run_id)) == digest(Folder(tmp_path / "undisturbed" / run.run_id))


def wait_for_worker(store: Folder, run: RunConfig, process: "subprocess.Popen[bytes]") -> int:
    """Return the id of the process of a run, once it has a checkpoint; Ray names processes after their tasks."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if store.below(run.run_id).list("manifests"):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    if path.read_bytes().startswith(f"ray::{run.run_id}".encode()):
                        return int(path.parent.name)
        time.sleep(0.05)
    raise AssertionError(f"the study ended with {process.poll()} before {run.run_id} had a checkpoint")
