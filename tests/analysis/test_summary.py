"""Each run's curve and numbers, held to the same frame as the others."""

from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.curves import return_curves
from offpiste.analysis.results import Results, load
from offpiste.analysis.summary import area, final_score, scores_by_game, summarise
from offpiste.store.storage import Folder
from tests.analysis import fake_worlds
from tests.analysis.small_store import config_of, write_run


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """A complete run of twelve iterations, one that stopped after two, and one that was asked for two only."""
    store = Folder(tmp_path)
    write_run(store, config_of(seed=0, frames=4_800), [0.0, 0.0, *map(float, range(10))])
    write_run(store, config_of(seed=1, frames=4_800), [5.0, 7.0], state="paused")
    write_run(store, config_of(seed=2, frames=800), [0.0, 0.0])
    return load(store)


def test_curves_have_a_row_per_run_and_nothing_where_it_has_not_come(results: Results) -> None:
    found = return_curves(results)["freeway", "epsilon_greedy"]
    assert [run.seed for run in found.runs] == [0, 1, 2]
    assert found.frames[[0, 11]].tolist() == [400.0, 4800.0]
    assert found.values[1, :2].tolist() == [5.0, 7.0]
    assert np.isnan(found.values[1, 2:]).all()
    assert np.isfinite(found.values[0]).all()


def test_the_final_score_is_the_mean_of_the_last_ten_iterations_or_of_all() -> None:
    assert final_score(np.arange(20.0)) == 14.5
    assert final_score(np.array([1.0, 2.0])) == 1.5
    assert area(np.arange(20.0)) == 9.5


def test_a_run_in_numbers(results: Results) -> None:
    first, second, third = summarise(results)
    assert (first.reached, first.final, first.area) == (True, 4.5, 3.75)
    assert first.first_reward_frame == (300 + 31) * 4  # the fourth iteration is the first with a reward
    assert (first.rooms, first.cells) == (12.0, 120.0)
    assert (second.reached, second.final, second.first_reward_frame) == (False, 6.0, 31 * 4)
    assert third.first_reward_frame == np.inf


def test_runs_that_have_not_come_so_far_have_no_score_in_the_table(results: Results) -> None:
    assert list(scores_by_game(summarise(results))["freeway"]["epsilon_greedy"].values()) == [4.5]


def test_all_runs_can_be_held_to_an_earlier_frame(results: Results) -> None:
    summaries = summarise(results, frames=800)
    assert [summary.final for summary in summaries] == [0.0, 6.0, 0.0]
    assert [summary.reached for summary in summaries] == [True, True, True]
    assert summaries[0].first_reward_frame == np.inf  # it came later
    assert summaries[0].rooms == 2.0
    scores = scores_by_game(summaries)["freeway"]["epsilon_greedy"]
    assert [key[1] for key in scores] == [0, 1, 2]


def test_a_run_shorter_than_an_iteration_is_scored_by_what_it_has(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(frames=200), [3.0])
    results = load(store)
    (summary,) = summarise(results)
    assert (summary.reached, summary.final) == (True, 3.0)
    assert return_curves(results)["freeway", "epsilon_greedy"].frames.tolist() == [results.runs[0].frames]


def test_a_run_reaches_a_frame_between_two_steps_with_the_step_before(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(frames=1_203), [1.0, 2.0, 3.0])
    results = load(store)
    assert [summary.reached for summary in summarise(results)] == [True]
    for frames, reached in ((1_203, True), (1_204, False), (3, True), (0, False)):
        (summary,) = summarise(results, frames)
        assert summary.reached is reached


def test_mixed_runs_of_one_seed_are_all_in_the_table(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(), [1.0, 1.0, 1.0])
    slower = config_of(method_name="epsilon_greedy")
    object.__setattr__(slower.exploration, "epsilon_final", 0.5)
    write_run(store.below("other"), slower, [2.0, 2.0, 2.0])
    scores = scores_by_game(summarise(load(store)))["freeway"]["epsilon_greedy"]
    assert sorted(scores.values()) == [1.0, 2.0]


def test_the_evaluation_after_the_last_whole_iteration_counts_and_no_earlier_one(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(seed=0), [0.0, 1.0, 0.0], evaluations=[9.0, 12.0, 3.0])
    write_run(store, config_of(seed=1), [0.0, 0.0, 0.0], evaluations=[9.0, 12.0])  # stopped before the third
    write_run(store, config_of(seed=2), [0.0, 0.0, 0.0])
    results = load(store)
    first, second, third = summarise(results)
    assert (first.evaluation, first.best_evaluation) == (3.0, 12.0)
    assert np.isnan(second.evaluation)
    assert second.best_evaluation == 12.0
    assert np.isnan([third.evaluation, third.best_evaluation]).all()
    assert list(scores_by_game([first, second, third], "evaluation")["freeway"]["epsilon_greedy"].values()) == [3.0]
    assert [found.evaluation for found in summarise(results, frames=800)][:2] == [12.0, 12.0]
    assert [found.best_evaluation for found in summarise(results, frames=400)][:2] == [9.0, 9.0]


@pytest.mark.parametrize(
    ("returns", "evaluations", "happened"),
    [
        ([0.0, 0.0, 0.0], [2.0, 2.0, 2.0], (False, False, False, False)),
        ([0.0, 1.0, 0.0], [2.0, 2.0, 6.9], (True, False, False, True)),
        ([0.0, 1.0, 1.0], [2.0, 7.0, 6.9], (True, True, False, False)),
        ([0.0, 1.0, 1.0], [2.0, 2.0, 7.0], (True, True, True, False)),
    ],
)
def test_what_happened_in_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    returns: list[float],
    evaluations: list[float],
    happened: tuple[bool, ...],
) -> None:
    """Found, learned, kept, avoided; half way from random play, 2, to the best policy, 12, is 7."""
    fake_worlds.use(monkeypatch)
    write_run(Folder(tmp_path), config_of("four_rooms"), returns, evaluations=evaluations)
    (found,) = summarise(load(Folder(tmp_path)))
    assert (found.found, found.learned, found.kept, found.avoided) == happened


def test_a_coin_is_not_the_goal(tmp_path: Path) -> None:
    write_run(Folder(tmp_path), config_of("four_rooms"), [0.04, 0.12, 1.04])
    (found,) = summarise(load(Folder(tmp_path)))
    assert found.first_reward_frame < found.goal_frame < np.inf
    write_run(Folder(tmp_path), config_of("four_rooms", seed=1), [0.04, 0.12, 0.16])
    _, other = summarise(load(Folder(tmp_path)))
    assert (other.goal_frame, other.found) == (np.inf, False)
