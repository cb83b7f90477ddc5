"""Marks: one listing says which runs of a study are done, without reading their folders.

studies/NAME/marks/KEY.done    the run is done; ends with the hash of a bonus's file, if it has one

KEY is a hash of all that decides whether a run is done: its settings, frames, RESULTS_VERSION and what the study keeps;
so a study whose file has changed finds no mark, and its folders are read. Run folders are the truth; marks are a cache
over them that may be deleted at any time, and must be if a run's folder is deleted by hand. A mark may also stand for a
run that lies in a bundle instead (scripts/which_beta.py).
"""

import hashlib
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from offpiste.config import RESULTS_VERSION, RunConfig, identity
from offpiste.errors import StoreError
from offpiste.store import attempts
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import Study
from offpiste.study.status import RunStatus

_ACCEPTED = "accepted"
_WRITERS = 32


class Marks:
    """The marks of one study, as read and written by one that knows its runs."""

    def __init__(self, store: Folder, study: Study, *, accept_version: bool = False) -> None:
        self._folder = store.below(f"studies/{study.name}/marks")
        self._study, self._accept_version = study, accept_version
        self._runs = {run.run_id: run for run in study.runs}

    def done(self) -> dict[str, float]:
        """Return when each run was marked done, from one listing, by the store's clock.

        A run of a bonus whose file has changed since is not done; nor is one of another version that somebody accepted,
        unless this caller does.
        """
        found: dict[str, float] = {}
        listed = self._folder.stat()
        runs = {key_of(run, self._study.keep): run for run in self._study.runs} if listed else {}
        for name, stat in listed.items():
            key, done, of = name.partition(".done")
            if done and key in runs and self._counts(runs[key], of.removeprefix(".")):
                run_id = runs[key].run_id
                found[run_id] = max(stat.modified, found.get(run_id, 0.0))
        return found

    def mark_done(self, *run_ids: str) -> None:
        """Mark runs as done, which their folders say already; a store that fails is no error, as marks are a cache."""

        def mark(run_id: str) -> None:
            of = _ACCEPTED if self._accept_version else self._source(self._runs[run_id])
            with suppress(StoreError):
                self._folder.put(f"{self._key(run_id)}.done{f'.{of}' if of else ''}", run_id.encode())

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(mark, run_ids))

    def unmark_done(self, run_ids: Iterable[str]) -> None:
        """Delete the marks of runs that are no longer done."""
        keys = {self._key(run_id) for run_id in run_ids}
        for name in self._folder.stat():
            if name.partition(".")[0] in keys:
                self._folder.delete(name)

    def _key(self, run_id: str) -> str:
        return key_of(self._runs[run_id], self._study.keep)

    def _counts(self, run: RunConfig, of: str) -> bool:
        """Return whether a mark of this bonus's file counts."""
        if self._accept_version:
            return True
        wanted = self._source(run)
        return of == wanted or (wanted is None and of != _ACCEPTED)

    def _source(self, run: RunConfig) -> str | None:
        """Return the hash of the file of a run's bonus: "" for a built-in one, None if the study was read without."""
        sources = self._study.bonus_sources
        return None if sources is None else (sources[run.bonus.name] or "")[:12]


def key_of(run: RunConfig, keep: str) -> str:
    """Return the key of a run in names of marks, whatever its name holds."""
    about = [identity(run), run.frames, RESULTS_VERSION, keep]
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=10).hexdigest()


def read_status(store: Folder, study: Study, *, accept_version: bool = False) -> list[RunStatus]:
    """Return the status of every run of a study: by its marks if these say done, else from its folder."""
    done, now = Marks(store, study, accept_version=accept_version).done(), time.time()
    rest = [run for run in study.runs if run.run_id not in done]
    found = status.read_all(store, rest, study.bonus_sources, accept_version=accept_version)
    by_id = {one.run_id: one for one in found}
    for run in study.runs:
        if run.run_id in done:
            age, dropped = max(0.0, now - done[run.run_id]), study.keep == "results"
            by_id[run.run_id] = RunStatus(
                run.run_id, "done", run.frames, run.frames, seconds_since_news=age, only_results=dropped
            )
    return [by_id[run.run_id] for run in study.runs]


def discard(store: Folder, study: Study, run_ids: Iterable[str]) -> None:
    """Delete all that runs have left, marks included, so that they begin anew."""
    names = list(run_ids)
    for run_id in names:
        attempts.discard(store.below(run_id))
    Marks(store, study).unmark_done(names)
