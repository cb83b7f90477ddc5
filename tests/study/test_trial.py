"""A trial of a bonus: the runs of its studies, and the setting that it chooses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.results import load
from offpiste.analysis.small_worlds import SMALL_WORLDS as BENCHMARK
from offpiste.config import BonusConfig
from offpiste.errors import OffpisteError
from offpiste.methods import METHODS, base_run
from offpiste.store.storage import Folder
from offpiste.study.plan import Study
from offpiste.study.trial import Trial, best_of, tune
from offpiste.study.tuning import Grid
from offpiste.worlds.registry import SUITES
from tests.analysis.small_store import write_run

WORLDS = SUITES["small_worlds"]
GRID = Grid((0.1, 0.32, 1.0), (1e-4, 1e-3))
SIMHASH = Trial("examples.simhash:SimHash", WORLDS, 10)


def test_the_tuning_has_every_setting_on_five_seeds_of_one_world() -> None:
    study, _ = SIMHASH.tuning(GRID)
    assert len(study.runs) == 6 * 5
    assert {run.game for run in study.runs} == {"deep_sea_12"}
    assert {run.seed for run in study.runs} == {100, 101, 102, 103, 104}
    assert study.runs[0].run_id == "deep_sea_12/sim_hash/beta=0.1,lr=0.0001/seed-100"
    assert study.runs[0].bonus == BonusConfig("examples.simhash:SimHash", {"learning_rate": 1e-4}, 0.1)
    assert study.runs[0].frames == 5_000


def test_the_result_has_ten_seeds_of_each_world_and_no_variant() -> None:
    study, content = SIMHASH.result({"scale": 0.32, "options": {"bits": 8}})
    assert [run.run_id for run in study.runs[:2]] == ["deep_sea_12/sim_hash/seed-0", "four_rooms/sim_hash/seed-0"]
    assert len(study.runs) == 80
    assert all(run.bonus == BonusConfig("examples.simhash:SimHash", {"bits": 8}, 0.32) for run in study.runs)
    assert content["keep"] == "results"


def test_in_a_world_without_published_results_epsilon_greedy_runs_beside_the_bonus() -> None:
    study, _ = Trial("simhash", ("catch", "minigrid_door_key"), 1).result({})
    assert [run.run_id for run in study.runs] == [
        "catch/simhash/seed-0",
        "minigrid_door_key/simhash/seed-0",
        "minigrid_door_key/epsilon_greedy/seed-0",
    ]
    study, _ = Trial("epsilon_greedy", ("minigrid_door_key",), 1).result({})
    assert len(study.runs) == 1


@pytest.fixture
def other_constants(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let a test set constants of methods, which no other test is to find in the cache."""
    base_run.cache_clear()
    yield monkeypatch
    base_run.cache_clear()


def test_a_built_in_method_is_tuned_under_its_own_name_unless_its_constants_are_published(
    other_constants: pytest.MonkeyPatch,
) -> None:
    assert Trial("rnd", WORLDS, 2).is_tuned
    assert {run.variant for run in Trial("rnd", WORLDS, 2).result({})[0].runs} == {""}
    assert Trial("epsilon_greedy", WORLDS, 2).is_tuned
    assert Trial("ez_greedy", WORLDS, 2).is_tuned  # there is no bonus to tune
    trial = Trial("oracle_left", WORLDS, 2)
    row = METHODS["oracle_left"]
    for constants in ({}, {"small_worlds": row.bonus}):  # such as follow a rule, which nobody tuned
        other_constants.setitem(METHODS, "oracle_left", replace(row, constants=row.constants | constants))
        assert (trial.method, trial.is_tuned) == ("oracle_left", False)
        assert {run.method for run in trial.tuning(GRID)[0].runs} == {"oracle_left"}
    by_rule = Trial("noveld", WORLDS, 2)
    assert not by_rule.is_tuned
    assert by_rule.start == METHODS["noveld"].constants["small_worlds"]  # whose options are kept in tuning
    (exact,) = {run.bonus.options["exact_frames"] for run in by_rule.tuning(GRID)[0].runs}
    assert exact


def finish(store: Folder, study: Study, score: float) -> None:
    """Write finished runs of a study, whose scores are the higher the nearer their β is to 3.2."""
    for run in study.runs:
        value = score - abs(run.bonus.scale - 3.2) / 10
        short = replace(run, frames=2, schedule=replace(run.schedule, iteration_steps=1))
        write_run(store, short, [value, value], evaluations=[value, value])


def test_the_setting_with_the_best_evaluations_is_chosen_and_the_grid_is_extended_once(tmp_path: Path) -> None:
    store, seen = Folder(tmp_path), list[list[float]]()

    def run(study: Study, _: dict[str, Any]) -> None:
        seen.append(sorted({one.bonus.scale for one in study.runs}))
        finish(store, study, score=1.0)

    assert tune(SIMHASH, GRID, str(tmp_path), run) == {"scale": 3.2, "options": {"learning_rate": 1e-4}}
    assert seen == [[0.1, 0.32, 1.0], [3.2, 10.0]]


def test_of_settings_whose_smoothed_scores_are_equal_that_with_the_larger_area_is_chosen(
    tmp_path: Path,
) -> None:
    # By β, its evaluation and its area. Smoothed: 0.973, 0.956, 0.903, 0.833 and 0.33, 0.55, 0.75, 0.8
    learned = {0.1: (0.985, 0.2), 0.32: (0.95, 0.6), 1.0: (0.94, 0.8), 3.2: (0.78, 0.8)}
    for run in SIMHASH.tuning(Grid(tuple(learned)))[0].runs:
        evaluation, area = learned[run.bonus.scale]
        short = replace(run, frames=2, schedule=replace(run.schedule, iteration_steps=1))
        write_run(Folder(tmp_path), short, [area, area], evaluations=[0.0, evaluation])
    assert best_of(SIMHASH, load(tmp_path)) == {"scale": 0.32, "options": {}}
    once_more = Trial("simhash", WORLDS, 10)  # of the first edition, whose constants were chosen without smoothing
    assert BENCHMARK.is_of_the_first_edition(once_more.method, "deep_sea_12")
    for run in once_more.tuning(Grid(tuple(learned)))[0].runs:
        evaluation, area = learned[run.bonus.scale]
        short = replace(run, frames=2, schedule=replace(run.schedule, iteration_steps=1))
        write_run(Folder(tmp_path), short, [area, area], evaluations=[0.0, evaluation])
    assert best_of(once_more, load(tmp_path))["scale"] == 1.0


def test_without_a_finished_run_no_setting_can_be_chosen(tmp_path: Path) -> None:
    study, _ = SIMHASH.tuning(GRID)
    write_run(Folder(tmp_path), study.runs[0], [0.0], state="running")
    with pytest.raises(OffpisteError, match=r"no run of the tuning in .* is finished"):
        best_of(SIMHASH, load(tmp_path))
