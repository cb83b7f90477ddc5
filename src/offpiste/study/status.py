"""What the store says of a study: how far each run is, which ones are set aside, and whether the study shall stop.

Run folders are the only truth. Three objects are added to what `run` writes there:
quarantine.json            in a run's folder: it is not tried again until someone lifts this
results.json               in a run's folder: it is finished, and only its results were kept
studies/NAME/stop.json     in the store: whoever works on this study saves and stops
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
"""A run that has not renewed its status for this long is stale; it does so every half minute."""
STATES = ("done", "running", "stale", "waiting", "failed")
_READERS = 32


@dataclass(frozen=True)
class RunStatus:
    """How far one run is."""

    run_id: str
    state: str
    """done, running, stale (no news for long), waiting (for a first or a next attempt) or failed (set aside)."""
    frames: int
    target_frames: int
    steps_per_second: float | None
    seconds_left: float | None
    seconds_since_news: float | None
    """Age of the status; None where there is none."""
    note: str
    """What a person should know: the error of a failed run, or that a checkpoint could not be written."""
    quarantined: bool
    """Whether it was set aside; a run may also count as failed because its folder holds another run."""
    only_results: bool
    """Whether the replay was dropped, so that the run cannot go on."""


def read_all(
    store: Folder,
    runs: Iterable[RunConfig],
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> list[RunStatus]:
    """Return the status of every run, read side by side."""
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
    there = folder.list()
    status = _read(folder, layout.STATUS) if layout.STATUS in there else {}
    finished = finished_frames(there)
    state, note = _state(status, finished, run), str(status.get("note", ""))
    age = (now - datetime.fromisoformat(status["at"])).total_seconds() if "at" in status else None
    if state == "running" and (age is None or age > STALE_SECONDS):
        state = "stale"
    done = max(int(status.get("frames", 0)), finished)
    if layout.RESULTS in there and state != "done":
        state, note = "failed", f"only the results at {done:,} frames were kept, so it cannot go on; use another store"
    if layout.RUN in there:
        about = _read(folder, layout.RUN)
        if other := mismatch(about, run, bonus_sources, accept_version=accept_version):
            state, note = "failed", f"the folder holds {other}"
    if layout.QUARANTINE in there:
        state, note = "failed", str(_read(folder, layout.QUARANTINE).get("error", ""))
    return RunStatus(
        run_id=run.run_id,
        state=state,
        frames=done,
        target_frames=run.frames,
        steps_per_second=status.get("steps_per_second") if state == "running" else None,
        seconds_left=status.get("seconds_left") if state == "running" else None,
        seconds_since_news=age,
        note=note,
        quarantined=layout.QUARANTINE in there,
        only_results=layout.RESULTS in there,
    )


def quarantine(folder: Folder, error: str, details: str) -> None:
    """Set a run aside, with the error's last line and all that is known about it."""
    about = {"at": utc_now(), "error": error, "details": details}
    folder.put(layout.QUARANTINE, json.dumps(about, indent=1).encode())


def lift(folder: Folder) -> bool:
    """Let a run that was set aside be tried again; tell whether it was."""
    if layout.QUARANTINE not in folder.list():
        return False
    folder.delete(layout.QUARANTINE)
    return True


def ask_to_stop(store: Folder, study: str) -> None:
    """Ask whoever works on a study to save and stop."""
    store.put(_stop_mark(study), json.dumps({"at": utc_now()}).encode())


def stop_asked(store: Folder, study: str) -> bool:
    """Tell whether a study shall stop; a store that does not answer does not stop it."""
    try:
        return store.get(_stop_mark(study)) is not None
    except StoreError:
        return False


def take_back_stop(store: Folder, study: str) -> None:
    """Let a study go on."""
    store.delete(_stop_mark(study))


def _stop_mark(study: str) -> str:
    return f"studies/{study}/stop.json"


def _state(status: dict[str, Any], finished: int, run: RunConfig) -> str:
    skip = run.world.frame_skip
    if status.get("state") == "finished":  # also before there were marks
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
