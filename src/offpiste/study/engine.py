"""Run a study on Ray: one task per attempt at a run, with Ray's own retries off.

Ray listens on all interfaces of a machine, so a token is always asked for. A worker looks every few seconds whether
the study was told to stop or its machine is being drained, and then saves and ends, as it does on SIGTERM.
"""

import logging
import os
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from typing import Any

from offpiste.config import RunConfig
from offpiste.errors import (
    CheckpointError,
    ConfigError,
    NotFinite,
    OffpisteError,
    RunMismatch,
    StoreError,
    Superseded,
)
from offpiste.parsing import from_dict, to_dict
from offpiste.run.stopping import stop_on_signals
from offpiste.store.run_folder import holds_only_results
from offpiste.store.storage import Folder
from offpiste.study import driver, status
from offpiste.study.cost import cost
from offpiste.study.driver import Outcome, StudySummary
from offpiste.study.plan import Study

WATCH_SECONDS = 10.0
"""How often a worker looks whether it shall stop."""
OBJECT_STORE_BYTES = 80 * 2**20
"""Nothing but settings and outcomes passes through Ray's object store; this is near the least that it takes."""
START_TRIES = 3
NOT_RETRYABLE = (ConfigError, RunMismatch, NotFinite, CheckpointError)
"""Errors that another attempt would only meet again."""


def run_study(
    study: Study,
    content: bytes,
    location: str,
    tell: Callable[[str], None],
    address: str | None = None,
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Run all that is left of a study, on the cluster at this address or on this machine.

    The content of its file is kept in the store.
    """
    store = _shareable(location)
    with _cluster(address, tell) as ray, stop_on_signals() as told:
        store.put(f"studies/{study.name}/study.toml", content)
        status.take_back_stop(store, study.name)
        workers = _RayWorkers(ray, study, str(store.local_path or store.location), accept_version)
        if slots := workers.slots():
            tell(f"room for {slots} at once; workers take a while to start")
        else:
            tell(f"no machine is large enough for a run yet; it takes {_shown(workers.most)}")

        def stopping() -> bool:
            if told.number is not None:
                try:
                    status.ask_to_stop(store, study.name)  # the workers look for it there
                except StoreError as error:
                    tell(f"cannot stop yet: {error}")  # nor could they save
            return status.stop_asked(store, study.name)

        return driver.drive(study, store, workers, tell, stopping, accept_version=accept_version)


def attempt(
    settings: dict[str, Any], location: str, study: str, keep: str, accept_version: bool, current_folder: str = "."
) -> dict[str, str]:
    """Work on one run in this process until it is finished or told to stop; return the outcome as plain values."""
    with suppress(OSError):  # another machine need not have it
        os.chdir(current_folder)  # where a bonus named module:Class may lie
    try:
        outcome = _attempt(from_dict(RunConfig, settings), Folder(location), study, keep, accept_version)
    except Superseded as error:
        outcome = Outcome("superseded", str(error))
    except NOT_RETRYABLE as error:
        outcome = Outcome("hopeless", f"{type(error).__name__}: {error}", traceback.format_exc())
    except Exception as error:
        outcome = Outcome("failed", f"{type(error).__name__}: {error}", traceback.format_exc())
    return asdict(outcome)


def _attempt(run: RunConfig, store: Folder, study: str, keep: str, accept_version: bool) -> Outcome:
    if store.get(f"studies/{study}/study.toml") is None:
        raise StoreError(
            f"{socket.gethostname()} does not see the study in {store.location}; do all machines share it?"
        )
    if status.stop_asked(store, study):
        return Outcome("paused", "the study was told to stop")
    _keep_compiled_code_on_this_machine()
    from offpiste.run.train import train
    from offpiste.study.keep import keep_results

    folder = store.below(run.run_id)
    if keep == "results" and holds_only_results(folder):  # the attempt before ended in the middle of tidying up
        keep_results(folder)
        return Outcome("finished")
    watch = _Watch(store, study)
    last = train(run, folder, lambda _: watch.look(), accept_version=accept_version)
    if last.state != "finished":
        return Outcome("paused", watch.reason)
    if keep == "results":
        keep_results(folder)
    return Outcome("finished")


class _Watch:
    """Stops this process's training, as SIGTERM would, when the study or the machine shall stop."""

    def __init__(self, store: Folder, study: str) -> None:
        self.reason = ""
        self._store = store
        self._study = study
        self._next = time.monotonic() + WATCH_SECONDS

    def look(self) -> None:
        if self.reason or time.monotonic() < self._next:
            return
        if status.stop_asked(self._store, self._study):  # first, for Ray does not answer once its head is gone
            self.reason = "the study was told to stop"
        elif _machine_is_drained():
            self.reason = f"its machine, {socket.gethostname()}, is going away"
        if self.reason:
            signal.raise_signal(signal.SIGTERM)
        self._next = time.monotonic() + WATCH_SECONDS


def _machine_is_drained() -> bool:
    """Tell whether Ray is about to stop this node; Ray tells so only by an interface that may change."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    try:
        return ray.get_runtime_context().get_node_id() in ray._private.state.state.get_draining_nodes()
    except Exception:
        return False


def _keep_compiled_code_on_this_machine() -> None:
    """Let numba keep what it compiles on a local disk: a home folder may be shared by machines of other kinds."""
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    folder = Path(tempfile.gettempdir()) / f"offpiste-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)  # else somebody else could put code there


class _RayWorkers:
    """Ray's workers."""

    def __init__(self, ray: Any, study: Study, location: str, accept_version: bool) -> None:
        self._ray = ray
        self._remote = ray.remote(attempt)
        self._study = study
        self._arguments = (location, study.name, study.keep, accept_version, str(Path.cwd()))
        self._runs: dict[Any, str] = {}
        self.most = max((self._needs(run) for run in study.runs), key=lambda needs: needs["memory"])
        """What the run that needs most occupies."""

    def slots(self) -> int:
        return sum(slots_on(node["Resources"], self.most) for node in self._ray.nodes() if node["Alive"])

    def start(self, run: RunConfig) -> None:
        needs = self._needs(run)
        task = self._remote.options(
            name=run.run_id,
            num_cpus=needs["CPU"],
            num_gpus=needs["GPU"],
            memory=int(needs["memory"]),
            max_retries=0,
            scheduling_strategy="SPREAD",
        )
        self._runs[task.remote(to_dict(run), *self._arguments)] = run.run_id

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        ready, _ = self._ray.wait(list(self._runs), timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(self._runs), num_returns=len(self._runs), timeout=0)
        return [(self._runs.pop(reference), self._outcome(reference)) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        errors = self._ray.exceptions
        try:
            return Outcome(**self._ray.get(reference))
        except errors.NodeDiedError as error:
            return Outcome("lost", f"its machine is gone: {_first_line(error)}")
        except (errors.LocalRayletDiedError, errors.AuthenticationError, errors.RaySystemError):
            raise
        except errors.RayError as error:
            return Outcome("failed", f"{type(error).__name__}: {_first_line(error)}", str(error))

    def _needs(self, run: RunConfig) -> dict[str, float]:
        resources = self._study.resources
        memory = resources.memory_gb or cost(run, self._study.keep).memory_gb
        return {"CPU": resources.cpus, "GPU": resources.gpus, "memory": 1e9 * memory}


def slots_on(node: dict[str, float], needs: dict[str, float]) -> int:
    """Return how many runs fit a machine at once."""
    return min(int(node.get(kind, 0.0) / amount + 1e-9) for kind, amount in needs.items() if amount > 0)


def _shown(needs: dict[str, float]) -> str:
    return f"{needs['CPU']:g} CPUs, {needs['GPU']:g} GPUs and {needs['memory'] / 1e9:.1f} GB of memory"


@contextmanager
def _cluster(address: str | None, tell: Callable[[str], None]) -> Iterator[Any]:
    """Join a cluster, or start one on this machine for as long as this lasts."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address and "://" in address:
        raise ConfigError(f"start the driver on a machine of the cluster, with its address, not through {address}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")  # both are read when Ray is first imported
    if not address and not os.environ.get("RAY_AUTH_TOKEN_PATH"):
        os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))  # for this cluster only, and in no file
    ray = _import_ray()
    _join(ray, address)
    machines = sum(node["Alive"] for node in ray.nodes())
    tell(f"Ray {ray.__version__}, {address or 'started here'}: {machines} machine{'s' * (machines != 1)}")
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise OffpisteError(f"the cluster is gone ({_first_line(error)}); the same command continues") from error
    finally:
        ray.shutdown()


def _join(ray: Any, address: str | None) -> None:
    options: dict[str, Any] = {"address": address}
    if not address:
        options = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    for tries_left in reversed(range(START_TRIES)):
        try:
            # Ray puts the current folder first in the search path of its workers, where a numpy.py would be run.
            with chdir(sys.prefix):
                ray.init(**options, log_to_driver=False, logging_level=logging.WARNING)
            return
        except Exception as error:  # Ray raises many kinds
            ray.shutdown()
            if address or not tries_left:  # on a busy machine, Ray's own patience with its processes may end too soon
                what = f"cannot join the cluster at {address}" if address else "cannot start Ray here"
                raise OffpisteError(f"{what}: {_first_line(error)}") from error


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise OffpisteError("`study run` needs Ray: pip install 'offpiste[cluster]'") from None
    return ray


def _shareable(location: str) -> Folder:
    """Return the store; refuse a URL with keys in it, since Ray logs command lines."""
    store = Folder(location)
    if store.holds_keys:
        raise ConfigError(
            "the store's URL holds a key, and Ray keeps the command lines of its drivers; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY where the machines are started, or give them a role, and leave the key out"
        )
    return store


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
