"""The runs of a bundle, read as those of a store are, from whomever they come."""

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from offpiste.analysis.bundling import bundle_stores
from offpiste.analysis.evidence import gather, gather_apart
from offpiste.analysis.results import load
from offpiste.analysis.runs import VERSION
from offpiste.analysis.summary import summarise
from offpiste.config import RESULTS_VERSION, RunConfig, fingerprint, protocol_settings
from offpiste.errors import RunMismatch, StoreError
from offpiste.parsing import from_dict
from offpiste.report.page import build
from offpiste.store.bundle import RUNS, schema
from offpiste.store.storage import Folder
from offpiste.worlds.registry import SUITE_VERSION
from tests.analysis.small_store import THREE, config_of, write_run
from tests.store.test_bundle import change_manifest


@pytest.fixture
def bundle(store: Folder, tmp_path: Path) -> Path:
    for seed in (0, 1):
        write_run(store, config_of(seed=seed), THREE)
    bundle_stores([store], tmp_path / "bundle")
    return tmp_path / "bundle"


def change_config(bundle: Path, change: Callable[[str], str]) -> None:
    """Change the settings of the first run, and the manifest so that it agrees with the file."""
    rows = pq.ParquetFile(bundle / "runs.parquet").read().to_pylist()
    rows[0]["config"] = change(rows[0]["config"])
    pq.write_table(pa.Table.from_pylist(rows, schema(RUNS)), bundle / "runs.parquet")
    data = (bundle / "runs.parquet").read_bytes()
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change_manifest(bundle, lambda values: values["files"][0].update(entry))


def setting(table: str, **values: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        config = json.loads(text)
        (config[table] if table else config).update(values)
        return json.dumps(config)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "{", "cannot use its settings"),
        (lambda _: "[]", "it must be a table, got list"),
        (lambda _: "[" * 100_000, "cannot use its settings"),
        (lambda _: '{"seed": 0}', "game, method, frames must be set"),
        (setting("agent", double_q=True), "no setting named 'agent.double_q'"),
        (setting("schedule", iteration_steps=0), "schedule.iteration_steps must be >= 1"),
        (setting("schedule", iteration_steps=1e300), "schedule.iteration_steps must be an int"),
        (setting("schedule", iteration_steps=200), "protocol_fingerprint is"),
        (setting("bonus", scale=5.0), "method_fingerprint is"),
        (setting("world", frame_skip="x"), "world.frame_skip"),
        (setting("", variant="../../x"), "variant must be"),
    ],
)
def test_a_run_whose_settings_are_not_what_they_should_be_is_named_and_the_others_are_read(
    bundle: Path, change: Callable[[str], str], message: str
) -> None:
    change_config(bundle, change)
    results = load(bundle)
    assert [(warning.kind, warning.where) for warning in results.warnings] == [
        ("damaged run.json", "freeway/epsilon_greedy/seed-0")
    ]
    assert message in results.warnings[0].message
    assert [run.seed for run in results.runs] == [1]
    assert results.columns("SELECT DISTINCT run FROM iterations") == [["freeway/epsilon_greedy/seed-1"]]
    assert [found.final for found in summarise(results)] == [2.0]


def test_a_number_that_is_written_as_a_text_is_the_number(bundle: Path) -> None:
    change_config(bundle, setting("schedule", iteration_steps="100"))
    assert [run.settings["schedule.iteration_steps"] for run in load(bundle).runs] == [100, 100]


def test_a_damaged_file_is_refused_when_it_is_read(bundle: Path) -> None:
    (bundle / "episodes.parquet").write_bytes(b"")
    results = load(bundle)
    assert len(results.runs) == 2
    with pytest.raises(StoreError, match=r"episodes\.parquet of the bundle .* is damaged"):
        results.query("SELECT * FROM episodes")
    (bundle / "iterations.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match=r"iterations\.parquet of the bundle .* is damaged"):
        load(bundle)


def of_version(bundle: Path, results: int, suite: int) -> None:
    """Turn a bundle into one of another results and suite version, with the fingerprints that such runs have."""
    rows = pq.ParquetFile(bundle / "runs.parquet").read().to_pylist()
    config = from_dict(RunConfig, json.loads(rows[0]["config"]))
    own = {"protocol_fingerprint": fingerprint(protocol_settings(config, results))}

    def change(values: dict[str, Any]) -> None:
        values.update(results_version=results, suite_version=suite)
        for run in values["runs"]:
            run.update(own)

    change_manifest(bundle, change)


@pytest.mark.parametrize(
    "version",
    [(RESULTS_VERSION - 1, SUITE_VERSION), (RESULTS_VERSION, SUITE_VERSION + 1), (RESULTS_VERSION + 1, SUITE_VERSION)],
)
def test_a_bundle_of_another_version_opens_labelled_and_is_not_judged_with_the_present_one(
    version: tuple[int, int], bundle: Path, tmp_path: Path
) -> None:
    of_version(bundle, *version)
    present = Folder(tmp_path / "present")
    for seed in (0, 1, 2):  # the seeds of the bundle are no duplicates of these
        write_run(present, config_of(seed=seed), THREE)
    alone = load(bundle)
    label = ("another version", str(bundle))
    assert [(each.kind, each.where) for each in alone.warnings] == [label]
    text = f"2 of its runs are of results version {version[0]} and suite version {version[1]}, and this is results"
    assert text in alone.warnings[0].message
    assert {run.version for run in alone.runs} == {version}
    assert len(gather(alone, "").together) == 2
    both = load(present, bundle)
    assert label in [(each.kind, each.where) for each in both.warnings]
    for allow_mixed in (False, True):
        with pytest.raises(RunMismatch, match=f"results version {version[0]} .* cannot be compared"):
            both.evidence(allow_mixed=allow_mixed)
    evidence = gather_apart(both, "")
    assert {run.version for run in evidence.together} == {VERSION}
    assert [(len(part.together), part.verdicts) for part in evidence.apart] == [(2, {})]
    assert {run.version for run in evidence.apart[0].together} == {version}
    assert evidence.finals("freeway", "epsilon_greedy").size == 3


def test_a_bundle_of_another_version_is_apart_where_its_games_are_others(bundle: Path, tmp_path: Path) -> None:
    of_version(bundle, RESULTS_VERSION - 1, SUITE_VERSION)
    present = Folder(tmp_path / "present")
    write_run(present, config_of("deep_sea_10", seed=7), THREE)
    evidence = gather_apart(load(present, bundle), "")
    assert [run.game for run in evidence.together] == ["deep_sea_10"]
    assert [len(part.together) for part in evidence.apart] == [2]


def test_a_report_labels_a_bundle_of_another_version(bundle: Path, tmp_path: Path) -> None:
    of_version(bundle, RESULTS_VERSION - 1, SUITE_VERSION)
    page = build(bundle, tmp_path / "report").page.read_text()
    assert f"of its runs are of results version {RESULTS_VERSION - 1} and suite version {SUITE_VERSION}" in page


def test_runs_of_a_bundle_of_another_version_are_not_bundled_again(bundle: Path, tmp_path: Path) -> None:
    of_version(bundle, RESULTS_VERSION, SUITE_VERSION + 1)
    with pytest.raises(StoreError, match=f"it is of results version .* and suite version {SUITE_VERSION + 1}, and a"):
        bundle_stores([bundle], tmp_path / "again")


def test_a_run_that_claims_more_frames_than_its_iterations_have_is_not_complete(bundle: Path) -> None:
    change_manifest(bundle, lambda values: values["runs"][0].update(frames=10**12))
    assert [(run.frames, run.complete) for run in load(bundle).runs] == [(1_200, False), (1_200, True)]


def test_a_bundle_on_a_web_server_is_read_as_one_on_a_disk_and_needs_no_listing(bundle: Path) -> None:
    asked: list[str] = []

    class Served(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Served, directory=str(bundle)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        there, here = (summarise(load(location)) for location in (address, str(bundle)))
        with pytest.raises(StoreError, match="from a web server only bundles can be read"):
            load(f"{address}/nowhere")
    finally:
        server.shutdown()
        server.server_close()
    assert [(found.run.name, found.area) for found in there] == [(found.run.name, found.area) for found in here]
    files = json.loads((bundle / "manifest.json").read_text())["files"]
    listed = {"/manifest.json", *("/" + file["name"] for file in files)}
    assert set(asked) <= listed | {"/nowhere/manifest.json", "/nowhere/runs.parquet"}
