"""Any two methods side by side, curves with intervals, and scores and settings in SQL."""

from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis.results import Results, load
from offpiste.config import BonusConfig
from offpiste.errors import OffpisteError
from offpiste.store.storage import Folder
from tests.analysis import fake_worlds
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import write_small_worlds, write_study


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    fake_worlds.use(monkeypatch)
    store = Folder(tmp_path)
    scores = {("museum", "cts"): [1.0, 0.5, 0.5], ("museum", "rnd"): [0.0, 0.0, 0.505], ("catch", "cts"): [1.0]}
    write_small_worlds(store, scores, returns={("museum", "cts"): 0.25})
    return load(store)


def test_two_methods_are_compared_seed_by_seed_where_both_have_scores(results: Results) -> None:
    (found,) = results.compare("cts", "rnd")
    assert (found.game, found.first, found.second) == ("museum", "cts", "rnd")
    assert found.comparison.differences == pytest.approx([1.0, 0.5, 0.0])  # the last is a tie within the margin
    assert found.seeds == (0, 1, 2)
    assert found.comparison.p_better == 0.25
    assert "museum: cts − rnd = +0.5" in repr(found)
    assert results.compare("cts", "nobody") == []


def test_curves_of_a_game_are_had_by_method_with_mean_and_interval(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    each: list[list[float | None]] = [[0.0, 2.0, 4.0], [2.0, 4.0, None]]
    for seed, returns in enumerate(each):
        write_run(store, config_of(seed=seed), returns, evaluations=[1.0, 1.0, 1.0])
    write_study(store, {("freeway", "cts"): [7.0]})
    results = load(store)
    assert list(results.curves("freeway")) == ["cts", "epsilon_greedy"]
    (curves,) = results.curves("freeway", ["epsilon_greedy"]).values()
    assert curves.frames.tolist() == [400, 800, 1200]
    assert curves.mean.tolist() == [1.0, 3.0, 4.0]
    low, high = curves.interval()
    assert low[0] == 0.0
    assert high[0] == 2.0
    assert np.isfinite(low).all()
    (evaluated,) = results.curves("freeway", phase="evaluation").values()
    assert evaluated.mean.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(OffpisteError, match="no curve of 'rnd' on 'freeway'; there are"):
        results.curves("freeway", ["rnd"])


def test_a_single_run_has_no_interval(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(), [1.0, None, 3.0])
    (curves,) = load(store).curves("freeway").values()
    assert np.array_equal(curves.mean, [1.0, np.nan, 3.0], equal_nan=True)
    assert np.isnan(curves.interval()).all()


def test_scores_are_a_table_in_sql_in_points_and_normalised(results: Results) -> None:
    rows = results.query(
        "SELECT game, method, seed, score, normalised_score, normalised_area, counts FROM runs JOIN scores USING (run) "
        "WHERE method = 'cts' AND game = 'museum' ORDER BY seed"
    ).to_pylist()
    assert [row["score"] for row in rows] == pytest.approx([12.0, 7.0, 7.0])
    assert [row["normalised_score"] for row in rows] == pytest.approx([1.0, 0.5, 0.5])
    assert [row["normalised_area"] for row in rows] == pytest.approx([0.25] * 3)
    assert all(row["counts"] for row in rows)
    assert len(results.scores()) == len(results.runs)


def test_a_game_without_a_scale_has_no_normalised_score(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_study(store, {("pong", "cts"): [7.0]})
    (row,) = load(store).scores().to_pylist()
    assert (row["score"], row["normalised_score"]) == (7.0, None)


def test_settings_are_a_column_of_runs(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of(method_name="cts", bonus=BonusConfig(name="cts", scale=0.5)), [1.0])
    sql = "SELECT settings['bonus.scale']::DOUBLE AS beta, settings['bonus.name'] AS bonus FROM runs"
    assert load(store).query(sql).to_pylist() == [{"beta": 0.5, "bonus": "cts"}]
