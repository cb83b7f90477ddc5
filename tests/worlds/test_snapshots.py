"""A restored game goes on exactly as the saved one: in the same process, in a fresh one, past an end."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.errors import CheckpointError, ConfigError
from offpiste.seeding import generator_state, stream
from offpiste.worlds.atari import AtariGame, known_games
from offpiste.worlds.games import GAMES
from tests.worlds.test_atari import FOR_SEVERAL_PLAYERS
from tests.worlds.trajectory import fresh_game, play_on, random_moments, reference

REPOSITORY = Path(__file__).parents[2]
SAVED_IN_PART = ("qbert", "tetris")
"""Where the emulator's own saved state is not enough: in ale-py 0.12.1 it lacks whether a frame was finished."""


def diverging(name: str, restores: int, steps: int, steps_after: int, config: WorldConfig) -> list[int]:
    """Return the moments from which a restored game takes another course than the game that was saved.

    One game is restored again and again, each time from wherever it has got to; the first time it is fresh.
    """
    moments = random_moments(restores, steps, steps_after)
    actions, digests, snapshots = reference(name, steps, moments, config)
    game = fresh_game(name, config)
    wrong = []
    for moment, snapshot in snapshots.items():
        game.restore(snapshot)
        until = moment + steps_after
        if game.snapshot() != snapshot or play_on(game, actions[moment:until]) != digests[moment:until]:
            wrong.append(moment)
    return wrong


@pytest.mark.parametrize("name", [*SAVED_IN_PART, *GAMES])
def test_a_restored_game_continues_as_the_saved_one(name: str) -> None:
    config = WorldConfig(episode_frames=80)
    assert diverging(name, restores=3, steps=60, steps_after=25, config=config) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted({*known_games()} - {*FOR_SEVERAL_PLAYERS}))
def test_none_of_300_restored_games_diverges(name: str) -> None:
    config = WorldConfig(episode_frames=200)
    assert diverging(name, restores=300, steps=1500, steps_after=8, config=config) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["montezuma_revenge", "qbert"])
def test_no_game_that_is_restored_in_a_fresh_process_diverges(name: str, tmp_path: Path) -> None:
    actions, digests, snapshots = reference(name, 1000, random_moments(2, 1000, 100))
    for moment, snapshot in snapshots.items():
        until = moment + 100
        file = tmp_path / f"{moment}"
        file.write_bytes(snapshot)
        script = [sys.executable, "-m", "tests.worlds.trajectory", name, str(file)]
        arguments = ",".join(str(action) for action in actions[moment:until])
        shown = subprocess.run([*script, arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True)
        assert shown.stdout.split() == digests[moment:until], f"diverged after step {moment}"


def test_a_game_that_was_never_reset_is_restored_too() -> None:
    saved = AtariGame("qbert", WorldConfig(), stream(0, "world"))
    restored = fresh_game("qbert")
    play_after_reset(restored, steps=10)
    restored.restore(saved.snapshot())
    assert play_after_reset(restored, steps=20) == play_after_reset(saved, steps=20)
    assert restored.snapshot() == saved.snapshot()


def play_after_reset(game: AtariGame, steps: int) -> list[str]:
    """Begin an episode and return the digests of its first steps."""
    game.reset()
    return play_on(game, [step % game.action_count for step in range(steps)])


def test_a_snapshot_of_checkpoint_format_2_is_restored_and_exact_from_the_next_reset_on() -> None:
    saved = AtariGame("freeway", WorldConfig(), stream(0, "world"))
    play_after_reset(saved, steps=20)
    emulator = saved._emulator.cloneState(include_rng=True).serialize()
    format_2 = arrays.pack(
        {
            "game": "freeway",
            "emulator": np.frombuffer(emulator, np.uint8),
            "stack": saved.observation,
            "held_action": 1,
            "episode_steps": 20,
            "generator": generator_state(saved.np_random),
        }
    )
    restored = fresh_game("freeway")
    restored.restore(format_2)
    assert np.array_equal(restored.observation, saved.observation)
    again = fresh_game("freeway")
    again.restore(restored.snapshot())
    assert play_after_reset(restored, steps=20) == play_after_reset(saved, steps=20) == play_after_reset(again, 20)
    assert restored.snapshot() == saved.snapshot()


def test_an_emulator_that_plays_an_episode_in_another_way_is_refused() -> None:
    game = fresh_game("freeway")
    play_after_reset(game, steps=5)
    saved = arrays.unpack(game.snapshot())
    saved["frame_actions"][:] = 2  # down, where the chicken went up
    with pytest.raises(CheckpointError, match="install the version of ale-py with which the run was trained"):
        game.restore(arrays.pack(saved))


def test_a_restored_game_begins_the_same_next_episodes() -> None:
    saved = AtariGame("montezuma_revenge", WorldConfig(), stream(0, "world"))
    saved.reset()
    snapshot = saved.snapshot()
    restored = fresh_game("montezuma_revenge")
    restored.restore(snapshot)
    ends = 0
    for _ in range(400):  # right, off the platform, six lives long
        state, _, terminated, _, _ = saved.step(3)
        again, _, terminated_again, _, _ = restored.step(3)
        assert np.array_equal(state, again)
        assert terminated == terminated_again
        if terminated:
            assert np.array_equal(saved.reset()[0], restored.reset()[0])
            ends += 1
    assert ends >= 2


def test_the_action_that_sticks_is_part_of_a_snapshot() -> None:
    config = WorldConfig(sticky_action_probability=0.0)
    game = AtariGame("freeway", config, stream(0, "world"))
    game.reset()
    game.step(1)  # up
    restored = AtariGame("freeway", WorldConfig(sticky_action_probability=1.0), stream(1, "world"))
    restored.restore(game.snapshot())
    height = int(restored.ram[14])
    restored.step(0)
    assert int(restored.ram[14]) == height + 4  # still walking, though asked to stand


def test_the_cut_of_an_episode_comes_no_later_for_a_restored_game() -> None:
    config = WorldConfig(episode_frames=40)
    game = AtariGame("freeway", config, stream(0, "world"))
    game.reset()
    for _ in range(7):
        game.step(0)
    restored = AtariGame("freeway", config, stream(1, "world"))
    restored.restore(game.snapshot())
    assert [restored.step(0)[3] for _ in range(3)] == [False, False, True]


def test_taking_a_snapshot_changes_nothing() -> None:
    one, two = (AtariGame("seaquest", WorldConfig(), stream(0, "world")) for _ in range(2))
    one.reset()
    two.reset()
    actions = [step % 18 for step in range(50)]
    digests = []
    for action in actions:
        assert one.snapshot() == one.snapshot()
        digests += play_on(one, [action])
    assert digests == play_on(two, actions)


def test_the_state_of_a_restored_game_is_read_only_and_the_same() -> None:
    game = AtariGame("freeway", WorldConfig(), stream(0, "world"))
    game.reset()
    state, *_ = game.step(1)
    restored = fresh_game("freeway")
    restored.restore(game.snapshot())
    assert np.array_equal(restored.observation, state)
    assert not restored.observation.flags.writeable


def test_a_snapshot_holds_arrays_and_plain_values_and_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickled")

    game = fresh_game("freeway")
    game.reset()
    with monkeypatch.context() as patched:
        for name in ("dumps", "loads", "dump", "load"):
            patched.setattr(pickle, name, refuse)
        snapshot = game.snapshot()
        fresh_game("freeway").restore(snapshot)
    contents = arrays.unpack(snapshot)
    kinds = {key: value.dtype for key, value in contents.items() if isinstance(value, np.ndarray)}
    assert kinds == {"before_episode": np.uint8, "frame_actions": np.uint8, "ram": np.uint8, "stack": np.uint8}
    for data in (snapshot, contents["before_episode"].tobytes()):
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError)):
            pickle.loads(data)  # noqa: S301 (it must fail)


def test_a_snapshot_of_another_game_is_refused() -> None:
    game = fresh_game("freeway")
    game.reset()
    with pytest.raises(ConfigError, match="the snapshot must be of seaquest, got one of freeway"):
        fresh_game("seaquest").restore(game.snapshot())
