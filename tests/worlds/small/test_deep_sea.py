"""Deep Sea: hand-worked episodes, what the frames show, and exact snapshots."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.worlds.registry import check_game, location, open_world, settings
from offpiste.worlds.small.deep_sea import DeepSea

CONFIG = WorldConfig(frame_skip=1, sticky_action_probability=0.0)
RIGHT, LEFT = True, False


def play(world: DeepSea, moves: list[bool]) -> tuple[list[float], list[bool]]:
    """Make these moves, whichever action that is in each cell; return rewards and ends."""
    world.reset()
    rewards, ends = [], []
    for move in moves:
        action = rightward(world) if move is RIGHT else 1 - rightward(world)
        _, reward, terminated, truncated, _ = world.step(action)
        rewards.append(reward)
        ends.append(terminated)
        assert not truncated
    return rewards, ends


def rightward(world: DeepSea) -> int:
    """Find out by trying which action moves right from here."""
    before = world.snapshot()
    row, column = position(world)
    _, reward, _, _, _ = world.step(0)
    world.restore(before)
    assert position(world) == (row, column)
    return 0 if reward != 0.0 else 1


def position(world: DeepSea) -> tuple[int, int]:
    return int(world.ram[1]) // 8, int(world.ram[0]) // 8


def seen(frame: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Return the first and last white pixel, as (row, column)."""
    rows, columns = np.nonzero(frame)
    return [(int(rows[0]), int(columns[0])), (int(rows[-1]), int(columns[-1]))]


def test_only_going_right_every_time_finds_the_treasure() -> None:
    world = DeepSea(4, CONFIG)
    rewards, ends = play(world, [RIGHT] * 4)
    assert rewards == [-0.0025, -0.0025, -0.0025, 1 - 0.0025]
    assert ends == [False] * 4


@pytest.mark.parametrize("action", [0, 1])
def test_on_the_floor_one_more_step_does_nothing_and_ends_the_episode(action: int) -> None:
    world = DeepSea(4, CONFIG)
    play(world, [RIGHT] * 4)
    before = world.observation
    state, reward, terminated, truncated, _ = world.step(action)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert position(world) == (4, 4)
    assert np.array_equal(state[:-1], before[1:])
    assert np.array_equal(state[-1], before[-1])


def test_one_move_to_the_left_loses_the_treasure() -> None:
    rewards, _ = play(DeepSea(4, CONFIG), [RIGHT, LEFT, RIGHT, RIGHT])
    assert rewards == [-0.0025, 0.0, -0.0025, -0.0025]


def test_going_left_costs_nothing_and_stops_at_the_wall() -> None:
    world = DeepSea(3, CONFIG)
    assert play(world, [LEFT, LEFT]) == ([0.0, 0.0], [False, False])
    assert position(world) == (2, 0)


def test_the_frame_shows_where_the_diver_is() -> None:
    world = DeepSea(13, CONFIG)
    state, _ = world.reset()
    assert not state[:-1].any()
    assert seen(state[-1]) == [(0, 0), (5, 5)]
    play(world, [RIGHT, RIGHT, LEFT])
    assert position(world) == (3, 1)
    assert seen(world.observation[-1]) == [(18, 6), (23, 11)]
    assert seen(world.observation[-2]) == [(12, 12), (17, 17)]
    assert set(np.unique(world.observation)) == {0, 255}


def test_every_cell_has_its_own_frame_even_where_84_is_no_multiple() -> None:
    world = DeepSea(17, CONFIG)
    frames = {frame.tobytes() for row in world._frames for frame in row}
    assert len(frames) == 18 * 18


def test_on_the_floor_every_column_looks_different_and_the_treasure_has_one_of_its_own() -> None:
    world = DeepSea(3, CONFIG)
    seen_on_the_floor = {}
    for last in ([RIGHT, RIGHT, RIGHT], [RIGHT, RIGHT, LEFT], [LEFT, RIGHT, RIGHT], [LEFT, LEFT, RIGHT], [LEFT] * 3):
        play(world, last)
        seen_on_the_floor[position(world)] = seen(world.observation[-1])
    assert seen_on_the_floor == {(3, column): [(63, 21 * column), (83, 21 * column + 20)] for column in (3, 1, 2, 0)}


def test_the_grid_is_the_same_for_every_seed_and_differs_with_size() -> None:
    worlds = [open_world("deep_sea_14", CONFIG, stream(seed, "game"), seed) for seed in (0, 1)]
    coins = [world._right for world in worlds if isinstance(world, DeepSea)]
    assert np.array_equal(coins[0], coins[1])
    assert 0.3 < coins[0].mean() < 0.7
    assert not np.array_equal(coins[0][:10, :10], DeepSea(10, CONFIG)._right)


@given(moves=st.lists(st.booleans(), min_size=7, max_size=7), cut=st.integers(0, 6))
def test_a_restored_episode_continues_as_if_nothing_had_happened(moves: list[bool], cut: int) -> None:
    whole, cut_short = DeepSea(6, CONFIG), DeepSea(6, CONFIG)
    rewards, ends = play(whole, moves)
    play(cut_short, moves[:cut])
    other = DeepSea(6, CONFIG)
    play(other, moves[::-1])
    other.restore(cut_short.snapshot())
    for step in range(cut, len(moves)):
        action = rightward(other) if moves[step] else 1 - rightward(other)
        state, reward, end, _, _ = other.step(action)
        assert (reward, end) == (rewards[step], ends[step])
        assert not state.flags.writeable
    assert end
    assert np.array_equal(state, whole.observation)


def test_people_see_the_water_the_treasure_and_the_diver() -> None:
    world = DeepSea(3, CONFIG)
    world.reset()

    def colours() -> list[list[int]]:
        sums: list[list[int]] = world.render()[8::16, 8::16].sum(axis=2).tolist()  # the middle of each cell
        return sums

    water, gold, diver = 250, 445, 765
    assert colours() == [[diver, 0, 0, 0], [water] * 2 + [0, 0], [water] * 3 + [0], [water] * 3 + [gold]]
    world.step(rightward(world))
    assert colours()[:2] == [[water, 0, 0, 0], [water, diver, 0, 0]]


def test_a_snapshot_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be of deep_sea_5, got one of deep_sea_4"):
        DeepSea(5, CONFIG).restore(DeepSea(4, CONFIG).snapshot())


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped.*")
def test_gymnasium_finds_nothing_to_object_to() -> None:
    check_env(DeepSea(5, CONFIG), skip_render_check=True)


def test_names_are_read_and_sizes_bounded() -> None:
    world = open_world("deep_sea_14", CONFIG, stream(0, "play"), 0)
    assert isinstance(world, DeepSea)
    assert world.size == 14
    for name in ("deep_sea_1", "deep_sea_28", "deep_sea_014", "deep_sea_N", "deep_sea_" + 5_000 * "9"):
        with pytest.raises(ConfigError, match=f"deep_sea_N must be deep_sea_2 to deep_sea_27, got {name}"):
            check_game(name)
    for name in ("deep_sea", "deep_sea_x", "deep_sea_3_4"):
        with pytest.raises(ConfigError, match=f"no game named '{name}'; did you mean 'deep_sea_15'"):
            check_game(name)


def test_the_paper_s_protocol_is_not_played_here() -> None:
    with pytest.raises(ConfigError, match=r"world\.frame_skip must be 1 .*, got 4 and 0\.25"):
        DeepSea(5, WorldConfig())


def test_settings_are_scaled_for_this_world_alone() -> None:
    assert settings("freeway") == {}
    assert settings("deep_sea_9")["world"]["frame_skip"] == 1
    found = location("deep_sea_9")
    assert found is not None
    assert (found.x, found.y, found.room) == (0, 1, None)
