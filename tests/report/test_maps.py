"""Maps of visits: brighter where more often, the goal where it is, and rooms where they lie."""

from pathlib import Path

import pytest

from offpiste.analysis.results import load
from offpiste.analysis.visits import Visits, visits_by_run
from offpiste.methods import METHODS
from offpiste.report.maps import UNVISITED, colour, game_maps, map_panel, shades, time_panels
from offpiste.report.panels import Dot, Dots, Panel, Squares, Text, Tiles, shapes
from offpiste.store.storage import Folder
from tests.analysis.small_study import evidence_of, write_small_worlds
from tests.test_hero import visit


def squares(panel: Panel) -> list[tuple[str, int]]:
    """Return colour and number of the squares of each mark."""
    return [(mark.colour, len(mark.cells)) for mark in panel.marks if isinstance(mark, Squares)]


def test_a_cell_is_the_brighter_the_more_often_it_was_visited() -> None:
    found = shades({(0, 0): 1, (1, 0): 9, (2, 0): 99, (3, 0): 0}, 99)
    assert list(found) == [(0, 0), (1, 0), (2, 0)]
    assert found[2, 0] == 1.0
    assert found[1, 0] == pytest.approx(0.5)
    assert colour(0.0) != UNVISITED


def test_a_map_of_a_small_world_has_its_ground_its_visits_and_its_goal() -> None:
    panel = map_panel("CTS", "deep_sea_6", {(0, 0, 0): 5, (0, 1, 1): 5, (0, 31, 31): 5})
    assert squares(panel) == [(UNVISITED, 28), (colour(1.0), 2)]  # what lies outside the world is not drawn
    (goal,) = (mark for mark in panel.marks if isinstance(mark, Dots))
    assert (goal.xs, goal.ys) == ([6.5], [6.5])
    assert panel.y.low > panel.y.high  # rows are counted from the top


def test_the_goal_leaves_the_colour_of_its_cell_to_be_seen() -> None:
    for game in ("deep_sea_6", "museum"):
        panel = map_panel("CTS", game, {(0, 0, 0): 5})
        tiles = next(shape for shape in shapes(panel) if isinstance(shape, Tiles))
        (goal,) = (shape for shape in shapes(panel) if isinstance(shape, Dot))
        assert goal.radius < min(tiles.size) / 2


def test_the_name_of_each_of_our_methods_stands_above_its_map_in_full() -> None:
    for method in METHODS.values():
        panel = map_panel(method.label, "deep_sea_6", {(0, 0, 0): 5})
        assert next(shape.text for shape in shapes(panel) if isinstance(shape, Text)) == method.label


def test_rooms_of_a_game_lie_where_they_connect_each_as_large_as_what_was_visited_in_any() -> None:
    """Room 4 lies below room 1 and to its left. Of each, two columns and three rows are shown, one apart."""
    panel = map_panel("CTS", "montezuma_revenge", {(1, 4, 9): 1, (1, 5, 7): 1, (4, 4, 7): 1})
    blocks, visited = (mark for mark in panel.marks if isinstance(mark, Squares))
    assert blocks.size == (2.0, 3.0)
    assert sorted(blocks.cells) == [(0, 4), (3, 0)]
    assert sorted(visited.cells) == [(0, 6), (3, 0), (4, 2)]  # y grows upwards
    assert panel.note == "2 rooms"


def test_maps_of_one_extent_have_their_rooms_at_the_same_places() -> None:
    """The first knows room 4 alone."""
    both = {(1, 5, 7): 1, (4, 4, 9): 1}
    one, other = (map_panel("", "montezuma_revenge", cells, extent=both) for cells in ({(4, 4, 9): 1}, both))
    assert (one.width, one.height, squares(one)[0]) == (other.width, other.height, squares(other)[0])
    assert (one.note, other.note) == ("1 room", "2 rooms")


def test_over_time_the_rooms_stay_where_they_are() -> None:
    firsts = {(1, 0, 0): 0, (4, 0, 0): 99}
    panels = time_panels("montezuma_revenge", Visits("", dict.fromkeys(firsts, 1), firsts))
    assert len({(panel.width, panel.height, squares(panel)[0]) for panel in panels}) == 1


def test_over_time_what_is_new_is_bright_and_what_was_known_dim() -> None:
    firsts = {(0, 0, 0): 0, (0, 0, 1): 30, (0, 1, 1): 99}
    panels = time_panels("deep_sea_6", Visits("", dict.fromkeys(firsts, 1), firsts))
    assert [panel.note for panel in panels] == ["+1", "+1", "+0", "+1"]
    assert squares(panels[-1])[1:] == [(colour(0.15), 2), (colour(0.85), 1)]


def test_methods_are_drawn_by_the_seeds_that_all_of_them_have_with_one_brightest_count(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_small_worlds(store, {("four_rooms", "epsilon_greedy"): [0.0, 0.0], ("four_rooms", "cts"): [1.0, 1.0]})
    visit(store, "four_rooms/epsilon_greedy/seed-0", (0, 8, 9))
    visit(store, "four_rooms/cts/seed-0", (0, 8, 99))
    visit(store, "four_rooms/cts/seed-1", (5, 5, 99))
    evidence = evidence_of(store)
    drawing = game_maps(evidence, "four_rooms", visits_by_run(load(store)))
    assert drawing is not None
    assert [panel.method for panel in drawing.panels] == ["epsilon_greedy", "cts"]
    assert [squares(panel)[1] for panel in drawing.panels] == [(colour(0.5), 1), (colour(1.0), 1)]
    assert "Seed 0." in drawing.caption
    assert game_maps(evidence, "four_rooms", {}) is None
