"""The first picture of README and the docs: maps of visits, drawn from the results."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.results import load
from offpiste.analysis.visits import ground
from offpiste.rows import CellRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from scripts import hero
from tests.analysis import fake_worlds
from tests.analysis.small_study import write_small_worlds

SCORES = {
    ("four_rooms", "epsilon_greedy"): [0.0, 0.25, 0.5],
    ("four_rooms", "cts"): [1.0, 0.75, 1.0],
}


def visit(store: Folder, run: str, *visits: tuple[int, int, int]) -> None:
    """Give a run visits of cells, as column, row and number."""
    rows = [CellRow(0, 8 * x, 8 * y, number, 1, count) for number, (x, y, count) in enumerate(visits)]
    store.below(run).put("cells.parquet", to_parquet("cells", map(dataclasses.asdict, rows)))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Two methods in one world; seed 0 has no cells under one of them."""
    fake_worlds.use(monkeypatch)
    store = Folder(tmp_path / "store")
    write_small_worlds(store, SCORES)
    for seed, visits in enumerate([[(0, 8, 9)], [(0, 8, 5), (1, 8, 1)], [(0, 8, 2)]]):
        visit(store, f"four_rooms/epsilon_greedy/seed-{seed}", *visits)
    for seed in (1, 2):
        visit(store, f"four_rooms/cts/seed-{seed}", (8, 1, seed))
    return store


def test_a_map_adds_up_the_visits_of_the_seeds_that_every_map_has(store: Folder) -> None:
    read = hero.read(load(store), ["four_rooms"], ["epsilon_greedy", "cts"])
    assert [each.visits for each in read.maps] == [{(0, 8): 7, (1, 8): 1}, {(8, 1): 3}]
    assert read.seeds == (1, 2)


def test_a_score_is_the_mean_of_all_seeds(store: Folder) -> None:
    read = hero.read(load(store), ["four_rooms"], ["epsilon_greedy", "cts"])
    assert [each.score for each in read.maps] == [pytest.approx(0.25), pytest.approx(2.75 / 3)]
    assert read.score_seeds == 3
    assert "(seeds 1–2 together" in hero.caption(read)
    assert "mean scores of 3 seeds" in hero.caption(read)


def test_a_picture_says_what_it_was_drawn_from(store: Folder, tmp_path: Path) -> None:
    read = hero.read(load(store), ["four_rooms"], ["epsilon_greedy", "cts"])
    file = tmp_path / "hero.png"
    assert hero.source_of(file) is None
    hero.draw(read, "light", file)
    assert hero.source_of(file) == read.source
    fewer = dataclasses.replace(read.maps[0], visits={(0, 8): 7})
    assert dataclasses.replace(read, maps=(fewer, read.maps[1])).source != read.source


@pytest.mark.parametrize(
    ("game", "cells", "goal"),
    [("deep_sea_12", 13 * 14 // 2, (12, 12)), ("four_rooms", 81 - 17 + 4 - 1, (0, 8)), ("key_door", 29, (2, 10))],
)
def test_the_ground_is_what_can_be_visited_and_the_goal(game: str, cells: int, goal: tuple[int, int]) -> None:
    known = ground(game)
    assert known is not None
    free, found = known
    assert int(np.count_nonzero(free)) == cells  # of the four rooms all but walls and the coin, which sends back
    assert found == goal
    assert free[goal]
