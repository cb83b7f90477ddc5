"""When a run is complete, and which runs may be drawn or averaged together."""

import json
from dataclasses import asdict, replace

import pytest

from offpiste.analysis.results import load
from offpiste.analysis.runs import differences
from offpiste.analysis.summary import scores_by_game, summarise
from offpiste.config import BonusConfig, ExplorationConfig
from offpiste.parsing import from_dict, to_dict
from offpiste.store.documents import signed, unsigned
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import AGENT, SCHEDULE, THREE, config_of, iteration_rows, write_run
from tests.test_fingerprints import LaterRun


def test_a_run_whose_frames_are_no_whole_steps_is_complete_at_the_last_whole_one(store: Folder) -> None:
    write_run(store, config_of(seed=0, frames=1_203), THREE)  # 300 steps of 4 frames, as far as training goes
    write_run(store, config_of(seed=1, frames=1_204), THREE, state="paused")
    results = load(store)
    assert [(run.frames, run.complete) for run in results.runs] == [(1_200, True), (1_200, False)]
    assert results.columns("SELECT complete FROM runs ORDER BY seed") == [[True, False]]


@pytest.mark.parametrize(
    ("trained", "evaluations", "frames"),
    [
        (3, [1.0, 2.0, 3.0], 1_200),
        (3, [1.0, 2.0], 1_196),  # 300 steps but one: its last evaluation is missing
        (3, [1.0], 796),
        (2, [1.0, 2.0], 800),
        (2, [1.0], 796),
        (1, [], 396),
    ],
)
def test_a_run_is_complete_once_its_last_evaluation_is(
    trained: int, evaluations: list[float], frames: int, store: Folder
) -> None:
    schedule = replace(SCHEDULE, evaluation_steps=50)
    write_run(store, config_of(seed=0, schedule=schedule), THREE[:trained], state="paused", evaluations=evaluations)
    write_run(store, config_of(seed=1, schedule=schedule), THREE, evaluations=THREE)
    results = load(store)
    complete = frames == 1_200
    assert [(run.frames, run.complete) for run in results.runs] == [(frames, complete), (1_200, True)]
    assert [found.reached for found in summarise(results)] == [complete, True]


def test_a_partial_evaluation_does_not_complete_a_run(store: Folder) -> None:
    schedule = replace(SCHEDULE, evaluation_steps=50)
    name = write_run(store, config_of(schedule=schedule), THREE, state="paused", evaluations=THREE)
    rows = [*iteration_rows(THREE), *iteration_rows(THREE, phase="evaluation")]
    rows[-1] = replace(rows[-1], complete=False)
    store.below(name).put("iterations.parquet", to_parquet("iterations", map(asdict, rows)))
    assert [(run.frames, run.complete) for run in load(store).runs] == [(1_196, False)]


def test_runs_of_one_protocol_are_comparable_whatever_their_game_method_and_seed(store: Folder) -> None:
    write_run(store, config_of("freeway", "epsilon_greedy", 0), THREE)
    write_run(store, config_of("hero", "cts", 1, bonus=BonusConfig(name="cts", scale=0.1)), THREE)
    assert differences(load(store).runs) == ""


def test_the_settings_in_which_protocols_differ_are_named(store: Folder) -> None:
    write_run(store, config_of(seed=0), THREE)
    write_run(store, config_of(seed=1), THREE)
    write_run(store, config_of(seed=2, agent=replace(AGENT, precision="bf16", hidden_units=64)), THREE)
    runs = load(store).runs
    assert differences(runs) == (
        "these runs were not made alike: agent.hidden_units is 512 in 2 and 64 in 1; "
        "agent.precision is 'fp32' in 2 and 'bf16' in 1"
    )
    assert differences(runs[:2]) == ""


def test_a_run_from_before_a_setting_counts_as_one_that_has_it_at_its_default(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(store, config_of(seed=0), THREE)
    monkeypatch.setattr("offpiste.config.RunConfig", LaterRun)
    write_run(store, from_dict(LaterRun, to_dict(config_of(seed=1))), THREE)
    assert differences(load(store).runs) == ""
    write_run(
        store, from_dict(LaterRun, to_dict(config_of(seed=2)) | {"agent": to_dict(AGENT) | {"double_q": True}}), THREE
    )
    assert differences(load(store).runs) == "these runs were not made alike: agent.double_q is False in 2 and True in 1"


def test_another_version_of_results_is_another_protocol(store: Folder) -> None:
    name = write_run(store, config_of(seed=0), THREE)
    write_run(store, config_of(seed=1), THREE)
    about = unsigned(json.loads(store.get(f"{name}/run.json") or b""))
    about |= {"results_version": 99, "protocol_fingerprint": "other"}
    store.put(f"{name}/run.json", json.dumps(signed(about)).encode())
    assert "results_version is 99 in 1" in differences(load(store).runs)


def test_one_method_with_two_settings_is_not_one_method_unless_a_variant_says_so(store: Folder) -> None:
    cts = BonusConfig(name="cts", scale=0.1)
    write_run(store, config_of(method_name="cts", seed=0, bonus=cts), THREE)
    write_run(store, config_of(method_name="cts", seed=1, bonus=replace(cts, scale=0.2)), THREE)
    assert "bonus.scale is 0.1 in 1 and 0.2 in 1" in differences(load(store).runs)


def test_one_method_whose_bonus_was_edited_between_two_runs_is_not_one_method(store: Folder) -> None:
    mine = BonusConfig(name="mine:Mine", scale=0.1)
    for seed in (0, 1):
        write_run(store, config_of(method_name="mine", seed=seed, bonus=mine), THREE, bonus_source="a" * 64)
    assert differences(load(store).runs) == ""
    edited = store.below("edited")  # the same run but for the file: not a copy that could be left out
    write_run(edited, config_of(method_name="mine", seed=1, bonus=mine), THREE, bonus_source="b" * 64)
    assert differences(load(store).runs) == (
        "these runs were not made alike: the file of the bonus of mine is 'aaaaaaaaaaaa' in 2 and 'bbbbbbbbbbbb' in 1"
    )
    write_run(store, config_of(method_name="mine", seed=2, bonus=mine), THREE)  # as versions before the hash did
    assert "'not recorded' in 1" in differences(load(store).runs)


def test_variants_are_arms_of_their_own(store: Folder) -> None:
    cts = BonusConfig(name="cts", scale=0.1)
    write_run(store, config_of(method_name="cts", bonus=cts), THREE)
    write_run(store, config_of(method_name="cts", bonus=replace(cts, scale=0.2), variant="beta=0.2"), THREE)
    results = load(store)
    assert differences(results.runs) == ""
    assert sorted(scores_by_game(summarise(results))["freeway"]) == ["cts", "cts beta=0.2"]


def test_a_run_that_ends_within_its_warm_up_is_random_play_unless_it_acts_otherwise(store: Folder) -> None:
    """Of 300 steps, of which 301 would be the warm-up."""
    never, just = (replace(AGENT, min_history_steps=steps) for steps in (300, 299))
    noisy = ExplorationConfig(epsilon_start=0.0, epsilon_final=0.0, noisy=True)
    for config in (
        config_of(seed=0, agent=never),
        config_of(seed=1, agent=just),
        config_of(seed=2, agent=never, exploration=ExplorationConfig(epsilon_start=0.5)),
        config_of("freeway", "noisy_nets", 3, agent=never, exploration=noisy),
        config_of("freeway", "ez_greedy", 5, agent=never, exploration=ExplorationConfig(max_repeat_steps=10_000)),
        config_of("freeway", "cts", 4, agent=never, bonus=BonusConfig("cts")),
    ):
        write_run(store, config, THREE)
    assert {run.seed: run.method for run in load(store).runs} == {
        0: "random play",
        1: "epsilon_greedy",
        2: "epsilon_greedy",
        3: "noisy_nets",
        4: "cts",
        5: "ez_greedy",
    }
