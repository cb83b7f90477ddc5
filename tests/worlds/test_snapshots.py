"""A restored game goes on exactly as the saved one: in the same process, in a fresh one, past an end."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.store import arrays
from offpiste.worlds.atari import AtariGame
from tests.worlds.trajectory import fresh_game, play_on, random_moments, reference

STEPS_AFTER = 100
REPOSITORY = Path(__file__).parents[2]


def diverging(name: str, count: int, steps: int) -> list[int]:
    """Return the moments whose restored game differs from the reference within a hundred steps."""
    actions, digests, snapshots = reference(name, steps, random_moments(count, steps))
    assert len(snapshots) == count
    wrong = []
    for moment, snapshot in snapshots.items():
        game = fresh_game(name)
        game.restore(snapshot)
        until = moment + STEPS_AFTER
        if play_on(game, actions[moment:until]) != digests[moment:until]:
            wrong.append(moment)
    return wrong


def test_a_restored_game_continues_as_the_saved_one() -> None:
    assert diverging("montezuma_revenge", count=5, steps=400) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["montezuma_revenge", "freeway", "seaquest"])
def test_none_of_200_restores_into_fresh_emulators_diverges(name: str) -> None:
    assert diverging(name, count=200, steps=3000) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("montezuma_revenge", 3),
        *(pytest.param(name, 8, marks=pytest.mark.exhaustive) for name in ("montezuma_revenge", "freeway", "seaquest")),
    ],
)
def test_no_restore_into_a_fresh_process_diverges(name: str, count: int, tmp_path: Path) -> None:
    actions, digests, snapshots = reference(name, 3000, random_moments(count, 3000))
    for moment, snapshot in snapshots.items():
        until = moment + STEPS_AFTER
        file = tmp_path / f"{moment}"
        file.write_bytes(snapshot)
        script = [sys.executable, "-m", "tests.worlds.trajectory", name, str(file)]
        arguments = ",".join(str(action) for action in actions[moment:until])
        shown = subprocess.run([*script, arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True)
        assert shown.stdout.split() == digests[moment:until], f"diverged after step {moment}"


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
    assert kinds == {"emulator": np.uint8, "stack": np.uint8}
    for data in (snapshot, contents["emulator"].tobytes()):
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError)):
            pickle.loads(data)  # noqa: S301 (it must fail)


def test_a_snapshot_of_another_game_is_refused() -> None:
    game = fresh_game("freeway")
    game.reset()
    with pytest.raises(ConfigError, match="the snapshot must be of seaquest, got one of freeway"):
        fresh_game("seaquest").restore(game.snapshot())
