"""Methods beside ε-greedy, and all of them across games: cases worked out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.comparisons import (
    SUITE_TITLES,
    Contrast,
    against_baseline,
    against_baseline_by_game,
    aggregates,
    common_games,
    correlations,
    every_comparison,
    gains,
    min_pairs,
    with_calls,
)
from offpiste.analysis.evidence import gather
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.paper import HARD, MONTEZUMA
from offpiste.analysis.results import load
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.stats import compare, holm
from offpiste.config import BonusConfig
from offpiste.methods import METHODS, PAPER_METHODS, base_run
from offpiste.store.storage import Folder
from offpiste.study.plan import read_study
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores
from tests.analysis.small_store import write_run
from tests.analysis.small_study import evidence_of, write_small_worlds, write_study


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize(
    ("p", "rejected"),
    [
        ([0.01, 0.04, 0.03], [True, False, False]),  # 0.01 ≤ 0.05 / 3, then 0.03 > 0.05 / 2
        ([0.01, 0.02, 0.03], [True, True, True]),  # 0.02 ≤ 0.05 / 2, 0.03 ≤ 0.05
        ([0.04, 0.001], [True, True]),
        ([0.06], [False]),
        ([], []),
    ],
)
def test_holm_by_hand(p: list[float], rejected: list[bool]) -> None:
    assert holm(p) == rejected


@pytest.mark.parametrize(("seeds", "call"), [(5, "not decidable"), (6, "better")])
def test_a_call_is_corrected_for_all_that_were_made(store: Folder, seeds: int, call: str) -> None:
    """One comparison is two one-sided tests."""
    write_study(store, {("pong", "epsilon_greedy"): [0.0] * seeds, ("pong", "cts"): [1.0] * seeds})
    (found,) = against_baseline(evidence_of(store))
    assert (found.suite, found.games, found.comparison.pairs) == ("Pong", ("pong",), seeds)
    assert found.comparison.p_better == pytest.approx(0.5**seeds)  # 1/32 is above 0.05 / 2, 1/64 below
    assert found.call == call


def test_sets_of_games_count_the_games_that_both_have(store: Folder) -> None:
    write_study(
        store,
        {
            ("freeway", "epsilon_greedy"): [20.0],
            ("freeway", "cts"): [5.0],
            ("hero", "epsilon_greedy"): [900.0],
            ("hero", "cts"): [2000.0],
            ("gravitar", "cts"): [900.0],
        },
    )
    found = {each.suite: each for each in against_baseline(evidence_of(store))}
    assert {suite: each.games for suite, each in found.items()} == {
        "other hard games": ("freeway",),
        "training games": ("hero",),
        "paper’s games together": ("freeway", "hero"),
    }
    assert found["other hard games"].comparison.difference == pytest.approx(-15 / 29.6)
    assert found["paper’s games together"].comparison.probability == 0.5


def test_without_the_baseline_nothing_is_held_beside_it(store: Folder) -> None:
    write_study(store, {("freeway", "cts"): [1.0, 2.0]})
    assert against_baseline(evidence_of(store)) == []


def test_aggregates_are_over_the_games_that_most_methods_share(store: Folder) -> None:
    human = GAMES["freeway"].human_score
    write_study(
        store,
        {
            ("freeway", "epsilon_greedy"): [0.0, human],
            ("gravitar", "epsilon_greedy"): [173.0, 173.0],
            ("freeway", "cts"): [human, human],
            ("gravitar", "cts"): [3351.4, 3351.4],
            ("freeway", "rnd"): [human, human],
        },
    )
    evidence = evidence_of(store)
    assert common_games(evidence) == (["freeway", "gravitar"], ["epsilon_greedy", "cts"])
    greedy, cts = aggregates(evidence)
    assert (greedy.runs, cts.runs) == (4, 4)
    # Of 0, 0, 0, 1 the middle half is 0, 0; game means are 0.5 and 0; misses are 1, 1, 1, 0.
    assert {name: value for name, (value, _) in greedy.values.items()} == {
        "IQM": pytest.approx(0.0),
        "median of game means": pytest.approx(0.25),
        "optimality gap": pytest.approx(0.75),
    }
    value, interval = cts.values["IQM"]
    assert [value, interval.low, interval.high] == pytest.approx([1.0, 1.0, 1.0])


def test_gain_and_harm(store: Folder) -> None:
    write_study(
        store,
        {
            ("freeway", "epsilon_greedy"): [0.0, 0.0],
            ("freeway", "cts"): [29.6, 14.8],
            ("hero", "epsilon_greedy"): [30826.4, 30826.4],
            ("hero", "cts"): [1027.0, 1027.0],
        },
    )
    evidence = evidence_of(store)
    assert gains(evidence, "hard")["cts"][0] == pytest.approx(0.75)
    assert gains(evidence, "training")["cts"][0] == pytest.approx(-1.0)
    assert gains(evidence, "montezuma") == {}


def test_rank_correlation_is_one_where_methods_rank_alike_and_minus_one_where_reversed(store: Folder) -> None:
    scores = {}
    for index, method in enumerate(PAPER_METHODS):
        scores[MONTEZUMA, method] = [100.0 * index, 100.0 * index + 1]
        for game in HARD:
            up = game != "pitfall"
            scores[game, method] = [10.0 * (index if up else -index)] * 2
    write_study(store, scores)
    found = {each.game: each for each in correlations(evidence_of(store))}
    assert found["freeway"].value == pytest.approx(1.0)
    assert found["pitfall"].value == pytest.approx(-1.0)
    assert found[""].value == pytest.approx(4 / 6)
    assert found["freeway"].methods == 6
    assert found["freeway"].interval.low == pytest.approx(1.0)
    assert "hero" not in found


def test_methods_that_are_all_equal_have_no_rank_correlation(store: Folder) -> None:
    write_study(store, {(game, method): [3.0] for game in (MONTEZUMA, "hero") for method in PAPER_METHODS})
    (found,) = correlations(evidence_of(store))
    assert found.value == 0.0
    assert np.isfinite([found.interval.low, found.interval.high]).all()


def test_on_small_worlds_methods_are_called_better_by_holms_correction_within_each_world(store: Folder) -> None:
    """Seven wins of seven, p = 1/128: enough for the second of seven methods after a first, not for the first."""
    names = ("noisy_nets", "cts", "pixelcnn", "icm", "rnd", "rnd_released", "simhash")
    flat = [0.0] * 10
    scores = {("four_rooms", name): flat for name in (BASELINE, *names)}
    scores["four_rooms", "cts"] = [1.0] * 7 + [0.0] * 3
    write_small_worlds(store, scores)
    evidence = evidence_of(store)
    found = {each.method: each for each in against_baseline_by_game(evidence, SMALL_WORLDS)}
    assert set(found) == set(names)
    assert found["cts"].comparison.p_better == pytest.approx(1 / 128)
    assert found["cts"].call == "not shown"  # 7/128 for all seven
    better = Folder(f"{store.location}-better")
    write_small_worlds(better, scores | {("four_rooms", "rnd"): [1.0] * 10, ("key_door", "cts"): [1.0] * 10})
    calls = {each.method: each.call for each in against_baseline_by_game(evidence_of(better), SMALL_WORLDS)}
    assert {method for method, call in calls.items() if call == "better"} == {"cts", "rnd"}


def test_each_small_world_is_corrected_by_itself(store: Folder) -> None:
    """Five wins of five suffice for the only method on a world, whatever stands beside it on other worlds."""
    scores = {(world, BASELINE): [0.0] * 5 for world in ("catch", "rain")} | {("catch", "cts"): [1.0] * 5}
    scores |= {("rain", name): [0.0] * 5 for name in ("cts", "icm", "rnd")}
    write_small_worlds(store, scores)
    calls = {
        (each.games, each.method): each.call for each in against_baseline_by_game(evidence_of(store), SMALL_WORLDS)
    }
    assert calls[("catch",), "cts"] == "better"
    assert {call for key, call in calls.items() if key[0] == ("rain",)} == {"not shown"}


def test_small_worlds_are_not_among_the_sets_of_games_that_are_corrected_together(store: Folder) -> None:
    write_small_worlds(store, {("catch", BASELINE): [0.0] * 5, ("catch", "cts"): [1.0] * 5})
    write_study(store, {("pong", BASELINE): [0.0] * 6, ("pong", "cts"): [1.0] * 6})
    evidence = evidence_of(store)
    assert [each.suite for each in against_baseline(evidence)] == ["Pong"]


def test_on_small_worlds_a_difference_within_the_margin_is_a_tie_and_areas_stand_beside(store: Folder) -> None:
    scores = {("rain", BASELINE): [0.5] * 6, ("rain", "cts"): [0.54] * 6}
    write_small_worlds(store, scores, returns={("rain", BASELINE): 0.4, ("rain", "cts"): 0.1})
    (found,) = against_baseline_by_game(evidence_of(store), SMALL_WORLDS)
    assert (found.comparison.probability, found.call) == (0.5, "not shown")
    assert found.area is not None
    assert found.area.difference == pytest.approx(-0.3)


def test_a_game_that_a_store_calls_like_a_set_of_games_stands_for_itself(store: Folder) -> None:
    game = SUITE_TITLES["all"]
    write_study(store, {(each, method): [1.0] for each in (game, "venture") for method in ("epsilon_greedy", "cts")})
    found = against_baseline(evidence_of(store))
    assert [(each.suite, each.games) for each in found] == [("other hard games", ("venture",)), (f"‘{game}’", (game,))]


ROOT = Path(__file__).parents[2]


def contrast(method: str, wins: int, losses: int, family: str = "others") -> Contrast:
    differences = np.array([1.0] * wins + [-1.0] * losses)
    return Contrast("Pong", method, ("pong",), compare([differences], 0.05), family)  # type: ignore[arg-type]


def calls_of(*rows: Contrast) -> dict[str, str]:
    return {each.method: each.call for each in with_calls(rows, ("better",))}


def test_published_methods_and_others_are_corrected_among_themselves() -> None:
    """Five wins of five, p = 1/32, suffice for one method and not for the first of two."""
    published = contrast("cts", 5, 0, "published")
    assert calls_of(published) == {"cts": "better"}
    assert calls_of(published, contrast("mine", 0, 5)) == {"cts": "better", "mine": "not shown"}
    assert calls_of(published, contrast("mine", 5, 0)) == {"cts": "better", "mine": "better"}
    assert calls_of(published, contrast("rnd", 0, 5, "published"))["cts"] == "not shown"
    assert calls_of(contrast("mine", 5, 0), contrast("yours", 0, 5))["mine"] == "not shown"


def test_a_method_with_too_few_pairs_for_any_call_costs_the_others_nothing() -> None:
    few, enough = contrast("few", 4, 0), contrast("enough", 5, 0)
    assert (min_pairs(["better"]), min_pairs(["better", "worse"])) == (5, 6)
    assert calls_of(few, enough) == {"few": "not decidable", "enough": "better"}
    both = with_calls([contrast("five", 5, 0), contrast("six", 0, 6)], ("better", "worse"))
    assert [each.call for each in both] == ["not decidable", "worse"]


def test_published_are_the_methods_of_the_published_study_with_their_constants() -> None:
    arms = read_study(ROOT / "studies" / "small_worlds.toml").arms
    assert set(SMALL_WORLDS.published) == {arm.name for arm in arms}


def test_a_bonus_that_somebody_adds_moves_no_published_verdict(store: Folder) -> None:
    """CTS on Deep Sea, p = 0.0078, is the last that Holm's correction lets through among the published methods."""
    published = ROOT / "results" / "small_worlds"
    alone = gather(load(published), str(published))
    for world in SMALL_WORLDS.games:
        run = replace(base_run(world), bonus=BonusConfig("mine:Mine"))
        returns = [reference_scores(world).random] * (run.frames // run.schedule.iteration_steps)
        for method, seeds in (("three_seeds", 3), ("ten_seeds", 10)):
            for seed in range(seeds):
                write_run(store, replace(run, method=method, seed=seed), returns, evaluations=returns)
    beside = gather(load(store, published), store.location)
    calls = [
        {(each.games, each.method): (each.family, each.call, each.comparison.p_better) for each in every_comparison(of)}
        for of in (alone, beside)
    ]
    assert {family for family, *_ in calls[0].values()} == {"published"}
    assert calls[0][("deep_sea_12",), "cts"] == ("published", "better", 1 / 128)
    added = {key: calls[1].pop(key) for key in [*calls[1]] if key[1].endswith("_seeds")}
    assert calls[1] == calls[0]
    assert {(method, *found[:2]) for (_, method), found in added.items()} == {
        ("three_seeds", "others", "not decidable"),
        ("ten_seeds", "others", "not shown"),
    }
    assert repr(beside.verdicts) == repr(alone.verdicts)


def test_a_built_in_method_with_other_constants_is_none_of_the_published_ones(store: Folder) -> None:
    own = base_run("catch", "cts")
    for name, run in {
        BASELINE: base_run("catch"),
        "cts": own,
        "rnd": replace(own, method="rnd"),  # under the name of another
        "simhash": replace(base_run("catch", "simhash"), bonus=BonusConfig("simhash", scale=7.0)),
    }.items():
        assert name in METHODS
        for seed in range(2):
            write_run(store, replace(run, seed=seed), [0.0, 0.0], evaluations=[0.0, 0.0])
    families = {each.method: each.family for each in against_baseline_by_game(evidence_of(store), SMALL_WORLDS)}
    assert families == {"cts": "published", "rnd": "others", "simhash": "others"}
