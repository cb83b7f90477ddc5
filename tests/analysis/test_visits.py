"""Where agents went: what is counted, what a stranger's coordinates may not do, and how rooms lie."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.results import load
from offpiste.analysis.visits import (
    Visits,
    flattened,
    ground,
    lays_out_rooms,
    quarters,
    room_places,
    summed,
    visits_by_run,
)
from offpiste.rows import CellRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run


def visit(store: Folder, run: str, rows: list[tuple[int | None, int | None, int | None, int, int]]) -> None:
    """Give a run cells: room, x, y, first step and visits."""
    cells = [CellRow(room, x, y, number, first, visits) for number, (room, x, y, first, visits) in enumerate(rows)]
    store.below(run).put("cells.parquet", to_parquet("cells", map(dataclasses.asdict, cells)))


def test_visits_are_counted_by_room_column_and_row_without_what_lies_outside_the_memory(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    run = write_run(store, config_of("montezuma_revenge"), [1.0])
    rows: list[tuple[int | None, int | None, int | None, int, int]] = [(1, 8, 16, 3, 5), (None, 0, 0, 1, 2)]
    rows += [(1, 2**40, 0, 1, 1), (1, -8, 0, 1, 1), (10**6, 8, 8, 1, 1), (None, None, None, 1, 9)]
    visit(store, run, rows)
    found = visits_by_run(load(store))[run]
    assert found.counts == {(1, 1, 2): 5, (0, 0, 0): 2}
    assert found.first_steps == {(1, 1, 2): 3, (0, 0, 0): 1}


def test_visits_of_several_runs_add_up_and_rooms_can_be_laid_over_one_another() -> None:
    one, other = (Visits("", counts, {}) for counts in ({(0, 1, 2): 3, (1, 1, 2): 1}, {(0, 1, 2): 4}))
    assert summed([one, other]) == {(0, 1, 2): 7, (1, 1, 2): 1}
    assert flattened(summed([one, other])) == {(1, 2): 8}


def test_quarters_hold_what_was_first_visited_in_each() -> None:
    firsts = {(0, step, 0): step for step in (0, 24, 25, 99)}
    assert quarters(Visits("", {}, firsts)) == [{(0, 0, 0), (0, 24, 0)}, {(0, 25, 0)}, set(), {(0, 99, 0)}]


def test_the_rooms_of_montezuma_are_a_pyramid_of_three_five_seven_and_nine() -> None:
    places = room_places("montezuma_revenge", [*range(24), 256 + 1])
    assert [places[room] for room in (0, 1, 2)] == [(-1, 0), (0, 0), (1, 0)]
    assert [places[room] for room in (3, 5, 7)] == [(-2, 1), (0, 1), (2, 1)]
    assert [places[room] for room in (8, 14, 15, 23)] == [(-3, 2), (3, 2), (-4, 3), (4, 3)]
    assert places[256 + 1] == (0, 5)  # the next level lies below


def test_the_scenes_of_pitfall_lie_in_the_order_in_which_one_walks() -> None:
    """To the right of 0xC4, 11000100, the bits 3, 4, 5 and 7 give 1: 10001001. To its left is 0xE2's half, 0x62."""
    assert room_places("pitfall", [0xC4, 0x89]) == {0xC4: (0, 0), 0x89: (1, 0)}
    left = next(room for room in range(1, 256) if ((room << 1) & 0xFF) | _feedback(room) == 0xC4)
    assert room_places("pitfall", [0xC4, 0x89, left]) == {left: (0, 0), 0xC4: (1, 0), 0x89: (2, 0)}


def _feedback(room: int) -> int:
    return sum(room >> bit & 1 for bit in (3, 4, 5, 7)) & 1


def test_each_level_of_hero_is_a_shaft_and_other_rooms_lie_by_number() -> None:
    assert room_places("hero", [0, 1, 256, 258]) == {0: (0, 0), 1: (0, 1), 256: (1, 0), 258: (1, 1)}
    assert room_places("venture", [9, 4, 5]) == {4: (0, 0), 5: (1, 0), 9: (0, 1)}
    assert room_places("venture", []) == {}


@pytest.mark.parametrize(
    ("game", "laid_out"),
    [("hero", True), ("freeway", False), ("four_rooms", False), ("pong", False), ("nothing", False)],
)
def test_rooms_are_laid_out_where_they_are_places(game: str, laid_out: bool) -> None:
    assert lays_out_rooms(game) == laid_out


@pytest.mark.parametrize("game", ["deep_sea_99999999999", "deep_sea_12x", "deep_sea_", "museum_2", "freeway"])
def test_there_is_no_ground_of_a_world_that_is_not_small_or_not_there(game: str) -> None:
    assert ground(game) is None


def test_the_ground_of_a_world_of_another_size_is_known_too() -> None:
    known = ground("deep_sea_6")
    assert known is not None
    assert int(np.count_nonzero(known[0])) == 7 * 8 // 2


def test_a_world_without_a_goal_on_its_field_has_none_on_its_map() -> None:
    known = ground("catch")
    assert known is not None
    assert known[1] is None
