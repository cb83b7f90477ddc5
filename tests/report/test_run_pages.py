"""Pages of single runs: curves, intrinsic reward, maps, settings, command, and a video that lies beside the run."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.runs import Run
from offpiste.report.page import build
from offpiste.report.run_pages import intrinsic_panel, page_name
from offpiste.rows import ScalarRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import evidence_of, write_small_worlds
from tests.analysis.test_curves import write_thinned
from tests.report.test_page import Page
from tests.test_hero import visit


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    """One run with cells, scalars and evaluations."""
    store = Folder(tmp_path / "store")
    write_small_worlds(store, {("four_rooms", "cts"): [1.0]})
    name = "four_rooms/cts/seed-0"
    visit(store, name, (0, 8, 9), (1, 8, 3))
    rows = [ScalarRow(step, scalar, value) for step in (100, 200, 300) for scalar, value in SCALARS.items()]
    store.below(name).put("scalars.parquet", to_parquet("scalars", map(dataclasses.asdict, rows)))
    return store


SCALARS = {"intrinsic/mean": 0.01, "intrinsic/q05": 0.0, "intrinsic/q95": 0.1, "loss": 2.0, "return": 0.5}


def only_page(folder: Path) -> Path:
    (page,) = (folder / "runs").glob("*.html")
    return page


def test_a_run_has_a_page_with_all_there_is_of_it(store: Folder, tmp_path: Path) -> None:
    report = build(store, tmp_path / "report")
    file = only_page(report.page.parent)
    page = Page(file)
    for text in ("Four Rooms, CTS, seed 0", "Return", "Intrinsic reward", "Loss", "whole run", "4 of 4", "bonus.scale"):
        assert text in page.text
    assert "offpiste train --game four_rooms" in page.text
    assert "../index.html" in page.links
    assert f"runs/{file.name}" in Page(report.page).links


def test_where_windows_were_dropped_a_run_has_its_iterations_and_the_rewards_that_are_left(tmp_path: Path) -> None:
    store = Folder(tmp_path / "store")
    write_thinned(store, kept=5)
    page = only_page(build(store, tmp_path / "report").page.parent).read_text(encoding="utf-8")
    assert "The records of this run lack windows" in page
    assert "an episode at 400 frames: 500" in page
    assert "10,000 frames: 200" in page
    assert "2,000 frames: 0" not in page  # that of a window


def test_a_video_beside_the_run_is_copied_and_the_page_may_load_it_and_nothing_else(
    store: Folder, tmp_path: Path
) -> None:
    assert store.local_path is not None
    folder = store.local_path / "four_rooms/cts/seed-0"
    (folder / "episode.mp4").write_bytes(b"video")
    (folder / "a-link.mp4").symlink_to("/etc/hostname")
    report = build(store, tmp_path / "report")
    file = only_page(report.page.parent)
    copied = file.with_suffix(".mp4")
    assert copied.read_bytes() == b"video"
    assert f'src="{copied.name}"' in file.read_text()
    assert "default-src &#39;none&#39;" in file.read_text()
    assert "media-src" in file.read_text()
    assert "media-src" not in report.page.read_text()


def test_the_intrinsic_reward_is_on_a_scale_of_powers_of_ten_without_zeros(store: Folder) -> None:
    (run,) = evidence_of(store).runs
    frames = [100.0, 200.0]
    found = {"intrinsic/mean": (np.array(frames), np.array([0.01, 0.1]))}
    panel = intrinsic_panel(run, found)
    assert panel is not None
    assert [text for _, text in panel.y.ticks] == ["1e−2", "1e−1"]
    assert intrinsic_panel(run, {"intrinsic/mean": (np.array(frames), np.zeros(2))}) is None
    assert intrinsic_panel(run, {}) is None


def test_a_run_that_goes_on_is_drawn_to_its_last_window_and_not_beyond_the_panel(store: Folder) -> None:
    """Its iterations end at 1,200 frames, the windows at as many as are given."""
    (run,) = evidence_of(store).runs
    panel = intrinsic_panel(run, {"intrinsic/mean": (np.array([100.0, 99_000.0]), np.array([0.01, 0.1]))})
    assert panel is not None
    assert run.frames < panel.x.high == 99_000.0
    assert panel.x.ticks[-1][0] == 99_000.0
    episode = {"intrinsic/mean": (np.array([100.0, run.frames + 1.0]), np.array([0.01, 0.1]))}
    panel = intrinsic_panel(run, episode)
    assert panel is not None
    assert (panel.x.high, panel.x.ticks[-1][0]) == (run.frames + 1.0, run.frames)


def test_runs_of_a_store_beside_it_have_no_page(store: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    write_small_worlds(other, {("four_rooms", "rnd"): [1.0]})
    report = build(store, tmp_path / "report", beside=[other])
    assert "Four Rooms, CTS" in only_page(report.page.parent).read_text()
    assert "RND" in Page(report.page).text


def test_two_runs_never_share_a_page_whatever_they_are_called(store: Folder) -> None:
    (run,) = evidence_of(store).runs

    def named(name: str) -> Run:
        return dataclasses.replace(run, name=name)

    names = ["a/b-c", "a-b/c", "A/b-c", "../x", "x", "x" * 300, "x" * 301, "<script>"]
    pages = [page_name(named(name)) for name in names]
    assert len(set(pages)) == len(names)
    assert all(set(page) <= {*"abcdefghijklmnopqrstuvwxyz0123456789_-."} and len(page) < 100 for page in pages)


def test_runs_that_tune_have_no_page(tmp_path: Path) -> None:
    store = Folder(tmp_path / "store")
    write_run(store, config_of(variant="beta=3"), [1.0])
    report = build(store, tmp_path / "report")
    assert not (report.page.parent / "runs").exists()
