"""A trained agent is played as evaluation does, from the weights asked for, without touching its folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from offpiste.agent.rainbow import Rainbow
from offpiste.config import ExplorationConfig, WorldConfig
from offpiste.errors import CheckpointError, StoreError
from offpiste.run.evaluate import PlayedEpisode, evaluate
from offpiste.run.train import train
from offpiste.store.identity import claim
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run

HALF_RANDOM = ExplorationConfig(epsilon_decay_steps=40, epsilon_evaluation=0.5)
CONFIG = tiny_run(game="space_invaders", frames=160, world=WorldConfig(episode_frames=600), exploration=HALF_RANDOM)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A run of one iteration, after which weights were kept."""
    path = tmp_path_factory.mktemp("trained")
    train(CONFIG, Folder(path))
    return Folder(path)


def with_epsilon(path: Path, epsilon: float) -> Folder:
    """Return a trained run whose evaluation has this epsilon."""
    train(replace(CONFIG, frames=0, exploration=replace(HALF_RANDOM, epsilon_evaluation=epsilon)), Folder(path))
    return Folder(path)


def test_as_many_episodes_are_played_as_were_asked_for(trained: Folder) -> None:
    played = list(evaluate(trained, 3, seed=0))
    assert len(played) == 3
    assert all(0 < episode.steps <= 150 for episode in played)
    assert list(evaluate(trained, 0, seed=0)) == []


def test_the_same_seed_plays_the_same_and_another_does_not(trained: Folder) -> None:
    once = list(evaluate(trained, 2, seed=7))
    assert list(evaluate(trained, 2, seed=7)) == once
    assert list(evaluate(trained, 2, seed=8)) != once


def test_episodes_come_one_by_one(trained: Folder) -> None:
    episodes = evaluate(trained, 10**9, seed=0)
    assert isinstance(next(episodes), PlayedEpisode)


def test_the_return_is_the_games_own_and_not_clipped(trained: Folder) -> None:
    returns = [episode.game_return for seed in range(3) for episode in evaluate(trained, 1, seed=seed)]
    assert any(returns)
    assert all(found % 5 == 0 for found in returns)  # an invader is worth 5 to 30 points


def test_evaluation_changes_nothing_in_the_folder(trained: Folder) -> None:
    assert trained.local_path is not None
    before = {path: path.read_bytes() for path in trained.local_path.rglob("*") if path.is_file()}
    list(evaluate(trained, 1, seed=0))
    assert {path: path.read_bytes() for path in trained.local_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("epsilon", "asked"), [(0.0, True), (1.0, False)])
def test_the_greedy_action_is_computed_unless_the_action_is_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epsilon: float, asked: bool
) -> None:
    folder = with_epsilon(tmp_path, epsilon)
    calls: list[int] = []

    def greedy_action(_: Rainbow, state: NDArray[np.uint8], noise: object) -> int:
        calls.append(state.shape[0])
        return 0

    monkeypatch.setattr(Rainbow, "greedy_action", greedy_action)
    played = next(evaluate(folder, 1, seed=0))
    assert len(calls) == (played.steps if asked else 0)


def test_weights_kept_after_an_iteration_can_be_played(trained: Folder) -> None:
    # The run ended with its first iteration, so that the kept weights are also the newest.
    assert list(evaluate(trained, 1, seed=0, iteration=1)) == list(evaluate(trained, 1, seed=0))


def test_weights_that_were_not_kept_are_named_in_the_error(trained: Folder) -> None:
    with pytest.raises(StoreError, match="keeps no weights of iteration 2; they are kept after iterations 1, 10, 50"):
        next(evaluate(trained, 1, seed=0, iteration=2))


def test_a_folder_without_a_run_is_said_to_hold_none(folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"holds no run: there is no run\.json"):
        next(evaluate(folder, 1, seed=0))


def test_a_run_without_a_checkpoint_is_said_to_have_none(folder: Folder) -> None:
    claim(folder, CONFIG)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        next(evaluate(folder, 1, seed=0))
