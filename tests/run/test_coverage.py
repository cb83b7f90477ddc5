"""Rooms and cells are counted as worked out by hand, per episode and over the run."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.run.coverage import Coverage, frame_cell
from offpiste.seeding import stream
from offpiste.store.records import cells_table
from offpiste.worlds.atari import AtariGame
from offpiste.worlds.games import GAMES, Location

MONTEZUMA = Location(room=3, x=42, y=43, level=57, y_up=True)
NO_FRAME = np.zeros((84, 84), np.uint8)


def ram(**bytes_at: int) -> NDArray[np.uint8]:
    """Return memory with these values, by Montezuma's names; all other bytes are 255."""
    memory = np.full(128, 255, np.uint8)
    for name in ("room", "x", "y", "level"):
        memory[getattr(MONTEZUMA, name)] = bytes_at.get(name, 0)
    return memory


def shade(value: int) -> NDArray[np.uint8]:
    return np.full((84, 84), value, np.uint8)


def first_frames(game: str, count: int) -> list[NDArray[np.uint8]]:
    """Return what the screen shows, one frame per 20 steps of random play."""
    world = AtariGame(game, WorldConfig(), stream(0, "game"))
    actions = stream(0, "actions")
    state, _ = world.reset()
    frames = [state[-1]]
    for step in range(1, 20 * count):
        state, _, terminated, truncated, _ = world.step(int(actions.integers(world.action_count)))
        assert not terminated
        assert not truncated
        if step % 20 == 0:
            frames.append(state[-1])
    return frames


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (ram(), (0, 0)),
        (ram(room=1, x=77, y=235), (1, 1_341)),  # (1·32 + 77//8)·32 + 235//8 = 41·32 + 29
        (ram(room=1, x=77, y=235, level=2), (513, 525_629)),  # room 1 + 2·256; (513·32 + 9)·32 + 29
        (ram(room=23, x=255, y=255, level=7), (1_815, 1_815 * 1_024 + 1_023)),
        (ram(room=23, x=255, y=255, level=200), (1_815, 1_815 * 1_024 + 1_023)),  # levels from 7 on count as one
        (ram(room=255, x=0, y=7, level=255), (2_047, 2_047 * 1_024)),
    ],
)
def test_a_cell_in_montezuma_is_room_level_and_eight_by_eight_pixels(
    memory: NDArray[np.uint8], expected: tuple[int, int]
) -> None:
    assert GAMES["montezuma_revenge"].location == MONTEZUMA
    assert MONTEZUMA.locate(memory) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (Location(y=14), (0, 20)),
        (Location(x=14), (0, 20 * 32)),
        (Location(room=14), (160, 160 * 1_024)),
        (Location(level=14), (7 * 256, 7 * 256 * 1_024)),
        (Location(), (0, 0)),
    ],
)
def test_a_byte_that_is_not_known_counts_as_zero(location: Location, expected: tuple[int, int]) -> None:
    memory = np.full(128, 255, np.uint8)
    memory[14] = 160
    assert location.locate(memory) == expected


def test_neighbouring_pixels_share_a_cell_until_the_eighth() -> None:
    cells = [MONTEZUMA.locate(ram(x=x))[1] for x in range(16)]
    assert cells == [0] * 8 + [32] * 8


def test_no_two_positions_share_a_cell() -> None:
    cells = {
        MONTEZUMA.locate(ram(room=room, level=level, x=x, y=y))[1]
        for room in (0, 1, 255)
        for level in (0, 1, 7)
        for x in range(0, 256, 8)
        for y in range(0, 256, 8)
    }
    assert len(cells) == 3 * 3 * 32 * 32


def test_found_and_visited_over_two_episodes() -> None:
    coverage = Coverage(MONTEZUMA)
    for x in (0, 1, 8, 0):  # two cells of room 0, one of them three times
        coverage.visit(ram(x=x), NO_FRAME, 0)
    coverage.visit(ram(room=1), NO_FRAME, 0)
    assert coverage.totals() == {"rooms_total": 2, "cells_total": 3}
    assert coverage.end_episode() == {"rooms_visited": 2, "rooms_new": 2, "cells_visited": 3, "cells_new": 3}
    coverage.visit(ram(x=8), NO_FRAME, 0)  # known
    coverage.visit(ram(x=16), NO_FRAME, 0)  # a new cell of a known room
    coverage.visit(ram(room=1, level=1), NO_FRAME, 0)  # the same room on the next level is another
    assert coverage.end_episode() == {"rooms_visited": 2, "rooms_new": 1, "cells_visited": 3, "cells_new": 2}
    assert coverage.totals() == {"rooms_total": 3, "cells_total": 5}
    assert coverage.end_episode() == {"rooms_visited": 0, "rooms_new": 0, "cells_visited": 0, "cells_new": 0}


@pytest.mark.parametrize("location", [None, Location(x=42, y=43), Location(y=14)])
def test_rooms_are_left_empty_where_no_byte_tells_them(location: Location | None) -> None:
    coverage = Coverage(location)
    coverage.visit(ram(), shade(0), 0)
    assert coverage.totals() == {"rooms_total": None, "cells_total": 1}
    assert coverage.end_episode() == {"rooms_visited": None, "rooms_new": None, "cells_visited": 1, "cells_new": 1}


def test_without_a_location_the_frame_counts_and_the_memory_does_not() -> None:
    coverage = Coverage(None)
    for memory, value in [(ram(), 0), (ram(x=99), 0), (ram(), 200), (ram(), 0)]:
        coverage.visit(memory, shade(value), 0)
    assert coverage.end_episode()["cells_visited"] == 2


def test_with_a_location_the_memory_counts_and_the_frame_does_not() -> None:
    coverage = Coverage(MONTEZUMA)
    for memory, value in [(ram(), 0), (ram(), 200), (ram(x=99), 0)]:
        coverage.visit(memory, shade(value), 0)
    assert coverage.end_episode()["cells_visited"] == 2


def test_a_frame_falls_into_eight_shades() -> None:
    cells = [frame_cell(shade(value)) for value in range(256)]
    assert [cells.index(cell) for cell in dict.fromkeys(cells)] == [0, 32, 64, 96, 128, 160, 192, 224]


def test_the_size_of_the_coarse_frame_can_be_set() -> None:
    cells = [frame_cell(shade(value), (1, 1, 3)) for value in range(256)]
    assert [cells.index(cell) for cell in dict.fromkeys(cells)] == [0, 86, 172]
    left, right = shade(0), shade(0)
    left[:, :42], right[:, 42:] = 255, 255
    assert frame_cell(left, (1, 1, 8)) == frame_cell(right, (1, 1, 8))
    assert frame_cell(left, (2, 1, 8)) != frame_cell(right, (2, 1, 8))
    coverage = Coverage(None, (1, 1, 8))
    for frame in (left, right, shade(0)):
        coverage.visit(ram(), frame, 0)
    assert coverage.end_episode()["cells_visited"] == 2


def test_a_row_of_the_coarse_frame_is_an_eighth_of_its_height() -> None:
    row, inside = shade(0), shade(0)
    row[21:31] = 255  # all but half a line of the third of eight rows
    inside[22] = 255  # a line of its ten and a half: a mean of 24, still the darkest shade
    assert frame_cell(row) != frame_cell(shade(0))
    assert frame_cell(inside) == frame_cell(shade(0))


def test_a_column_of_the_coarse_frame_is_an_eleventh_of_its_width() -> None:
    line = shade(0)
    line[:, 0] = 255  # one of 84/11 = 7.6 pixels: a mean of 33, the second shade
    assert frame_cell(line) != frame_cell(shade(0))
    line[:, 0] = 240  # 31, still the darkest
    assert frame_cell(line) == frame_cell(shade(0))


def test_little_noise_does_not_make_a_new_cell() -> None:
    generator = np.random.default_rng(0)
    scene = np.array([48, 112, 176, 208])[:, None].repeat(21, 0).repeat(84, 1)  # the middles of four shades
    for _ in range(20):
        noise = generator.integers(-20, 21, scene.shape)
        assert frame_cell((scene + noise).astype(np.uint8)) == frame_cell(scene.astype(np.uint8))


def test_scenes_of_real_games_differ_and_the_same_scene_does_not() -> None:
    games = ("montezuma_revenge", "pitfall", "solaris", "hero")
    cells = {game: {frame_cell(frame) for frame in first_frames(game, 3)} for game in games}
    again = {game: {frame_cell(frame) for frame in first_frames(game, 3)} for game in games}
    assert again == cells
    assert len(set.union(*cells.values())) == sum(len(found) for found in cells.values())


@pytest.mark.parametrize("game", [game.name for game in GAMES.values() if game.location is None])
def test_without_a_location_frames_distinguish_some_scenes(game: str) -> None:
    assert len({frame_cell(frame) for frame in first_frames(game, 12)}) >= 2


@pytest.mark.parametrize("location", [None, MONTEZUMA], ids=["frame", "location"])
def test_coverage_continues_from_bytes_in_the_middle_of_an_episode(location: Location | None) -> None:
    generator = np.random.default_rng(0)

    def wander(*each: Coverage) -> None:
        memory = ram(room=int(generator.integers(3)), x=int(generator.integers(64)), level=int(generator.integers(2)))
        frame = (generator.integers(0, 2, (7, 7)).repeat(12, 0).repeat(12, 1) * 255).astype(np.uint8)
        for coverage in each:
            coverage.visit(memory, frame, 0)

    def columns(coverage: Coverage) -> dict[str, Any]:
        return coverage.totals() | coverage.end_episode()

    original, again = Coverage(location), Coverage(location)
    for _ in range(20):
        wander(original)
    original.end_episode()
    for _ in range(10):
        wander(original)
    again.load_state(arrays.unpack(arrays.pack(original.state())))
    assert arrays.pack(again.state()) == arrays.pack(original.state())
    for _ in range(10):
        wander(original, again)
    assert (again.rooms_found, again.cells_found) == (original.rooms_found, original.cells_found)
    expected = columns(original)
    assert columns(again) == expected
    assert 0 < expected["cells_new"] < expected["cells_total"]


@pytest.mark.parametrize("location", [None, MONTEZUMA, Location(y=43)], ids=["frame", "located", "y alone"])
def test_first_steps_and_visits_are_those_of_a_dictionary(location: Location | None) -> None:
    generator = np.random.default_rng(0)
    coverage, again = Coverage(location), Coverage(location)
    expected: dict[int, list[int]] = {}
    for step in range(400):
        memory = ram(room=int(generator.integers(3)), x=int(generator.integers(64)), y=int(generator.integers(64)))
        frame = shade(int(generator.integers(256)))
        coverage.visit(memory, frame, step)
        cell = frame_cell(frame) if location is None else location.locate(memory)[1]
        expected.setdefault(cell, [step, 0])[1] += 1
        if step == 200:  # saved, and restored into itself
            again.load_state(arrays.unpack(arrays.pack(coverage.state())))
            again.load_cells(arrays.unpack(arrays.pack(coverage.cells())))
            coverage = again
    found = coverage.cells()
    columns = (found["cell"].tolist(), found["first_step"].tolist(), found["visits"].tolist())
    assert {cell: [first, visits] for cell, first, visits in zip(*columns, strict=True)} == expected
    assert columns[0] == sorted(expected)
    assert sum(columns[2]) == 400


def test_cells_become_rows_with_room_x_and_y_where_they_are_known() -> None:
    coverage = Coverage(MONTEZUMA)
    coverage.visit(ram(room=1, x=77, y=235, level=2), NO_FRAME, 7)
    position = {"room": 513, "x": 72, "y": 232}  # room 1 + 2·256; 77 and 235 rounded down to multiples of 8
    assert cells_table(coverage.cells()).to_pylist() == [position | {"cell": 525_629, "first_step": 7, "visits": 1}]
    half_known = Coverage(Location(y=43))
    half_known.visit(ram(room=1, x=77, y=235), NO_FRAME, 0)
    nowhere: dict[str, int | None] = dict.fromkeys(("room", "x", "y"))
    rows = [nowhere | {"y": 232, "cell": 29, "first_step": 0, "visits": 1}]
    assert cells_table(half_known.cells()).to_pylist() == rows
    unknown = Coverage(None)
    unknown.visit(ram(), shade(0), 3)
    rows = [nowhere | {"cell": frame_cell(shade(0)), "first_step": 3, "visits": 1}]
    assert cells_table(unknown.cells()).to_pylist() == rows


def test_cells_seen_before_they_were_counted_have_no_first_step() -> None:
    before, coverage = Coverage(MONTEZUMA), Coverage(MONTEZUMA)
    for x in (0, 8):
        before.visit(ram(x=x), NO_FRAME, 5)
    coverage.load_state(before.state())
    for x in (8, 16):
        coverage.visit(ram(x=x), NO_FRAME, 6)
    rows = cells_table(coverage.cells()).to_pylist()
    assert [(row["x"], row["first_step"], row["visits"]) for row in rows] == [(0, None, 0), (8, None, 1), (16, 6, 1)]
