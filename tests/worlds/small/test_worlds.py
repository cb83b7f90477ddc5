"""Each small world by its rules, worked out by hand."""

import numpy as np

from offpiste.methods import base_run
from offpiste.seeding import stream
from offpiste.worlds.registry import open_world
from offpiste.worlds.small.falling import Catch, Rain
from offpiste.worlds.small.four_rooms import BlankTv, FourRooms, FourRoomsEnds, NoisyTv, NoisyTvPassive
from offpiste.worlds.small.grid import WALL, Outcome, SmallWorld
from offpiste.worlds.small.key_door import KeyDoor
from offpiste.worlds.small.museum import Museum
from offpiste.worlds.small.suite import KINDS
from offpiste.worlds.small.turn import turn_of
from offpiste.worlds.small.wallpaper import Wallpaper

SCREENS = ("noisy_tv", "blank_tv", "noisy_tv_passive")
GAMES = {kind: game for game, kind in KINDS.items()}


def opened(kind: type[SmallWorld]) -> SmallWorld:
    return kind(base_run(GAMES[kind]).world, stream(0, "game"))


def walk(world: SmallWorld, *names: str) -> list[float]:
    """Take actions by their names and return the rewards."""
    return [float(world.step(world.actions.index(name))[1]) for name in names]


def test_a_move_in_the_four_rooms_slips_one_time_in_ten() -> None:
    outcomes = opened(FourRooms).outcomes((6, 6), 0)  # up
    assert {one.state: round(one.probability, 6) for one in outcomes} == {
        (5, 6): 0.925,
        (7, 6): 0.025,
        (6, 5): 0.025,
        (6, 7): 0.025,
    }


def test_the_rooms_are_joined_by_four_doors() -> None:
    shown = opened(FourRooms).cells((8, 0))[:9, :9]
    assert np.argwhere(shown[4] != WALL).ravel().tolist() == [1, 7]
    assert np.argwhere(shown[:, 4] != WALL).ravel().tolist() == [1, 7]
    assert (shown == WALL).sum() == 17 - 4


def test_the_goal_of_the_four_rooms_pays_one_and_puts_the_player_back() -> None:
    outcomes = opened(FourRooms).outcomes((1, 8), 0)
    assert Outcome(0.925, (8, 0), 1.0) in outcomes
    assert sum(one.reward for one in outcomes) == 1.0


def test_the_coin_of_the_four_rooms_pays_little_and_puts_the_player_back() -> None:
    for kind in (FourRooms, FourRoomsEnds):
        assert Outcome(0.925, (8, 0), 0.05) in opened(kind).outcomes((6, 3), 0)
    assert 26 // 6 * 0.05 < FourRooms.goal_return < 1.0  # no number of coins is taken for the goal


def test_where_the_goal_ends_the_episode_the_player_stays_on_it() -> None:
    world = opened(FourRoomsEnds)
    assert Outcome(0.925, (0, 8), 1.0) in world.outcomes((1, 8), 0)
    assert world.is_terminal((0, 8))
    assert not world.is_terminal((8, 0))


def test_the_screen_shows_something_new_at_each_press_and_stays_so_until_the_next() -> None:
    world = opened(NoisyTv)
    dark = world.reset()[0][0, 18:].copy()
    assert not dark.any()
    memory = world.ram.tobytes()
    walk(world, "press")
    first = world.observation[0, 18:].copy()
    assert world.ram.tobytes() == memory
    walk(world, "up")
    np.testing.assert_array_equal(world.observation[0, 18:], first)
    walk(world, "press")
    assert (world.observation[0, 18:] != first).mean() > 0.9
    assert not world.reset()[0][0, 18:].any()


def test_a_passive_screen_never_shows_the_same_twice() -> None:
    world = opened(NoisyTvPassive)
    shown = [world.reset()[0][0, 18:].tobytes()]
    for name in ("up", "press", "left"):
        walk(world, name)
        shown.append(world.observation[0, 18:].tobytes())
    assert len(set(shown)) == 4


def test_a_blank_screen_is_all_that_differs_from_a_noisy_one_whatever_is_done() -> None:
    noisy, blank = (open_world(game, base_run(game).world, stream(3, "game"), 3) for game in ("noisy_tv", "blank_tv"))
    assert noisy.action_names == blank.action_names
    rows = slice(18, None) if turn_of(3, 5).mirrored[0] is False else slice(None, 8)
    actions, lit = stream(4, "actions"), 0
    for _ in range(40):
        shown, plain = noisy.reset()[0], blank.reset()[0]
        for _ in range(26):
            action = int(actions.integers(5))
            (shown, *rest), (plain, *others) = noisy.step(action), blank.step(action)
            assert rest == others
            assert noisy.ram.tobytes() == blank.ram.tobytes()
            lit += int(shown[0, rows].any())
            assert not plain[0, rows].any()
            shown = shown.copy()
            shown[0, rows] = 0
            np.testing.assert_array_equal(shown, plain)
    assert lit > 500


def test_the_three_screens_hang_in_the_same_rooms() -> None:
    for seed in range(5):
        worlds = [open_world(game, base_run(game).world, stream(seed, "game"), seed) for game in SCREENS]
        frames = [world.reset()[0].copy() for world in worlds]
        rows = slice(None, 18) if not turn_of(seed, 5).mirrored[0] else slice(8, None)
        for world, frame in zip(worlds, frames, strict=True):
            np.testing.assert_array_equal(frame[0, rows], frames[0][0, rows])
            assert world.action_names == worlds[0].action_names
    noisy, blank, passive = (opened(kind) for kind in (NoisyTv, BlankTv, NoisyTvPassive))
    for cell in np.ndindex(9, 9):
        for action in range(5):
            assert noisy.outcomes(cell, action) == blank.outcomes(cell, action) == passive.outcomes(cell, action)


def test_the_rooms_are_the_same_beside_the_screen() -> None:
    np.testing.assert_array_equal(opened(NoisyTv).reset()[0], opened(FourRooms).reset()[0])


def test_the_door_opens_with_the_key_only_and_the_goal_takes_the_key_back() -> None:
    world = opened(KeyDoor)
    world.reset()
    assert walk(world, "right", "right", "right") == [0.0] * 3
    assert world.ram[:3].tolist() == [8 * 6, 8, 0]  # before the door
    assert walk(world, *["left"] * 6, "up") == [0.0] * 7
    assert world.ram[:3].tolist() == [0, 0, 1]  # with the key
    rewards = walk(world, "down", *["right"] * 10, "down")
    assert rewards == [0.0] * 11 + [1.0]
    assert world.ram[:3].tolist() == [8 * 5, 8, 0]


def test_key_and_door_vanish_from_the_frame_when_the_key_is_taken() -> None:
    world = opened(KeyDoor)
    before, after = world.cells((1, 5, 0)), world.cells((1, 5, 1))
    assert np.argwhere(before != after).tolist() == [[0, 0], [1, 7]]


def test_the_doors_of_the_papered_rooms_are_offset() -> None:
    world = opened(Wallpaper)
    world.reset()
    assert walk(world, "right", "right", "right")[-1] == 0.0
    assert world.ram[:2].tolist() == [16, 16]  # stopped by the first wall
    up_and_over = ["up", "up", *["right"] * 2, "down", "down", *["right"] * 4, "up", "up", *["right"] * 2]
    assert walk(world, *up_and_over) == [0.0] * 13 + [1.0]


def test_the_wallpaper_is_new_in_each_episode_faint_and_the_same_within_one() -> None:
    world = opened(Wallpaper)
    first = world.reset()[0][0].copy()
    walk(world, "up")
    changed = np.argwhere(world.observation[0] != first)
    assert changed[:, 1].max() < 2  # the player's two cells
    assert (world.reset()[0][0] != first).mean() > 0.5
    empty = np.kron(world.cells((2, 0)) == 0, np.ones((2, 2))).astype(bool)
    assert set(np.unique(world.observation[0, :6][empty])) <= set(range(24, 40))


def test_a_ball_is_caught_by_the_paddle_below_it_and_ends_the_episode() -> None:
    world = opened(Catch)
    assert world.outcomes((8, 3, 2), 2) == [Outcome(1.0, (9, 3, 3), 1.0)]
    assert world.outcomes((8, 3, 2), 1) == [Outcome(1.0, (9, 3, 2), 0.0)]
    assert world.outcomes((3, 0, 0), 0) == [Outcome(1.0, (4, 0, 0), 0.0)]  # the wall
    assert world.is_terminal((9, 3, 3))
    assert not world.is_terminal((8, 3, 3))


def test_rain_pays_for_each_ball_and_sends_another_every_fourth_step() -> None:
    world = opened(Rain)
    assert world.outcomes((2, 4, 1, 0), 2) == [Outcome(1.0, (3, 4, 1, 1), 1.0)]
    assert world.outcomes((2, 4, 1, 0), 1) == [Outcome(1.0, (3, 4, 1, 0), 0.0)]
    assert world.outcomes((3, 4, 1, 1), 1) == [Outcome(0.2, (0, column, 4, 1)) for column in range(5)]
    assert np.argwhere(world.cells((2, 4, 1, 0)) == 6).tolist() == [[2, 4], [6, 1]]


def test_the_coin_lies_six_steps_one_way_and_the_hall_the_other() -> None:
    world = opened(Museum)
    world.reset()
    assert walk(world, *["right"] * 6) == [0.0] * 5 + [1.0]
    assert walk(world, "left", "up", "up", "up") == [0.0] * 4
    assert world.ram[:2].tolist() == [8 * 5, 8 * 10]
    hall = [(row, column) for row in range(12) for column in range(12)]
    assert len({world.cells(cell).tobytes() for cell in hall}) == 144
