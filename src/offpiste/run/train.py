"""Train one run with its records and checkpoints: what the command line and the engine call.

A run may be killed at any moment and resumed by the same call; its results are as if it had never been killed. A write
that fails is retried and does not stop training; only the last write of a process raises.
"""

import dataclasses
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from offpiste import arrays
from offpiste.bonuses.registry import source_digest
from offpiste.config import RunConfig
from offpiste.errors import CheckpointError, OffpisteError, StoreError, Superseded
from offpiste.rows import LOGGED, AttemptRow, EpisodeRow, IterationRow, ScalarRow, TimingRow, utc_now
from offpiste.run.blame import blaming
from offpiste.run.loop import Loop
from offpiste.run.process import about_this_process, prepare, slurm_job
from offpiste.run.stopping import StopSignal, stop_on_signals
from offpiste.run.tensorboard import TensorBoard
from offpiste.run.tracker import Step
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.attempts import begin_attempt, describe_attempt, read_attempts, withdraw_attempt
from offpiste.store.checkpoints import Checkpoints, Saved, refuse_unfit
from offpiste.store.documents import checksum, signed
from offpiste.store.process_id import this_process
from offpiste.store.records import RecordLog, cells_parquet, read_records, to_parquet
from offpiste.store.run_folder import (
    claim,
    finished_frames,
    mark_finished,
    refuse_results_only,
)
from offpiste.store.storage import Folder

PROGRESS_SECONDS = 0.25
STATUS_SECONDS = 30.0
FIRST_RETRY_SECONDS = 15.0
LAST_TRIES = 4
"""Attempts at the last write of a process, before its failure is raised."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    state: str
    """running, paused, finished or failed."""
    frames: int
    target_frames: int
    steps: int
    """Agent steps of training and evaluation together."""
    iteration: int
    episodes: int
    epsilon: float
    steps_per_second: float | None
    seconds_left: float | None
    """At the current rate; None without one, and during the warm-up, which is faster than learning."""
    learning: bool
    """False during the warm-up."""
    last_return: float | None
    mean_return: float | None
    """Over the last 100 training episodes of this process."""
    rooms: int | None
    cells: int | None
    note: str
    """A warning, for example that a checkpoint could not be written; mostly empty."""


@dataclass
class _Attempt:
    """One process at work on a run, from restoring to its last write."""

    config: RunConfig
    folder: Folder
    report: Callable[[Progress], None]
    loop: Loop
    records: RecordLog
    checkpoints: Checkpoints
    about: AttemptRow
    identity: Mapping[str, str]
    """Of the run; its status and marks repeat it."""
    curves: TensorBoard
    stop_signal: StopSignal
    note: str = ""
    kept: dict[str, bytes | None] = field(default_factory=dict)
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=120))
    tables: dict[str, str] | None = None
    """The checksum of each table, by file, once they were written."""
    saved_step: int = -1
    iteration_start: tuple[float, int] = (0.0, 0)
    window_start: tuple[float, int] = (0.0, 0)

    @property
    def target_steps(self) -> int:
        return self.config.frames // self.config.world.frame_skip

    @property
    def target_frames(self) -> int:
        """The frames asked for, or those that the run already has where these are more."""
        return max(self.config.frames, self.loop.tracker.counted_steps * self.config.world.frame_skip)

    def run(self) -> Progress:
        interval = 60.0 * self.config.machine.checkpoint_minutes
        interval *= stream(self.config.seed, f"jitter {self.config.run_id}").uniform(0.9, 1.1)
        retry = FIRST_RETRY_SECONDS
        now = time.monotonic()
        self.iteration_start = self.window_start = (now, self.loop.tracker.training_steps)
        self.write_status("running")  # first of all: the checksums in an older one are not those of tables to come
        next_save, next_status, next_progress = now + interval, now + STATUS_SECONDS, now
        steps = self.loop.steps()
        learning = self.loop.learning
        while self.loop.tracker.counted_steps < self.target_steps and self.stop_signal.number is None:
            self._record(next(steps))
            now = time.monotonic()
            if now >= next_save:
                try:
                    self.save()
                    next_save, retry, self.note = time.monotonic() + interval, FIRST_RETRY_SECONDS, ""
                except StoreError as error:
                    self.note = f"checkpoint failed, next try in {retry:.0f} s: {error}"
                    now = time.monotonic()  # the failure may have taken longer than the wait
                    next_save, next_status, next_progress = now + retry, now, now
                    retry = min(2 * retry, interval)
            if now >= next_progress:
                if self.loop.learning != learning:
                    learning = self.loop.learning
                    self.marks.clear()  # the warm-up is faster, so its rate would promise too much
                self.marks.append((now, self.loop.tracker.training_steps))
                self.report(self.progress("running"))
                next_progress = now + PROGRESS_SECONDS
            if now >= next_status:
                self.write_status("running")
                next_status = now + STATUS_SECONDS
        finished = self.loop.tracker.counted_steps >= self.target_steps
        self.curves.close()  # before the last status, whose note says if that failed
        self._at_last(self.save)
        self._at_last(lambda: self._write_tables(finished=finished))
        state = "finished" if finished else "paused"
        self._at_last(lambda: self._put_status(state))
        return self.progress(state)

    def save(self) -> None:
        """Write a checkpoint, unless this step already has one."""
        if self.saved_step == self.loop.tracker.all_steps:
            return
        save_checkpoint(self.checkpoints, self.loop, self.records, self.kept)
        self.kept = dict.fromkeys(self.kept)  # the store has the bytes now
        self.saved_step = self.loop.tracker.all_steps

    def progress(self, state: str) -> Progress:
        rate = self._rate()
        skip = self.config.world.frame_skip
        left = max(0, self.target_steps - self.loop.tracker.counted_steps)
        learning = self.loop.learning
        totals = self.loop.tracker.coverage.totals()
        return Progress(
            state=state,
            frames=self.loop.tracker.counted_steps * skip,
            target_frames=self.target_frames,
            steps=self.loop.tracker.all_steps,
            iteration=self.loop.tracker.iteration,
            episodes=self.loop.tracker.episodes["train"],
            epsilon=self.loop.tracker.epsilon(self.loop.tracker.training_steps),
            steps_per_second=rate,
            seconds_left=left / rate if rate and learning and state == "running" else None,
            learning=learning,
            last_return=self.returns[-1] if self.returns else None,
            mean_return=sum(self.returns) / len(self.returns) if self.returns else None,
            rooms=totals["rooms_total"],
            cells=totals["cells_total"],
            note="; ".join(filter(None, (self.note, self.curves.note))),
        )

    def write_status(self, state: str) -> None:
        """Write the status for whoever watches; a failure is noted and does not stop training."""
        try:
            self._put_status(state)
        except StoreError as error:
            self.note = self.note or f"status could not be written: {error}"

    def _put_status(self, state: str) -> None:
        status = dataclasses.asdict(self.progress(state)) | {"at": utc_now(), "attempt": self.about.attempt}
        status |= {} if self.tables is None else {"tables": self.tables}
        status |= {"host": self.about.host, "job": slurm_job(), "process": this_process(), **self.identity}
        self.checkpoints.stop_if_superseded()
        self.folder.put(layout.STATUS, json.dumps(signed(status)).encode())

    def _record(self, step: Step) -> None:
        if step.episode is not None:
            self._add("episodes", step.episode)
            if step.episode.phase == "train":
                self.returns.append(step.episode.game_return)
        if step.scalars:
            self._record_scalars(step.scalars)
        if step.iteration is None:
            return
        self._add("iterations", step.iteration)
        if self.loop.tracker.phase == "evaluation":
            return  # the iteration continues with its evaluation
        seconds, done, self.iteration_start = self._since(self.iteration_start)
        iteration = step.iteration.iteration
        self.records.add("timing", TimingRow(iteration, self.about.attempt, utc_now(), seconds, done, done / seconds))
        self.records.seal(iteration)
        if iteration in layout.MILESTONES:
            self.kept[layout.milestone(iteration, "weights")] = arrays.pack(self.loop.agent.weights())
            if self.loop.bonus is not None:
                self.kept[layout.milestone(iteration, "bonus")] = arrays.pack(self.loop.bonus.state())

    def _record_scalars(self, scalars: Mapping[str, float]) -> None:
        seconds, done, self.window_start = self._since(self.window_start)
        for name, value in {**scalars, "steps_per_second": done / seconds}.items():
            self._add("scalars", ScalarRow(self.loop.tracker.training_steps, name, value))

    def _add(self, table: str, row: EpisodeRow | IterationRow | ScalarRow) -> None:
        self.records.add(table, row)
        self.curves.add(table, row)

    def _since(self, start: tuple[float, int]) -> tuple[float, int, tuple[float, int]]:
        """Return the seconds and the training steps since (time, step), and (time, step) now."""
        now = (time.monotonic(), self.loop.tracker.training_steps)
        return now[0] - start[0], now[1] - start[1], now

    def _write_tables(self, *, finished: bool) -> None:
        rows = {table: self.records.rows(table) for table in LOGGED}
        partial = self.loop.tracker.partial_iteration()
        if partial is not None:
            rows["iterations"].append(dataclasses.asdict(partial))
        rows["attempts"] = read_attempts(self.folder, self.identity["run_id"])
        tables = {table: to_parquet(table, content) for table, content in rows.items()}
        tables["cells"] = cells_parquet(self.loop.tracker.coverage.cells())
        for table, data in tables.items():
            self.checkpoints.stop_if_superseded()
            self.folder.put(layout.table_file(table), data)
        self.tables = {layout.table_file(table): checksum(data) for table, data in tables.items()}
        if finished:
            self.checkpoints.stop_if_superseded()
            kept = {table: data for table, data in tables.items() if table != "attempts"}  # more attempts may follow
            steps = self.loop.tracker.all_steps
            mark_finished(self.folder, self.identity, self.target_frames, self.about.attempt, steps, kept)

    def _at_last(self, write: Callable[[], None]) -> None:
        note = self.note
        for attempt in range(LAST_TRIES):
            try:
                write()
                self.note = note
                return
            except StoreError as error:
                if attempt == LAST_TRIES - 1:
                    raise
                self.note = f"last write failed, retrying: {error}"
                self.report(self.progress("running"))
                time.sleep(2.0**attempt)

    def _rate(self) -> float | None:
        (first_time, first), (last_time, last) = (self.marks[0], self.marks[-1]) if self.marks else ((0, 0), (0, 0))
        return (last - first) / (last_time - first_time) if last_time > first_time else None


def train(
    config: RunConfig,
    folder: Folder,
    report: Callable[[Progress], None] = lambda _: None,
    *,
    accept_version: bool = False,
) -> Progress:
    """Train or resume the run in this folder, until its frames are done or a signal stops the process."""
    prepare(config.machine)
    with blaming(config.bonus.name):
        loop = Loop(config)  # before anything is written: the game or the bonus may be unknown
    stored = claim(folder, config, source_digest(config.bonus.name), accept_version=accept_version)
    refuse_results_only(folder)
    with stop_on_signals() as stop_signal:
        about = about_this_process(config.machine)
        name = begin_attempt(folder, {"run_id": stored.run_id, "process": this_process(), **dataclasses.asdict(about)})
        try:
            refuse_results_only(folder)  # again, now that whoever deletes the replay sees this attempt
        except CheckpointError:
            withdraw_attempt(folder, name)
            raise
        checkpoints = Checkpoints(folder, name, stored.identity)
        records, kept, note = _restore(folder, checkpoints, loop)
        about = dataclasses.replace(about, attempt=name, start_step=loop.tracker.training_steps, note=note)
        describe_attempt(
            folder, name, {"run_id": stored.run_id, "process": this_process(), **dataclasses.asdict(about)}
        )
        curves = TensorBoard(folder, config.world.frame_skip, loop.tracker.training_steps)
        attempt = _Attempt(
            config,
            folder,
            report,
            loop,
            records,
            checkpoints,
            about,
            stored.identity,
            curves,
            stop_signal,
            note=note,
            kept=kept or {},
        )
        attempt.saved_step = loop.tracker.all_steps if kept is not None else -1
        try:
            with blaming(config.bonus.name):
                return attempt.run()
        except Superseded:
            raise  # the status now belongs to the newer attempt
        except Exception as error:
            attempt.note = str(error) if isinstance(error, OffpisteError) else repr(error)
            attempt.write_status("failed")
            raise
        finally:
            curves.close()


def save_checkpoint(
    checkpoints: Checkpoints, loop: Loop, records: RecordLog, kept: Mapping[str, bytes | None]
) -> Saved:
    """Write a checkpoint of a loop, its records, and milestones that are kept; return what was written."""
    mutable = {key: arrays.pack(value) for key, value in loop.state().items()}
    mutable[layout.RECORDS] = arrays.pack(records.state())
    immutable = loop.immutable() | records.immutable()
    immutable |= {key: lambda data=data: data for key, data in kept.items()}  # type: ignore[misc]
    return checkpoints.save(loop.tracker.all_steps, mutable, immutable)


def _restore(
    folder: Folder, checkpoints: Checkpoints, loop: Loop
) -> tuple[RecordLog, dict[str, bytes | None] | None, str]:
    """Restore the newest checkpoint; return its records, the keys of its milestones (None without one), and a note."""
    restored = checkpoints.restore()
    if restored is None:
        if (frames := finished_frames(folder.list())) > 0:
            raise CheckpointError(
                f"the run in {folder.location} was finished at {frames:,} frames, but its checkpoints are missing; "
                "restore them from a backup, or train it in another folder"
            )
        return RecordLog(), None, ""
    objects = restored.objects  # as large as the replay; freed when this function returns, before training
    with refuse_unfit(folder):
        state = {key: arrays.unpack(objects[key]) for key in layout.STATE if key in objects}
        loop.load_state(state, layout.of_kinds(objects, *layout.REPLAY_KINDS))
        records = read_records(objects)
    note = ""
    if restored.broken:
        broken = "; ".join(restored.broken)
        note = f"resumed from step {loop.tracker.training_steps:,}, since a newer checkpoint is broken: {broken}"
    return records, dict.fromkeys(layout.of_kinds(objects, layout.MILESTONE)), note
