"""What is taken together, and what is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.evidence import PAPER_FRAMES, gather_apart
from offpiste.analysis.fairness import tunings
from offpiste.analysis.results import load
from offpiste.config import BonusConfig, RunConfig
from offpiste.errors import RunMismatch
from offpiste.report.sentences import scope
from offpiste.store.storage import Folder
from tests.analysis.small_store import AGENT, SCHEDULE, config_of, write_run
from tests.analysis.small_study import evidence_of, write_small_worlds, write_study


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def test_runs_that_tune_count_for_nothing_else(store: Folder) -> None:
    bonus = BonusConfig(name="cts", scale=0.1)
    write_run(store, config_of(method_name="cts", bonus=bonus), [1.0, 1.0, 1.0])
    write_run(store, config_of(method_name="cts", bonus=replace(bonus, scale=9.0), variant="beta=9"), [5.0, 5.0, 5.0])
    evidence = evidence_of(store)
    assert evidence.finals("freeway", "cts").tolist() == [1.0]
    assert set(evidence.curves) == {("freeway", "cts")}
    assert evidence.methods == ["cts"]
    assert [run.variant for run in evidence.tuning] == ["beta=9"]
    assert evidence.summaries["freeway/cts/beta=9/seed-0"].final == 5.0


def test_runs_that_score_what_other_seeds_chose_are_neither_tuning_nor_tests(store: Folder) -> None:
    def write(scale: float, seed: int, game: str = "wallpaper", variant: str = "beta") -> str:
        bonus = BonusConfig(name="cts", scale=scale)
        return write_run(
            store, config_of(game, "cts", seed, bonus=bonus, variant=variant and f"beta={scale}"), [1.0] * 3
        )

    test, tried, scored = write(0.1, 0, variant=""), write(9.0, 100), write(9.0, 0)
    on_its_own, elsewhere = write(7.0, 0), write(9.0, 0, "catch")  # of settings that no other seed tried there
    atari = [write(9.0, seed, "freeway") for seed in (0, 100)]
    evidence = evidence_of(store)
    assert [run.name for run in evidence.runs] == [test]
    assert [run.name for run in evidence.chosen] == [scored]
    assert {run.name for run in evidence.tuning} == {tried, on_its_own, elsewhere, *atari}
    assert scope(evidence)[1].startswith("Of these, 1 run with a β chosen for the world")
    (found,) = tunings(evidence)
    assert (found.tuning_seeds, found.shared_seeds) == ((0, 100), (0,))


def test_a_game_outside_the_paper_may_have_a_protocol_of_its_own(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    write_study(store, {("deep_sea_6", "epsilon_greedy"): [2.0]}, world=replace(RunConfig().world, frame_skip=1))
    evidence = evidence_of(store)
    assert evidence.finals("deep_sea_6", "epsilon_greedy").tolist() == [2.0]
    assert evidence.mixed == ()


def test_tuning_on_a_game_outside_the_paper_may_have_a_protocol_of_its_own_too(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    for game, world in (("freeway", RunConfig().world), ("deep_sea_6", replace(RunConfig().world, frame_skip=1))):
        write_study(store, {(game, "cts"): [2.0]}, world=world, variant="beta=9")
    assert evidence_of(store).mixed == ()


def test_unlike_protocols_on_the_games_of_the_paper_are_refused_or_told(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    write_study(store, {("hero", "epsilon_greedy"): [2.0]}, agent=replace(AGENT, hidden_units=64))
    with pytest.raises(RunMismatch, match=r"agent\.hidden_units is 512 in 1 and 64 in 1\. Put them .* --allow-mixed"):
        evidence_of(store)
    (warning,) = evidence_of(store, allow_mixed=True).mixed
    assert "agent.hidden_units" in warning
    assert "--allow-mixed" not in warning


def test_each_comparison_has_its_own_end(store: Folder) -> None:
    write_run(store, config_of("freeway"), [1.0, 2.0, 3.0])
    write_run(store, config_of("pong", frames=800), [4.0, 6.0])
    evidence = evidence_of(store)
    assert evidence.horizons == {"freeway": 1200, "pong": 800}
    assert evidence.finals("pong", "epsilon_greedy").tolist() == [5.0]
    held = evidence_of(store, frames=400)
    assert held.finals("freeway", "epsilon_greedy").tolist() == [1.0]
    assert held.finals("pong", "epsilon_greedy").tolist() == [4.0]


def test_departures_from_the_protocol_of_the_paper_are_named(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    departures = evidence_of(store).departures()
    assert departures == {
        "agent.min_history_steps": ("20", 20_000),
        "schedule.iteration_steps": ("100", 250_000),
        "frames": ("1,200", "200,000,000"),
    }
    assert SCHEDULE.iteration_steps == 100


def test_runs_of_the_paper_depart_in_nothing(store: Folder) -> None:
    config = RunConfig(game="freeway")
    write_run(store, config, [1.0] * 200)
    evidence = evidence_of(store)
    assert evidence.horizons == {"freeway": PAPER_FRAMES}
    assert evidence.departures() == {}


def test_the_games_of_the_runs_say_which_findings_are_judged(store: Folder) -> None:
    write_small_worlds(store, {("catch", "epsilon_greedy"): [1.0]})
    assert [each.name for each in evidence_of(store).benchmarks] == ["small_worlds"]
    assert set(evidence_of(store).verdicts) == {"small_worlds"}
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    assert set(evidence_of(store).verdicts) == {"paper", "small_worlds"}
    other = Folder(f"{store.location}-other")
    write_study(other, {("pong", "epsilon_greedy"): [1.0]})
    assert set(evidence_of(other).verdicts) == set()


def test_a_small_world_is_scored_by_its_evaluation_and_a_game_by_its_training(store: Folder) -> None:
    write_small_worlds(store, {("catch", "cts"): [0.7, 0.9]}, returns={("catch", "cts"): 0.4})
    write_study(store, {("pong", "cts"): [5.0]})
    evidence = evidence_of(store)
    assert evidence.normalised("catch", "cts").tolist() == pytest.approx([0.7, 0.9])
    assert evidence.normalised_areas("catch", "cts").tolist() == pytest.approx([0.4, 0.4])
    assert evidence.finals("pong", "cts").tolist() == [5.0]
    assert evidence.measures == {"pong": "final", "catch": "evaluation"}
    assert evidence.ties == {"pong": 0.0, "catch": pytest.approx(0.04)}  # a twentieth of 0.2 to 1


def test_a_small_world_that_was_never_evaluated_is_a_game_like_any_other(store: Folder) -> None:
    write_study(store, {("deep_sea_12", "cts"): [0.5]})
    evidence = evidence_of(store)
    assert evidence.benchmark("deep_sea_12") is None
    assert evidence.finals("deep_sea_12", "cts").tolist() == [0.5]
    assert evidence.benchmarks == ()


def test_scores_are_normalised_by_random_and_human_play(store: Folder) -> None:
    write_study(store, {("gravitar", "epsilon_greedy"): [173.0, 3351.4]})
    assert evidence_of(store).normalised("gravitar", "epsilon_greedy").tolist() == [0.0, 1.0]


def test_runs_stand_in_the_order_of_the_paper(store: Folder) -> None:
    write_study(store, {("hero", "cts"): [1.0], ("hero", "epsilon_greedy"): [1.0, 1.0], ("freeway", "rnd"): [1.0]})
    assert [(run.game, run.method, run.seed) for run in evidence_of(store).runs] == [
        ("freeway", "rnd", 0),
        ("hero", "epsilon_greedy", 0),
        ("hero", "epsilon_greedy", 1),
        ("hero", "cts", 0),
    ]


def test_runs_that_were_not_made_alike_are_each_shown_by_themselves(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0], ("freeway", "cts"): [3.0]})
    write_study(store, {("hero", "epsilon_greedy"): [4.0]}, agent=replace(AGENT, hidden_units=64))
    write_study(store, {("deep_sea_6", "epsilon_greedy"): [5.0]})
    evidence = gather_apart(load(store), store.location)
    assert len(evidence.runs) == 5
    assert [run.game for run in evidence.together] == ["deep_sea_6"]
    assert evidence.scores.keys() == {key[0] for key in evidence.curves} == {"deep_sea_6"}
    assert evidence.benchmarks == ()
    assert [part.part for part in evidence.apart] == [1, 2, 3]
    arms = [
        (run.game, run.method, part.finals(run.game, run.method).tolist())
        for part in evidence.apart
        for run in part.runs[:1]
    ]
    assert arms == [
        ("freeway", "epsilon_greedy", [1.0, 2.0]),
        ("freeway", "cts", [3.0]),
        ("hero", "epsilon_greedy", [4.0]),
    ]
    assert all(not part.verdicts and not part.benchmarks for part in evidence.apart)
    assert [evidence.shows(game) for game in ("deep_sea_6", "freeway", "hero")] == [True, False, False]
    assert [evidence.apart[2].shows(game) for game in ("deep_sea_6", "freeway", "hero")] == [False, False, True]


def test_two_kinds_of_one_arm_are_apart_under_one_protocol_too(store: Folder) -> None:
    for seed, scale in enumerate((0.1, 0.2, 0.1)):
        write_run(store, config_of("pong", "cts", seed, bonus=BonusConfig("cts", scale=scale)), [float(seed)] * 3)
    found = [part.finals("pong", "cts").tolist() for part in gather_apart(load(store), store.location).apart]
    assert found == [[0.0, 2.0], [1.0]]


def test_runs_that_were_made_alike_have_nothing_apart(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0]})
    evidence = gather_apart(load(store), store.location)
    assert evidence.apart == ()
    assert evidence.finals("freeway", "epsilon_greedy").tolist() == [1.0, 2.0]
