"""Every method in every small world, a cell each, and suites that are never averaged."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.comparisons import against_baseline_by_game
from offpiste.analysis.scores import Cell, cells
from offpiste.analysis.small_worlds import EASY, HARD, SMALL_WORLDS, TUNED
from offpiste.analysis.stats import Interval
from offpiste.report.overviews import improvement_panels
from offpiste.report.panels import Dots
from offpiste.report.profile import dots, outcomes, panels, profile_table
from offpiste.store.storage import Folder
from tests.analysis import fake_worlds
from tests.analysis.small_store import SCHEDULE, config_of, write_run
from tests.analysis.small_study import evidence_of, write_small_worlds


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    fake_worlds.use(monkeypatch)
    return Folder(tmp_path / "store")


def cells_of(store: Folder) -> list[Cell]:
    evidence = evidence_of(store)
    return cells(evidence, SMALL_WORLDS, against_baseline_by_game(evidence, SMALL_WORLDS))


def test_a_cell_has_the_mean_normalised_score_and_area_with_intervals(store: Folder) -> None:
    write_small_worlds(store, {("museum", "cts"): [1.0, 0.0, 0.5]}, returns={("museum", "cts"): 0.25})
    (cell,) = cells_of(store)
    assert (cell.suite, cell.game, cell.method, cell.seeds) == ("easy", "museum", "cts", 3)
    assert (cell.score, cell.area) == pytest.approx((0.5, 0.25))
    assert 0.0 < cell.interval.low < 0.2 < 0.8 < cell.interval.high < 1.0
    assert 0.0 <= cell.area_interval.low < 0.25 < cell.area_interval.high


def test_a_cell_counts_what_happened_in_its_runs(store: Folder) -> None:
    """Half way from 2, random play, to 12, the best policy, is 7. An episode is rewarded where training returns any."""
    histories = [
        ([0.0, 0.0, 0.0], [2.0, 2.0, 2.0]),  # never found
        ([0.0, 3.0, 0.0], [2.0, 2.0, 2.0]),  # found but avoided
        ([3.0, 3.0, 3.0], [2.0, 12.0, 2.0]),  # learned, not kept
        ([3.0, 3.0, 3.0], [2.0, 12.0, 12.0]),
    ]
    for seed, (returns, evaluations) in enumerate(histories):
        config = config_of("key_door", "rnd", seed, schedule=replace(SCHEDULE, evaluation_steps=9))
        write_run(store, config, returns, evaluations=evaluations)
    (cell,) = cells_of(store)
    assert (cell.found, cell.learned, cell.kept, cell.avoided) == (3, 2, 1, 1)
    assert cell.happened == "3 found, 2 learned, 1 kept of 4; 1 found but avoided"
    assert cell.goal_frame == (31 + 131) / 2 * 4  # the median of four, one of which never was rewarded


def test_suites_stand_side_by_side_with_all_methods_in_each_and_the_references_last(store: Folder) -> None:
    scores = {(world, method): [0.5] for world in (TUNED, *HARD, *EASY) for method in ("epsilon_greedy", "rnd")}
    scores |= {(TUNED, "oracle"): [1.0], ("four_rooms", "a_bonus_of_mine"): [1.0]}
    write_small_worlds(store, scores)
    found = cells_of(store)
    made = panels(found, SMALL_WORLDS)
    assert [(panel.games, panel.shows) for panel in made] == [
        ((TUNED,), "score"),
        (HARD, "score"),
        (EASY, "score"),
        (EASY, "area"),
    ]
    for panel in (*made, *outcomes(found, SMALL_WORLDS)):
        names = [name for _, name, _, _ in panel.rows]
        assert names[:3] == ["ε-greedy", "RND", "a_bonus_of_mine"]
        assert [is_reference for _, _, is_reference, _ in panel.rows] == [False, False, False, True]
    mine = made[1].rows[2][3]
    assert [cell.game if cell else None for cell in mine] == ["four_rooms", None, None, None]
    assert len(profile_table(found).rows) == len(scores)


def test_only_a_method_that_beats_the_baseline_on_that_world_is_marked(store: Folder) -> None:
    scores = {("four_rooms", "epsilon_greedy"): [0.0] * 6, ("four_rooms", "rnd"): [1.0] * 6}
    scores |= {("catch", "epsilon_greedy"): [1.0] * 6, ("catch", "rnd"): [1.0] * 6}
    write_small_worlds(store, scores)
    assert {(cell.game, cell.method) for cell in cells_of(store) if cell.better} == {("four_rooms", "rnd")}


def test_each_world_has_a_panel_of_its_own_that_fits_beside_the_others(store: Folder) -> None:
    worlds = ("four_rooms", "noisy_tv")
    scores = {(world, "epsilon_greedy"): [0.0] * 6 for world in worlds}
    scores |= {("four_rooms", "cts"): [1.0] * 6, ("noisy_tv", "cts"): [0.0] * 6}
    write_small_worlds(store, scores)
    evidence = evidence_of(store)
    drawn = list(improvement_panels(evidence, against_baseline_by_game(evidence, SMALL_WORLDS)))
    assert [each.name for each in drawn] == ["improvement_four_rooms", "improvement_noisy_tv"]
    for drawing, share in zip(drawn, (1.0, 0.5), strict=True):  # half of the ties count
        (panel,) = drawing.panels
        assert [mark.xs for mark in panel.marks if isinstance(mark, Dots)] == [[share]]


def test_a_seed_is_one_dot_whatever_happened_in_its_run(store: Folder) -> None:
    cell = Cell(
        "hard", "x", "y", 10, 0.5, Interval(0, 1), 0.5, Interval(0, 1), False, 7, 1.0, learned=5, kept=3, avoided=2
    )
    svg = dots(cell)
    counts = [svg.count(fill) for fill in ('fill="var(--kept)"', "--learned", 'fill="none"', "--line")]
    assert counts == [3, 2, 2, 3]
    assert svg.count("<circle") == 10
