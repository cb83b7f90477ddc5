"""Seven β of a bonus under trial in each of its worlds, and what they score."""

from pathlib import Path

import pytest

from offpiste.analysis.results import load
from offpiste.methods import base_run
from offpiste.store.storage import Folder
from offpiste.study.sensitivity import curves_of, minutes, scales_of, studies_of, tuned_scales
from offpiste.study.trial import Trial
from offpiste.study.tuning import Grid, half_decades
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import reference_scores
from tests.analysis.small_store import write_run

WORLDS = SUITES["small_worlds"]
SIMHASH = Trial("examples.simhash:SimHash", WORLDS, 10)
GRID = Grid(half_decades(1.0, 5), (1e-4, 1e-3))
SCALES = (0.01, 0.032, 0.1, 0.32, 1.0, 3.2, 10.0)


def test_the_scales_are_those_of_the_tuning_and_two_lower_ones() -> None:
    assert scales_of(GRID) == SCALES


def test_hard_worlds_have_two_seeds_easy_ones_one_and_deep_sea_what_the_tuning_lacks() -> None:
    found = {study.name: study for study, _ in studies_of(SIMHASH, SCALES, {"bits": 8}, GRID.scales)}
    hard, easy, tuned = (found[f"try-sim_hash-sensitivity-{part}"] for part in ("hard", "easy", "tuned"))
    assert {(run.game, run.seed) for run in hard.runs} == {
        (game, s) for game in SUITES["small_hard"] for s in (100, 101)
    }
    assert {(run.game, run.seed) for run in easy.runs} == {(game, 100) for game in SUITES["small_easy"]}
    assert {(run.game, run.bonus.scale) for run in tuned.runs} == {("deep_sea_12", scale) for scale in SCALES[:2]}
    assert {run.seed for run in tuned.runs} == {100, 101, 102, 103, 104}
    assert [len(study.runs) for study in (hard, easy, tuned)] == [4 * 7 * 2, 3 * 7, 2 * 5]
    assert {run.bonus.options["bits"] for study in found.values() for run in study.runs} == {8}
    assert hard.runs[0].run_id == "four_rooms/sim_hash/beta=0.01/seed-100"


def test_without_a_tuning_deep_sea_is_a_world_as_others() -> None:
    trial = Trial("examples.simhash:SimHash", ("deep_sea_12", "catch"), 3)
    hard, easy = (study for study, _ in studies_of(trial, SCALES, {}, ()))
    assert {run.game for run in hard.runs} == {"deep_sea_12"}
    assert {run.game for run in easy.runs} == {"catch"}
    steps = 14 * 5_000 + 7 * 5_000  # and evaluation
    assert minutes([hard, easy], 100.0, 2) > steps / 100 / 2 / 60


def test_curves_have_the_runs_of_tuning_and_trial_at_their_k_and_mark_what_was_chosen(tmp_path: Path) -> None:
    trial = Trial("examples.simhash:SimHash", ("deep_sea_12", "wallpaper"), 1)
    store = Folder(tmp_path)
    lower = Grid((0.1, 0.32, 1.0), (1e-4, 1e-3))
    runs = list(trial.tuning(lower)[0].runs)
    for study, _ in studies_of(trial, SCALES, {"learning_rate": 1e-3}, lower.scales):
        runs += study.runs
    for run in [*runs, base_run("wallpaper", "epsilon_greedy")]:
        best = 1.0 if run.game == "deep_sea_12" else 0.1
        value = reference_scores(run.game).score_at(float(run.bonus.scale == best))
        count = run.frames // run.schedule.iteration_steps
        write_run(store, run, [value] * count, evaluations=[value] * count)
    results, options = load(tmp_path), {"learning_rate": 1e-3}
    assert tuned_scales(trial, results, options) == set(SCALES)
    home, wallpaper = curves_of(trial, results, SCALES, options, transferred=1.0)
    assert home.means == pytest.approx({k: float(k == 0) for k in range(-4, 3)})
    assert {len(values) for values in home.values.values()} == {5}
    assert home.chosen == {"transferred": 0, "own": 0}
    assert wallpaper.means == pytest.approx({k: float(k == -2) for k in range(-4, 3)})
    assert {len(values) for values in wallpaper.values.values()} == {2}
    assert wallpaper.chosen == {"transferred": 0, "own": -2}
    assert home.without is None
    assert wallpaper.without == pytest.approx(0.0)
    untuned = curves_of(trial, results, SCALES, options, transferred=None)
    assert [curve.chosen for curve in untuned] == [{"own": 0}, {"own": -2}]
