"""Films: what they show, in which forms they are written, and that watching changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageSequence

from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.run.train import train
from offpiste.run.video import frames_per_second, render_episodes, write_video
from offpiste.run.video_frame import HEIGHT, LEFT, MAP, ORANGE, PANEL_WIDTH, WIDTH, VideoFrame
from offpiste.store.storage import Folder

SIZE = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A short run of CTS in Deep Sea."""
    folder = Folder(str(tmp_path_factory.mktemp("run")))
    config = base_run(f"deep_sea_{SIZE}", "cts")
    train(from_dict(type(config), {"frames": 60}, base=config), folder)
    return folder


def blank(count: int) -> Iterator[VideoFrame]:
    return (np.full((HEIGHT, WIDTH, 3), 40 * number, np.uint8) for number in range(count))


def test_a_video_shows_every_step_of_the_episode(run: Folder) -> None:
    frames = list(render_episodes(run, steps=100, seed=0))
    assert len(frames) == SIZE + 1  # and one on the floor
    assert {frame.shape for frame in frames} == {(540, 960, 3)}
    rows = [int(np.nonzero((frame[:, : WIDTH - PANEL_WIDTH] == 255).all(axis=2).any(axis=1))[0][0]) for frame in frames]
    assert rows == sorted(rows)  # the diver sinks
    assert len(set(rows)) == SIZE + 1
    assert all(frame[:, WIDTH - PANEL_WIDTH :].any() for frame in frames)


def test_a_video_is_the_same_each_time_and_leaves_the_run_as_it_was(run: Folder) -> None:
    before = {name: run.get(name) for name in run.list()}
    one, two = (list(render_episodes(run, steps=3, seed=1)) for _ in range(2))
    assert len(one) == 3
    assert np.array_equal(one, two)
    assert {name: run.get(name) for name in run.list()} == before


def test_deep_sea_is_shown_slowly(run: Folder) -> None:
    assert frames_per_second(run) == 4


def test_an_mp4_holds_all_frames(tmp_path: Path) -> None:
    file = tmp_path / "videos" / "a.mp4"
    assert write_video(blank(5), file, 15) == 5
    reader = cv2.VideoCapture(str(file))
    assert reader.get(cv2.CAP_PROP_FRAME_COUNT) == 5
    assert reader.get(cv2.CAP_PROP_FPS) == 15
    codec = int(reader.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little")
    assert codec.lower() in (b"vp09", b"vp90", b"avc1", b"h264")  # browsers do not play mp4v


def test_an_mp4_is_vp9_where_there_is_no_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert write_video(blank(2), tmp_path / "a.mp4", 15) == 2
    reader = cv2.VideoCapture(str(tmp_path / "a.mp4"))
    codec = int(reader.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little")
    assert codec.lower() in (b"vp09", b"vp90")


def map_of(frame: VideoFrame) -> VideoFrame:
    return frame[MAP[0] + 24 :, LEFT:]


def test_the_map_fills_with_the_cells_of_the_episode_over_those_of_the_run(run: Folder) -> None:
    """The run visited all of the sea: 21 cells of its 6 by 6."""
    frames = list(render_episodes(run, steps=100, seed=0))
    side = 176 // (SIZE + 1)
    dim = [int((map_of(frame) == (62, 54, 48)).all(axis=2).sum()) for frame in (frames[0], frames[-1])]
    assert dim[0] - dim[1] == pytest.approx(SIZE * side**2, rel=0.05)
    player = [int((map_of(frame) == ORANGE).all(axis=2).sum()) for frame in frames]
    assert player == [pytest.approx(side**2, rel=0.1)] * len(frames)


def test_several_episodes_follow_one_another_and_the_bonus_goes_on_learning(run: Folder) -> None:
    one = list(render_episodes(run, steps=100, seed=0))
    two = list(render_episodes(run, steps=100, seed=0, episodes=2))
    assert len(two) == 2 * (SIZE + 1)
    assert np.array_equal(one, two[: len(one)])
    assert not np.array_equal(one[0], two[len(one)])  # the number of the episode


def test_a_gif_holds_all_frames_in_their_colours(run: Folder, tmp_path: Path) -> None:
    frames = list(render_episodes(run, steps=100, seed=0))
    file = tmp_path / "a.gif"
    assert write_video(iter(frames), file, 10) == len(frames)
    with Image.open(file) as animation:
        for written, frame in zip(ImageSequence.Iterator(animation), frames, strict=True):
            assert written.info["duration"] == 100
            shown = np.asarray(written.convert("RGB"), np.int64)[:, :, ::-1]
            assert np.abs(shown - frame).max() < 16


@pytest.mark.parametrize(("game", "is_high"), [("montezuma_revenge", True), ("freeway", False), ("seaquest", True)])
def test_the_map_has_the_player_where_the_screen_has_them(game: str, is_high: bool, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    config = base_run(game, "epsilon_greedy")
    train(from_dict(type(config), {"frames": 40}, base=config), folder)
    (frame,) = render_episodes(folder, steps=1, seed=0)
    shown = map_of(frame)
    is_orange = (shown == ORANGE).all(axis=2)  # the player's cell
    rows = np.nonzero((shown != (26, 22, 20)).any(axis=2))[0]
    assert (np.nonzero(is_orange)[0].mean() < (rows.min() + rows.max()) / 2) == is_high


def test_other_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a video must be \.mp4 or \.gif, got a\.avi"):
        write_video(blank(1), tmp_path / "a.avi", 15)


def test_a_run_without_a_bonus_has_a_video_too(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    config = base_run("deep_sea_3", "epsilon_greedy")
    assert config.bonus == BonusConfig()
    train(from_dict(type(config), {"frames": 30}, base=config), folder)
    assert len(list(render_episodes(folder, steps=100, seed=0))) == 4
