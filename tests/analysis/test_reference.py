"""Dopamine's files are read as they are, keep their provenance, and stay apart from one another."""

import csv
import json
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste.analysis.reference import (
    PUBLISHED_SCORES,
    from_json,
    import_dopamine,
    object_name,
    read_dopamine,
    read_imported,
)
from offpiste.errors import StoreError
from offpiste.store import documents
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES

DATA = Path(__file__).parents[3] / "shared" / "data"
DOPAMINE_NAMES = {game: game.replace("_", "") for game in GAMES}


MANY_POINTS = json.dumps(
    [{"Agent": "Rainbow", "Iteration": 0, "Value": 1}] + [{"Agent": "Rainbow", "Iteration": 4, "Value": 1}] * 2_001
)
HUGE = 2**42
"""Bytes of a file of zeros, which take no room on a disk, and no machine's memory holds."""


def record(iteration: int, value: float, agent: str = "Rainbow") -> dict[str, Any]:
    return {"Iteration": iteration, "Value": value, "Agent": agent}


def write(folder: Path, name: str, records: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(records, indent=1))
    return path


def test_runs_that_stand_one_after_the_other_are_told_apart_where_iterations_start_again(tmp_path: Path) -> None:
    other = [record(0, 99.0, "DQN"), record(1, 99.0, "DQN")]
    runs = [record(0, 1.0), record(1, 2.0), record(0, 3.0), record(1, 4.0)]
    found = read_dopamine(write(tmp_path, "montezumarevenge.json", other + runs))
    assert found.returns == ((1.0, 2.0), (3.0, 4.0))
    assert found.runs_joined
    assert (found.series, found.game, found.method) == ("dopamine tf", "montezuma_revenge", "epsilon_greedy")


def test_values_that_stand_iteration_by_iteration_are_not_joined_into_runs(tmp_path: Path) -> None:
    found = read_dopamine(
        write(tmp_path, "freeway_CNN.json", [record(0, 1.0), record(0, 2.0), record(1, 3.0), record(1, 4.0)])
    )
    assert found.returns == ((1.0, 3.0), (2.0, 4.0))
    assert not found.runs_joined
    assert found.series == "dopamine jax"


@pytest.mark.parametrize("name", ["montezumarevenge", "montezuma_revenge"])
def test_a_game_of_two_words_is_known_however_its_name_is_written(tmp_path: Path, name: str) -> None:
    endings = ("", "_CNN", "_Impala")
    found = [read_dopamine(write(tmp_path, f"{name}{ending}.json", [record(0, 1.0)])) for ending in endings]
    assert {each.game for each in found} == {"montezuma_revenge"}
    assert [each.series for each in found] == ["dopamine tf", "dopamine jax", "dopamine jax impala"]


def test_a_run_that_ended_early_has_nothing_where_it_did_not_come(tmp_path: Path) -> None:
    found = read_dopamine(write(tmp_path, "pong.json", [record(0, 1.0), record(1, 2.0), record(0, 3.0)]))
    assert found.returns == ((1.0, 2.0), (3.0, None))
    frames, returns = found.curves()
    assert frames.tolist() == [1e6, 2e6]
    np.testing.assert_array_equal(returns, [[1.0, 2.0], [3.0, np.nan]])


def test_series_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    records = [record(0, 1.0), record(0, 2.0, "DQN (Adam + MSE in JAX)")]
    tf, jax, impala = (
        read_dopamine(write(tmp_path, name, records))
        for name in ("freeway.json", "freeway_CNN.json", "freeway_Impala.json")
    )
    dqn = read_dopamine(tmp_path / "freeway.json", "DQN (Adam + MSE in JAX)")
    assert len({found.fingerprint for found in (tf, jax, impala, dqn)}) == 4
    assert [found.series for found in (tf, jax, impala)] == ["dopamine tf", "dopamine jax", "dopamine jax impala"]
    assert (impala.method, dqn.method) == (None, None)
    assert dqn.series == "dopamine jax DQN (Adam + MSE in JAX)"


def test_a_file_keeps_its_name_and_hash(tmp_path: Path) -> None:
    found = read_dopamine(write(tmp_path, "freeway.json", [record(0, 1.0)]))
    again = read_dopamine(write(tmp_path, "freeway.json", [record(0, 1.5)]))
    assert found.file == "freeway.json"
    assert len(found.sha256) == 64
    assert found.sha256 != again.sha256
    assert found.fingerprint == again.fingerprint


def test_what_is_imported_comes_back_from_the_store(tmp_path: Path, folder: Folder) -> None:
    files = [write(tmp_path, name, [record(0, 1.0), record(1, 2.0), record(0, 3.0)]) for name in ("hero.json",)]
    files.append(write(tmp_path, "hero_CNN.json", [record(0, 1.0), record(0, 2.0)]))
    imported = import_dopamine(files, folder)
    assert len({object_name(found) for found in imported}) == 2
    for found in imported:
        assert from_json(folder.get(object_name(found)) or b"") == found


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("freeway.json", "[{", "no baseline file"),
        ("freeway.json", "{}", "is no baseline file of Dopamine"),
        ("freeway.json", '{"a": 1}', "no baseline file"),
        ("freeway.json", '[{"Agent": "Rainbow"}]', "Iteration"),
        ("freeway.json", '[{"Agent": "DQN", "Iteration": 0, "Value": 1}]', "it has DQN"),
        ("freeway.json", '[{"Agent": "Rainbow", "Iteration": 0, "Value": NaN}]', "a number must be finite"),
        ("freeway.json", '[{"Agent": "Rainbow", "Iteration": 0, "Value": 1e308}]', "Value must be <= "),
        ("freeway.json", '[{"Agent": "Rainbow", "Iteration": 1e400, "Value": 1}]', "a number must be finite"),
        ("freeway.json", '[{"Agent": "Rainbow", "Iteration": 3000000000, "Value": 1}]', "Iteration must be <= 9_999"),
        ("freeway.json", '[{"Agent": "Rainbow", "Iteration": -1, "Value": 1}]', "Iteration must be >= 0"),
        ("freeway.json", '[{"Agent": ["DQN"], "Iteration": 0, "Value": 1}]', "Agent must be a string"),
        pytest.param("freeway.json", "[" * 200_000, "nested <= 16 deep", id="deep"),
        ("freeway.json", "[]", "it has no record"),
        pytest.param("freeway.json", MANY_POINTS, "<= 10,000 points, got 2,001 runs of 5 iterations", id="points"),
        ("frogger2.json", '[{"Agent": "Rainbow", "Iteration": 0, "Value": 1}]', "no game is named 'frogger2'"),
    ],
)
def test_a_file_that_is_not_dopamines_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    good = write(tmp_path, "hero.json", [record(0, 1.0)])
    bad = tmp_path / name
    bad.write_text(text)
    store = Folder(tmp_path / "store")
    with pytest.raises(StoreError, match=message):
        import_dopamine([good, bad], store)
    assert store.list("published") == []
    with pytest.raises(StoreError, match="cannot read"):
        read_dopamine(tmp_path / "none.json")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    for name in ("freeway.json", "published/x.json"):
        store.put(name, b"")
        os.truncate(tmp_path / name, HUGE)
    with pytest.raises(StoreError, match="it must have <= 67,108,864 bytes"):
        read_dopamine(tmp_path / "freeway.json")
    found, wrong = read_imported(store)
    assert not found
    assert wrong == {"published/x.json": "it must have <= 67,108,864 bytes; import it again"}


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ([[1e308], [-1e308]], r"returns\[0\]\[0\] must be <= "),
        ([[0.0, -2e15]], r"returns\[0\]\[1\] must be >= "),
        ([[0.0] * 101] * 100, "it must have <= 10,000 points, got 100 runs of 101 iterations"),
        ([[0.0], [0.0, 1.0]], "returns must have runs of as many iterations each"),
        ([[]], "returns must have runs of as many iterations each"),
    ],
)
def test_an_import_of_curves_that_nobody_could_draw_is_reported(
    returns: list[list[float]], message: str, tmp_path: Path
) -> None:
    store = Folder(tmp_path / "store")
    (published,) = import_dopamine([write(tmp_path, "hero.json", [record(0, 1.0)])], store)
    text = documents.unsigned(json.loads(store.get(object_name(published)) or b"")) | {"returns": returns}
    store.put(object_name(published), json.dumps(documents.signed(text)).encode())
    found, wrong = read_imported(store)
    assert not found
    assert re.match(message, wrong[object_name(published)])


@pytest.mark.skipif(not DATA.exists(), reason="the published returns are not beside this folder")
def test_the_published_finals_of_tf_and_jax_come_out_of_files_in_their_formats(tmp_path: Path) -> None:
    """The two are rebuilt from the CSV in Dopamine's own order, and end where its baselines do."""
    rows: dict[tuple[str, str], list[tuple[int, int, float]]] = defaultdict(list)
    with (DATA / "dopamine_rainbow_returns.csv").open() as lines:
        for row in csv.DictReader(lines):
            values = (int(row["run"]), int(row["iteration"]), float(row["mean_train_return"]))
            rows[row["game"], row["implementation"]].append(values)
    finals = {table.name: table.scores for table in PUBLISHED_SCORES}
    for game in ("gravitar", "montezuma_revenge", "hero"):
        tf = [record(iteration, value) for _, iteration, value in sorted(rows[game, "tf"])]
        by_iteration = sorted(rows[game, "jax"], key=lambda values: values[1])
        jax = [record(iteration, value) for _, iteration, value in by_iteration]
        for name, records, length in ((".json", tf, 199), ("_CNN.json", jax, 200)):
            found = read_dopamine(write(tmp_path, DOPAMINE_NAMES[game] + name, records))
            returns = np.array(found.returns, dtype=float)
            assert returns.shape == (5, length)
            assert found.runs_joined == (name == ".json")
            assert returns[:, -10:].mean() == pytest.approx(finals[found.series][game], abs=0.06)


@pytest.mark.skipif(not DATA.exists(), reason="the published scores are not beside this folder")
def test_the_table_of_published_scores_is_that_of_the_sources() -> None:
    source = json.loads((DATA / "reference_scores.json").read_text())["games"]
    keys = {
        "dopamine tf": "dopamine_tf",
        "dopamine jax": "dopamine_jax",
        "Rainbow": "hessel_rainbow",
        "DQN with CTS": "ostrovski_dqn_cts",
        "DQN with PixelCNN": "ostrovski_dqn_pixelcnn",
        "PPO": "burda_ppo",
        "PPO with RND": "burda_rnd",
    }
    assert [table.name for table in PUBLISHED_SCORES] == list(keys)
    for table in PUBLISHED_SCORES:
        expected = {game: scores[keys[table.name]] for game, scores in source.items() if keys[table.name] in scores}
        assert table.scores == expected


def test_only_dopamines_scores_are_comparable_and_every_table_says_why() -> None:
    assert [table.name for table in PUBLISHED_SCORES if table.comparable] == ["dopamine tf", "dopamine jax"]
    assert all(table.source and table.why for table in PUBLISHED_SCORES)
