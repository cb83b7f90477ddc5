"""TensorBoard scalars while training, where the run's folder is on a local disk.

They are a convenience beside the records, so a failure ends the curves and not the run.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from offpiste.errors import StoreError
from offpiste.rows import EpisodeRow, IterationRow, ScalarRow
from offpiste.store.storage import Folder
from offpiste.store.tags import tagged


class TensorBoard:
    """Writes scalars over training frames; does nothing where the folder is not local."""

    def __init__(self, folder: Folder, frame_skip: int, start_step: int) -> None:
        """Open the event file; points of earlier attempts at or after `start_step` are hidden."""
        self.note = ""
        """Why no more curves are written, if so."""
        self._frame_skip = frame_skip
        self._writer = None
        if folder.local_path is None:
            return
        with self._guard():
            from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is needed

            if folder.is_link("tensorboard"):
                raise StoreError("tensorboard is a link, through which nothing is written")
            self._writer = SummaryWriter(str(folder.local_path / "tensorboard"), purge_step=start_step * frame_skip)

    def add(self, table: str, row: EpisodeRow | IterationRow | ScalarRow) -> None:
        """Write the scalars of a row."""
        if self._writer is None:
            return
        with self._guard():
            for tag, value in tagged(table, dataclasses.asdict(row)).items():
                self._writer.add_scalar(tag, value, row.end_step * self._frame_skip)

    def close(self) -> None:
        """Flush and close; may be called twice."""
        if self._writer is not None:
            with self._guard():
                self._writer.close()
        self._writer = None

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Stop writing curves on any error, also one from the writer's thread since the last call."""
        try:
            yield
        except Exception as error:
            self._writer = None
            self.note = f"TensorBoard curves stopped, training continues: {type(error).__name__}: {error}"
