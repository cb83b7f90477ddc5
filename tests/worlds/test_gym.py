"""Environments of others as worlds: frames, actions, names, and episodes that are restored by a replay."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium
import numpy as np
import pytest

from offpiste.config import RunConfig, WorldConfig
from offpiste.errors import CheckpointError, ConfigError
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.run import train as train_module
from offpiste.run.digest import digest
from offpiste.run.loop import Loop
from offpiste.run.tracker import Step
from offpiste.run.train import train
from offpiste.seeding import stream
from offpiste.store.storage import Folder
from offpiste.worlds import registry
from offpiste.worlds.games import Game, Returns
from offpiste.worlds.gym import GymWorld, Opened
from offpiste.worlds.scores import reference_scores
from tests.worlds import broken

DOOR_KEY, MULTI_ROOM = "gymnasium:MiniGrid-DoorKey-6x6-v0", "gymnasium:MiniGrid-MultiRoom-N2-S4-v0"
FROZEN_LAKE = "gymnasium:FrozenLake-v1"
NEEDS = {DOOR_KEY: "minigrid", MULTI_ROOM: "minigrid", FROZEN_LAKE: "pygame"}


def own(kind: type) -> str:
    return f"{broken.__name__}:{kind.__name__}"


def opened(name: str, seed: int = 0, **settings: Any) -> GymWorld:
    config = from_dict(WorldConfig, registry.load(name).settings["world"] | settings)
    world = registry.open_world(name, config, stream(seed, "world"), 0)
    assert isinstance(world, GymWorld)
    return world


def test_a_frame_is_the_image_in_grey_at_the_size_of_frames() -> None:
    world = opened(own(broken.Good), frame_size=12)
    state, _ = world.reset()
    cells = state[0, ::2, ::2]
    assert cells.shape == (6, 6)
    assert np.array_equal(np.argwhere(cells == 255), [world._own.at])  # type: ignore[attr-defined]
    assert cells[-1, -1] == 150  # green: 0.587 × 255
    assert (cells > 0).sum() == 2
    assert not state.flags.writeable


def test_the_same_is_drawn_where_observations_are_no_images() -> None:
    image, drawn = opened(own(broken.Good)), opened(own(broken.GoodDrawn))
    assert np.array_equal(image.reset()[0], drawn.reset()[0])
    for step in range(60):  # whose actions begin at 1
        one, other = image.step(step % 4), drawn.step(step % 4)
        assert np.array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        if one[2] or one[3]:
            assert np.array_equal(image.reset()[0], drawn.reset()[0])


class Counter(gymnasium.Env[Any, Any]):
    """Shows how many frames have passed, as a shade, and pays 1 for the action 1."""

    observation_space: Any = gymnasium.spaces.Box(0, 255, (16, 16), np.uint8)
    action_space: Any = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.image = np.zeros((16, 16), np.uint8)
        return self.image, {}

    def step(self, action: Any) -> Any:
        self.image += np.uint8(1)  # in place
        return self.image, int(action), False, False, {}


def counter(**settings: Any) -> GymWorld:
    config = WorldConfig(**({"frame_skip": 1, "stack_frames": 2, "sticky_action_probability": 0.0} | settings))
    return GymWorld("counter", Opened(Counter(), 20, None), config, stream(0, "world"))


def test_actions_are_repeated_for_the_frames_of_a_step_and_rewards_added_up() -> None:
    world = counter(frame_skip=3)
    world.reset()
    first, reward, *_ = world.step(1)
    assert (first[:, 0, 0].tolist(), reward) == ([0, 3], 3.0)
    assert world.step(0)[0][:, 0, 0].tolist() == [3, 6]
    assert first[:, 0, 0].tolist() == [0, 3]  # though the environment writes into its image


def test_an_action_sticks_with_the_probability_that_is_set() -> None:
    never, always, half = (counter(sticky_action_probability=p) for p in (0.0, 1.0, 0.5))
    paid = []
    for world in (never, always, half):
        world.reset()
        paid.append(sum(world.step(step % 2)[1] for step in range(18)))
    assert paid[:2] == [9.0, 0.0]
    assert paid[2] not in (0.0, 9.0)


def test_an_episode_is_truncated_at_the_limit_of_gymnasium_or_of_the_settings() -> None:
    for settings, limit in (({}, 20), ({"episode_frames": 7}, 7)):
        world = counter(**settings)
        world.reset()
        ends = [world.step(0)[2:4] for _ in range(limit)]
        assert ends == [(False, False)] * (limit - 1) + [(False, True)]


def test_each_episode_has_a_seed_of_its_own_from_the_generator_of_the_world() -> None:
    world, same, other = (opened(own(broken.Good), seed) for seed in (0, 0, 1))
    starts = [[each.reset()[0].tobytes() for _ in range(5)] for each in (world, same, other)]
    assert starts[0] == starts[1] != starts[2]
    assert len({*starts[0]}) > 1


@pytest.mark.parametrize(
    "name", [own(broken.Good), own(broken.GoodDrawn), own(broken.GoodSnapshots), DOOR_KEY, MULTI_ROOM, FROZEN_LAKE]
)
def test_a_restored_environment_continues_as_the_saved_one(name: str) -> None:
    pytest.importorskip(NEEDS.get(name, "gymnasium"))
    world, restored, draws = opened(name, stack_frames=2), opened(name, 1, stack_frames=2), stream(0, "test")
    world.reset()
    for _ in range(5):
        for _ in range(int(draws.integers(1, 50))):
            if any(world.step(int(draws.integers(world.action_count)))[2:4]):
                world.reset()
        restored.restore(world.snapshot())
        assert restored.snapshot() == world.snapshot()
        for _ in range(20):
            action = int(draws.integers(world.action_count))
            one, other = world.step(action), restored.step(action)
            assert np.array_equal(one[0], other[0])
            assert one[1:4] == other[1:4]
            assert np.array_equal(world.ram, restored.ram)
            if one[2] or one[3]:
                assert np.array_equal(world.reset()[0], restored.reset()[0])


def test_a_world_that_was_never_reset_is_restored_too() -> None:
    world, restored = opened(own(broken.Good)), opened(own(broken.Good), 1)
    restored.reset()
    restored.restore(world.snapshot())
    assert np.array_equal(restored.reset()[0], world.reset()[0])


def test_an_environment_that_plays_an_episode_in_another_way_is_refused() -> None:
    world = opened(own(broken.RemembersEpisodes))
    world.reset()
    world.reset()
    with pytest.raises(CheckpointError, match="install the version with which the run was trained, and see what `offp"):
        opened(own(broken.RemembersEpisodes)).restore(world.snapshot())


def test_minigrid_is_drawn_as_its_own_function_draws_what_the_agent_sees() -> None:
    pytest.importorskip("minigrid")
    world, draws = opened("gymnasium:MiniGrid-KeyCorridorS3R1-v0"), stream(0, "test")
    environment: Any = world._own
    world.reset()
    for _ in range(150):
        drawn = world._family.frame(environment, environment.gen_obs())  # type: ignore[union-attr, misc]
        assert np.array_equal(drawn, environment.get_frame(agent_pov=True, tile_size=4))
        if any(world.step(int(draws.integers(world.action_count)))[2:4]):
            world.reset()


def test_a_position_in_minigrid_is_where_the_agent_is_what_it_carries_and_how_many_doors_are_open() -> None:
    pytest.importorskip("minigrid")
    world = opened(DOOR_KEY)
    world.reset()
    environment: Any = world._own
    locate = registry.find(DOOR_KEY).location.position  # type: ignore[union-attr]
    column, row = map(int, environment.agent_pos)
    assert locate(world.ram) == (0, row, column)
    environment.carrying = object()
    assert locate(world.ram) == (256, row, column)
    door = next(cell for cell in environment.grid.grid if getattr(cell, "type", "") == "door")
    door.is_open = True
    assert locate(world.ram) == (3 * 256, row, column)
    environment.carrying = None
    assert locate(world.ram) == (2 * 256, row, column)
    assert registry.find(DOOR_KEY).location.room is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "tests.worlds.broken",
            "no game named 'tests.worlds.broken'; `offpiste games` lists .* yours, as in tests.worlds.broken:W",
        ),
        ("MiniGrid-Empty-8x8-v0", "no game named 'MiniGrid-Empty-8x8-v0'; .*, as in gymnasium:MiniGrid-Empty-8x8-v0"),
        ("tests.worlds.brokn:Good", "no module named tests.worlds.brokn; neither installed nor in"),
        ("tests.worlds.broken:Goood", "broken.py has no Goood; names there: .*CannotBeMade"),
        (
            "gymnasium:Nothing-v0",
            "cannot open the world gymnasium:Nothing-v0: .*If another package registers it, install",
        ),
        ("gymnasium:no_such_package:Nothing-v0", "no module named no_such_package; neither installed nor"),
        ("gymnasium:Pendulum-v1", r"actions of gymnasium:Pendulum-v1 must be a Discrete .*, got Box"),
        ("../runs:World", "must be named gymnasium:ID or module:World, got '../runs:World'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_what_to_do(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.open_world(name, WorldConfig(), stream(0, "world"), 0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)  # import raises ModuleNotFoundError
    with pytest.raises(
        ConfigError, match=r"no module named minigrid; .*; install minigrid, as with pip install minigrid"
    ):
        registry.load("gymnasium:MiniGrid-Unlock-v0")


def test_an_environment_that_raises_while_it_is_made_is_refused_with_what_it_says() -> None:
    class HasNoFile(broken.GoodDrawn):
        def __init__(self, **_: Any) -> None:
            raise OSError("there is no file of levels")

    gymnasium.register("offpiste/HasNoFile-v0", HasNoFile)
    with pytest.raises(ConfigError, match=r"cannot open the world gymnasium:offpiste/HasNoFile-v0: OSError: there is"):
        registry.load("gymnasium:offpiste/HasNoFile-v0")
    del gymnasium.registry["offpiste/HasNoFile-v0"]


@pytest.mark.parametrize("kind", [broken.Raises, broken.PaysNothing, broken.LocatesNobody])
def test_what_an_environment_raises_in_training_names_the_command_that_says_more(kind: type) -> None:
    world = opened(own(kind))

    def play() -> None:
        world.reset()
        for _ in range(8):
            world.step(0)
            _ = world.ram

    with pytest.raises((ZeroDivisionError, TypeError, LookupError)) as raised:
        play()
    assert raised.value.__notes__ == [f"`offpiste check-world {own(kind)}` says what an environment must do"]


def test_the_folder_of_a_run_is_a_path_of_readable_names() -> None:
    run = RunConfig(game="gymnasium:ALE/Pong-v5")
    assert run.run_id == "gymnasium.ALE.Pong-v5/epsilon_greedy/seed-0"
    assert RunConfig(game="maze:Maze").run_id == "maze.Maze/epsilon_greedy/seed-0"
    assert RunConfig(game="deep_sea_14").run_id == "deep_sea_14/epsilon_greedy/seed-0"


def test_a_name_alone_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*sys.modules}
    for name in ("a_module_that_is_nowhere:World", "gymnasium:a_module_that_is_nowhere:World-v0"):
        registry.check_game(name)
        assert registry.find(name).settings["frames"] == 100_000
        assert not registry.is_ours(name)
        assert not reference_scores(name).known
        assert base_run(name).game == name
    assert {*sys.modules} <= before


class FakeEntryPoint:
    """An installed package's world."""

    name = "field"

    def __init__(self, row: Any) -> None:
        self.row = row

    def load(self) -> Any:
        return self.row


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Game("", environment=own(broken.GoodPositions), settings={"frames": 70, "world": {"frame_size": 24}})
    monkeypatch.setattr(registry, "entry_points", lambda **_: [FakeEntryPoint(lambda: row)])
    monkeypatch.setattr(registry, "_loaded", {})


def test_an_entry_point_returns_a_row_whose_settings_are_over_those_of_other_worlds(field: None) -> None:
    assert not registry.is_ours("field")
    assert registry.find("field") == Game("field")  # nothing is imported yet
    row = registry.load("field")
    assert (row.name, row.settings["frames"], row.settings["world"]["frame_size"]) == ("field", 70, 24)
    assert row.settings["world"]["stack_frames"] == 1
    assert row.location is not None
    assert opened("field").state_shape == (1, 24, 24)


def test_declared_returns_are_a_scale_and_are_called_declared(field: None) -> None:
    assert not reference_scores("field").known
    assert registry.load("field").returns == Returns(0.2, 1.0)
    scale = reference_scores("field")
    assert (scale.random, scale.top, scale.player) == (0.2, 1.0, "the best policy (declared)")


def tiny_run(name: str, frames: int = 700, checkpoint_minutes: float = 10.0) -> RunConfig:
    base = replace(base_run(registry.load(name).name), frames=frames)
    agent: dict[str, Any] = {"min_history_steps": 100, "replay_capacity": 500, "batch_size": 8, "hidden_units": 16}
    agent |= {"convolution_channels": [4], "target_update_steps": 50}
    settings = {"iteration_steps": 200, "evaluation_steps": 30}
    return replace(
        base,
        agent=from_dict(type(base.agent), agent),
        schedule=from_dict(type(base.schedule), settings),
        machine=replace(base.machine, checkpoint_minutes=checkpoint_minutes),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [own(broken.GoodPositions), DOOR_KEY, MULTI_ROOM, FROZEN_LAKE])
def test_a_run_killed_in_the_middle_of_an_episode_is_resumed_identically(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(name, "gymnasium"))
    run, folder = tiny_run(name), Folder(tmp_path / "killed")
    train(run, Folder(tmp_path / "whole"))
    argv = [sys.executable, "-m", __name__, name, str(folder.local_path)]
    killed = subprocess.run(argv, cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -signal.SIGKILL
    train(run, folder)
    attempts = [json.loads(file.read_text()) for file in tmp_path.glob("killed/attempts/*.json")]
    assert any(0 < attempt["start_step"] < run.frames for attempt in attempts)
    assert digest(folder) == digest(Folder(tmp_path / "whole"))


class Killed(Loop):
    """A loop whose process is killed before step 450, many checkpoints after its start."""

    def steps(self) -> Iterator[Step]:
        for number, step in enumerate(super().steps(), 1):
            if number == 450:
                os.kill(os.getpid(), signal.SIGKILL)
            yield step


if __name__ == "__main__":
    with patch.object(train_module, "Loop", Killed):
        train(tiny_run(sys.argv[1], checkpoint_minutes=0.001), Folder(sys.argv[2]))
