"""Curves: by iteration, and by the windows of scalars where iterations are few."""

import dataclasses

import numpy as np

from offpiste.analysis.curves import MAX_POINTS, cell_curves, return_curves
from offpiste.analysis.load import load
from offpiste.store.records import to_parquet
from offpiste.store.rows import ScalarRow
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run


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
    assert found.frames.size == MAX_POINTS
    assert found.values[0, :2].tolist() == [1.5, 3.5]  # of 1 and 2, of 3 and 4
