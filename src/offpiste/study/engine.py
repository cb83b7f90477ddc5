"""Run a study on Ray: one task per attempt at a run; the driver retries, not Ray.

Ray listens on all interfaces of a machine, so a token is always required. A worker checks every few seconds whether the
study was asked to stop or its machine is being drained; then it saves a checkpoint and ends, as on SIGTERM.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from offpiste.config import RunConfig
from offpiste.errors import ConfigError, OffpisteError, StoreError
from offpiste.parsing import from_dict, to_dict
from offpiste.run.stopping import stop_on_signals
from offpiste.store.storage import Folder
from offpiste.study import driver, status
from offpiste.study.attempt import Outcome, Watch, attempt_of_study, outcome_of
from offpiste.study.driver import StudySummary
from offpiste.study.plan import Study
from offpiste.study.resources import max_needs_of, needs_of, needs_text, slots_on

WATCH_SECONDS = 10.0
"""How often a worker checks whether to stop."""
OBJECT_STORE_BYTES = 80 * 2**20
"""Near the min that Ray accepts: only settings and outcomes pass through its object store."""
START_TRIES = 3
STOP_REQUESTED = "the study was asked to stop"


def run_study(
    study: Study,
    content: bytes,
    location: str,
    log: Callable[[str], None],
    address: str | None = None,
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Start or resume a study, on the Ray cluster at this address or on a Ray that is started on this machine.

    A copy of its file, `content`, goes into the store.
    """
    store = _open_without_keys(location)
    with _cluster(address, log) as ray, stop_on_signals() as received:
        status.begin(store, study.name, content)
        workers = _RayWorkers(ray, study, str(store.local_path or store.location), accept_version)
        if slots := workers.slots():
            log(f"{slots} runs fit at once; workers take a while to start")
        else:
            log(f"no machine can hold a run yet; a run needs {needs_text(workers.max_needs)}")

        def should_stop() -> bool:
            if received.number is not None:
                try:
                    status.request_stop(store, study.name)  # where the workers look for it
                except StoreError as error:
                    log(f"cannot stop yet: {error}")  # the workers could not save either
            return status.stop_requested(store, study.name)

        return driver.drive(study, store, workers, log, should_stop, accept_version=accept_version)


def attempt(
    settings: dict[str, Any], location: str, study: str, keep: str, accept_version: bool, current_folder: str = "."
) -> dict[str, str]:
    """Train one run in this process until it is finished or stopped; return the `Outcome` as a dictionary."""
    with suppress(OSError):  # another machine need not have it
        os.chdir(current_folder)  # where the module of a bonus may be
    return asdict(
        outcome_of(lambda: _attempt(from_dict(RunConfig, settings), Folder(location), study, keep, accept_version))
    )


def _attempt(run: RunConfig, store: Folder, study: str, keep: str, accept_version: bool) -> Outcome:
    if not status.is_begun(store, study):
        raise StoreError(
            f"{socket.gethostname()} does not see the study in {store.location}; use a store that all machines share"
        )
    if status.stop_requested(store, study):
        return Outcome("paused", STOP_REQUESTED)
    watch = Watch(lambda: _reason_to_stop(store, study), WATCH_SECONDS)
    outcome = attempt_of_study(run, store.below(run.run_id), keep, watch, accept_version=accept_version)
    return replace(outcome, error=watch.reason) if outcome.state == "paused" else outcome


def _reason_to_stop(store: Folder, study: str) -> str:
    """Return why this process is to stop, or ""."""
    if status.stop_requested(store, study):  # first, since Ray does not answer once its head is gone
        return STOP_REQUESTED
    return f"its machine, {socket.gethostname()}, is going away" if _machine_is_drained() else ""


def _machine_is_drained() -> bool:
    """Return whether Ray is draining this node, which only a private interface of Ray knows."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    try:
        return ray.get_runtime_context().get_node_id() in ray._private.state.state.get_draining_nodes()
    except Exception:
        return False


class _RayWorkers:
    """The `Workers` of a study on Ray."""

    def __init__(self, ray: Any, study: Study, location: str, accept_version: bool) -> None:
        self._ray = ray
        self._remote = ray.remote(attempt)
        self._study = study
        self._arguments = (location, study.name, study.keep, accept_version, str(Path.cwd()))
        self._runs: dict[Any, str] = {}
        self.max_needs = max_needs_of(study)

    def slots(self) -> int:
        return sum(slots_on(node["Resources"], self.max_needs) for node in self._ray.nodes() if node["Alive"])

    def start(self, run: RunConfig) -> None:
        needs = needs_of(self._study, run)
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
