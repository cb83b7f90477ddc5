"""Curves: by iteration, and by the windows of scalars where iterations are few."""

import dataclasses

import numpy as np

from offpiste.analysis.curves import MAX_WINDOWS, Thinned, cell_curves, return_curves
from offpiste.analysis.results import load
from offpiste.config import ScheduleConfig
from offpiste.rows import ScalarRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, episode_rows, iteration_rows, write_run


def write_scalars(store: Folder, run: str, name: str, values: list[float], window: int) -> None:
    rows = [ScalarRow(window * number, name, value) for number, value in enumerate(values, 1)]
    store.below(run).put("scalars.parquet", to_parquet("scalars", map(dataclasses.asdict, rows)))


def test_a_run_of_few_iterations_is_drawn_by_windows(store: Folder) -> None:
    name = write_run(store, config_of("freeway", "rnd", 0), [1.0, 2.0])
    write_scalars(store, name, "return", [1.0, np.inf, 3.0], window=100)
    found = return_curves(load(store))["freeway", "rnd"]
    assert found.windows
    assert found.frames.tolist() == [400.0, 800.0, 1200.0]  # four frames a step
    np.testing.assert_array_equal(found.values, [[1.0, np.nan, 3.0]])


def test_a_run_of_many_iterations_is_drawn_by_them(store: Folder) -> None:
    name = write_run(store, config_of("freeway", "rnd", 0), [1.0] * 6)
    write_scalars(store, name, "return", [5.0] * 20, window=10)
    found = return_curves(load(store))["freeway", "rnd"]
    assert not found.windows
    assert found.values.tolist() == [[1.0] * 6]


def test_windows_are_averaged_into_a_few_dozen_points(store: Folder) -> None:
    name = write_run(store, config_of("freeway", "rnd", 0), [1.0])
    write_scalars(store, name, "cells", [float(number) for number in range(1, 101)], window=10)
    found = cell_curves(load(store))["freeway", "rnd"]
    assert found.frames.size == MAX_WINDOWS
    assert found.values[0, :2].tolist() == [2.0, 4.0]  # the cells at the end of each


def test_points_of_joined_windows_are_means_over_episodes(store: Folder) -> None:
    name = write_run(store, config_of("freeway", "rnd", 0), [1.0])
    rows = [
        ScalarRow(10 * window, scalar, value)
        for window in range(1, 101)
        for scalar, value in (("return", 100.0 * (window == 1)), ("episodes", 1.0 if window == 1 else 9.0))
    ]
    store.below(name).put("scalars.parquet", to_parquet("scalars", map(dataclasses.asdict, rows)))
    found = return_curves(load(store))["freeway", "rnd"]
    assert found.values[0, :2].tolist() == [10.0, 0.0]  # one episode of ten
    assert found.frames[:2].tolist() == [80.0, 160.0]


def write_thinned(store: Folder, kept: int, windows: float | None = None) -> None:
    """Write a run of ten windows of 250 steps, of which so many are there, and of three episodes, one of them there."""
    config = config_of("freeway", "rnd", 0, frames=10_000, schedule=ScheduleConfig(iteration_steps=2_500))
    name = write_run(store, config, [200.0])
    (row,) = iteration_rows([200.0])
    row = dataclasses.replace(row, steps=2_500, end_step=2_500, end_frame=10_000, episodes=3)
    store.below(name).put("iterations.parquet", to_parquet("iterations", [dataclasses.asdict(row)]))
    (episode,) = episode_rows([500.0])
    store.below(name).put("episodes.parquet", to_parquet("episodes", [dataclasses.asdict(episode)]))
    ends = [2_500 * number // kept for number in range(1, kept + 1)]
    rows = [ScalarRow(end, "return", 0.0) for end in ends]
    rows += [ScalarRow(end, "windows", windows) for end in ends if windows is not None]
    store.below(name).put("scalars.parquet", to_parquet("scalars", map(dataclasses.asdict, rows)))


def test_where_windows_were_dropped_iterations_are_drawn_and_the_rewarded_episodes_that_are_left(store: Folder) -> None:
    write_thinned(store, kept=5)
    found = return_curves(load(store))["freeway", "rnd"]
    assert not found.windows
    assert found.values.tolist() == [[200.0]]
    assert found.thinned == {
        "freeway/rnd/seed-0": Thinned(
            windows=(5, 10), episodes=(1, 3), returned=(500.0, 600.0), rewarded=((400, 500.0),)
        )
    }


def test_windows_that_stand_for_all_are_drawn_though_they_are_fewer(store: Folder) -> None:
    write_thinned(store, kept=5, windows=2.0)
    found = return_curves(load(store))["freeway", "rnd"]
    assert found.windows
    assert found.values.tolist() == [[0.0] * 5]
    assert not found.thinned
