"""What one attempt at a run writes: records as they come, checkpoints, tables at its end, and the status."""

import dataclasses
import time
from collections.abc import Mapping

from offpiste import arrays
from offpiste.rows import LOGGED, AttemptRow, EpisodeRow, IterationRow, ScalarRow, TimingRow, utc_now
from offpiste.run.loop import Loop
from offpiste.run.process import slurm_job
from offpiste.run.progress import Progress
from offpiste.run.tensorboard import TensorBoard
from offpiste.run.tracker import Step
from offpiste.store import documents, layout
from offpiste.store.attempts import read_attempts, this_process
from offpiste.store.checkpoints import Checkpoints, Saved
from offpiste.store.documents import checksum
from offpiste.store.finished import mark_finished
from offpiste.store.records import RecordLog, cells_parquet, to_parquet
from offpiste.store.storage import Folder


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a checkpoint holds beside the state of the loop."""

    records: RecordLog
    milestones: tuple[str, ...] = ()
    """Keys of those that the store has."""
    from_checkpoint: bool = False
    """False for a run that begins."""
    note: str = ""
    """Why an older checkpoint had to be restored."""


class Writer:
    """Writes the records, checkpoints, tables and status of one attempt."""

    def __init__(
        self,
        folder: Folder,
        loop: Loop,
        checkpoints: Checkpoints,
        about: AttemptRow,
        identity: Mapping[str, str],
        restored: Restored,
    ) -> None:
        """Continue the records of a run with this identity; `about` describes the attempt."""
        self.attempt = about.attempt
        self.curves = TensorBoard(folder, loop.config, loop.tracker.training_steps)
        self._folder = folder
        self._loop = loop
        self._checkpoints = checkpoints
        self._host = about.host
        self._identity = identity
        self._records = restored.records
        self._milestones: dict[str, bytes | None] = dict.fromkeys(restored.milestones)
        """By key; None where the store has them."""
        self._saved_step = loop.tracker.all_steps if restored.from_checkpoint else -1
        self._tables: dict[str, str] | None = None
        """The checksum of each table, by file, once they were written."""
        self._iteration_start = self._window_start = (time.monotonic(), loop.tracker.training_steps)

    def record(self, step: Step) -> None:
        """Add the rows that a step completed to the records."""
        if step.episode is not None:
            self._add("episodes", step.episode)
        if step.scalars:
            self._record_scalars(step.scalars)
        if step.iteration is None:
            return
        self._add("iterations", step.iteration)
        if self._loop.tracker.phase != "train":
            return  # the iteration continues with its evaluation
        self.curves.add_map(self._loop.tracker.coverage, self._loop.tracker.training_steps)
        seconds, done, self._iteration_start = self._since(self._iteration_start)
        iteration = step.iteration.iteration
        self._records.add("timing", TimingRow(iteration, self.attempt, utc_now(), seconds, done, done / seconds))
        self._records.seal(iteration)
        if iteration in layout.MILESTONES:
            self._milestones[layout.milestone(iteration, "weights")] = arrays.pack(self._loop.agent.weights())
            if self._loop.bonus is not None:
                self._milestones[layout.milestone(iteration, "bonus")] = arrays.pack(self._loop.bonus.state())

    def save(self) -> None:
        """Write a checkpoint, unless this step already has one."""
        if self._saved_step == self._loop.tracker.all_steps:
            return
        save_checkpoint(self._checkpoints, self._loop, self._records, self._milestones)
        self._milestones = dict.fromkeys(self._milestones)  # the store has the bytes now
        self._saved_step = self._loop.tracker.all_steps

    def close_curves(self) -> None:
        """Write a last map, since an iteration may be long, and close the curves."""
        self.curves.add_map(self._loop.tracker.coverage, self._loop.tracker.training_steps)
        self.curves.close()

    def write_tables(self, finished_frames: int | None) -> None:
        """Write all tables, and the mark of a run that finished at so many frames."""
        rows = {table: self._records.rows(table) for table in LOGGED}
        partial = self._loop.tracker.partial_iteration()
        if partial is not None:
            rows["iterations"].append(dataclasses.asdict(partial))
        rows["attempts"] = read_attempts(self._folder, self._identity["run_id"])
        tables = {table: to_parquet(table, content) for table, content in rows.items()}
        tables["cells"] = cells_parquet(self._loop.tracker.coverage.cells())
        for table, data in tables.items():
            self._checkpoints.stop_if_superseded()
            self._folder.put(layout.table_file(table), data)
        self._tables = {layout.table_file(table): checksum(data) for table, data in tables.items()}
        if finished_frames is not None:
            self._checkpoints.stop_if_superseded()
            kept = {table: data for table, data in tables.items() if table != "attempts"}  # more attempts may follow
            steps = self._loop.tracker.all_steps
            mark_finished(self._folder, self._identity, finished_frames, self.attempt, steps, kept)

    def write_status(self, progress: Progress) -> None:
        """Write the status for whoever watches."""
        status = dataclasses.asdict(progress) | {"at": utc_now(), "attempt": self.attempt}
        status |= {} if self._tables is None else {"tables": self._tables}
        status |= {"host": self._host, "job": slurm_job(), "process": this_process(), **self._identity}
        self._checkpoints.stop_if_superseded()
        documents.write(self._folder, layout.STATUS, status)

    def _record_scalars(self, scalars: Mapping[str, float]) -> None:
        seconds, done, self._window_start = self._since(self._window_start)
        for name, value in {**scalars, "steps_per_second": done / seconds}.items():
            self._add("scalars", ScalarRow(self._loop.tracker.training_steps, name, value))

    def _add(self, table: str, row: EpisodeRow | IterationRow | ScalarRow) -> None:
        self._records.add(table, row)
        self.curves.add(table, row)

    def _since(self, start: tuple[float, int]) -> tuple[float, int, tuple[float, int]]:
        """Return the seconds and the training steps since (time, step), and (time, step) now."""
        now = (time.monotonic(), self._loop.tracker.training_steps)
        return now[0] - start[0], now[1] - start[1], now


def save_checkpoint(
    checkpoints: Checkpoints, loop: Loop, records: RecordLog, milestones: Mapping[str, bytes | None]
) -> Saved:
    """Write a checkpoint of a loop, its records and its milestones; the parts of the loop become objects by name."""
    mutable = {part: arrays.pack(value) for part, value in loop.state().items()}
    mutable[layout.RECORDS] = arrays.pack(records.state())
    immutable = loop.immutable() | records.immutable()
    immutable |= {key: lambda data=data: data for key, data in milestones.items()}  # type: ignore[misc]
    return checkpoints.save(loop.tracker.all_steps, mutable, immutable)
