"""Runs are found wherever they lie, finished or not; what cannot be read is named."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from offpiste import arrays
from offpiste.analysis.bundling import bundle_stores
from offpiste.analysis.curves import return_curves
from offpiste.analysis.reference import import_dopamine
from offpiste.analysis.results import load
from offpiste.analysis.runs import LoadWarning
from offpiste.analysis.summary import scores_by_game, summarise
from offpiste.config import RunConfig, ScheduleConfig
from offpiste.errors import StoreError
from offpiste.rows import TABLES
from offpiste.run.train import train
from offpiste.store.attempts import begin_attempt
from offpiste.store.checkpoints import Checkpoints
from offpiste.store.identity import read_run
from offpiste.store.records import RecordLog, to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import (
    THREE,
    attempt_row,
    config_of,
    episode_rows,
    iteration_rows,
    write_about,
    write_run,
    write_status,
)
from tests.run.test_train import tiny_run


def kinds(warnings: list[LoadWarning]) -> list[str]:
    return [warning.kind for warning in warnings]


def path_of(store: Folder, name: str) -> Path:
    assert store.local_path is not None
    return store.local_path / name


def write_checkpoint(store: Folder, config: RunConfig, returns: tuple[float, ...], open_rows: int = 0) -> Folder:
    """Write a run that is under way: iterations in sealed parts, and a few episodes since."""
    folder = store.below(config.run_id)
    write_about(folder, config)
    records = RecordLog()
    for number, (row, episode) in enumerate(zip(iteration_rows(returns), episode_rows(returns), strict=True), start=1):
        records.add("episodes", episode)
        records.add("iterations", row)
        records.seal(number)
    for _ in range(open_rows):
        records.add("episodes", episode_rows(returns)[-1])
    mutable = {"records": arrays.pack(records.state()), "replay": b"large, and not to be read"}
    attempt = begin_attempt(folder, vars(attempt_row()) | {"run_id": config.run_id})
    stored = read_run(folder)
    assert stored is not None
    Checkpoints(folder, attempt, stored.identity).save(100 * len(returns), mutable, records.immutable())
    write_status(folder, config, "running")
    return folder


def test_runs_are_read_with_their_tables_from_a_disk_and_from_s3(folder: Folder) -> None:
    for seed in (0, 1):
        write_run(folder, config_of(seed=seed), (1.0, 2.0, 3.0 + seed))
    results = load(folder)
    assert results.warnings == []
    assert [(run.name, run.game, run.method, run.seed, run.complete) for run in results.runs] == [
        ("freeway/epsilon_greedy/seed-0", "freeway", "epsilon_greedy", 0, True),
        ("freeway/epsilon_greedy/seed-1", "freeway", "epsilon_greedy", 1, True),
    ]
    question = "SELECT run, max(game_return) FROM episodes GROUP BY run ORDER BY run"
    assert results.columns(question)[1] == [3.0, 4.0]
    assert results.columns("SELECT count(*) FROM attempts JOIN runs USING (run) WHERE complete") == [[2]]
    assert results.columns("SELECT count(*) FROM timing") == [[0]]


def test_a_run_that_was_really_trained_is_read(store: Folder) -> None:
    config = tiny_run()
    train(config, store.below(config.run_id))
    results = load(store)
    (run,) = results.runs
    assert results.warnings == []
    assert run.complete
    assert run.frames == 400
    assert run.state == "finished"
    (summary,) = summarise(results)
    assert summary.reached
    assert summary.cells > 0
    assert results.columns("SELECT count(*) > 0, min(steps) > 0 FROM episodes") == [[True], [True]]


def test_a_run_under_way_is_read_from_its_checkpoint_and_marked(folder: Folder) -> None:
    write_checkpoint(folder, config_of(), (1.0, 2.0), open_rows=3)
    results = load(folder)
    (run,) = results.runs
    assert (run.frames, run.target_frames, run.complete, run.state) == (800, 1200, False, "running")
    assert results.columns("SELECT count(*) FROM episodes") == [[5]]
    assert results.columns("SELECT host FROM attempts") == [["host"]]
    assert results.warnings == []


def test_a_run_under_way_whose_manifests_are_gone_is_reported(folder: Folder) -> None:
    write_checkpoint(folder, config_of(), (1.0, 2.0))
    run = folder.below(config_of().run_id)
    for name in run.list("manifests"):
        run.delete(f"manifests/{name}")
    results = load(folder)
    results.columns("SELECT count(*) FROM episodes")
    assert ("damaged checkpoint", "all manifests are missing") in {
        (each.kind, each.message) for each in results.warnings
    }


def test_a_checkpoint_is_newer_than_tables_left_by_a_pause(store: Folder) -> None:
    write_run(store, config_of(), (1.0,))
    write_checkpoint(store, config_of(), (1.0, 2.0))
    assert load(store).runs[0].frames == 800


def test_a_paused_run_counts_the_frames_of_its_unfinished_iteration(store: Folder) -> None:
    name = write_run(store, config_of(), (1.0,), state="paused")
    partial = [vars(row) for row in iteration_rows((1.0,))] + [
        vars(replace(row, steps=40, complete=False, iteration=2, return_mean=None)) for row in iteration_rows((0.0,))
    ]
    pq.write_table(pa.Table.from_pylist(partial), path_of(store, f"{name}/iterations.parquet"))
    assert load(store).runs[0].frames == 400 + 160


def test_the_goal_is_the_one_last_asked_for(store: Folder) -> None:
    """run.json keeps what the run was begun with; it was then asked for more."""
    name = write_run(store, config_of(), THREE)
    write_status(store.below(name), config_of(), "paused", target_frames=4_000)
    assert (load(store).runs[0].target_frames, load(store).runs[0].complete) == (4_000, False)


def test_a_run_folder_is_a_store_of_one_run(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    assert [run.name for run in load(store.below(name)).runs] == ["."]


def test_a_column_that_an_older_version_did_not_write_is_empty(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    file = path_of(store, f"{name}/iterations.parquet")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["cells_total"]), file)
    results = load(store)
    assert results.warnings == []
    assert results.columns("SELECT DISTINCT cells_total FROM iterations") == [[None]]
    assert np.isnan(summarise(results)[0].cells)


def test_names_with_wildcards_are_names(tmp_path: Path) -> None:
    store = Folder(tmp_path / "a[b]*?")
    write_run(store, config_of(), THREE)
    write_run(Folder(tmp_path / "abc"), config_of(), (9.0, 9.0, 9.0))
    assert load(store).columns("SELECT max(return_mean) FROM iterations") == [[3.0]]


@pytest.mark.parametrize("name", ["return_mean=0.5", "steps=7", "run=3", "filename=x", "steps=many", "iteration=1"])
def test_the_name_of_a_folder_is_no_column(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / name, tmp_path / "store" / name):
        write_run(Folder(path), config_of(), THREE)
    for store in (tmp_path / name, tmp_path / "store"):
        results = load(store)
        assert results.warnings == []
        assert results.columns("SELECT iteration, steps, return_mean FROM iterations ORDER BY ALL") == [
            [1, 2, 3],
            [100, 100, 100],
            [1.0, 2.0, 3.0],
        ]


def test_where_there_is_no_run_it_says_so(store: Folder) -> None:
    with pytest.raises(StoreError, match="there is no run below"):
        load(store)


def cut(file: str) -> Callable[[Path], object]:
    return lambda run: (run / file).write_bytes((run / file).read_bytes()[:-20])


def scramble(run: Path) -> None:
    """Leave the end of the file, which holds its table of contents, and spoil its pages."""
    data = bytearray((run / "iterations.parquet").read_bytes())
    data[8:200] = bytes(192)
    (run / "iterations.parquet").write_bytes(data)


def retype(run: Path) -> None:
    pq.write_table(pa.table({"iteration": ["one"], "phase": ["train"], "complete": [True]}), run / "iterations.parquet")


def add_column(name: str) -> Callable[[Path], object]:
    def add(run: Path) -> None:
        rows = pq.ParquetFile(run / "iterations.parquet").read()
        pq.write_table(rows.append_column(name, pa.array(["x"] * len(rows))), run / "iterations.parquet")

    return add


def drop_column(name: str) -> Callable[[Path], object]:
    def drop(run: Path) -> None:
        pq.write_table(
            pq.ParquetFile(run / "iterations.parquet").read().drop_columns([name]), run / "iterations.parquet"
        )

    return drop


def change_column(table: str, name: str, *values: int | None) -> Callable[[Path], object]:
    """Replace a column, in which an older file has no checksum and a stranger's has a right one."""

    def change(run: Path) -> None:
        rows = pq.ParquetFile(run / f"{table}.parquet").read()
        column = pa.array(values, rows.schema.field(name).type)
        pq.write_table(rows.set_column(rows.column_names.index(name), name, column), run / f"{table}.parquet")

    return change


@pytest.mark.parametrize(
    ("harm", "kind", "message", "left"),
    [
        (lambda run: (run / "run.json").unlink(), "missing run.json", "half written", 0),
        (lambda run: (run / "run.json").write_text("{"), "damaged run.json", "Expecting property name", 0),
        (lambda run: (run / "run.json").write_text("[]"), "damaged run.json", "it must be a table, got list", 0),
        (
            lambda run: (run / "run.json").write_text('{"config": {}}'),
            "damaged run.json",
            "must have format 3",
            0,
        ),
        (cut("iterations.parquet"), "damaged table", "cut short", 1),
        (lambda run: (run / "iterations.parquet").write_bytes(b""), "damaged table", "cut short", 1),
        (scramble, "damaged table", "cut short or damaged", 1),
        (retype, "damaged table", "iteration must be int64, got string", 1),
        (add_column("run"), "damaged table", "neither run nor filename", 1),
        (add_column("FileName"), "damaged table", "neither run nor filename", 1),
        (drop_column("steps"), "damaged table", "steps is missing", 1),
        (change_column("iterations", "iteration", 1, 2, 10**9), "damaged table", "must be numbered from 1", 1),
        (change_column("iterations", "iteration", 1, 2, 2**63 - 1), "damaged table", "iteration must be within", 1),
        (change_column("iterations", "iteration", 0, 1, 2), "damaged table", "must be numbered from 1", 1),
        (change_column("iterations", "iteration", 1, 2, None), "damaged table", "without empty values", 1),
        (change_column("iterations", "end_step", 1, -(2**63), 2), "damaged table", "end_step must be within", 1),
        (lambda run: (run / "iterations.parquet").unlink(), "no records", "not one iteration", 1),
    ],
)
def test_a_bad_run_is_named_and_the_good_one_is_read(
    store: Folder, harm: Callable[[Path], object], kind: str, message: str, left: int
) -> None:
    bad = write_run(store, config_of(seed=0), THREE)
    write_run(store, config_of(seed=1), THREE)
    harm(path_of(store, bad))
    results = load(store)
    warning = next(warning for warning in results.warnings if warning.kind == kind)
    assert warning.where == bad
    assert message in warning.message
    assert len(results.runs) == 1 + left
    assert results.columns("SELECT DISTINCT run FROM iterations") == [["freeway/epsilon_greedy/seed-1"]]
    assert len(return_curves(results)["freeway", "epsilon_greedy"].runs) == 1 + left
    assert list(scores_by_game(summarise(results))["freeway"]["epsilon_greedy"].values()) == [2.0]


@pytest.mark.parametrize(
    "harm",
    [
        cut("episodes.parquet"),
        change_column("episodes", "end_step", 1, 2, None),
        change_column("episodes", "end_step", -(2**63), 2, 3),
        change_column("episodes", "first_reward_step", None, 2**63 - 1, 3),
    ],
)
def test_episodes_that_cannot_be_read_are_named_when_they_are_asked_for(
    store: Folder, harm: Callable[[Path], object]
) -> None:
    bad = write_run(store, config_of(seed=0), THREE)
    write_run(store, config_of(seed=1), THREE)
    harm(path_of(store, bad))
    results = load(store)
    first, second = summarise(results)
    assert kinds(results.warnings) == ["damaged table"]
    assert np.isnan(first.first_reward_frame)
    assert second.first_reward_frame == 31 * 4
    assert (first.final, second.final) == (2.0, 2.0)


def test_a_damaged_table_is_taken_from_the_checkpoint_instead(store: Folder) -> None:
    config = config_of()
    write_checkpoint(store, config, THREE)
    name = write_run(store, config, THREE)
    cut("iterations.parquet")(path_of(store, name))
    results = load(store)
    assert kinds(results.warnings) == ["damaged table"]
    assert results.runs[0].complete


def test_a_damaged_checkpoint_is_named_and_an_older_one_taken(store: Folder) -> None:
    config = config_of()
    folder = write_checkpoint(store, config, (1.0, 2.0))
    manifests = path_of(store, f"{config.run_id}/manifests")
    shutil.copy(next(manifests.iterdir()), manifests / "999999999999-000009-abcdef.json")
    (manifests / "999999999999-000009-abcdef.json").write_text("{}")
    results = load(folder)
    assert kinds(results.warnings) == ["damaged checkpoint"]
    assert results.runs[0].frames == 800


def test_an_object_that_is_not_as_it_was_written_is_not_used(store: Folder) -> None:
    config = config_of()
    write_checkpoint(store, config, (1.0,))
    part = next(path_of(store, f"{config.run_id}/objects").glob("*part-iterations*"))
    part.write_bytes(to_parquet("iterations", map(asdict, iteration_rows((7.0,)))))
    results = load(store)
    assert sorted(kinds(results.warnings)) == ["damaged checkpoint", "no records"]


@pytest.mark.parametrize("refused", ["run.json", "manifests/1.json"])
def test_an_object_that_the_store_refuses_is_named(
    store: Folder, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = write_run(store, config_of(seed=0), THREE, state="running")
    store.below(bad).put("manifests/1.json", b"{}")
    write_run(store, config_of(seed=1), THREE)
    get = Folder.get

    def refusing(folder: Folder, name: str, max_bytes: int | None = None) -> bytes | None:
        if name == refused and bad in folder.location:
            raise StoreError("access denied")
        return get(folder, name, max_bytes)

    monkeypatch.setattr(Folder, "get", refusing)
    results = load(store)
    assert ("not readable", bad, "access denied") in [(w.kind, w.where, w.message) for w in results.warnings]
    assert "freeway/epsilon_greedy/seed-1" in [run.name for run in results.runs]


def test_a_return_that_is_no_number_is_named_and_gives_no_score(store: Folder) -> None:
    bad = write_run(store, config_of(seed=0), (1.0, float("nan"), 3.0))
    write_run(store, config_of(seed=1), THREE)
    results = load(store)
    assert [(warning.kind, warning.where) for warning in results.warnings] == [("not a number", bad)]
    assert list(scores_by_game(summarise(results))["freeway"]["epsilon_greedy"].values()) == [2.0]


def test_a_copy_of_a_run_does_not_count_as_another_seed(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    shutil.copytree(path_of(store, name), path_of(store, "backup/seed-0"))
    results = load(store)
    assert [(warning.kind, warning.where) for warning in results.warnings] == [("duplicate run", name)]
    assert [run.name for run in results.runs] == ["backup/seed-0"]
    assert results.columns("SELECT count(*) FROM iterations") == [[3]]


def test_of_two_copies_the_longer_is_kept(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    write_run(store.below("backup"), config_of(), (1.0,))
    results = load(store)
    assert [run.name for run in results.runs] == [name]
    assert kinds(results.warnings) == ["duplicate run"]


def test_runs_of_several_stores_are_kept_apart_by_store_and_name(store: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    for number, folder in enumerate((store, other)):
        for seed in (0, 1):
            config = config_of(seed=seed, schedule=ScheduleConfig(iteration_steps=100, evaluation_steps=number))
            evaluations = (0.0,) * 3 * number
            write_run(folder, config, (1.0, 2.0, 3.0 + 10 * number + seed), evaluations=evaluations)
    bundle_stores([other], tmp_path / "bundle")
    for beside in (other.location, str(tmp_path / "bundle")):
        results = load(store, beside)
        names = [f"freeway/epsilon_greedy/seed-{seed}" for seed in (0, 1)]
        assert [run.name for run in results.runs] == [*names, *(f"{beside}/{name}" for name in names)]
        assert results.columns(
            "SELECT store, max(return_mean) FROM runs JOIN iterations USING (run) GROUP BY ALL ORDER BY 2"
        ) == [
            [store.location, beside],
            [4.0, 14.0],
        ]
        assert results.columns(
            "SELECT store, count(*) FROM runs JOIN episodes USING (run) GROUP BY ALL ORDER BY 1 DESC"
        ) == [
            sorted([store.location, beside], reverse=True),
            [6, 6],
        ]
        assert [found.final for found in summarise(results)] == [2.0, 7 / 3, 16 / 3, 17 / 3]
        assert results.stores == {store.location: "store", beside: "store" if beside == other.location else "bundle"}
        assert results.warnings == []


def test_of_one_run_in_two_stores_that_of_the_first_counts_and_both_are_named(store: Folder, tmp_path: Path) -> None:
    name = write_run(store, config_of(), (1.0,), state="running")
    other = Folder(tmp_path / "other")
    write_run(other, config_of(), THREE)
    write_run(other, config_of(seed=1), THREE)
    bundle_stores([other], tmp_path / "bundle")
    for beside in (other.location, str(tmp_path / "bundle")):
        results = load(store, beside)
        assert [run.name for run in results.runs] == [name, f"{beside}/freeway/epsilon_greedy/seed-1"]
        (warning,) = results.warnings
        assert (warning.kind, warning.where) == ("duplicate run", f"{beside}/{name}")
        assert warning.message.startswith(f"the same run as {name} in {store.location}; left out")
        for table, rows in (("iterations", [1, 3]), ("episodes", [1, 3])):
            question = f"SELECT count(*) AS rows FROM {table} GROUP BY run ORDER BY rows"  # noqa: S608
            assert results.columns(question) == [rows]
        assert results.runs_with("episodes") == {run.name for run in results.runs}


def test_a_store_is_not_read_twice(store: Folder, tmp_path: Path) -> None:
    write_run(store.below("inner"), config_of(), THREE)
    (tmp_path / "link").symlink_to(path_of(store, "inner"))
    with pytest.raises(StoreError, match="store would be read twice; name each store and each bundle once"):
        load(store, store)
    for beside in (path_of(store, "inner"), path_of(store, "inner/freeway"), tmp_path / "link"):
        with pytest.raises(StoreError, match=r"lies in .*store and would be read twice; leave one of them out"):
            load(store, beside)
        with pytest.raises(StoreError, match=r"lies in .*store and would be read twice; leave one of them out"):
            load(beside, store)


def test_a_bundle_in_a_store_is_read_beside_it(store: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    write_run(store, config_of(seed=0), THREE)
    write_run(other, config_of(seed=1), THREE)
    bundle_stores([other], path_of(store, "bundle"))
    assert [run.seed for run in load(store, path_of(store, "bundle")).runs] == [0, 1]


def test_an_empty_store_beside_a_full_one_is_an_error(store: Folder, tmp_path: Path) -> None:
    write_run(store, config_of(), THREE)
    with pytest.raises(StoreError, match=r"there is no run below .*misspelt"):
        load(store, tmp_path / "misspelt")


def test_a_bundle_in_a_store_is_named_and_not_read(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    bundle_stores([store], path_of(store, "published_runs"))
    results = load(store)
    assert [(warning.kind, warning.where) for warning in results.warnings] == [("bundle in a store", "published_runs")]
    assert [run.name for run in results.runs] == [name]


def test_warnings_of_a_store_beside_another_have_its_location(store: Folder, tmp_path: Path) -> None:
    write_run(store, config_of(), THREE)
    other = Folder(tmp_path / "other")
    bad = write_run(other, config_of(seed=1), THREE)
    cut("iterations.parquet")(path_of(other, bad))
    assert {warning.where for warning in load(store, other).warnings} == {f"{other.location}/{bad}"}


def test_a_run_with_a_long_name_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    store = Folder(tmp_path / ("a" * 120) / ("b" * 120))
    write_checkpoint(store, config_of(), THREE)
    assert load(tmp_path).runs[0].frames == 1_200


def test_the_same_import_in_two_stores_is_one(store: Folder, tmp_path: Path) -> None:
    file = tmp_path / "freeway.json"
    file.write_text('[{"Agent": "Rainbow", "Iteration": 0, "Value": 1.5}]')
    for folder in (store, Folder(tmp_path / "other")):
        (imported,) = import_dopamine([file], folder)
    assert load(store, tmp_path / "other").published == (imported,)


def test_an_import_is_found_and_a_damaged_one_is_named(store: Folder, tmp_path: Path) -> None:
    file = tmp_path / "freeway.json"
    file.write_text('[{"Agent": "Rainbow", "Iteration": 0, "Value": 1.5}]')
    (imported,) = import_dopamine([file], store)
    store.put("published/other.json", b"{}")
    results = load(store)
    assert results.published == (imported,)
    assert results.runs == ()
    assert kinds(results.warnings) == ["damaged import"]
    assert summarise(results) == []


def test_reading_results_needs_neither_torch_nor_ray(store: Folder) -> None:
    write_run(store, config_of(), THREE)
    program = (
        "import sys\n"
        "import offpiste\n"
        "results = offpiste.load(sys.argv[1])\n"
        "results.verdicts(), results.comparisons()\n"
        "print(sorted({'torch', 'ray', 'offpiste.run'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(store.local_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_verdicts_and_comparisons_open_no_scalars(store: Folder) -> None:
    write_run(store, config_of(), THREE)
    results = load(store)
    assert len(results.verdicts()) == 7
    assert results.comparisons() == []
    assert "scalars" not in results.tables._files
    assert set(results.evidence().curves) == {("freeway", "epsilon_greedy")}
    assert "scalars" in results.tables._files


def test_a_table_is_opened_by_the_parsed_query_and_not_by_a_word_in_it(store: Folder) -> None:
    write_run(store, config_of("freeway", "rnd", 0), [1.0])
    results = load(store)
    opened = results.tables._files
    assert set(opened) == {"iterations"}
    assert results.columns("SELECT 'episodes' AS word") == [["episodes"]]
    results.query("SELECT cells_total FROM iterations")  # cells may be millions
    assert set(opened) == {"iterations"}
    assert results.columns("WITH x AS (FROM Episodes JOIN runs USING (run)) SELECT count(*) > 0 FROM x") == [[True]]
    assert set(opened) == {"iterations", "episodes"}
    with pytest.raises(duckdb.ParserException):
        results.query("SELEC * FROM cells")
    assert set(opened) == {"iterations", "episodes"}


def test_tables_are_listed_without_what_they_are_made_of(store: Folder) -> None:
    write_run(store, config_of("freeway", "rnd", 0), [1.0])
    results = load(store)
    results.episodes()
    assert set(results.columns("SHOW TABLES")[0]) == {"runs", "scores", *TABLES}


def test_a_result_says_what_it_holds_and_what_can_be_asked(store: Folder) -> None:
    for seed in range(2):
        write_run(store, config_of("freeway", "rnd", seed), [1.0, 3.0])
    results = load(store)
    assert f"Results of {store.location}: 2 runs (0 complete), 1 games, 1 methods; see .runs" in repr(results)
    assert results.iterations().num_rows == 4
    assert results.coverage().column_names[-2:] == ["rooms_total", "cells_total"]
    assert {verdict.verdict for verdict in results.verdicts()} == {"not enough evidence"}
    assert results.comparisons() == []


def test_links_are_followed_but_never_in_circles(store: Folder, tmp_path: Path) -> None:
    name = write_run(store, config_of(), THREE)
    write_run(Folder(tmp_path / "other"), config_of(seed=1), THREE)
    root = path_of(store, "")
    for number in range(3):
        (root / f"link-{number}").symlink_to(root)
        (root / "freeway" / f"link-{number}").symlink_to("..")
        (root / f"elsewhere-{number}").symlink_to(tmp_path / "other")
    results = load(store)
    assert [run.name for run in results.runs] == ["elsewhere-0/freeway/epsilon_greedy/seed-1", name]
    assert results.warnings == []


def test_a_link_to_itself_or_within_a_store_is_nothing(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    root = path_of(store, "")
    for place in (root, root / name):
        (place / "loop").symlink_to("loop")
    (root / "alias").symlink_to("freeway")
    (root / "published").write_text("a file, not a folder")
    results = load(store)
    assert [run.name for run in results.runs] == [name]
    assert results.warnings == []


def test_a_run_whose_name_a_terminal_would_obey_is_named_and_the_others_are_read(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    write_run(store.below("\x1b]0;x\x07"), config_of(seed=1), THREE)
    results = load(store)
    assert [run.name for run in results.runs] == [name]
    assert kinds(results.warnings) == ["folder not read"]
    assert "rename it" in results.warnings[0].message


def test_a_folder_with_one_entry_named_as_a_part_of_a_run_is_no_run(store: Folder) -> None:
    write_run(store, config_of(), THREE)
    path_of(store, "lib/objects").mkdir(parents=True)
    assert load(store).warnings == []


def test_a_folder_whose_name_is_no_text_is_named_and_the_others_are_read(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    path_of(store, "freeway/\udcff").mkdir()
    results = load(store)
    assert [run.name for run in results.runs] == [name]
    assert [(warning.kind, warning.where) for warning in results.warnings] == [("folder not read", "freeway")]


def test_folders_that_are_nested_without_end_are_not_read_and_named(store: Folder) -> None:
    name = write_run(store, config_of(), THREE)
    path_of(store, "/".join("d" * 40)).mkdir(parents=True)
    results = load(store)
    assert [run.name for run in results.runs] == [name]
    assert kinds(results.warnings) == ["folder not read"]


@pytest.mark.parametrize("status", ["[]", '{"state": 5}', '{"target_frames": 1e999}', "[" * 10_000, '{"at": "x"}'])
def test_a_damaged_status_is_named_and_the_run_is_read(store: Folder, status: str) -> None:
    name = write_run(store, config_of(), THREE)
    path_of(store, f"{name}/status.json").write_text(status)
    results = load(store)
    assert [run.frames for run in results.runs] == [1200]
    assert kinds(results.warnings) == ["damaged status.json"]


def test_a_table_that_would_fill_the_memory_is_not_read(store: Folder) -> None:
    """Two hundred thousand rows share one long text, which the file holds once."""
    bad = write_run(store, config_of(seed=0), THREE)
    write_run(store, config_of(seed=1), THREE)
    file = path_of(store, f"{bad}/iterations.parquet")
    zeros = pa.array(np.zeros(200_000, np.int32))
    rows = pq.ParquetFile(file).read().take(zeros)
    long = pa.DictionaryArray.from_arrays(zeros, ["x" * 100_000])
    pq.write_table(rows.set_column(rows.column_names.index("phase"), "phase", long), file, compression="zstd")
    assert file.stat().st_size < 10**6
    results = load(store)
    assert [(warning.kind, warning.where) for warning in results.warnings if warning.kind == "damaged table"] == [
        ("damaged table", bad)
    ]
    assert "bytes of memory, got 20,0" in results.warnings[0].message
    assert results.columns("SELECT DISTINCT run FROM iterations") == [["freeway/epsilon_greedy/seed-1"]]


@pytest.mark.parametrize(
    "content", ["[]", '{"series": "x"}', '{"returns": [[1], [1, 2]]}', "[" * 10**5, '{"game": {"a": 1}}']
)
def test_a_damaged_import_is_named(store: Folder, content: str) -> None:
    write_run(store, config_of(), THREE)
    store.put("published/x.json", content.encode())
    assert kinds(load(store).warnings) == ["damaged import"]
