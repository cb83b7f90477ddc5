"""The protocol of the paper, row by row: worked by hand on a fake emulator, then seen on real games."""

import cv2
import numpy as np
import pytest
from ale_py import Action
from gymnasium.spaces import Discrete
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.worlds.atari import AtariGame, start_emulator
from offpiste.worlds.games import GAMES
from tests.worlds.fake import FakeEmulator, WrittenDraws, fake_game

ACTION_COUNTS = {
    "montezuma_revenge": 18,
    "freeway": 3,
    "gravitar": 18,
    "private_eye": 18,
    "venture": 18,
    "solaris": 18,
    "pitfall": 18,
    "asterix": 9,
    "seaquest": 18,
    "beam_rider": 9,
    "space_invaders": 6,
    "hero": 18,
}
FOR_SEVERAL_PLAYERS = ("combat", "joust", "maze_craze", "warlords")
"""ROMs that ale-py ships, but that ALE cannot play alone."""


def grey(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luminance that ALE's palette defines, from its colours [height, width, 3]."""
    luminance: NDArray[np.uint8] = np.round(colours @ np.array([0.2989, 0.5870, 0.1140])).astype(np.uint8)
    return luminance


# Sticky actions


def test_a_draw_below_a_quarter_repeats_the_action_of_the_frame_before() -> None:
    emulator = FakeEmulator()
    game = fake_game(emulator, WrittenDraws(0.9, 0.9, 0.9, 0.9, 0.0, 0.2499, 0.25, 0.1))
    game.reset()
    game.step(3)
    game.step(5)
    assert emulator.acted == [3, 3, 3, 3, 3, 3, 5, 5]


def test_an_action_that_sticks_for_a_whole_step_still_sticks_in_the_next() -> None:
    emulator = FakeEmulator()
    game = fake_game(emulator, WrittenDraws(*[0.5] * 4, *[0.1] * 4, 0.1, 0.5, 0.1, 0.1))
    game.reset()
    for action in (3, 5, 7):
        game.step(action)
    assert emulator.acted == [3, 3, 3, 3, 3, 3, 3, 3, 3, 7, 7, 7]


def test_after_a_reset_the_action_that_sticks_is_noop() -> None:
    emulator = FakeEmulator()
    game = fake_game(emulator, WrittenDraws(0.1, 0.1, 0.9, 0.1, *[0.1] * 4))
    game.reset()
    game.step(3)
    game.reset()
    game.step(3)
    assert emulator.acted == [0, 0, 3, 3, 0, 0, 0, 0]


def test_actions_stick_as_often_as_the_protocol_says() -> None:
    steps = 20_000
    emulator = FakeEmulator(dimensions=(1, 1))
    game = fake_game(emulator, episode_frames=4 * steps)
    game.reset()
    for step in range(steps):
        game.step(step % 18)
    wanted = np.arange(steps) % 18
    acted = np.array(emulator.acted).reshape(steps, 4)
    stuck_at_first = np.mean(acted[:, 0] != wanted)
    never_acted = np.mean(np.all(acted != wanted[:, None], axis=1))
    assert stuck_at_first == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / steps))
    assert never_acted == pytest.approx(0.25**4, abs=4 * np.sqrt(0.25**4 / steps))
    assert np.all((acted[:, 1:] != wanted[:, None]) <= (acted[:, :-1] != wanted[:, None]))  # once heard, kept


def test_the_emulator_adds_no_stickiness_of_its_own() -> None:
    assert start_emulator("freeway", 0).getFloat("repeat_action_probability") == 0.0


# Actions


@pytest.mark.parametrize("name", GAMES)
def test_the_agent_chooses_from_the_minimal_action_set(name: str) -> None:
    game = AtariGame(name, WorldConfig(), stream(0, "world"))
    assert game.action_count == ACTION_COUNTS[name]
    assert game.action_space == Discrete(ACTION_COUNTS[name])


def test_the_agent_may_choose_from_all_18_actions() -> None:
    game = AtariGame("freeway", WorldConfig(action_set="full"), stream(0, "game"))
    assert game.action_count == 18
    assert game.action_space == Discrete(18)
    assert game.action_names[:4] == ["NOOP", "FIRE", "UP", "RIGHT"]
    game.reset()
    game.step(17)


def test_an_action_is_an_index_into_the_minimal_set() -> None:
    emulator = start_emulator("freeway", 0)
    game = AtariGame("freeway", WorldConfig(sticky_action_probability=0.0), stream(0, "world"), emulator)
    assert emulator.getMinimalActionSet() == [Action.NOOP, Action.UP, Action.DOWN]
    game.reset()
    start = int(game.ram[14])
    heights = []
    for action in (1, 1, 1, 2):
        game.step(action)
        heights.append(int(game.ram[14]) - start)
    assert heights == [4, 8, 12, 8]


# Frames and rewards


def test_a_step_is_four_frames_and_sums_their_rewards_unclipped() -> None:
    emulator = FakeEmulator(reward=2)
    game = fake_game(emulator)
    game.reset()
    _, reward, terminated, truncated, _ = game.step(0)
    assert (reward, terminated, truncated, emulator.frame) == (8.0, False, False, 4)


@pytest.mark.parametrize("frames", [1, 2, 3, 4])
def test_a_step_stops_at_the_frame_on_which_the_game_ends(frames: int) -> None:
    emulator = FakeEmulator(brightness=lambda frame: 200 - 10 * frame, reward=2, last_frame=4 + frames)
    game = fake_game(emulator)
    game.reset()
    assert game.step(0)[2] is False
    state, reward, terminated, truncated, _ = game.step(0)
    assert (reward, terminated, truncated) == (2.0 * frames, True, False)
    assert emulator.frame == 4 + frames
    assert np.all(state[-1] == 200 - 10 * (4 + frames))  # the final screen alone


def test_a_reset_asks_for_no_frames() -> None:
    emulator = FakeEmulator()
    fake_game(emulator).reset()
    assert (emulator.resets, emulator.acted) == (1, [])


def test_an_immortal_game_is_cut_after_exactly_27_000_steps() -> None:
    emulator = FakeEmulator(dimensions=(1, 1))
    game = fake_game(emulator)
    for _ in range(2):  # the count begins anew with each episode
        game.reset()
        steps = 0
        truncated = terminated = False
        while not truncated:
            _, _, terminated, truncated, _ = game.step(0)
            assert not terminated
            steps += 1
        assert (steps, emulator.frame) == (27_000, 108_000)


def test_a_game_that_ends_on_the_last_step_before_the_cut_has_ended() -> None:
    game = fake_game(FakeEmulator(last_frame=8), episode_frames=8)
    game.reset()
    assert game.step(0)[2:4] == (False, False)
    assert game.step(0)[2:4] == (True, False)


def test_losing_a_life_does_not_end_the_episode() -> None:
    emulator = start_emulator("montezuma_revenge", 0)
    game = AtariGame("montezuma_revenge", WorldConfig(sticky_action_probability=0.0), stream(0, "world"), emulator)
    game.reset()
    assert emulator.lives() == 6
    lives = []
    while emulator.lives() > 1:  # right, off the platform; dead, put back, and right again
        lives.append(emulator.lives())
        assert game.step(Action.RIGHT.value)[2:4] == (False, False)
    assert sorted(set(lives)) == [2, 3, 4, 5, 6]
    terminated = False
    while not terminated:
        _, _, terminated, truncated, _ = game.step(Action.RIGHT.value)
        assert not truncated
    assert emulator.lives() == 0


# Pictures


@pytest.mark.parametrize(("screens", "pooled"), [((1, 2, 3, 9), 9), ((9, 9, 3, 2), 3), ((0, 0, 5, 5), 5)])
def test_a_frame_is_the_maximum_of_the_last_two_of_four_screens(screens: tuple[int, ...], pooled: int) -> None:
    game = fake_game(FakeEmulator(brightness=lambda frame: (100, *screens)[frame], dimensions=(210, 160)))
    game.reset()
    state, *_ = game.step(0)
    assert np.all(state[-1] == pooled)


def test_without_frame_skip_each_frame_is_its_own_screen() -> None:
    game = fake_game(FakeEmulator(brightness=lambda frame: 100 - frame), frame_skip=1)
    states = [game.reset()[0], *(game.step(0)[0] for _ in range(3))]
    assert [int(state[-1].max()) for state in states] == [100, 99, 98, 97]


def test_the_first_state_is_the_lone_first_screen_over_black() -> None:
    game = fake_game(FakeEmulator(brightness=lambda frame: 50 + frame))
    game.reset()
    for _ in range(6):
        game.step(0)
    state, _ = game.reset()
    assert state.shape == (4, 84, 84)
    assert np.all(state[:3] == 0)
    assert np.all(state[3] == 50)


def test_the_newest_frame_is_last_in_the_state() -> None:
    game = fake_game(FakeEmulator(brightness=lambda frame: frame + 1))
    game.reset()
    stacks = [game.step(0)[0][:, 0, 0].tolist() for _ in range(4)]
    assert stacks == [[0, 0, 1, 5], [0, 1, 5, 9], [1, 5, 9, 13], [5, 9, 13, 17]]


@pytest.mark.parametrize("value", [0, 1, 127, 254, 255])
def test_a_constant_screen_survives_the_resize(value: int) -> None:
    state, _ = fake_game(FakeEmulator(brightness=lambda _: value, dimensions=(210, 160))).reset()
    assert state.dtype == np.uint8
    assert np.all(state[-1] == value)


def test_states_are_read_only_and_later_steps_leave_them_alone() -> None:
    game = fake_game(FakeEmulator(brightness=lambda frame: frame))
    states = [game.reset()[0], *(game.step(0)[0] for _ in range(3))]
    copies = [state.copy() for state in states]
    for _ in range(5):
        game.step(0)
    game.reset()
    for state, copy in zip(states, copies, strict=True):
        assert np.array_equal(state, copy)
        with pytest.raises(ValueError, match="read-only"):
            state[0, 0, 0] = 1


@pytest.mark.parametrize("name", ["montezuma_revenge", "freeway", "space_invaders"])
def test_frames_on_a_real_game_follow_from_its_colours(name: str) -> None:
    config = WorldConfig(sticky_action_probability=0.0)
    game = AtariGame(name, config, stream(0, "world"), start_emulator(name, 7))
    by_hand = start_emulator(name, 7)
    actions = by_hand.getMinimalActionSet()
    generator = stream(1, "actions")
    state, _ = game.reset()
    by_hand.reset_game()
    screens = [np.zeros((210, 160), np.uint8), grey(by_hand.getScreenRGB())]
    for _ in range(50):
        frame = cv2.resize(np.maximum(*screens[-2:]), (84, 84), interpolation=cv2.INTER_AREA)
        assert np.array_equal(state[-1], frame)
        action = generator.integers(len(actions))
        state, *_ = game.step(action)
        for _ in range(4):
            by_hand.act(actions[action])
            screens.append(grey(by_hand.getScreenRGB()))
    assert len({screen.tobytes() for screen in screens}) > 50  # something moved


# The environment as others see it


def test_gymnasium_finds_no_fault() -> None:
    game = AtariGame("montezuma_revenge", WorldConfig(), stream(0, "world"))
    check_env(game, skip_render_check=True)  # which needs a registered name; rendering is tested below


def test_the_same_seed_plays_the_same_game() -> None:
    def digest(game: AtariGame, seed: int) -> list[bytes]:
        game.reset(seed=seed)
        return [game.step(step % 18)[0].tobytes() for step in range(60)]

    one, two = (AtariGame("seaquest", WorldConfig(), stream(seed, "world")) for seed in (0, 1))
    assert digest(one, 5) == digest(two, 5) == digest(one, 5)
    assert digest(one, 5) != digest(one, 6)  # other sticky draws


def test_a_misspelt_game_is_refused_with_the_right_spelling() -> None:
    with pytest.raises(ConfigError, match=r"no game named 'montezuma_revenje'; did you mean 'montezuma_revenge'\?"):
        AtariGame("montezuma_revenje", WorldConfig(), stream(0, "world"))


@pytest.mark.parametrize("name", FOR_SEVERAL_PLAYERS)
def test_a_game_that_cannot_be_played_alone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"ALE cannot play {name}, which is for more than one player"):
        AtariGame(name, WorldConfig(), stream(0, "world"))


@pytest.mark.parametrize("name", ["pong", "breakout"])
def test_any_other_game_plays_as_well(name: str) -> None:
    game = AtariGame(name, WorldConfig(), stream(0, "world"))
    first, _ = game.reset()
    generator = stream(0, "actions")
    for _ in range(100):
        state, *_ = game.step(generator.integers(game.action_count))
    assert not np.array_equal(state, first)
    assert game.render().shape == (210, 160, 3)
