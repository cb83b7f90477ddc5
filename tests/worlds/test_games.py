"""The table of games, and what each RAM byte means, shown on real play.

Scripts read "R8 UF30": eight frames to the right, then thirty of up and fire, with no sticky actions.
"""

import re
from dataclasses import asdict

import numpy as np
import pytest
from ale_py import ALEInterface
from numpy.typing import NDArray

from offpiste.worlds.atari import known_games, start_emulator
from offpiste.worlds.games import GAMES, Location
from offpiste.worlds.registry import SUITES, location

ACTIONS = "N F U R L D UR UL DR DL UF RF LF DF URF ULF DRF DLF"  # in ALE's order
HERO_BLASTS_THE_WALL = "LF24 U4 N24 D48 RF36 DF4 UL8 F4 DL2 U32 DR8"


def play(emulator: ALEInterface, script: str) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Return memory [frames + 1, 128], grey screens [frames + 1, 210, 160] and the sum of rewards."""
    memory, screens, reward = [emulator.getRAM().copy()], [emulator.getScreenGrayscale().copy()], 0
    for name, frames in re.findall(r"([A-Z]+)(\d+)", script):
        for _ in range(int(frames)):
            reward += emulator.act(ACTIONS.split().index(name))
            memory.append(emulator.getRAM().copy())
            screens.append(emulator.getScreenGrayscale().copy())
    return np.array(memory, np.int64), np.array(screens), reward


def begin(game: str, opening: str = "") -> ALEInterface:
    emulator = start_emulator(game, 0)
    emulator.reset_game()
    play(emulator, opening)
    return emulator


def byte(game: str, field: str) -> int:
    index = getattr(location(game), field)
    assert isinstance(index, int)
    return index


def visited(values: NDArray[np.int64]) -> list[int]:
    """Return the values in the order in which they came, each stay once."""
    return [int(value) for value in values[np.r_[True, np.diff(values) != 0]]]


# The table


def test_the_paper_plays_twelve_games_in_three_suites() -> None:
    assert {name: games for name, games in SUITES.items() if not name.startswith(("small_", "minigrid_"))} == {
        "montezuma": ("montezuma_revenge",),
        "hard": ("freeway", "gravitar", "private_eye", "venture", "solaris", "pitfall"),
        "training": ("asterix", "seaquest", "beam_rider", "space_invaders", "hero"),
    }
    assert sorted(name for suite in ("montezuma", "hard", "training") for name in SUITES[suite]) == sorted(GAMES)
    assert len(GAMES) == 12


@pytest.mark.parametrize("name", GAMES)
def test_every_game_of_the_table_is_shipped_and_its_yardsticks_are_in_order(name: str) -> None:
    game = GAMES[name]
    assert game.name == name
    assert name in known_games()
    assert game.random_score < game.human_score


def test_suites_of_small_worlds_have_no_world_in_common_and_make_up_all_eight() -> None:
    assert SUITES["small_tuned"] == ("deep_sea_12",)
    assert SUITES["small_hard"] == ("four_rooms", "key_door", "noisy_tv", "wallpaper")
    assert SUITES["small_easy"] == ("catch", "rain", "museum")
    parts = [name for suite in ("small_tuned", "small_hard", "small_easy") for name in SUITES[suite]]
    assert len(set(parts)) == 8
    assert list(SUITES["small_worlds"]) == parts


def test_a_location_is_known_only_where_a_byte_is() -> None:
    without = {name for name, game in GAMES.items() if game.location is None}
    assert without == {"gravitar", "solaris", "asterix", "beam_rider"}
    assert location("pong") is None
    for name in GAMES.keys() - without:
        known = asdict(location(name) or Location())
        indices = [index for field, index in known.items() if field != "y_up" and index is not None]
        assert indices
        assert len(set(indices)) == len(indices)
        assert all(0 <= index < 128 for index in indices)


# The bytes


@pytest.mark.parametrize(
    ("game", "opening", "move", "field", "direction"),
    [
        ("montezuma_revenge", "", "R10", "x", 1),
        ("montezuma_revenge", "R10", "L10", "x", -1),
        ("montezuma_revenge", "", "D28", "y", -1),  # down the ladder
        ("montezuma_revenge", "D24", "U16", "y", 1),
        ("private_eye", "N16", "R80", "x", 1),
        ("private_eye", "R80 L16", "L60", "x", -1),
        ("private_eye", "N1", "UF28", "y", 1),  # the car jumps
        ("private_eye", "UF34", "N16", "y", -1),
        ("venture", "N70", "R24", "x", 1),
        ("venture", "N70", "L24", "x", -1),
        ("venture", "N70", "U24", "y", -1),
        ("venture", "N70 U24", "D20", "y", 1),
        ("hero", "N120", "R20", "x", 1),
        ("hero", "N120 R20 L6", "L16", "x", -1),
        ("hero", "", "N60", "y", -1),  # falls
        ("hero", "N70 U48", "U20", "y", 1),
        ("pitfall", "", "R40", "x", 1),
        ("pitfall", "R40", "L40", "x", -1),
        ("pitfall", "", "F14", "y", -1),  # jumps
        ("pitfall", "F20", "N12", "y", 1),
        ("seaquest", "D170", "R40", "x", 1),
        ("seaquest", "D170", "L40", "x", -1),
        ("seaquest", "N130", "D60", "y", 1),
        ("seaquest", "N130 D60", "U40", "y", -1),
        ("freeway", "", "U60", "y", 1),
        ("freeway", "U60", "D24", "y", -1),
        ("space_invaders", "N130", "R60", "x", 1),
        ("space_invaders", "N130 R60", "L60", "x", -1),
    ],
)
def test_a_coordinate_follows_the_player(game: str, opening: str, move: str, field: str, direction: int) -> None:
    memory, _, _ = play(begin(game, opening), move)
    changes = direction * np.diff(memory[:, byte(game, field)])
    assert np.all(changes >= 0)
    assert np.sum(changes) >= 5
    if field == "y":
        goes_up = move[0] in "UF"  # up, or a jump; N lets the player fall
        assert (location(game) or Location()).y_up == (goes_up == (direction == 1))


@pytest.mark.parametrize(
    ("game", "opening", "pokes", "script", "rooms"),
    [
        (
            "montezuma_revenge",
            "",
            {65: 2},
            "R8 RF30 R60",
            [1, 2],
        ),  # with a key in the bag, through either door
        ("montezuma_revenge", "", {65: 2}, "L8 LF30 L60", [1, 0]),
        ("private_eye", "", {}, "R180", [0, 1]),
        ("private_eye", "", {}, "L260", [0, 31, 30]),
        ("venture", "", {}, "UL67 U37 UL20", [8, 1]),  # from the map into a room
        ("pitfall", "", {}, "L40 R60", [0xC4, 0xE2, 0xC4]),
        ("hero", HERO_BLASTS_THE_WALL, {}, "R65", [0, 1]),
    ],
)
def test_the_room_changes_exactly_when_the_scene_does(
    game: str, opening: str, pokes: dict[int, int], script: str, rooms: list[int]
) -> None:
    emulator = begin(game, opening)
    for index, value in pokes.items():
        emulator.setRAM(index, value)
    memory, screens, _ = play(emulator, script)
    room = memory[:, byte(game, "room")]
    assert visited(room) == rooms
    redrawn = np.mean(screens[1:] != screens[:-1], axis=(1, 2))  # share of pixels, per frame
    entered = np.flatnonzero(np.diff(room))
    for frame in entered:
        assert np.max(redrawn[frame : frame + 3]) > 0.02
    assert np.max(np.delete(redrawn, [frame + delay for frame in entered for delay in range(3)])) < 0.02


def test_pitfalls_room_steps_through_the_register_that_draws_its_scenes() -> None:
    def scene_to_the_right(scene: int) -> int:
        bit = (scene >> 3 ^ scene >> 4 ^ scene >> 5 ^ scene >> 7) & 1
        return (scene << 1 | bit) & 0xFF

    memory, _, _ = play(begin("pitfall"), "L320")
    rooms = visited(memory[:, byte("pitfall", "room")])
    assert rooms[0] == 0xC4
    assert len(rooms) >= 2
    assert [scene_to_the_right(scene) for scene in rooms[1:]] == rooms[:-1]


def test_montezumas_level_counts_the_pyramids_left_behind() -> None:
    emulator = begin("montezuma_revenge", "N30")
    for field, value in {"room": 16, "x": 3, "y": 235}.items():  # at the door of the treasure chamber
        emulator.setRAM(byte("montezuma_revenge", field), value)
    memory, _, reward = play(emulator, "L40 R40 N640")
    assert visited(memory[:, byte("montezuma_revenge", "room")]) == [16, 15, 1]
    assert visited(memory[:, byte("montezuma_revenge", "level")]) == [0, 1]
    assert reward >= 10_000


def test_heros_level_counts_the_miners_saved() -> None:
    memory, _, reward = play(begin("hero", HERO_BLASTS_THE_WALL), "R55 N20 LF140 N200")
    level = memory[:, byte("hero", "level")]
    assert visited(level) == [0, 1]
    assert visited(memory[:, byte("hero", "room")]) == [0, 1, 0]
    assert reward > 1000
