"""The status of a study, read from its store: the progress of each run, quarantines, and stop requests.

The run folders are the only source of truth; `offpiste.study.marks` is a cache over them. A study adds to what `run`
writes:
quarantine.json            in a run's folder: the run is quarantined, and not tried again until this is deleted
tries.json                 in a run's folder: how often it was tried in vain (`offpiste.study.tries`)
results.json               in a run's folder: the run is finished, and only its results were kept
studies/NAME/study.toml    in the store: a copy of the study's file
studies/NAME/stop.json     in the store: all runs of this study save a checkpoint and stop, and so do its drivers
"""

import json
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from offpiste.config import RunConfig
from offpiste.errors import Damaged, MachineError, StoreError
from offpiste.rows import utc_now
from offpiste.store import documents, layout
from offpiste.store.attempts import has_ended, read_attempt
from offpiste.store.finished import finished_frames
from offpiste.store.identity import fingerprints, has_recorded, may_restart, mismatch, read_run
from offpiste.store.status import StoredStatus, read_status
from offpiste.store.storage import Folder
from offpiste.study.tries import read_tries

STALE_SECONDS = 300.0
"""Age of status.json at which a running run is stale; it is written every half minute."""
MENDED = "is no longer quarantined: its bonus was changed, and it had recorded nothing"
STATES = ("done", "running", "stale", "waiting", "failed")
_READERS, _DISK_READERS = 64, 2
"""An object store may take 45 ms to answer, whatever it is asked; on a disk, more threads only wait for one another."""


@dataclass(frozen=True)
class RunStatus:
    """The progress of one run."""

    run_id: str
    state: str
    """done; running; stale: running, but its status is old; waiting: for its first or next attempt; or failed: not
    tried again, because it is quarantined or its folder cannot be resumed as this run."""
    frames: int
    target_frames: int
    steps_per_second: float | None = None
    seconds_left: float | None = None
    seconds_since_news: float | None = None
    """Age of status.json; None if there is none."""
    note: str = ""
    """A message for the user: why a run failed, or that a checkpoint could not be written."""
    quarantined: bool = False
    only_results: bool = False
    """Whether the replay was dropped, so that the run cannot be resumed."""
    host: str = ""
    """The machine that trains a running run."""
    job: str = ""
    """Its Slurm job, if it is one."""
    mended: bool = False
    """Whether it is quarantined for a bonus whose file was changed since, and had recorded nothing; it is tried again
    (`lift_quarantine`)."""

    def is_complete(self, keep: str) -> bool:
        """Return whether nothing is left to do: it is done, and its replay dropped if only results are kept."""
        return self.state == "done" and (self.only_results or keep == "all")


def read_all(
    store: Folder,
    runs: Iterable[RunConfig],
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> list[RunStatus]:
    """Return the status of every run, read concurrently; of one under way, its status.json is all that is read."""

    def read(run: RunConfig) -> RunStatus:
        return read_one(store, run, bonus_sources, accept_version=accept_version, quick=True)

    with ThreadPoolExecutor(readers(store)) as pool:
        return list(pool.map(read, runs))


def readers(store: Folder) -> int:
    """Return how many threads are to read a store at once."""
    return _READERS if store.local_path is None else _DISK_READERS


def read_one(
    store: Folder,
    run: RunConfig,
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
    quick: bool = False,
) -> RunStatus:
    """Return the status of one run; `bonus_sources` as for `identity.mismatch`.

    A quick look asks only status.json of a run under way: one that finished or was quarantined, and whose process died
    before it said so, looks as if it were running until that is stale.
    """
    folder, now, damage = store.below(run.run_id), datetime.now(UTC), ""
    names = None if quick else folder.list()
    try:
        status = read_status(folder) if names is None or layout.STATUS in names else StoredStatus()
    except Damaged as error:  # the run itself may be whole: whoever resumes it writes another
        status, damage = StoredStatus(), str(error)
    age = None if status.written_at is None else (now - status.written_at).total_seconds()
    is_news = age is not None and abs(age) <= STALE_SECONDS  # a time to come is no news either
    if names is None:
        if status.state == "running" and is_news and _is_of(status, run, bonus_sources):
            return _under_way(status, run, age)
        names = folder.list()
    finished = finished_frames(names)
    state, note = _state(status, finished, run), status.note or damage
    if state == "running" and not is_news:
        state = "stale"
    frames = max(status.frames, finished)
    if layout.RESULTS in names and state != "done":
        state, note = "failed", f"only the results at {frames:,} frames were kept: it cannot resume; use another store"
    if layout.RUN in names:
        try:
            stored = read_run(folder)
            other = stored and mismatch(stored, run, bonus_sources, accept_version=accept_version)
            if stored and other and state != "done" and may_restart(folder, stored, run, bonus_sources):
                other = ""
        except Damaged as error:
            other = f"a run that cannot be read: {error}"
        if other:
            state, note = "failed", f"the folder holds {other}; `offpiste study discard` deletes it"
    quarantined = mended = False
    if layout.QUARANTINE in names:
        why, failed_with = _read_quarantine(folder)
        edited = bonus_sources is not None and failed_with not in (None, bonus_sources[run.bonus.name])
        mended = edited and not has_recorded(folder)
        quarantined = not mended
    if quarantined:
        state, note = "failed", why
    now_running = status if state == "running" else StoredStatus()
    return RunStatus(
        run.run_id,
        state,
        frames,
        run.frames,
        now_running.steps_per_second,
        now_running.seconds_left,
        age,
        note,
        quarantined=quarantined,
        only_results=layout.RESULTS in names,
        host=now_running.host,
        job=now_running.job,
        mended=mended,
    )


def _under_way(status: StoredStatus, run: RunConfig, age: float | None) -> RunStatus:
    return RunStatus(
        run.run_id,
        "running",
        status.frames,
        run.frames,
        status.steps_per_second,
        status.seconds_left,
        age,
        status.note,
        host=status.host,
        job=status.job,
    )


def _is_of(status: StoredStatus, run: RunConfig, bonus_sources: Mapping[str, str | None] | None) -> bool:
    """Return whether a status names the run, its version and the file of its bonus, so that run.json need not."""
    wanted = {"run_id": run.run_id, **fingerprints(run)}
    if bonus_sources is not None:
        wanted["bonus_source"] = bonus_sources[run.bonus.name] or ""
    return not documents.differing(vars(status), wanted)


@dataclass(frozen=True)
class AtWork:
    """A process that works on a run."""

    process: str
    """As in `offpiste.store.attempts`; "" of a version that did not say."""
    note: str
    """Where it is, and how old its news are, for a message."""


def at_work(folder: Folder, newest: str) -> AtWork | None:
    """Return the process that works on a run, by news of the last five minutes; None if there is none, or it has ended.

    News are the status, or if that is not of the newest attempt, what this says of itself; and before there is one,
    that a process was asked to make it.
    """
    try:
        news = read_status(folder)
        if news.attempt != newest:
            news = _read_begun(folder, newest)
        asked = read_tries(folder)
        if asked.process and (news.written_at is None or datetime.fromisoformat(asked.at) > news.written_at):
            news = StoredStatus("running", at=asked.at, host="a machine that prepares it", process=asked.process)
        if news.state != "running" or news.written_at is None or has_ended(news.process):
            return None
        age = abs((datetime.now(UTC) - news.written_at).total_seconds())
    except (Damaged, ValueError, TypeError):  # also times without a zone
        return None
    return None if age > STALE_SECONDS else AtWork(news.process, f"is at work on {news.host}, news {age:.0f} s ago")


def _read_begun(folder: Folder, attempt: str) -> StoredStatus:
    """Return what an attempt without a status of its own says of itself, as if it were one."""
    about = read_attempt(folder, attempt)
    started, host, process = (str(about.get(key, "")) for key in ("started_at", "host", "process"))
    return StoredStatus(state="running", at=started, host=host, process=process) if started else StoredStatus()


def quarantine(folder: Folder, error: str, details: str, bonus_source: str | None = None) -> None:
    """Quarantine a run, with the last line of its error, the traceback, and the hash of its bonus's file."""
    with suppress(Damaged, ValueError):  # ValueError: it has no checksum of its own, or another
        said = documents.unsigned(documents.read(folder, layout.STATUS) or {})
        if said.get("state") == "running":  # by a process that died before it said more
            documents.write(folder, layout.STATUS, said | {"state": "failed", "note": error})
    content = {"at": utc_now(), "error": error, "details": details, "bonus_source": bonus_source}
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


def require_begun(store: Folder, study: str) -> None:
    """Raise `MachineError` on a machine whose store has no copy of a study's file, so it is not the others'."""
    if not is_begun(store, study):
        raise MachineError(
            f"{socket.gethostname()} does not see the study {study} in {store.location}; use a store that all machines "
            "share"
        )


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


def _state(status: StoredStatus, finished: int, run: RunConfig) -> str:
    skip = run.world.frame_skip
    if finished // skip >= run.frames // skip:
        return "done"
    return "running" if status.state == "running" else "waiting"


def _read_quarantine(folder: Folder) -> tuple[str, str | None]:
    """Return why a run is quarantined, and the hash of its bonus's file then, where that is known."""
    try:
        values = documents.read(folder, layout.QUARANTINE) or {}
    except Damaged as error:
        return str(error), None
    return str(values.get("error", "")), values.get("bonus_source")
