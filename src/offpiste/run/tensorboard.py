"""TensorBoard while training, where the run's folder is on a local disk: curves, the settings, and a map of visits.

They are a convenience beside the records, so a failure ends the curves and not the run.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import cv2
import numpy as np
from numpy.typing import NDArray

from offpiste.config import RunConfig, identity
from offpiste.errors import StoreError
from offpiste.rows import EpisodeRow, IterationRow, ScalarRow, tagged
from offpiste.run.coverage import Coverage
from offpiste.store.storage import Folder
from offpiste.worlds.games import CELLS_PER_ROOM
from offpiste.worlds.registry import find

_SIDE = 32
"""Cells of a room, across and down."""
_CELL_PIXELS = 6
_ROOMS_ACROSS = 6
_MAX_ROOMS = 36
"""On a map; later ones are left out."""
_DARKEST = 60
"""The shade of a single visit, of 255."""


class TensorBoard:
    """Writes curves over training frames, and maps; does nothing where the folder is not local."""

    def __init__(self, folder: Folder, config: RunConfig, start_step: int) -> None:
        """Open the event file; points of earlier attempts at or after `start_step` are hidden."""
        self.note = ""
        """Why no more curves are written, if so."""
        self._frame_skip = config.world.frame_skip
        self._location = find(config.game).location
        self._writer = None
        if folder.local_path is None:
            return
        with self._guard():
            from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is needed

            if folder.is_link("tensorboard"):
                raise StoreError("tensorboard is a link, through which nothing is written")
            step = start_step * self._frame_skip
            self._writer = SummaryWriter(str(folder.local_path / "tensorboard"), purge_step=step)
            self._writer.add_text("settings", settings_card(config), step)

    def add(self, table: str, row: EpisodeRow | IterationRow | ScalarRow) -> None:
        """Write the scalars of a row."""
        if self._writer is None:
            return
        with self._guard():
            for tag, value in tagged(table, dataclasses.asdict(row)).items():
                self._writer.add_scalar(tag, value, row.end_step * self._frame_skip)

    def add_map(self, coverage: Coverage, step: int) -> None:
        """Write a map of the visits so far, where the player is located."""
        if self._writer is None or self._location is None:
            return
        with self._guard():
            image = visits_map(coverage.cells(), y_up=self._location.y_up)
            self._writer.add_image("coverage/visits", image, step * self._frame_skip, dataformats="HWC")

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


def settings_card(config: RunConfig) -> str:
    """Return all settings of a run as a table in Markdown, those of its bonus first."""
    settings = identity(config)
    ordered = sorted(settings, key=lambda key: not key.startswith(("game", "method", "seed", "bonus.", "exploration.")))
    rows = (f"| {key} | {str(settings[key]).replace('|', chr(92) + '|')} |" for key in ordered)
    return "\n".join(["| setting | value |", "|-|-|", *rows])


def visits_map(cells: Mapping[str, NDArray[np.int64]], *, y_up: bool) -> NDArray[np.uint8]:
    """Return visits as an image [rows, columns, 3], brighter where more often: rooms in rows, by number."""
    rooms, index = np.unique(cells["cell"] // CELLS_PER_ROOM, return_inverse=True)
    across = min(_ROOMS_ACROSS, rooms.size)
    down = -(-min(rooms.size, _MAX_ROOMS) // across)
    counts = np.zeros((down * _SIDE, across * _SIDE))
    shown = index < _MAX_ROOMS
    nothing = np.zeros_like(cells["visits"])
    x, y = cells.get("x", nothing) // 8, cells.get("y", nothing) // 8
    y = _SIDE - 1 - y if y_up else y
    rows, columns = index // across * _SIDE + y, index % across * _SIDE + x
    np.add.at(counts, (rows[shown], columns[shown]), cells["visits"][shown])
    shades = np.log1p(counts) / np.log1p(max(1.0, counts.max()))
    levels = np.where(counts > 0, _DARKEST + (255 - _DARKEST) * shades, 0).astype(np.uint8)
    coloured = cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO)[:, :, ::-1]
    large = coloured.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)
    return np.ascontiguousarray(large, dtype=np.uint8)
