"""Marks: what one listing says of all runs of a study, without reading their folders.

studies/NAME/marks/KEY.done           the run is done
studies/NAME/marks/KEY.quarantined    the run is quarantined; both end with the hash of a bonus's file, if it has one
studies/NAME/marks/KEY.begun          a worker has begun the run; without it, others take it up later than they might
studies/NAME/marks/KEY.lease.WORKER   a worker has claimed the run (`offpiste.study.claims`)

KEY is a hash of all that decides whether a run is done: its settings, frames, RESULTS_VERSION and what the study keeps;
so a study whose file has changed finds no mark, and its folders are read. Run folders are the truth; marks are a cache
over them that may be deleted at any time, and must be if a run's folder is deleted by hand.
"""

import hashlib
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from offpiste.config import RESULTS_VERSION, RunConfig, identity
from offpiste.errors import StoreError
from offpiste.store import run_folder
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import Study
from offpiste.study.status import RunStatus

_ACCEPTED = "accepted"
_WRITERS = 32


@dataclass
class Listing:
    """The marks of a study at one moment, by key; times are the store's."""

    done: dict[str, dict[str, float]] = field(default_factory=dict)
    """When each was written, by what follows `done.` in its name."""
    quarantined: dict[str, set[str]] = field(default_factory=dict)
    """What follows `quarantined.` in the names."""
    begun: set[str] = field(default_factory=set)
    leases: dict[str, dict[str, float]] = field(default_factory=dict)
    """When each was written or renewed, by its worker."""


class Marks:
    """The marks of one study, as read and written by one that knows its runs."""

    def __init__(self, store: Folder, study: Study, *, accept_version: bool = False) -> None:
        self._folder = store.below(f"studies/{study.name}/marks")
        self._sources = study.bonus_sources
        self._bonuses = {run.run_id: run.bonus.name for run in study.runs}
        self._accept_version = accept_version
        self.keys = {run.run_id: key_of(run, study.keep) for run in study.runs}

    def read(self) -> Listing:
        """Return all marks, from one listing."""
        found = Listing()
        for name, stat in self._folder.stat().items():
            key, _, kind = name.partition(".")
            kind, _, of = kind.partition(".")
            if kind == "done":
                found.done.setdefault(key, {})[of] = stat.modified
            elif kind == "quarantined":
                found.quarantined.setdefault(key, set()).add(of)
            elif kind == "begun":
                found.begun.add(key)
            elif kind == "lease":
                found.leases.setdefault(key, {})[of] = stat.modified
        return found

    def done_at(self, run_id: str, seen: Listing) -> float | None:
        """Return when a run was marked done, or None.

        A run of a bonus whose file has changed since is not done; nor is one of another version that somebody accepted,
        unless this caller does.
        """
        marks = seen.done.get(self.keys[run_id], {})
        if marks and not self._accept_version:
            wanted = self._source(run_id)
            marks = {of: at for of, at in marks.items() if of == wanted or (wanted is None and of != _ACCEPTED)}
        return max(marks.values(), default=None)

    def marked_done(self) -> set[str]:
        """Return the runs that are marked done, from one listing."""
        seen = self.read()
        return {run_id for run_id in self.keys if self.done_at(run_id, seen) is not None}

    def is_quarantined(self, run_id: str, seen: Listing) -> bool:
        """Return whether a run was marked as quarantined, with the file that its bonus has now."""
        marks, wanted = seen.quarantined.get(self.keys[run_id], set()), self._source(run_id)
        return bool(marks) if wanted is None else wanted in marks

    def mark_done(self, *run_ids: str) -> None:
        """Mark runs as done, which their folders say already; a store that fails is no error, as marks are a cache."""

        def mark(run_id: str) -> None:
            of = _ACCEPTED if self._accept_version else self._source(run_id)
            with suppress(StoreError):
                self._folder.put(self._name(run_id, "done", of), run_id.encode())

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(mark, run_ids))

    def mark_quarantined(self, run_id: str) -> None:
        """Mark a run as quarantined, which its folder says already."""
        with suppress(StoreError):
            self._folder.put(self._name(run_id, "quarantined", self._source(run_id)), run_id.encode())

    def mark_begun(self, run_id: str) -> None:
        """Mark a run as begun, so that workers resume it before they begin others."""
        with suppress(StoreError):
            self._folder.put(self._name(run_id, "begun", None), run_id.encode())

    def unmark_begun(self, run_id: str, seen: Listing) -> None:
        """Delete the mark of a run that is to begin anew."""
        if self.keys[run_id] in seen.begun:
            self._folder.delete(self._name(run_id, "begun", None))

    def unmark_quarantined(self, run_id: str, seen: Listing) -> None:
        """Delete the marks of a run that is no longer quarantined."""
        for of in seen.quarantined.get(self.keys[run_id], ()):
            self._folder.delete(self._name(run_id, "quarantined", of))

    def unmark_done(self, run_id: str, seen: Listing) -> None:
        """Delete the marks of a run that is no longer done."""
        for of in seen.done.get(self.keys[run_id], ()):
            self._folder.delete(self._name(run_id, "done", of))

    def put_lease(self, run_id: str, worker: str) -> None:
        """Write or renew a worker's lease of a run."""
        self._folder.put(f"{self.keys[run_id]}.lease.{worker}", run_id.encode())

    def delete_lease(self, run_id: str, worker: str) -> None:
        """Delete a worker's lease of a run."""
        self._folder.delete(f"{self.keys[run_id]}.lease.{worker}")

    def _name(self, run_id: str, kind: str, of: str | None) -> str:
        return f"{self.keys[run_id]}.{kind}{f'.{of}' if of else ''}"

    def _source(self, run_id: str) -> str | None:
        """Return the hash of the file of a run's bonus: "" for a built-in one, None if the study was read without."""
        if self._sources is None:
            return None
        return (self._sources[self._bonuses[run_id]] or "")[:12]


def key_of(run: RunConfig, keep: str) -> str:
    """Return the key of a run in names of marks, whatever its name holds."""
    about = [identity(run), run.frames, RESULTS_VERSION, keep]
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=10).hexdigest()


def read_status(store: Folder, study: Study, *, accept_version: bool = False) -> list[RunStatus]:
    """Return the status of every run of a study: by its marks if these say done, else from its folder."""
    marks = Marks(store, study, accept_version=accept_version)
    seen, now = marks.read(), time.time()
    done_at = {run.run_id: marks.done_at(run.run_id, seen) for run in study.runs}
    rest = [run for run in study.runs if done_at[run.run_id] is None]
    found = status.read_all(store, rest, study.bonus_sources, accept_version=accept_version)
    by_id = {one.run_id: one for one in found}
    return [by_id.get(run.run_id) or _done(run, study.keep, now - (done_at[run.run_id] or now)) for run in study.runs]


def lift_quarantine(store: Folder, study: Study, run_ids: Iterable[str]) -> list[str]:
    """Let quarantined runs be tried again; return those that were quarantined."""
    wanted = list(run_ids)
    if not wanted:
        return []
    marks = Marks(store, study)
    seen, lifted = marks.read(), []
    for run_id in wanted:
        if status.lift_quarantine(store.below(run_id)):
            lifted.append(run_id)
        marks.unmark_quarantined(run_id, seen)  # after the folder, which is the truth
    return lifted


def discard(store: Folder, study: Study, run_ids: Iterable[str]) -> None:
    """Delete all that runs have left, marks included, so that they begin anew."""
    marks = Marks(store, study)
    seen = marks.read()
    for run_id in run_ids:
        run_folder.discard(store.below(run_id))
        marks.unmark_done(run_id, seen)
        marks.unmark_quarantined(run_id, seen)
        marks.unmark_begun(run_id, seen)


def _done(run: RunConfig, keep: str, age: float) -> RunStatus:
    return RunStatus(
        run_id=run.run_id,
        state="done",
        frames=run.frames,
        target_frames=run.frames,
        steps_per_second=None,
        seconds_left=None,
        seconds_since_news=max(0.0, age),
        note="",
        quarantined=False,
        only_results=keep == "results",
    )
