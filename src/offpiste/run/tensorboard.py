"""TensorBoard scalars while training, where the run's folder is on a local disk.

They are a convenience beside the records, so a failure ends the curves and not the run.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from offpiste.store.records import EpisodeRow, IterationRow
from offpiste.store.storage import Folder

_EPISODE = ("game_return", "steps", "rooms_visited", "cells_new", "bonus_sum")
_ITERATION = (
    "return_mean",
    "epsilon",
    "loss_mean",
    "greatest_q_mean",
    "target_mass_low",
    "target_mass_high",
    "rooms_total",
    "cells_total",
    "bonus_mean",
    "clipped_share",
)


class TensorBoard:
    """Writes scalars over agent steps of training; does nothing where the folder is not local."""

    def __init__(self, folder: Folder, start_step: int) -> None:
        """Open the event file; points of earlier attempts at or after `start_step` are hidden."""
        self.note = ""
        """Why no more curves are written, if so."""
        self._writer = None
        if folder.local_path is None:
            return
        with self._guard():
            from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is needed

            self._writer = SummaryWriter(str(folder.local_path / "tensorboard"), purge_step=start_step)

    def episode(self, row: EpisodeRow) -> None:
        """Write the scalars of an episode."""
        self._write(f"{row.phase}_episode", row, _EPISODE)

    def iteration(self, row: IterationRow) -> None:
        """Write the scalars of an iteration."""
        self._write(f"{row.phase}_iteration", row, _ITERATION)

    def close(self) -> None:
        """Flush and close; may be called twice."""
        if self._writer is not None:
            with self._guard():
                self._writer.close()
        self._writer = None

    def _write(self, group: str, row: EpisodeRow | IterationRow, names: tuple[str, ...]) -> None:
        if self._writer is None:
            return
        with self._guard():
            for name in names:
                value = getattr(row, name)
                if value is not None:
                    self._writer.add_scalar(f"{group}/{name}", value, row.end_step)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Stop writing curves on any error, also one from the writer's thread since the last call."""
        try:
            yield
        except Exception as error:
            self._writer = None
            self.note = f"TensorBoard curves stopped, training continues: {type(error).__name__}: {error}"
