"""Curves while training, for TensorBoard, where the run's folder is on a local disk."""

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


class Curves:
    """Writes scalars over agent steps of training; does nothing where the folder is not local."""

    def __init__(self, folder: Folder, start_step: int) -> None:
        """Open the curves; points at or after `start_step`, left by an earlier attempt, no longer show."""
        self._writer = None
        if folder.local_path is not None:
            from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is needed

            self._writer = SummaryWriter(str(folder.local_path / "tensorboard"), purge_step=start_step)

    def episode(self, row: EpisodeRow) -> None:
        """Draw one episode."""
        self._draw(f"{row.phase}_episode", row, _EPISODE)

    def iteration(self, row: IterationRow) -> None:
        """Draw one iteration."""
        self._draw(f"{row.phase}_iteration", row, _ITERATION)

    def close(self) -> None:
        """Write what is left and close."""
        if self._writer is not None:
            self._writer.close()

    def _draw(self, group: str, row: EpisodeRow | IterationRow, names: tuple[str, ...]) -> None:
        if self._writer is None:
            return
        for name in names:
            value = getattr(row, name)
            if value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, row.end_step)
