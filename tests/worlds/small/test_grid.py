"""What all small worlds promise: the returns of random and best play, one frame a state, turns, and exact snapshots."""

from itertools import islice

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.methods import base_run
from offpiste.seeding import stream
from offpiste.worlds.base import World
from offpiste.worlds.games import Returns
from offpiste.worlds.play import episode, play, random_policy
from offpiste.worlds.registry import open_world
from offpiste.worlds.small import deep_sea
from offpiste.worlds.small.four_rooms import FourRooms
from offpiste.worlds.small.grid import Cells, Outcome, SmallWorld, State, mean_returns, moved
from offpiste.worlds.small.suite import KINDS, ROWS, mean_returns_of
from offpiste.worlds.small.turn import Turn, turn_of

GAMES = tuple(row.name for row in ROWS)
each_game = pytest.mark.parametrize("game", GAMES)
each_kind = pytest.mark.parametrize("game", KINDS)


def opened(game: str, seed: int = 0, draws: int = 0) -> World:
    return open_world(game, base_run(game).world, stream(draws, "game"), seed)


def unturned(game: str) -> SmallWorld:
    return KINDS[game](base_run(game).world, stream(0, "game"))


class Corridor(SmallWorld):
    """Three cells; the right end pays 1 and puts the player back, a step to the right slips with probability 1/4."""

    actions = ("left", "right")
    shape = (1, 3)
    limit = 3

    def starts(self) -> list[Outcome]:
        return [Outcome(1.0, (0, 0))]

    def outcomes(self, state: State, action: int) -> list[Outcome]:
        column = state[1]
        if action == 0:
            return [Outcome(1.0, (0, max(column - 1, 0)))]
        forward = Outcome(0.75, (0, 0), 1.0) if column == 1 else Outcome(0.75, (0, column + 1))
        return [forward, Outcome(0.25, state)]

    def cells(self, state: State) -> Cells:
        cells = np.zeros(self.shape, np.uint8)
        cells[state] = 2
        return cells


def test_the_returns_of_a_corridor_are_those_worked_out_by_hand() -> None:
    # Best: always right. Two moves in three steps, each with 3/4: 1 - (1/4)³ - 3·(3/4)·(1/4)² = 54/64.
    # Random: a step moves right with 3/8 and, from the second cell, left with 1/2 and stays with 1/8.
    # Paid in two steps: 9/64. In three: stay (5/8) first, 3/8, 3/8; or 3/8, stay (1/8), 3/8; left leads too far back.
    config = WorldConfig(frame_skip=1, stack_frames=1, sticky_action_probability=0.0, frame_size=8)
    random, best = mean_returns(Corridor, config)
    assert best == pytest.approx(54 / 64)
    assert random == pytest.approx(9 / 64 + 5 / 8 * 9 / 64 + 3 / 8 * 1 / 8 * 3 / 8)


@each_game
def test_random_play_earns_what_was_computed_for_it(game: str) -> None:
    world = opened(game, seed=5)
    policy = random_policy(world, stream(1, "actions"))
    returns = [sum(transition.reward for transition in episode(world, policy)) for _ in range(300)]
    spread = max(float(np.std(returns)), 0.05)  # a goal that nobody finds has no spread
    assert np.mean(returns) == pytest.approx(mean_returns_of(game).random, abs=5 * spread / np.sqrt(300))


@each_kind
def test_no_policy_found_by_planning_earns_less_than_the_best_return(game: str) -> None:
    world, best = unturned(game), mean_returns_of(game).best
    assert mean_returns_of(game).random < best
    assert best > 0.9
    reached = world.starts()[0].state
    assert world.position(reached)[2] < 256


def test_the_best_returns_are_those_that_can_be_counted() -> None:
    # Four rooms: 16 moves of 26 with slips, and sometimes a coin in 6 more. Key and door: 6 + 12 moves, once in 28.
    # Wallpaper: 14 of 30. Catch: the ball is always reached in time. Rain: 10 balls in 40 steps. Museum: 6 moves of 20.
    assert {game: round(mean_returns_of(game).best, 3) for game in KINDS} == {
        "four_rooms": 1.041,
        "key_door": 1.0,
        "noisy_tv": 1.041,
        "wallpaper": 1.0,
        "catch": 1.0,
        "rain": 10.0,
        "museum": 3.0,
        "four_rooms_ends": 0.999,
        "noisy_tv_passive": 1.041,
        "blank_tv": 1.041,
    }
    assert mean_returns_of("deep_sea_12") == Returns(2**-12 - 0.005, 0.99) == deep_sea.mean_returns(12)


@each_game
def test_a_world_is_a_gymnasium_environment(game: str) -> None:
    check_env(opened(game), skip_render_check=True)  # type: ignore[arg-type]


def test_others_can_make_a_world_by_its_name() -> None:
    world = gymnasium.make("offpiste/KeyDoor-v0")
    first, _ = world.reset(seed=0)
    assert first.shape == (1, 22, 22)
    assert world.spec is not None
    assert gymnasium.make("offpiste/DeepSea12-v0", seed=3).unwrapped.action_count == 2  # type: ignore[attr-defined]


@each_kind
def test_every_state_has_its_own_position_and_frame(game: str) -> None:
    world = unturned(game)
    frames, positions, waiting, seen = set(), set(), [start.state for start in world.starts()], set()
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        frames.add(world.cells(state).tobytes())
        positions.add(world.position(state))
        if not world.is_terminal(state):
            waiting += [one.state for action in range(world.action_count) for one in world.outcomes(state, action)]
    assert len(positions) == len(seen)
    caught = len(seen) if game not in ("catch", "rain") else 0  # there a ball is hidden by the paddle that caught it
    assert len(frames) >= caught


@each_kind
def test_outcomes_are_probabilities(game: str) -> None:
    world = unturned(game)
    for state in [start.state for start in world.starts()]:
        for action in range(world.action_count):
            assert sum(one.probability for one in world.outcomes(state, action)) == pytest.approx(1.0)


@each_game
def test_a_restored_world_continues_as_the_saved_one(game: str) -> None:
    world, other = opened(game, seed=2), opened(game, seed=2, draws=7)
    policy = random_policy(world, stream(3, "actions"))
    for _ in islice(play(world, policy), 44):
        pass
    other.restore(world.snapshot())
    actions = stream(4, "actions")
    np.testing.assert_array_equal(world.observation, other.observation)
    for _ in range(200):
        action = int(actions.integers(world.action_count))
        (one, *rest), (two, *rest_too) = world.step(action), other.step(action)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(world.ram, other.ram)
        assert rest == rest_too
        if rest[1] or rest[2]:
            np.testing.assert_array_equal(world.reset()[0], other.reset()[0])


@each_game
def test_the_runs_of_a_seed_see_one_world_and_those_of_others_another(game: str) -> None:
    firsts = [opened(game, seed, draws).reset()[0].tobytes() for seed in range(12) for draws in (0, 1)]
    if game not in ("catch", "rain", "wallpaper", "noisy_tv_passive"):  # which start each episode anew
        assert firsts[::2] == firsts[1::2]
    assert len(set(firsts)) > 1
    assert len({tuple(opened(game, seed).action_names) for seed in range(12)}) > (game == "deep_sea_12") - 1


def test_a_turn_mirrors_frames_and_permutes_actions() -> None:
    frame = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert Turn((True, False), (0,)).frame(frame).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert Turn((False, True), (0,)).frame(frame).tolist() == [[2, 1, 0], [5, 4, 3]]
    turns = [turn_of(seed, 4) for seed in range(200)]
    assert {turn.mirrored for turn in turns} == {(False, False), (False, True), (True, False), (True, True)}
    assert len({turn.actions for turn in turns}) > 20
    assert all(sorted(turn.actions) == [0, 1, 2, 3] for turn in turns)


def test_an_action_does_what_its_name_says_however_the_world_is_turned() -> None:
    for seed in range(8):
        world = opened("four_rooms", seed)
        world.reset()
        up = world.action_names.index("up")
        for _ in range(6):
            world.step(up)
        assert world.ram[0] == 0 or world.ram[0] <= 16  # a slip or two aside, the first column
        assert world.ram[1] < 9 * 8


def test_an_episode_is_cut_at_its_limit_and_not_terminal() -> None:
    for game in ("four_rooms", "key_door", "wallpaper", "rain", "museum"):
        world = opened(game)
        steps = list(episode(world, random_policy(world, stream(0, "actions"))))
        assert len(steps) == KINDS[game].limit
        assert (steps[-1].terminated, steps[-1].truncated) == (False, True)


def test_a_frame_too_small_for_the_cells_is_refused() -> None:
    config = WorldConfig(frame_skip=1, stack_frames=1, sticky_action_probability=0.0, frame_size=25)
    with pytest.raises(ConfigError, match=r"in FourRooms, world\.frame_size must be >= 26, got 25"):
        FourRooms(config, stream(0, "game"))
    with pytest.raises(ConfigError, match=r"world\.frame_skip and world\.stack_frames must be 1 .*, got 4, 4, 0\.25"):
        FourRooms(WorldConfig(), stream(0, "game"))


def test_a_move_stays_inside_and_out_of_walls() -> None:
    open_cells = np.array([[True, False], [True, True]])
    assert [moved((0, 0), action, open_cells) for action in range(4)] == [(0, 0), (1, 0), (0, 0), (0, 0)]
    assert [moved((1, 0), action, open_cells) for action in range(4)] == [(0, 0), (1, 0), (1, 0), (1, 1)]
