"""Curves for TensorBoard: nothing that goes wrong with them stops a run or changes it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.utils.tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from offpiste.methods import base_run
from offpiste.rows import tagged
from offpiste.run import train as train_module
from offpiste.run.digest import digest
from offpiste.run.progress import Progress
from offpiste.run.tensorboard import settings_card, visits_map
from offpiste.run.train import train
from offpiste.store.storage import Folder
from offpiste.worlds.games import CELLS_PER_ROOM
from tests.run.test_train import tiny_run

SummaryWriter = torch.utils.tensorboard.SummaryWriter
NOTE = "TensorBoard curves stopped, training continues: "


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the run when all goes well."""
    folder = Folder(tmp_path_factory.mktemp("undisturbed"))
    last = train(tiny_run(), folder)
    assert (last.state, last.note) == ("finished", "")
    assert folder.local_path is not None
    assert list((folder.local_path / "tensorboard").iterdir())
    return digest(folder)


class Fails(SummaryWriter):
    """A writer whose disk is full at one of its methods."""

    where = ""

    def _fail(self, where: str) -> None:
        if self.where == where:
            raise OSError(28, "No space left on device")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._fail("open")
        super().__init__(*arguments, **options)

    def add_scalar(self, *arguments: Any, **options: Any) -> None:
        self._fail("add")
        super().add_scalar(*arguments, **options)

    def close(self) -> None:
        self._fail("close")
        super().close()


def trained(folder: Path, expected: str) -> list[Progress]:
    """Train, check that the run ends as if all had gone well, and return what was reported."""
    seen: list[Progress] = []
    seen.append(train(tiny_run(), Folder(folder), seen.append))
    assert seen[-1].state == "finished"
    assert digest(Folder(folder)) == expected
    return seen


@pytest.mark.parametrize("where", ["open", "add", "close"])
def test_a_writer_that_fails_is_closed_with_a_note_and_training_ends_the_same(
    where: str, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.utils.tensorboard, "SummaryWriter", Fails)
    monkeypatch.setattr(train_module, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(Fails, "where", where)
    seen = trained(tmp_path, undisturbed)
    note = f"{NOTE}OSError: [Errno 28] No space left on device"
    assert seen[-1].note == json.loads((tmp_path / "status.json").read_text())["note"] == note
    assert (note in [progress.note for progress in seen[:-1]]) == (where != "close")


def test_a_file_instead_of_the_folder_does_not_stop_training(undisturbed: str, tmp_path: Path) -> None:
    (tmp_path / "tensorboard").touch()
    assert trained(tmp_path, undisturbed)[-1].note.startswith(f"{NOTE}FileExistsError")


def test_a_link_instead_of_the_folder_is_not_followed(undisturbed: str, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").symlink_to(tmp_path / "ours")
    assert trained(tmp_path / "run", undisturbed)[-1].note.endswith(
        "tensorboard is a link, through which nothing is written"
    )
    assert not list((tmp_path / "ours").iterdir())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's own thread
@pytest.mark.parametrize("flush_seconds", [0, 120])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_is_removed_does_not_stop_training(
    flush_seconds: int, replaced: bool, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Removed(SummaryWriter):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options | {"flush_secs": flush_seconds})
            shutil.rmtree(tmp_path / "tensorboard")
            if replaced:
                (tmp_path / "tensorboard").touch()

    monkeypatch.setattr(torch.utils.tensorboard, "SummaryWriter", Removed)
    assert trained(tmp_path, undisturbed)[-1].note.startswith(NOTE)


def test_a_map_has_each_room_by_itself_and_the_visited_cells_bright() -> None:
    """Rooms 1 and 3, which lie side by side by number; the player's y grows upwards."""
    cells = {
        "cell": np.array([1 * CELLS_PER_ROOM, 3 * CELLS_PER_ROOM + 5]),
        "x": np.array([0, 8]),
        "y": np.array([0, 16]),
        "visits": np.array([1, 100]),
    }
    image = visits_map(cells, y_up=True)
    assert image.shape == (3 * 51, 5 * 51, 3)  # three rows and two columns of each room, one apart
    small = image[::51, ::51].max(axis=2)
    assert small[:, 2].max() < 10  # between the rooms
    lit = np.argwhere(small > 56)  # the ground is darker
    assert lit.tolist() == [[0, 4], [2, 0]]
    assert small[0, 4] > small[2, 0]


def test_a_map_of_one_coordinate_is_no_thin_line() -> None:
    cells = {"cell": np.arange(20), "y": 8 * np.arange(20), "visits": np.ones(20, np.int64)}
    assert visits_map(cells, y_up=False).shape == (20 * 12, 5 * 12, 3)


def test_the_settings_are_a_table_with_those_of_the_bonus_first() -> None:
    lines = settings_card(base_run("freeway", "cts")).splitlines()
    assert lines[:2] == ["| setting | value |", "|-|-|"]
    assert lines.index("| bonus.name | cts |") < lines.index("| world.frame_skip | 4 |")


def test_curves_have_the_names_that_other_libraries_give_them() -> None:
    window = {"end_step": 10, "value": 0.01}
    assert tagged("scalars", window | {"name": "intrinsic/mean"}) == {"bonus/log10_intrinsic_mean": -2.0}
    assert tagged("scalars", window | {"name": "intrinsic/mean", "value": 0.0}) == {}
    assert tagged("scalars", window | {"name": "bonus/predictor_loss"}) == {"bonus/predictor_loss": 0.01}
    episode = {"phase": "train", "game_return": 3.0, "steps": 7, "rooms_visited": None}
    assert tagged("episodes", episode) == {"charts/episodic_return": 3.0, "charts/episodic_length": 7}


def test_a_run_leaves_its_settings_curves_and_a_map_of_each_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpiste.rows.SCALAR_STEPS", 10)
    train(tiny_run(), Folder(tmp_path))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Tags()
    assert events["images"] == ["coverage/visits"]
    assert events["tensors"] == ["settings/text_summary"]
    assert {tag.partition("/")[0] for tag in events["scalars"]} >= {"charts", "losses", "coverage"}
