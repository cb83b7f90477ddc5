"""How often a run was tried since its newest checkpoint, counted in its folder, so that all who try it know.

A run is quarantined after three failures in a row without a new checkpoint, or after ten attempts of any kind without
one: a machine that is lost counts as no failure, but a run may be what ends its machines.
"""

import json
from dataclasses import asdict, dataclass, replace

from offpiste.errors import ConfigError, Damaged
from offpiste.parsing import from_dict
from offpiste.rows import utc_now
from offpiste.store import documents, layout
from offpiste.store.attempts import this_process
from offpiste.store.manifests import manifest_names
from offpiste.store.storage import Folder

MAX_FAILURES = 3
MAX_ATTEMPTS = 10
FIRST_RETRY_SECONDS = 15.0
RETRY_FACTOR = 4.0


@dataclass(frozen=True)
class Tries:
    """Attempts at a run since its newest checkpoint."""

    manifest: str = ""
    """The name of that checkpoint's manifest; "" before the first."""
    attempts: int = 0
    failures: int = 0
    process: str = ""
    """The process that was last asked to try it, and when: what it has to load may take a while."""
    at: str = ""

    @property
    def in_vain(self) -> bool:
        """Whether the run is to be quarantined."""
        return self.failures >= MAX_FAILURES or self.attempts > MAX_ATTEMPTS

    @property
    def delay(self) -> float:
        """Seconds until the next attempt."""
        return FIRST_RETRY_SECONDS * RETRY_FACTOR ** (self.failures - 1) if self.failures else 0.0

    @property
    def soon(self) -> str:
        """When the next attempt begins, as a message says it."""
        return f"in {self.delay:.0f} s" if self.failures else "at once, since it had progressed"


def note_start(folder: Folder) -> None:
    """Note that this process is about to try the run, before that is counted."""
    _write(folder, replace(read_tries(folder), process=this_process(), at=utc_now()))


def count_attempt(folder: Folder) -> Tries:
    """Count an attempt that is about to begin."""
    manifest = newest_manifest(folder)
    before = read_tries(folder)
    if before.manifest != manifest:
        before = replace(before, manifest=manifest, attempts=0, failures=0)
    return _write(folder, replace(before, attempts=before.attempts + 1))


def uncount_attempt(folder: Folder) -> Tries:
    """Take back the count of an attempt that its machine could not make."""
    before = read_tries(folder)
    return _write(folder, replace(before, attempts=max(0, before.attempts - 1)))


def count_failure(folder: Folder) -> Tries:
    """Count an attempt that has failed, unless there is a newer checkpoint than when it was counted."""
    manifest, before = newest_manifest(folder), read_tries(folder)
    if before.manifest != manifest:
        return _write(folder, Tries(manifest))
    return _write(folder, Tries(manifest, before.attempts, before.failures + 1))


def check_writable(folder: Folder) -> None:
    """Raise StoreError if a failure of the run could not be counted now."""
    _write(folder, read_tries(folder))


def newest_manifest(folder: Folder) -> str:
    """Return the name of the newest manifest of a run, or ""."""
    return next(reversed(manifest_names(folder)), "")


def read_tries(folder: Folder) -> Tries:
    """Return how often a run was tried."""
    try:
        return from_dict(Tries, documents.read(folder, layout.TRIES) or {})
    except (Damaged, ConfigError):  # it only counts, and whoever tries next writes another
        return Tries()


def _write(folder: Folder, tries: Tries) -> Tries:
    folder.put(layout.TRIES, json.dumps(asdict(tries)).encode())
    return tries
