"""Methods beside ε-greedy, and all of them across games: cases worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.claims import HARD, MONTEZUMA
from offpiste.methods import PAPER_METHODS
from offpiste.report.contrasts import _holm, aggregates, common_games, contrasts, correlations, gains
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from tests.report.small_study import evidence_of, write_study


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
    assert _holm(p) == rejected


@pytest.mark.parametrize(("seeds", "call"), [(5, "not shown"), (6, "better")])
def test_a_call_is_corrected_for_all_that_were_made(store: Folder, seeds: int, call: str) -> None:
    """One comparison is two one-sided tests."""
    write_study(store, {("pong", "epsilon_greedy"): [0.0] * seeds, ("pong", "cts"): [1.0] * seeds})
    (found,) = contrasts(evidence_of(store))
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
    found = {each.suite: each for each in contrasts(evidence_of(store))}
    assert {suite: each.games for suite, each in found.items()} == {
        "other hard games": ("freeway",),
        "training games": ("hero",),
        "paper’s games together": ("freeway", "hero"),
    }
    assert found["other hard games"].comparison.difference == pytest.approx(-15 / 29.6)
    assert found["paper’s games together"].comparison.probability == 0.5


def test_without_the_baseline_nothing_is_held_beside_it(store: Folder) -> None:
    write_study(store, {("freeway", "cts"): [1.0, 2.0]})
    assert contrasts(evidence_of(store)) == []


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
    for place, method in enumerate(PAPER_METHODS):
        scores[MONTEZUMA, method] = [100.0 * place, 100.0 * place + 1]
        for game in HARD:
            up = game != "pitfall"
            scores[game, method] = [10.0 * (place if up else -place)] * 2
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
