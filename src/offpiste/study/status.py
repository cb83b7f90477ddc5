"""The status of a study, read from its store: the progress of each run, quarantines, and stop requests.

The run folders are the only source of truth; `offpiste.study.marks` is a cache over them. A study adds to what `run`
writes:
quarantine.json            in a run's folder: the run is quarantined, and not tried again until this is deleted
tries.json                 in a run's folder: how often it was tried in vain (`offpiste.study.tries`)
results.json               in a run's folder: the run is finished, and only its results were kept
studies/NAME/stop.json     in the store: workers of this study save a checkpoint and stop, and so does its driver
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.store import layout
from offpiste.store.records import utc_now
from offpiste.store.run_folder import finished_frames, mismatch
from offpiste.store.storage import Folder

STALE_SECONDS = 300.0
"""Age of status.json at which a running run is stale; it is written every half minute."""
STATES = ("done", "running", "stale", "waiting", "failed")
_READERS = 32


@dataclass(frozen=True)
class RunStatus:
    """The progress of one run."""

    run_id: str
    state: str
    """done; running; stale: running, but its status is old; waiting: for its first or next attempt; or failed: not
    tried again, because it is quarantined or its folder cannot be resumed as this run."""
    frames: int
    target_frames: int
    steps_per_second: float | None
    seconds_left: float | None
    seconds_since_news: float | None
    """Age of status.json; None if there is none."""
    note: str
    """A message for the user: why a run failed, or that a checkpoint could not be written."""
    quarantined: bool
    only_results: bool
    """Whether the replay was dropped, so that the run cannot be resumed."""
    host: str = ""
    """The machine that trains a running run."""
    job: str = ""
    """Its Slurm job, if it is one."""


def read_all(
    store: Folder,
    runs: Iterable[RunConfig],
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> list[RunStatus]:
    """Return the status of every run, read concurrently."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda run: read_one(store, run, bonus_sources, accept_version=accept_version), runs))


def read_one(
    store: Folder,
    run: RunConfig,
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> RunStatus:
    """Return the status of one run; `bonus_sources` as for `run_folder.mismatch`."""
    folder, now = store.below(run.run_id), datetime.now(UTC)
    names = folder.list()
    status = _read(folder, layout.STATUS) if layout.STATUS in names else {}
    finished = finished_frames(names)
    state, note = _state(status, finished, run), str(status.get("note", ""))
    age = (now - datetime.fromisoformat(status["at"])).total_seconds() if "at" in status else None
    if state == "running" and (age is None or age > STALE_SECONDS):
        state = "stale"
    frames = max(int(status.get("frames", 0)), finished)
    if layout.RESULTS in names and state != "done":
        state, note = "failed", f"only the results at {frames:,} frames were kept: it cannot resume; use another store"
    if layout.RUN in names:
        stored = _read(folder, layout.RUN)
        if other := mismatch(stored, run, bonus_sources, accept_version=accept_version):
            state, note = "failed", f"the folder holds {other}"
    if layout.QUARANTINE in names:
        state, note = "failed", str(_read(folder, layout.QUARANTINE).get("error", ""))
    return RunStatus(
        run_id=run.run_id,
        state=state,
        frames=frames,
        target_frames=run.frames,
        steps_per_second=status.get("steps_per_second") if state == "running" else None,
        seconds_left=status.get("seconds_left") if state == "running" else None,
        seconds_since_news=age,
        note=note,
        quarantined=layout.QUARANTINE in names,
        only_results=layout.RESULTS in names,
        host=str(status.get("host", "")) if state == "running" else "",
        job=str(status.get("job", "")) if state == "running" else "",
    )


def quarantine(folder: Folder, error: str, details: str) -> None:
    """Quarantine a run, with the last line of its error and the traceback."""
    content = {"at": utc_now(), "error": error, "details": details}
    folder.put(layout.QUARANTINE, json.dumps(content, indent=1).encode())


def lift_quarantine(folder: Folder) -> bool:
    """Let a quarantined run be tried again; return whether it was quarantined."""
    if layout.QUARANTINE not in folder.list():
        return False
    folder.delete(layout.TRIES)
    folder.delete(layout.QUARANTINE)
    return True


def put_file(store: Folder, study: str, content: bytes) -> None:
    """Put a copy of a study's file into the store."""
    store.put(_file(study), content)


def begin(store: Folder, study: str, content: bytes) -> None:
    """Put a copy of a study's file into the store, and withdraw an earlier request to stop it."""
    put_file(store, study, content)
    clear_stop(store, study)


def is_begun(store: Folder, study: str) -> bool:
    """Return whether the store has a copy of a study's file."""
    return store.get(_file(study)) is not None


def request_stop(store: Folder, study: str) -> None:
    """Ask the driver and workers of a study to save and stop."""
    store.put(_stop_request(study), json.dumps({"at": utc_now()}).encode())


def stop_requested(store: Folder, study: str) -> bool:
    """Return whether a study was asked to stop; a store that does not answer is no request."""
    try:
        return store.get(_stop_request(study)) is not None
    except StoreError:
        return False


def clear_stop(store: Folder, study: str) -> None:
    """Withdraw the request to stop a study."""
    store.delete(_stop_request(study))


def _file(study: str) -> str:
    return f"studies/{study}/study.toml"


def _stop_request(study: str) -> str:
    return f"studies/{study}/stop.json"


def _state(status: dict[str, Any], finished: int, run: RunConfig) -> str:
    skip = run.world.frame_skip
    if status.get("state") == "finished":  # runs of older versions have no finished-N.json
        finished = max(finished, int(status["frames"]))
    if finished // skip >= run.frames // skip:
        return "done"
    return "running" if status.get("state") == "running" else "waiting"


def _read(folder: Folder, name: str) -> dict[str, Any]:
    try:
        content = json.loads(folder.get(name) or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
