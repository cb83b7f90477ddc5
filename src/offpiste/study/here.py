"""Run a study on this machine, or work on a part of it, by processes of our own."""

import socket
from collections.abc import Callable
from dataclasses import replace

from offpiste.errors import ConfigError, StoreError
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.driver import StudySummary
from offpiste.study.plan import Study
from offpiste.study.resources import max_needs_of, needs_text, slots_on, this_machine
from offpiste.study.worker import Reason, Terms, work


def run_here(
    study: Study,
    content: bytes,
    location: str,
    log: Callable[[str], None],
    slots: int | None = None,
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Start or resume a study on this machine; a copy of its file, `content`, goes into the store."""
    store = Folder(location)
    status.begin(store, study.name, content)
    terms = _with_slots(Terms(slots, alone=True, accept_version=accept_version), study, log)
    return work(study, store, location, terms, log)[0]


def run_worker(
    study: Study, content: bytes | None, location: str, terms: Terms, log: Callable[[str], None]
) -> tuple[StudySummary, Reason]:
    """Work on a study; without `content`, the copy of its file, the store has to have it already."""
    store = Folder(location)
    if status.stop_requested(store, study.name):
        return StudySummary(0, 0, len(study.runs)), "the study was asked to stop"
    if not status.is_begun(store, study.name):
        if content is None:
            raise StoreError(
                f"{socket.gethostname()} does not see the study {study.name} in {store.location}; use a store that all "
                "machines share"
            )
        status.put_file(store, study.name, content)
    return work(study, store, location, _with_slots(terms, study, log), log)


def _with_slots(terms: Terms, study: Study, log: Callable[[str], None]) -> Terms:
    """Return the terms with as many slots as runs fit on this machine, if they say nothing else."""
    if terms.slots is not None:
        if terms.slots < 1:
            raise ConfigError(f"--slots must be >= 1, got {terms.slots}")
        return terms
    needs, machine = max_needs_of(study), this_machine()
    slots = slots_on(machine, needs)
    if not slots:
        raise ConfigError(
            f"this machine cannot hold a run: it has {needs_text(machine)}, and a run needs {needs_text(needs)}; set "
            "[resources] in the study, or give --slots"
        )
    slots = min(slots, len(study.runs))
    log(f"{slots} run{'s' * (slots != 1)} at once on this machine; processes take a while to start")
    return replace(terms, slots=slots)
