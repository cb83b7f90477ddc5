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

_PIXELS = 256
"""Of the longer side of a map."""
_MAX_ASPECT = 4
"""Beyond which cells are stretched: where a game tells only one coordinate, a map would be a line."""
_UNVISITED = (35, 42, 56)
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
    """Return visits as an image [rows, columns, 3], brighter where more often: rooms in rows, by number.

    Of each room as much is shown as was visited in any.
    """
    rooms, index = np.unique(cells["cell"] // CELLS_PER_ROOM, return_inverse=True)
    across = min(_ROOMS_ACROSS, rooms.size)
    down = -(-min(rooms.size, _MAX_ROOMS) // across)
    shown = index < _MAX_ROOMS
    x, y = (cells[axis][shown] // 8 if axis in cells else np.zeros(shown.sum(), np.int64) for axis in ("x", "y"))
    x, y = x - x.min(), y.max() - y if y_up else y - y.min()
    wide, tall = int(x.max()) + 1, int(y.max()) + 1
    room = index[shown]
    counts = np.zeros((down * (tall + 1) - 1, across * (wide + 1) - 1))
    np.add.at(counts, (room // across * (tall + 1) + y, room % across * (wide + 1) + x), cells["visits"][shown])
    shades = np.log1p(counts) / np.log1p(max(1.0, counts.max()))
    levels = np.where(counts > 0, _DARKEST + (255 - _DARKEST) * shades, 0).astype(np.uint8)
    image = cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO)[:, :, ::-1].copy()
    within = np.ix_(np.arange(counts.shape[0]) % (tall + 1) < tall, np.arange(counts.shape[1]) % (wide + 1) < wide)
    image[within] = np.where(counts[within][..., None] > 0, image[within], _UNVISITED)
    rows, columns = counts.shape
    cell = max(1, _PIXELS // max(rows, columns))
    height, width = cell * max(1, columns // _MAX_ASPECT // rows), cell * max(1, rows // _MAX_ASPECT // columns)
    return np.ascontiguousarray(image.repeat(height, axis=0).repeat(width, axis=1), dtype=np.uint8)
