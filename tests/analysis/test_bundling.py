"""A bundle of a store says what the store says: all of its findings, from some of its rows."""

import dataclasses
import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpiste.analysis.bundling import bundle_stores, digest, evenly, thin_cells, thin_episodes, thin_scalars
from offpiste.analysis.curves import JOINED, cell_curves, return_curves
from offpiste.analysis.findings import judge
from offpiste.analysis.paper import PAPER
from offpiste.analysis.results import Results, load
from offpiste.analysis.summary import scores_by_game, summarise
from offpiste.config import BonusConfig, RunConfig
from offpiste.errors import StoreError
from offpiste.methods import METHODS
from offpiste.rows import CellRow, EpisodeRow
from offpiste.run import tracker as tracker_module
from offpiste.run.progress import Progress
from offpiste.run.train import train
from offpiste.store.documents import signed, unsigned
from offpiste.store.records import schema, to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import SCHEDULE, THREE, config_of, episode_rows, iteration_rows, write_run, write_status
from tests.run.test_train import EVALUATED, tiny_run
from tests.store.test_bundle import change_manifest


def episodes(count: int, first_reward: int | None = None, phase: str = "train") -> list[EpisodeRow]:
    """Return episodes of 100 steps, of which only one has a reward."""
    rows = [replace(row, phase=phase) for row in episode_rows([None] * count)]
    if first_reward is not None:
        rows[first_reward] = replace(rows[first_reward], first_reward_step=7)
    return rows


def table(rows: Sequence[EpisodeRow]) -> pa.Table:
    return pa.Table.from_pylist([asdict(row) for row in rows], schema("episodes"))


def kept_of(rows: Sequence[EpisodeRow]) -> list[int]:
    """Return which episodes are kept, counted from 0 within their phase."""
    return [number - 1 for number in thin_episodes(table(rows)).column("episode").to_pylist()]


def rows_of(results: Results, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.query(f"SELECT * FROM {name} ORDER BY ALL").to_pylist()  # noqa: S608
    return rows


def test_three_of_six_are_every_second_and_the_last() -> None:
    assert evenly(6, 3).tolist() == [1, 3, 5]
    assert evenly(7, 3).tolist() == [2, 4, 6]
    assert evenly(2, 3).tolist() == [0, 1]
    assert evenly(0, 3).tolist() == []


@given(st.integers(1, 2_000), st.integers(1, 60))
def test_as_many_are_kept_as_may_be_and_no_gap_is_longer_than_another_by_more_than_one(count: int, most: int) -> None:
    kept = evenly(count, most)
    assert len(kept) == min(count, most)
    assert kept[-1] == count - 1
    assert np.ptp(np.diff(kept, prepend=-1)) <= 1


def test_of_a_hundred_episodes_every_second_is_kept_and_that_of_the_first_reward() -> None:
    rows = episodes(100, first_reward=40)
    rows[60] = replace(rows[60], first_reward_step=0)
    assert kept_of(rows) == sorted([*range(1, 100, 2), 40])


def test_an_episode_whose_return_beats_all_before_is_kept() -> None:
    rows = episodes(100)
    for number, value in ((10, 0.04), (20, 0.04), (30, 1.0), (40, 0.9)):
        rows[number] = replace(rows[number], game_return=value)
    assert kept_of(rows) == sorted([*range(1, 100, 2), 10, 30])


def test_each_phase_is_thinned_by_itself() -> None:
    rows = [*episodes(100), *episodes(30, first_reward=3, phase="evaluation")]
    assert kept_of(rows) == [*range(1, 100, 2), *range(30)]


def scalars_of(values: Mapping[str, Sequence[float | None]], window: int = 10) -> pa.Table:
    """Return scalars, by name the value of each window, or None where it has none."""
    rows = [
        {"end_step": window * number, "name": name, "value": column[number - 1]}
        for number in range(1, max(map(len, values.values())) + 1)
        for name, column in values.items()
        if column[number - 1] is not None
    ]
    return pa.Table.from_pylist(rows, schema("scalars"))


def test_of_a_hundred_and_one_windows_three_are_joined_by_sums_counts_max_and_last() -> None:
    nothing = [None] * 98
    scalars = scalars_of(
        {
            "return": [100.0, None, 4.0, *nothing],
            "episodes": [1.0, 0.0, 3.0, *[0.0] * 98],
            "loss": [None, 2.0, 4.0, *nothing],
            "intrinsic/max": [7.0, 9.0, 8.0, *nothing],
            "cells": [5.0, 6.0, 8.0, *[9.0] * 98],
            "epsilon": [1.0, 0.9, 0.8, *[0.1] * 98],
            "steps_per_second": [50.0, 100.0, 100.0, *nothing],
            "bonus/own": [1.0, 3.0, None, *nothing],
        }
    )
    kept = thin_scalars(scalars)
    assert kept.schema == schema("scalars")
    first = {row["name"]: row["value"] for row in kept.to_pylist() if row["end_step"] == 30}
    assert first == {
        "return": 28.0,  # (100 + 3 · 4) / 4 episodes
        "episodes": 4.0,
        "loss": 3.0,
        "intrinsic/max": 9.0,
        "cells": 8.0,
        "epsilon": 0.8,
        "steps_per_second": 75.0,  # 3 windows in 1/50 + 2/100 of the time that one takes at a step a second
        "bonus/own": 3.0,
        "windows": 3.0,
    }
    windows = {row["end_step"]: row["value"] for row in kept.to_pylist() if row["name"] == "windows"}
    assert windows == dict.fromkeys(range(30, 991, 30), 3.0) | {1010: 2.0}


def test_fifty_windows_are_kept_as_they_are() -> None:
    scalars = scalars_of({"return": [1.0] * 50})
    assert thin_scalars(scalars) is scalars


def test_every_scalar_of_the_records_has_a_rule_by_which_windows_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpiste.rows.SCALAR_STEPS", 10)
    config = tiny_run(bonus=BonusConfig("icm"))
    train(config, Folder(tmp_path))
    found = {*schema_names(tmp_path / "scalars.parquet"), *tracker_module._SCALARS}
    assert {name for name in found if not name.startswith("bonus/")} == JOINED.keys() - {"windows"}


def schema_names(file: Path) -> list[str]:
    names: list[str] = pq.ParquetFile(file).read().column("name").to_pylist()
    return names


def test_windows_without_a_number_of_episodes_count_alike() -> None:
    scalars = scalars_of({"return": [100.0, 4.0, *[0.0] * 49]})
    assert thin_scalars(scalars).column("value").to_pylist()[0] == 52.0


def test_a_digest_is_of_every_episode_and_iteration() -> None:
    rows = {"episodes": table(episodes(3)), "iterations": pa.table({"iteration": [1]})}
    assert digest(rows) == digest(dict(reversed(rows.items())))
    assert digest(rows) != digest(rows | {"episodes": table(episodes(3, first_reward=1))})
    assert digest(rows) != digest(rows | {"iterations": pa.table({"iteration": [2]})})


def write_long_run(store: Folder, config: RunConfig, returns: Sequence[float | None], more: int, reward: int) -> None:
    """Write a finished run with many episodes, of which one in the middle has the first reward, and scalars."""
    folder = store.below(write_run(store, config, returns))
    rows = [asdict(row) for row in episodes(more, first_reward=reward)]
    folder.put("episodes.parquet", to_parquet("episodes", rows))
    numbers = [float(number) for number in range(1, more + 1)]
    columns: dict[str, Sequence[float | None]] = {
        "loss": [number / 3 for number in numbers],
        "return": [number**2 if number % 3 else None for number in numbers],
        "episodes": [number % 3 for number in numbers],
        "cells": numbers,
    }
    folder.put("scalars.parquet", to_parquet("scalars", scalars_of(columns, 2_500).to_pylist()))


def test_cells_that_are_hashed_frames_are_not_kept() -> None:
    cells = [CellRow(None, None, None, 7, 1, 1), CellRow(3, None, None, 8, 1, 1), CellRow(0, 8, 16, 9, 1, 1)]
    rows = pa.Table.from_pylist([asdict(cell) for cell in cells], schema("cells"))
    assert thin_cells(rows).column("cell").to_pylist() == [8, 9]
    assert len(thin_cells(rows.slice(0, 0))) == 0


finite = st.floats(-1e9, 1e9)
one_run = st.tuples(
    st.sampled_from(["pong", "freeway", "montezuma_revenge", "deep_sea_10"]),
    st.sampled_from(["epsilon_greedy", "rnd", "icm"]),
    st.sampled_from(["", "beta=0.1"]),
    st.integers(0, 3),
    st.sampled_from(["finished", "running", "paused"]),
    st.lists(st.one_of(finite, st.none(), st.just(float("nan"))), min_size=1, max_size=3),
    st.integers(1, 130),
)


@settings(max_examples=15)
@given(st.lists(one_run, min_size=1, max_size=5, unique_by=lambda run: run[:4]), st.data())
def test_a_bundle_gives_the_iterations_the_summaries_and_the_findings_of_its_store(
    drawn: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as path:
        store = Folder(f"{path}/store")
        for game, method, variant, seed, state, returns, more in drawn:
            own = {"exploration": METHODS[method].exploration, "bonus": METHODS[method].bonus}
            config = config_of(game, method, seed, variant=variant, **own)
            write_long_run(store, config, returns, more, data.draw(st.integers(0, more - 1)))
            write_status(store.below(config.run_id), config, state)
        inside = load(store)
        finished = tuple(run for run in inside.runs if run.complete)
        if not finished:
            with pytest.raises(StoreError, match="to make a bundle of; nothing was written"):
                bundle_stores([store], f"{path}/bundle")
            return
        made = bundle_stores([store], f"{path}/bundle")
        assert len(made.left_out) == len(inside.runs) - len(finished)
        inside.tables.keep(finished)
        inside = replace(inside, runs=finished)
        outside = load(f"{path}/bundle")
        assert outside.runs == tuple(replace(run, store=f"{path}/bundle", state="finished") for run in finished)
        np.testing.assert_equal(rows_of(outside, "iterations"), rows_of(inside, "iterations"))
        before, after = ([replace(each, run=None) for each in summarise(results)] for results in (outside, inside))  # type: ignore[arg-type]
        np.testing.assert_equal([asdict(each) for each in before], [asdict(each) for each in after])
        for curves in (return_curves, cell_curves):
            for (key, one), (other_key, other) in zip(curves(outside).items(), curves(inside).items(), strict=True):
                assert key == other_key
                assert one.windows == other.windows
                np.testing.assert_allclose(one.values, other.values, rtol=1e-13)
                np.testing.assert_array_equal(one.frames, other.frames)
        scores, scores_there = scores_by_game(summarise(outside)), scores_by_game(summarise(inside))
        assert scores == scores_there
        assert repr(judge(PAPER, {"final": scores})) == repr(judge(PAPER, {"final": scores_there}))


def test_a_run_that_was_really_trained_is_the_same_in_a_bundle(tmp_path: Path) -> None:
    config = tiny_run()
    train(config, Folder(tmp_path / "store").below(config.run_id))
    made = bundle_stores([tmp_path / "store"], tmp_path / "bundle")
    inside, outside = load(tmp_path / "store"), load(tmp_path / "bundle")
    assert made.left_out == made.warnings == outside.warnings == []
    assert outside.runs == (replace(inside.runs[0], store=str(tmp_path / "bundle")),)
    for name in ("iterations", "scalars", "cells"):
        assert rows_of(outside, name) == rows_of(inside, name)
    attempts = [row | {"host": ""} for row in rows_of(inside, "attempts")]
    assert rows_of(outside, "attempts") == attempts  # who computed it is nobody's business
    assert rows_of(outside, "timing") == []
    assert outside.runs_with("timing") == set()
    assert outside.runs_with("cells") == outside.runs_with("episodes") == {config.run_id}


def test_the_same_store_gives_the_same_bytes_and_replaces_the_bundle(store: Folder, tmp_path: Path) -> None:
    write_long_run(store, config_of(), THREE, 130, 40)
    bundle_stores([store], tmp_path / "bundle")
    first = {file.name: file.read_bytes() for file in (tmp_path / "bundle").iterdir()}
    bundle_stores([store], tmp_path / "bundle")
    assert {file.name: file.read_bytes() for file in (tmp_path / "bundle").iterdir()} == first
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bundle", "store"]


def test_what_cannot_be_published_is_left_out_and_named(store: Folder, tmp_path: Path) -> None:
    names = {seed: write_run(store, config_of(seed=seed), THREE) for seed in range(5)}
    write_run(store, config_of(seed=1), (1.0,))
    assert store.local_path is not None
    (store.local_path / names[2] / "episodes.parquet").unlink()
    for seed, changed in ((3, {"results_version": 2}), (4, {"protocol_fingerprint": "0" * 12})):
        about = unsigned(json.loads(store.below(names[seed]).get("run.json") or b""))
        store.below(names[seed]).put("run.json", json.dumps(signed(about | changed)).encode())
        write_status(store.below(names[seed]), config_of(seed=seed), "finished")
    made = bundle_stores([store], tmp_path / "bundle")
    assert [run.name for run in made.manifest.runs] == [names[0]]
    reasons = {each.where: each.message for each in made.left_out}
    assert reasons.keys() == {names[seed] for seed in (1, 2, 3, 4)}
    assert "it is at 400 of 1,200 frames, and only finished runs are bundled" in reasons[names[1]]
    assert reasons[names[2]] == "its episodes cannot be read"
    assert "results version 2" in reasons[names[3]]
    assert "protocol_fingerprint is 000000000000" in reasons[names[4]]


def test_a_run_that_lacks_its_last_evaluation_is_not_complete_and_not_bundled_before_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpiste.run.train.PROGRESS_SECONDS", 0.0)
    store, folder = tmp_path / "store", Folder(tmp_path / "store").below(EVALUATED.run_id)

    def stop_before_the_last_evaluation(progress: Progress) -> None:
        if progress.episodes == 2:
            signal.raise_signal(signal.SIGTERM)

    assert train(EVALUATED, folder, stop_before_the_last_evaluation).state == "paused"
    (run,) = load(store).runs
    assert load(store).columns("SELECT phase, complete FROM iterations ORDER BY iteration, phase DESC") == [
        ["train", "evaluation", "train"],
        [True, True, True],
    ]
    assert (run.frames, run.complete) == (EVALUATED.frames - 4, False)
    with pytest.raises(StoreError, match="it is at 316 of 320 frames, and only finished runs are bundled"):
        bundle_stores([store], tmp_path / "bundle")
    assert train(EVALUATED, folder).state == "finished"
    assert load(store).runs[0].complete
    assert len(bundle_stores([store], tmp_path / "bundle").manifest.runs) == 1


def test_a_run_of_an_older_bundle_that_lacks_its_last_evaluation_is_not_published_again(
    store: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = replace(SCHEDULE, evaluation_steps=50)
    whole = write_run(store, config_of(seed=0, schedule=schedule), THREE, evaluations=THREE)
    lacking = write_run(store, config_of(seed=1, schedule=schedule), THREE, evaluations=THREE[:2])
    with monkeypatch.context() as patched:
        patched.setattr("offpiste.analysis.runs.Run.complete", True)  # as older versions had it
        bundle_stores([store], tmp_path / "older")
    assert [run.complete for run in load(tmp_path / "older").runs] == [True, False]
    made = bundle_stores([tmp_path / "older"], tmp_path / "newer")
    assert [run.name for run in made.manifest.runs] == [whole]
    message = "it is at 1,196 of 1,200 frames, and only finished runs are bundled"
    assert [(each.where, each.message) for each in made.left_out] == [(lacking, message)]
    assert load(tmp_path / "newer").columns("SELECT DISTINCT run FROM iterations") == [[whole]]


def test_a_bundle_of_a_bundle_is_the_same_bytes(store: Folder, tmp_path: Path) -> None:
    write_long_run(store, config_of(), THREE, 130, 40)
    write_run(store, config_of(seed=1), THREE)
    bundle_stores([store], tmp_path / "bundle")
    bundle_stores([tmp_path / "bundle"], tmp_path / "other")
    for file in (tmp_path / "bundle").iterdir():
        assert (tmp_path / "other" / file.name).read_bytes() == file.read_bytes()


def test_a_bundle_takes_up_the_runs_of_a_further_store(store: Folder, tmp_path: Path) -> None:
    """As where the machine with the first store is gone: the bundle is the one that all runs in one store give."""
    first, second = Folder(tmp_path / "first"), Folder(tmp_path / "second")
    for seed in range(4):
        for folder in (store, first if seed in (0, 2) else second):
            write_run(folder, config_of(seed=seed), tuple(value + seed for value in THREE))
    bundle_stores([store], tmp_path / "whole")
    bundle_stores([first], tmp_path / "bundle")
    bundle_stores([tmp_path / "bundle", second], tmp_path / "bundle")
    for file in (tmp_path / "whole").iterdir():
        assert (tmp_path / "bundle" / file.name).read_bytes() == file.read_bytes()


def test_of_two_runs_with_one_name_the_first_is_kept(store: Folder, tmp_path: Path) -> None:
    name = write_run(store, config_of(), THREE)
    other = Folder(tmp_path / "second")
    write_run(other, config_of(), (7.0, 7.0, 7.0))
    write_run(other, config_of(seed=1), THREE)
    bundle_stores([store], tmp_path / "bundle")
    made = bundle_stores([tmp_path / "bundle", other], tmp_path / "both")
    assert [run.name for run in made.manifest.runs] == [name, config_of(seed=1).run_id]
    both = [row["return_mean"] for row in rows_of(load(tmp_path / "both"), "iterations")]
    assert both == [*THREE, *THREE]


def test_a_second_bundle_has_the_runs_that_the_first_has_not(store: Folder, tmp_path: Path) -> None:
    longer = config_of(seed=1)
    write_run(store, config_of(seed=0), THREE)
    write_run(store, longer, THREE)
    earlier = bundle_stores([store], tmp_path / "first").manifest.runs
    write_run(store, replace(longer, frames=2 * longer.frames), (*THREE, *THREE))  # the same name
    write_run(store, config_of(seed=2), THREE)
    made = bundle_stores([store], tmp_path / "second", earlier)
    assert [run.name.rpartition("/")[2] for run in made.manifest.runs] == ["seed-1", "seed-2"]
    with pytest.raises(StoreError, match="all finished runs are in other bundles; nothing was written"):
        bundle_stores([store], tmp_path / "third", [*earlier, *made.manifest.runs])
    assert not (tmp_path / "third").exists()


def test_a_bundle_without_scalars_gives_the_same_scores(store: Folder, tmp_path: Path) -> None:
    write_long_run(store, config_of(), THREE, 130, 40)
    bundle_stores([store], tmp_path / "with")
    bundle_stores([store], tmp_path / "without", scalars=False)
    with_them, without = load(tmp_path / "with"), load(tmp_path / "without")
    assert rows_of(with_them, "scalars")
    assert not rows_of(without, "scalars")
    assert without.warnings == []
    one, other = summarise(with_them), summarise(without)
    np.testing.assert_equal([asdict(each) | {"run": 0} for each in one], [asdict(each) | {"run": 0} for each in other])


def test_a_bundle_without_cells_and_one_with_them_go_together(tmp_path: Path) -> None:
    names = []
    for seed in range(2):
        config = replace(tiny_run(), seed=seed)
        names.append(config.run_id)
        train(config, Folder(tmp_path / f"store-{seed}").below(config.run_id))
        bundle_stores([tmp_path / f"store-{seed}"], tmp_path / f"bundle-{seed}")
    change_manifest(
        tmp_path / "bundle-0",
        lambda values: values.update(files=[file for file in values["files"] if file["name"] != "cells.parquet"]),
    )
    bundle_stores([tmp_path / "bundle-0", tmp_path / "bundle-1"], tmp_path / "both")
    both = load(tmp_path / "both")
    assert {row["run"] for row in rows_of(both, "cells")} == {names[1]}
    assert {row["run"] for row in rows_of(both, "episodes")} == {*names}


def test_the_files_can_be_read_without_offpiste(store: Folder, tmp_path: Path) -> None:
    name = write_run(store, config_of(), THREE)
    bundle_stores([store], tmp_path / "bundle")
    iterations = pq.ParquetFile(tmp_path / "bundle" / "iterations.parquet").read()
    assert iterations.column("run").to_pylist() == [name] * 3
    assert iterations.drop_columns("run").to_pylist() == list(map(dataclasses.asdict, iteration_rows(THREE)))
    (run,) = pq.ParquetFile(tmp_path / "bundle" / "runs.parquet").read().to_pylist()
    assert json.loads(run["config"])["game"] == "freeway"
    assert "machine" not in json.loads(run["config"])
