"""Curves while training, for TensorBoard, where the run's folder is on a local disk.

They are for looking at and in no record, so whatever goes wrong with them ends them and not the run.
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
        """Open the curves; points at or after `start_step`, left by an earlier attempt, no longer show."""
        self.note = ""
        """What went wrong, if anything did."""
        self._writer = None
        if folder.local_path is None:
            return
        with self._guard():
            from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is needed

            self._writer = SummaryWriter(str(folder.local_path / "tensorboard"), purge_step=start_step)

    def episode(self, row: EpisodeRow) -> None:
        """Draw one episode."""
        self._draw(f"{row.phase}_episode", row, _EPISODE)

    def iteration(self, row: IterationRow) -> None:
        """Draw one iteration."""
        self._draw(f"{row.phase}_iteration", row, _ITERATION)

    def close(self) -> None:
        """Write what is left and close; closing twice does no harm."""
        if self._writer is not None:
            with self._guard():
                self._writer.close()
        self._writer = None

    def _draw(self, group: str, row: EpisodeRow | IterationRow, names: tuple[str, ...]) -> None:
        if self._writer is None:
            return
        with self._guard():
            for name in names:
                value = getattr(row, name)
                if value is not None:
                    self._writer.add_scalar(f"{group}/{name}", value, row.end_step)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Give up the curves if anything fails: also what a thread of the writer's met since the last call."""
        try:
            yield
        except Exception as error:
            self._writer = None
            self.note = (
                f"no more curves are written for TensorBoard; training continues: {type(error).__name__}: {error}"
            )
