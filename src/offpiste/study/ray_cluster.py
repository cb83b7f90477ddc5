"""Run a study on Ray: one task per attempt at a run; the driver decides what follows, not Ray.

Ray listens on all interfaces of a machine, so a token is always required. A task checks every few seconds whether the
study was asked to stop or its machine is being drained; then it saves a checkpoint and ends, as on SIGTERM.
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from typing import Any

from offpiste.config import RunConfig
from offpiste.errors import ConfigError, OffpisteError, StoreError
from offpiste.run.stopping import stop_on_signals
from offpiste.store.attempts import attempt_order
from offpiste.store.status import read_status
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.driver import StudySummary, Terms, drive
from offpiste.study.plan import Study
from offpiste.study.resources import max_needs_of, needs_of, needs_text, slots_on
from offpiste.study.task import AttemptOutcome, Task, every, perform, stop_seconds
from offpiste.study.workers import Pulse

DRAIN_SECONDS = 10.0
"""How often a task checks whether its machine is going away."""
OBJECT_STORE_BYTES = 80 * 2**20
"""Near the min that Ray accepts: only settings and outcomes pass through its object store."""
START_TRIES = 3
STOP_REQUESTED = "the study was asked to stop"


def run_on_ray(
    study: Study,
    content: bytes,
    location: str,
    log: Callable[[str], None],
    address: str | None = None,
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Start or resume a study, on the Ray cluster at this address or on a Ray that is started on this machine.

    A copy of its file, `content`, goes into the store; an earlier request to stop it is withdrawn.
    """
    store = _open_without_keys(location)
    with _cluster(address, log) as ray, stop_on_signals() as stop:
        status.begin(store, study.name, content)
        workers = RayWorkers(ray, study, store)
        if slots := workers.slots():
            log(f"{slots} runs fit at once; workers take a while to start")
        else:
            log(f"no machine can hold a run yet; a run needs {needs_text(workers.max_needs)}")
        shared = str(store.local_path or store.location)
        return drive(study, shared, workers, log, stop, Terms(accept_version=accept_version))


def attempt(task: dict[str, Any], current_folder: str = ".") -> dict[str, str]:
    """Make one attempt in this process; return the `AttemptOutcome` as a dictionary."""
    with suppress(OSError):  # another machine need not have it
        os.chdir(current_folder)  # where the module of a bonus may be
    wanted = Task(**task)
    store = Folder(wanted.store)

    def stop_request() -> str:
        return STOP_REQUESTED if status.stop_requested(store, wanted.study) else ""

    asked_to_stop = every(stop_seconds(store), stop_request)
    drained = every(DRAIN_SECONDS, _why_drained)

    def reason_to_stop() -> str:
        return asked_to_stop() or drained()  # in this order, since Ray does not answer once its head is gone

    if reason := reason_to_stop():
        return asdict(AttemptOutcome("paused", reason))
    return asdict(perform(wanted, reason_to_stop, lambda _: None))


def _why_drained() -> str:
    """Return why to stop, if Ray is draining this node, which only a private interface of Ray knows."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    try:
        drained = ray.get_runtime_context().get_node_id() in ray._private.state.state.get_draining_nodes()
    except Exception:
        return ""
    return f"its machine, {socket.gethostname()}, is going away" if drained else ""


class RayWorkers:
    """Makes attempts as tasks of Ray."""

    queued_per_slot = 1

    def __init__(self, ray: Any, study: Study, store: Folder) -> None:
        self._ray, self._study, self._store = ray, study, store
        self._remote = ray.remote(attempt)
        self._in_new_process = ray.remote(max_calls=1)(attempt)
        """For a bonus with a file of its own: a process keeps the code that it has imported."""
        self._tasks: dict[Any, tuple[str, str]] = {}
        """The run, and the newest attempt at it when it was handed in."""
        self.max_needs = max_needs_of(study)

    def slots(self) -> int:
        """Return how many attempts can run at once."""
        return sum(slots_on(node["Resources"], self.max_needs) for node in self._ray.nodes() if node["Alive"])

    def start(self, run: RunConfig, task: Task) -> None:
        """Queue an attempt."""
        needs = needs_of(self._study, run)
        remote = self._remote if task.bonus_source is None else self._in_new_process
        reference = remote.options(
            name=run.run_id,
            num_cpus=needs["CPU"],
            num_gpus=needs["GPU"],
            memory=int(needs["memory"]),
            max_retries=0,
            scheduling_strategy="SPREAD",
        ).remote(asdict(task), str(Path.cwd()))
        self._tasks[reference] = run.run_id, task.newest

    def wait(self, seconds: float) -> list[tuple[str, AttemptOutcome]]:
        """Wait until an attempt ends or the time is over; return all that ended."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._tasks), timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [(self._tasks.pop(reference)[0], self._outcome(reference)) for reference in ready]

    def progress(self) -> dict[str, Pulse]:
        """Return how far the attempts are that have written a status, read from the store."""
        with ThreadPoolExecutor(status.readers(self._store)) as pool:
            tasks = list(self._tasks.values())
            pulses = list(pool.map(self._pulse, tasks))
        return {run_id: pulse for (run_id, _), pulse in zip(tasks, pulses, strict=True) if pulse is not None}

    def stop(self) -> None:
        """Let all attempts save a checkpoint and end: they look for this request."""
        status.request_stop(self._store, self._study.name)

    def kill(self, run_id: str) -> None:
        """End an attempt at once."""
        for reference, (name, _) in self._tasks.items():
            if name == run_id:
                self._ray.cancel(reference, force=True)

    def _pulse(self, task: tuple[str, str]) -> Pulse | None:
        run_id, newest = task
        try:
            seen = read_status(self._store.below(run_id))
        except StoreError:
            return None
        begun = seen.steps is not None and attempt_order(seen.attempt) > attempt_order(newest)
        return Pulse(seen.steps or 0, seen.frames) if begun else None

    def _outcome(self, reference: Any) -> AttemptOutcome:
        errors = self._ray.exceptions
        try:
            return AttemptOutcome(**self._ray.get(reference))
        except errors.NodeDiedError as error:
            return AttemptOutcome("lost", f"its machine is gone: {_first_line(error)}")
        except (errors.LocalRayletDiedError, errors.AuthenticationError, errors.RaySystemError):
            raise
        except errors.RayError as error:
            return AttemptOutcome("failed", f"{type(error).__name__}: {_first_line(error)}", str(error))


@contextmanager
def _cluster(address: str | None, log: Callable[[str], None]) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine and shut it down at the end."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address and "://" in address:
        raise ConfigError(f"the address must be auto or HOST:PORT, got {address}; run this on a machine of the cluster")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")  # both are read when Ray is first imported
    if not address and not os.environ.get("RAY_AUTH_TOKEN_PATH"):
        os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))  # for this cluster only, and in no file
    ray = _import_ray()
    _join(ray, address)
    machines = sum(node["Alive"] for node in ray.nodes())
    log(f"Ray {ray.__version__}, {address or 'started here'}: {machines} machine{'s' * (machines != 1)}")
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise OffpisteError(f"lost the cluster ({_first_line(error)}); the same command resumes the study") from error
    finally:
        ray.shutdown()


def _join(ray: Any, address: str | None) -> None:
    options: dict[str, Any] = {"address": address}
    if not address:
        options = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    for tries_left in reversed(range(START_TRIES)):
        try:
            # Ray puts the current folder first in its workers' search path, so a numpy.py in it would be imported.
            with chdir(sys.prefix):
                ray.init(**options, log_to_driver=False, logging_level=logging.WARNING)
            return
        except Exception as error:  # Ray raises many kinds
            ray.shutdown()
            if address or not tries_left:  # on a busy machine, Ray's own time limits may be too short
                what = f"cannot join the cluster at {address}" if address else "cannot start Ray here"
                raise OffpisteError(f"{what}: {_first_line(error)}") from error


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise OffpisteError("a study on Ray needs Ray: pip install 'offpiste[cluster]'") from None
    return ray


def _open_without_keys(location: str) -> Folder:
    """Return the store; refuse a URL with a key in it, since Ray logs command lines."""
    store = Folder(location)
    if store.holds_keys:
        raise ConfigError(
            "the store's URL must hold no key, because Ray logs the command lines of its drivers; set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where the machines are started, or give them a role"
        )
    return store


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
