"""Run a study, or a part of it, on this machine, by processes of our own."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from offpiste.errors import ConfigError
from offpiste.run.stopping import stop_on_signals
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.driver import StudySummary, Terms, drive
from offpiste.study.parts import StudyPart
from offpiste.study.plan import Study
from offpiste.study.processes import Processes
from offpiste.study.resources import gpus_of_slot, max_needs_of, needs_text, slots_on, this_machine, visible_gpus


def file_hash(content: bytes) -> str:
    """Return the hash of a study's file."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def run_here(
    study: Study,
    content: bytes,
    location: str,
    log: Callable[[str], None],
    slots: int | None = None,
    *,
    accept_version: bool = False,
) -> StudySummary:
    """Start or resume a study on this machine; a copy of its file, `content`, goes into the store.

    An earlier request to stop it is withdrawn.
    """
    of_slots = _gpus_of_slots(study, slots, log)
    status.begin(Folder(location), study.name, content)
    return _drive(study, location, of_slots, log, Terms(accept_version=accept_version))


def run_part(
    study: Study,
    content: bytes | None,
    location: str,
    part: StudyPart,
    slots: int | None,
    terms: Terms,
    log: Callable[[str], None],
) -> StudySummary:
    """Run a part of a study here; without `content`, the copy of its file, the store has to have it already."""
    store = Folder(location)
    of_slots = _gpus_of_slots(study, slots, log)
    if content is None:
        status.require_begun(store, study.name)
    elif not status.is_begun(store, study.name):
        status.put_file(store, study.name, content)
    return _drive(replace(study, runs=tuple(part.of(study.runs))), location, of_slots, log, terms)


def _drive(
    study: Study, location: str, gpus: list[str | None], log: Callable[[str], None], terms: Terms
) -> StudySummary:
    with stop_on_signals() as stop:
        processes = Processes(gpus[: max(1, len(study.runs))])
        try:
            return drive(study, location, processes, log, stop, terms)
        finally:
            processes.close()


def _gpus_of_slots(study: Study, slots: int | None, log: Callable[[str], None]) -> list[str | None]:
    """Return the CUDA_VISIBLE_DEVICES of each slot: as many slots as runs fit on this machine, or as asked for."""
    if slots is not None and slots < 1:
        raise ConfigError(f"--slots must be >= 1, got {slots}")
    if slots is None:
        needs, machine = max_needs_of(study), this_machine()
        slots = slots_on(machine, needs)
        if not slots:
            raise ConfigError(
                f"this machine cannot hold a run: it has {needs_text(machine)}, and a run needs {needs_text(needs)}; "
                "set [resources] in the study, or give --slots"
            )
        slots = min(slots, len(study.runs))
        log(f"{slots} run{'s' * (slots != 1)} at once on this machine; processes take a while to start")
    gpus = visible_gpus()
    return [gpus_of_slot(slot, study.resources.gpus, gpus) for slot in range(slots)]
