"""Scalars of training are those worked out by hand, aligned to their windows, and the same however a run is stopped."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste import arrays, load
from offpiste.agent.rainbow import Update
from offpiste.bonuses.base import Product
from offpiste.config import BonusConfig, ScheduleConfig
from offpiste.errors import NotFinite
from offpiste.rows import LOGGED, TABLES
from offpiste.run.loop import Loop
from offpiste.run.statistics import EpisodeStatistics, IterationStatistics
from offpiste.run.tracker import Tracker
from offpiste.run.train import train
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder
from offpiste.types import Transition
from tests.run.small import small_run
from tests.run.test_train import at_call, reported_at_every_step, tiny_run

__all__ = ["reported_at_every_step"]

FRAME = np.zeros((1, 84, 84), np.uint8)
CURIOUS = tiny_run(bonus=BonusConfig("icm", scale=0.1))


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.rows.SCALAR_STEPS", 4)


def transition(reward: float = 0.0, *, over: bool = False, x: int = 0) -> Transition:
    ram = np.zeros(128, np.uint8)
    ram[42] = x
    return Transition(FRAME, 0, reward, FRAME, over, False, 0, ram)


def update(loss: float, max_q: float, low: float = 0.0, high: float = 0.0) -> Update:
    return Update(np.ones(1), loss, max_q, low, high)


def scalar_rows(path: Path) -> list[tuple[int, str, float]]:
    """Return the reproducible rows of a run's scalars."""
    found = from_parquet((path / "scalars.parquet").read_bytes())
    return [(row["end_step"], row["name"], row["value"]) for row in found if row["name"] != "steps_per_second"]


def cell_rows(path: Path) -> list[dict[str, Any]]:
    return from_parquet((path / "cells.parquet").read_bytes())


def test_a_window_is_what_was_worked_out_by_hand() -> None:
    tracker = Tracker(small_run(bonus=BonusConfig(scale=0.1)))
    tracker.count_update(update(loss=1.0, max_q=2.0, low=0.25, high=0.5))
    tracker.count_update(update(loss=4.0, max_q=6.0, low=0.75, high=0.0))
    steps = [tracker.count_training(transition(reward, over=over, x=x), intrinsic) for reward, over, x, intrinsic in [
        (3.0, False, 0, 0.0), (2.0, True, 8, 10.0), (1.0, True, 8, 20.0), (7.0, False, 16, 30.0),
    ]]  # fmt: skip
    assert [bool(step.scalars) for step in steps] == [False, False, False, True]
    assert steps[-1].scalars == pytest.approx(
        {
            "loss": 2.5,
            "max_q": 4.0,
            "target_mass_low": 0.5,
            "target_mass_high": 0.25,
            "return": 3.0,  # of 5 and 1; the current episode does not count
            "episodes": 2.0,
            "intrinsic/mean": 15.0,
            "intrinsic/q05": 1.5,  # 0.05 · 3 = 0.15 of the way from 0 to 10
            "intrinsic/q50": 15.0,
            "intrinsic/q95": 28.5,  # 0.85 of the way from 20 to 30
            "intrinsic/max": 30.0,
            "clipped_share": 0.75,  # rewards are clipped to 1 before, and 1 + 0 is not clipped again
            "cells": 3.0,
            "rooms": 1.0,
            "epsilon": 1.0,  # the warm-up
        }
    )


def test_a_window_begins_anew_and_what_did_not_happen_in_it_has_no_scalar() -> None:
    tracker = Tracker(small_run())
    tracker.count_update(update(loss=1.0, max_q=2.0))
    for _ in range(3):
        tracker.count_training(transition(1.0, over=True), 0.5)
    assert {"loss", "return", "intrinsic/max"} <= tracker.count_training(transition(), 0.5).scalars.keys()
    for _ in range(3):
        tracker.count_training(transition(), None)
    assert tracker.count_training(transition(), None).scalars.keys() == {"cells", "rooms", "epsilon", "episodes"}


def test_the_factors_of_a_product_are_means_over_the_window_and_survive_a_restore() -> None:
    tracker = Tracker(small_run())
    for number in range(2):
        tracker.count_training(transition(), Product(episodic=0.5, lifelong=2.0 + number))
    restored = Tracker(small_run())
    restored.load_state(tracker.state())
    for each in (tracker, restored):
        each.count_training(transition(), 0.0)  # of the warm-up, say
        scalars = each.count_training(transition(), Product(episodic=1.0, lifelong=3.0)).scalars
        assert (scalars["intrinsic/episodic"], scalars["intrinsic/lifelong"]) == (0.5, 2.0)
        assert scalars["intrinsic/max"] == 3.0
        assert "intrinsic/episodic" not in window_of(each, 0.5)


def window_of(tracker: Tracker, intrinsic: float) -> Mapping[str, float]:
    steps = [tracker.count_training(transition(), intrinsic) for _ in range(4)]
    return steps[-1].scalars


def test_evaluation_moves_no_window() -> None:
    tracker = Tracker(small_run(schedule=ScheduleConfig(iteration_steps=3, evaluation_steps=5)))
    for over in (False, False, True):
        tracker.count_training(transition(1.0, over=over), None)
    for _ in range(5):
        assert tracker.phase == "evaluation"
        assert not tracker.count_evaluation(transition(9.0, over=True)).scalars
    assert tracker.count_training(transition(), None).scalars["return"] == 3.0


def test_windows_end_at_multiples_of_their_length_whatever_episodes_and_iterations_do(tmp_path: Path) -> None:
    train(tiny_run(), Folder(tmp_path))  # of 120 steps, in episodes of 50
    found = from_parquet((tmp_path / "scalars.parquet").read_bytes())
    for name in ("epsilon", "episodes", "cells", "rooms", "steps_per_second"):
        assert [row["end_step"] for row in found if row["name"] == name] == list(range(4, 121, 4)), name
    assert [row["end_step"] for row in found if row["name"] == "return"] == [52, 100]
    assert (
        next(row["end_step"] for row in found if row["name"] == "loss") == 32
    )  # 28 steps and 3 frames of padding pass 30
    assert all(row["value"] > 0 for row in found if row["name"] == "steps_per_second")


def test_a_run_that_was_stopped_anywhere_has_the_scalars_and_cells_of_one_left_alone(
    tmp_path: Path, reported_at_every_step: None
) -> None:
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    train(CURIOUS, Folder(alone))
    for calls in (3, 1, 35, 11):  # within a window, at the end of one, before the end of an episode, at it
        assert train(CURIOUS, Folder(stopped), at_call(calls, lambda: signal.raise_signal(signal.SIGTERM))).state
    assert train(CURIOUS, Folder(stopped)).state == "finished"
    assert scalar_rows(stopped) == scalar_rows(alone)
    assert {"bonus/inverse_loss", "intrinsic/q50"} <= {name for _, name, _ in scalar_rows(alone)}
    assert cell_rows(stopped) == cell_rows(alone)
    assert sum(row["visits"] for row in cell_rows(alone)) == 120 + 3  # steps, and starts of episodes


def test_a_loop_restored_at_any_step_closes_its_window_the_same() -> None:
    loop = Loop(CURIOUS)
    steps = loop.steps()
    closed: dict[int, Mapping[str, float]] = {}
    again: dict[int, Loop] = {}
    for number in range(1, 57):  # an episode ends at 50, within a window
        if found := next(steps).scalars:
            closed[number] = found
        if 44 <= number < 56:
            again[number] = Loop(CURIOUS)
            state = {key: arrays.unpack(arrays.pack(value)) for key, value in loop.state().items()}
            again[number].load_state(state, {key: give() for key, give in loop.immutable().items()})
    for number, restored in again.items():
        steps = restored.steps()
        end = number + 4 - number % 4
        assert [next(steps) for _ in range(end - number)][-1].scalars == closed[end], number


class Logging:
    """Logs the scalars given."""

    def __init__(self, scalars: Any) -> None:
        self._scalars = scalars

    def observe(self, transition: Transition) -> float:
        return 0.0

    def scalars(self) -> Any:
        return self._scalars

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


def closed_window(scalars: Any) -> Mapping[str, float]:
    steps = Loop(tiny_run(), Logging(scalars)).steps()
    return [next(steps) for _ in range(4)][-1].scalars


def test_what_a_bonus_logs_stands_beside_the_rest() -> None:
    found = closed_window({"count": 3, "loss": 0.5})
    assert (found["bonus/count"], found["bonus/loss"]) == (3.0, 0.5)
    assert "loss" not in found  # of the agent, which has not learned yet


def test_of_a_list_that_a_bonus_logs_the_mean_is_recorded_and_an_empty_one_is_left_out() -> None:
    found = closed_window({"loss": [0.25, 0.5, 1], "error": []})
    assert found["bonus/loss"] == pytest.approx(7 / 12)
    assert "bonus/error" not in found


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ({"loss": float("nan")}, r"at step 4: scalars\(\)\['loss'\] must be finite, got nan; leave out"),
        ({"loss": np.ones(1)}, r"scalars\(\)\['loss'\] must be a float, got numpy.ndarray; return float"),
        ({"loss": True}, r"must be a float, got bool"),
        ({"loss": [1.0, float("inf")]}, r"scalars\(\)\['loss'\] must be finite, got inf; leave out"),
        ({1: 1.0}, r"the names of scalars\(\) must be str, got 1 \(int\); name each number by a str"),
        (None, r"scalars\(\) must be a dictionary, got None; return numbers by name"),
    ],
)
def test_scalars_that_cannot_be_logged_stop_the_run_with_the_reason(scalars: Any, message: str) -> None:
    with pytest.raises(NotFinite, match=message):
        closed_window(scalars)


# Checkpoints


def test_statistics_in_checkpoints_have_the_names_of_their_attributes() -> None:
    episode, iteration = EpisodeStatistics(), IterationStatistics()
    for statistics in (episode, iteration):
        statistics.count_intrinsic(2.0, clipped=True)
    iteration.count_update(update(loss=1.0, max_q=3.0))
    assert episode.state() == {
        "steps": 0,
        "game_return": 0.0,
        "clipped_return": 0.0,
        "first_reward_step": None,
        "intrinsic_sum": 2.0,
        "intrinsic_max": 2.0,
        "clipped_sums": 1,
    }
    assert iteration.state() == {
        "steps": 0,
        "returns": [],
        "updates": 1,
        "loss_sum": 1.0,
        "max_q_sum": 3.0,
        "mass_low_sum": 0.0,
        "mass_high_sum": 0.0,
        "clipped_sums": 1,
    }
    assert EpisodeStatistics(**episode.state()) == episode
    assert IterationStatistics(**iteration.state() | {"intrinsic": [2.0]}) == iteration


# Runs under way


def test_a_run_under_way_has_its_scalars_and_cells_in_its_checkpoint(tmp_path: Path) -> None:
    train(tiny_run(), Folder(tmp_path))
    finished = {table: load(tmp_path).query(f"SELECT * FROM {table}").to_pylist() for table in ("scalars", "cells")}  # noqa: S608
    for name in (
        "status.json",
        *(path.name for path in tmp_path.glob("finished-*")),
        *(f"{t}.parquet" for t in TABLES),
    ):
        (tmp_path / name).unlink()
    under_way = load(tmp_path)
    for table, rows in finished.items():
        assert under_way.query(f"SELECT * FROM {table}").to_pylist() == rows != []  # noqa: S608
    assert set(LOGGED) | {"cells"} == set(TABLES) - {"attempts"}


@pytest.mark.parametrize(("iteration", "window"), [(250_000, 2_500), (10_000, 1_000), (2_500, 250), (40, 250)])
def test_a_window_is_a_tenth_of_an_iteration_within_bounds(
    monkeypatch: pytest.MonkeyPatch, iteration: int, window: int
) -> None:
    monkeypatch.setattr("offpiste.rows.SCALAR_STEPS", 2_500)
    tracker = Tracker(tiny_run(schedule=ScheduleConfig(iteration_steps=iteration)))
    assert tracker._window_steps == window
