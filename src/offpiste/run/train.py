"""Train one run with its records and checkpoints: what the command line and the engine call.

A run may be killed at any moment and resumed by the same call; its results are as if it had never been killed. A write
that fails is retried and does not stop training; only the last write of a process raises.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import torch

from offpiste import arrays
from offpiste.bonuses.registry import line_of, source_digest, source_file
from offpiste.config import RunConfig
from offpiste.errors import BonusError, CheckpointError, OffpisteError, StoreError, Superseded
from offpiste.rows import AttemptRow
from offpiste.run.loop import Loop
from offpiste.run.process import about_this_process, prepare
from offpiste.run.progress import Meter, Progress
from offpiste.run.stopping import StopSignal, stop_on_signals
from offpiste.run.writer import Restored, Writer
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.attempts import begin_attempt, describe_attempt, this_process, withdraw_attempt
from offpiste.store.checkpoints import Checkpoints, refuse_unfit
from offpiste.store.finished import finished_frames, refuse_results_only
from offpiste.store.identity import claim
from offpiste.store.records import RecordLog, read_records
from offpiste.store.storage import Folder

PROGRESS_SECONDS = 0.25
STATUS_SECONDS = 30.0
FIRST_RETRY_SECONDS = 15.0
LAST_TRIES = 4
"""Attempts at the last write of a process, before its failure is raised."""

ReportProgress = Callable[[Progress], None]


def train(
    config: RunConfig, folder: Folder, report: ReportProgress = lambda _: None, *, accept_version: bool = False
) -> Progress:
    """Train or resume the run in this folder, until its frames are done or a signal stops the process."""
    prepare(config.machine)
    with _blaming(config.bonus.name):
        loop = Loop(config)  # before anything is written: the game or the bonus may be unknown
    stored = claim(folder, config, source_digest(config.bonus.name), accept_version=accept_version)
    refuse_results_only(folder)
    with stop_on_signals() as stop_signal:
        about = _begin(folder, stored.run_id, about_this_process(config.machine))
        checkpoints = Checkpoints(folder, about.attempt, stored.identity)
        restored = _restore(folder, checkpoints, loop)
        about = dataclasses.replace(about, start_step=loop.tracker.training_steps, note=restored.note)
        describe_attempt(folder, about.attempt, _described(stored.run_id, about))
        writer = Writer(folder, loop, checkpoints, about, stored.identity, restored)
        meter = Meter(config, loop, restored.note)
        with closing(writer.curves):
            try:
                with _blaming(config.bonus.name):
                    return _run(loop, writer, meter, stop_signal, report)
            except Superseded:
                raise  # the status now belongs to the newer attempt
            except Exception as error:
                meter.note = str(error) if isinstance(error, OffpisteError) else repr(error)
                _try_status(writer, meter, "failed")
                raise


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Raise `BonusError`, with file and line, for an error that comes from the code of a bonus.

    Not for what may pass: too little memory, and what the system refuses.
    """
    try:
        yield
    except (OffpisteError, OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        file = None if name == "none" else source_file(name)
        line = line_of(error, file)
        if line is None:
            raise
        raise BonusError(f"the bonus {name} failed in {file}, line {line}: {type(error).__name__}: {error}") from error


def _begin(folder: Folder, run_id: str, about: AttemptRow) -> AttemptRow:
    """Register an attempt and return what describes it; refuse a run of which only the results are kept."""
    name = begin_attempt(folder, _described(run_id, about))
    try:
        refuse_results_only(folder)  # again, now that whoever deletes the replay sees this attempt
    except CheckpointError:
        withdraw_attempt(folder, name)
        raise
    return dataclasses.replace(about, attempt=name)


def _described(run_id: str, about: AttemptRow) -> dict[str, Any]:
    return {"run_id": run_id, "process": this_process(), **dataclasses.asdict(about)}


def _restore(folder: Folder, checkpoints: Checkpoints, loop: Loop) -> Restored:
    """Restore the newest checkpoint into the loop, and return what else it holds."""
    found = checkpoints.restore()
    if found is None:
        if (frames := finished_frames(folder.list())) > 0:
            raise CheckpointError(
                f"the run in {folder.location} was finished at {frames:,} frames, but its checkpoints are missing; "
                "restore them from a backup, or train it in another folder"
            )
        return Restored(RecordLog())
    objects = found.objects  # as large as the replay; freed when this function returns, before training
    with refuse_unfit(folder):
        state = {key: arrays.unpack(objects[key]) for key in layout.STATE if key in objects}
        loop.load_state(state, layout.of_kinds(objects, *layout.REPLAY_KINDS))
        records = read_records(objects)
    note = ""
    if found.broken:
        broken = "; ".join(found.broken)
        note = f"resumed from step {loop.tracker.training_steps:,}, since a newer checkpoint is broken: {broken}"
    return Restored(records, tuple(layout.of_kinds(objects, layout.MILESTONE)), from_checkpoint=True, note=note)


def _run(loop: Loop, writer: Writer, meter: Meter, stop_signal: StopSignal, report: ReportProgress) -> Progress:
    """Train to the end or until a signal, saving on the way and at last."""
    config = loop.config
    interval = 60.0 * config.machine.checkpoint_minutes
    interval *= stream(config.seed, f"jitter {config.run_id}").uniform(0.9, 1.1)
    retry = FIRST_RETRY_SECONDS
    now = time.monotonic()
    _try_status(writer, meter, "running")  # first of all: the checksums in an older one are not those of tables to come
    next_save, next_status, next_progress = now + interval, now + STATUS_SECONDS, now
    steps = loop.steps()
    while not meter.done and stop_signal.number is None:
        step = next(steps)
        writer.record(step)
        meter.count(step)
        now = time.monotonic()
        if now >= next_save:
            try:
                writer.save()
                next_save, retry, meter.note = time.monotonic() + interval, FIRST_RETRY_SECONDS, ""
            except StoreError as error:
                meter.note = f"checkpoint failed, next try in {retry:.0f} s: {error}"
                now = time.monotonic()  # the failure may have taken longer than the wait
                next_save, next_status, next_progress = now + retry, now, now
                retry = min(2 * retry, interval)
        if now >= next_progress:
            meter.mark(now)
            report(meter.progress("running", writer.curves.note))
            next_progress = now + PROGRESS_SECONDS
        if now >= next_status:
            _try_status(writer, meter, "running")
            next_status = now + STATUS_SECONDS
    state, finished = ("finished", meter.target_frames) if meter.done else ("paused", None)
    writer.close_curves()  # before the last status, whose note says if that failed
    for write in (
        writer.save,
        lambda: writer.write_tables(finished),
        lambda: writer.write_status(meter.progress(state, writer.curves.note)),
    ):
        _at_last(write, writer, meter, report)
    return meter.progress(state, writer.curves.note)


def _try_status(writer: Writer, meter: Meter, state: str) -> None:
    """Write the status; a failure is noted and does not stop training."""
    try:
        writer.write_status(meter.progress(state, writer.curves.note))
    except StoreError as error:
        meter.note = meter.note or f"status could not be written: {error}"


def _at_last(write: Callable[[], None], writer: Writer, meter: Meter, report: ReportProgress) -> None:
    note = meter.note
    for attempt in range(LAST_TRIES):
        try:
            write()
            meter.note = note
            return
        except StoreError as error:
            if attempt == LAST_TRIES - 1:
                raise
            meter.note = f"last write failed, retrying: {error}"
            report(meter.progress("running", writer.curves.note))
            time.sleep(2.0**attempt)
