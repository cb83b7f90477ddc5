"""A bundle opens from its manifest alone, and one that differs from its manifest is refused, whoever wrote it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from offpiste.config import RESULTS_VERSION, RunConfig
from offpiste.errors import ConfigError, StoreError
from offpiste.rows import IterationRow
from offpiste.store import bundle, identity
from offpiste.store.bundle import RUNS, TABLES, Bundle, ListedRun, Manifest, RunRow, open_bundle, schema, write_bundle
from offpiste.store.documents import signed, unsigned
from offpiste.store.storage import Folder

SUITE = 7
NAMES = ("freeway/rnd/seed-0", "pong/rnd/seed-0")


def listed(name: str) -> ListedRun:
    about = identity.about(RunConfig())
    return ListedRun(name, 1_200, about["protocol_fingerprint"], about["method_fingerprint"], "0" * 64)


def iteration(run: str, number: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(IterationRow.__dataclass_fields__)
    given = {"iteration": number, "phase": "train", "complete": True, "end_step": 100 * number, "end_frame": 400}
    return row | given | {"run": run, "steps": 100, "episodes": 1, "updates": 0, "return_mean": 0.5}


def tables() -> dict[str, pa.Table]:
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    rows["iterations"] = [iteration(name, number) for name in NAMES for number in (1, 2)]
    rows[RUNS] = [asdict(RunRow(name, "{}", None, "0.1.0")) for name in NAMES]
    return {table: pa.Table.from_pylist(found, schema(table)) for table, found in rows.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "bundle", [listed(name) for name in NAMES], tables(), SUITE)
    return tmp_path / "bundle"


def opened(path: Path) -> Bundle:
    found = open_bundle(Folder(path))
    assert found is not None
    return found


def change_manifest(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the manifest, whose checksum is right afterwards."""
    values = unsigned(json.loads((path / "manifest.json").read_text()))
    edit(values)
    (path / "manifest.json").write_text(json.dumps(signed(values)))


def put(path: Path, table: str, rows: pa.Table) -> None:
    """Replace a table of a bundle, with its entry in the manifest."""
    pq.write_table(rows, path / f"{table}.parquet")
    data = (path / f"{table}.parquet").read_bytes()
    entry = {"bytes": len(data), "rows": len(rows), "sha256": hashlib.sha256(data).hexdigest()}
    change_manifest(
        path, lambda values: next(f for f in values["files"] if f["name"] == f"{table}.parquet").update(entry)
    )


def test_a_bundle_returns_the_tables_that_were_written(path: Path) -> None:
    found = opened(path)
    assert found.manifest.runs == [listed(name) for name in NAMES]
    assert found.manifest.suite_version == SUITE
    assert found.manifest.results_version == RESULTS_VERSION
    for table, rows in tables().items():
        assert found.rows(table).equals(rows)


def test_a_bundle_without_cells_is_read(path: Path) -> None:
    assert opened(path).tables == [RUNS, *TABLES]
    change_manifest(
        path, lambda values: values.update(files=[f for f in values["files"] if f["name"] != "cells.parquet"])
    )
    (path / "cells.parquet").unlink()
    assert opened(path).tables == [RUNS, "iterations", "episodes", "scalars", "attempts"]


def test_a_bundle_is_read_without_a_listing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Folder, prefix: str) -> None:
        raise AssertionError(f"listed {prefix}")

    monkeypatch.setattr(Folder, "_listed", refuse)
    assert len(opened(path).rows("iterations")) == 4


def test_a_bundle_is_read_from_s3(path: Path, folder: Folder) -> None:
    for file in path.iterdir():
        folder.put(file.name, file.read_bytes())
    found = open_bundle(folder)
    assert found is not None
    assert found.rows("iterations").equals(tables()["iterations"])


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    assert open_bundle(Folder(tmp_path)) is None


def test_a_bundle_that_has_lost_its_manifest_is_refused(path: Path) -> None:
    (path / "manifest.json").unlink()
    with pytest.raises(StoreError, match=r"the bundle .* has lost manifest.json, .*; download it again"):
        open_bundle(Folder(path))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged manifest.json"),
        ("{", "damaged manifest.json"),
        ("[]", "it must be a table, got list"),
        ("{}", "it must be a table with the key 'bundle'"),
        ('{"bundle": [' + "{}," * 2**20 + "{}]}", "it must have <= 1,048,576 values"),
        (nested(100_000), "damaged manifest.json"),
        ('{"bundle": ' + "9" * 10_000 + "}", "damaged manifest.json"),
        ('{"bundle": 1}', "must have format 2, got 1; read it with the version of offpiste that wrote it"),
        ('{"bundle": true}', "must have format 2, got True"),
        ('{"bundle": 2}', "it has no checksum"),
        ("\xff", "damaged manifest.json"),
    ],
)
def test_a_file_that_is_not_a_manifest_is_refused(path: Path, text: str, message: str) -> None:
    (path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match="the bundle .*" + message):
        open_bundle(Folder(path))


def test_a_manifest_that_was_changed_is_refused_and_so_is_one_without_a_checksum(path: Path) -> None:
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"frames": ', '"frames": 1', 1))
    with pytest.raises(StoreError, match=r"damaged manifest.json: its checksum differs; download it again"):
        open_bundle(Folder(path))
    (path / "manifest.json").write_text(json.dumps(unsigned(json.loads(text))))
    with pytest.raises(StoreError, match=r"damaged manifest.json: it has no checksum; download it again"):
        open_bundle(Folder(path))


def first_file(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["files"][0].update(values)


def first_run(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["runs"][0].update(values)


OUTSIDE = ("/x", "..", "../x", "a/../../x", "a/..", "./a", "a/./b", "a//b", "a/", "a\u202eb", "a\x9bb")
"""Names of runs that lead out of a store, or mean another folder than they show."""


@pytest.mark.parametrize("name", [".", "a", "a/b", "freeway/rnd/seed-0", ".a/..b", "a/...", "ε [1]*?/x=1"])
def test_the_name_of_a_run_is_a_path_below_its_store(path: Path, name: str) -> None:
    change_manifest(path, first_run(name=name))
    bundle = open_bundle(Folder(path))
    assert bundle is not None
    assert name in {run.name for run in bundle.manifest.runs}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (first_file(name="../../secret.parquet"), r"files\[0\].name must be one of runs.parquet"),
        (first_file(name="/etc/passwd"), r"files\[0\].name must be one of"),
        (first_file(name="iterations.parquet"), "must list each of its files once"),
        (first_file(bytes=10**15), r"files\[0\].bytes must be <= 268_435_456"),
        (first_file(bytes=-1), r"files\[0\].bytes must be >= 0"),
        (first_file(bytes=1e300), r"files\[0\].bytes must be an int"),
        (first_file(rows=10**12), r"files\[0\].rows must be <= 4_000_000"),
        (first_file(sha256="0"), r"files\[0\].sha256 must be 64 hexadecimal digits"),
        (first_file(code="import os"), r"no setting named 'files\[0\].code'"),
        (lambda manifest: manifest.update(files=[]), "must list each of its files once"),
        (lambda manifest: manifest.update(files={}), "files must be a list"),
        (lambda manifest: manifest.update(files=[None] * 5), r"files\[0\] must be a table"),
        (lambda manifest: manifest.pop("runs"), "runs must be set"),
        (lambda manifest: manifest["runs"].append(manifest["runs"][0]), "must list each run once"),
        (lambda manifest: manifest.update(offpiste="\x1b[2J"), "offpiste must be"),
        (first_run(name=["a"]), r"runs\[0\].name must be a string"),
        (first_run(name=""), r"runs\[0\].name must be"),
        (first_run(name="\x1b[2J"), r"runs\[0\].name must be"),
        (first_run(name="a" * 1001), r"runs\[0\].name must be"),
        *((first_run(name=name), r"runs\[0\].name must be a path below the store") for name in OUTSIDE),
        (first_run(frames=-1), r"runs\[0\].frames must be >= 0"),
        (first_run(frames=2**62), r"runs\[0\].frames must be <="),
        (first_run(digest=None), r"runs\[0\].digest must be a string"),
        (first_run(protocol_fingerprint="x"), r"runs\[0\].protocol_fingerprint must be 12 hexadecimal digits"),
    ],
)
def test_a_manifest_with_a_wrong_value_is_refused_by_its_name(
    path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    change_manifest(path, edit)
    with pytest.raises(StoreError, match="damaged manifest.json: .*" + message) as refused:
        open_bundle(Folder(path))
    assert len(str(refused.value)) < 500 + len(str(path))


@pytest.mark.parametrize("version", [{"results_version": 2}, {"suite_version": 8}])
def test_a_bundle_of_another_version_opens_and_says_which(path: Path, version: dict[str, int]) -> None:
    change_manifest(path, lambda manifest: manifest.update(version))
    found = open_bundle(Folder(path))
    assert found is not None
    assert vars(found.manifest).items() >= version.items()
    assert len(found.rows("iterations")) > 0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "it is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "must have .* bytes, as in the manifest"),
        (lambda file: file.write_bytes(file.read_bytes() + b"0"), "must have .* bytes, as in the manifest"),
        (lambda file: file.write_bytes(b"0" + file.read_bytes()[1:]), "its SHA-256 differs from the manifest's"),
    ],
)
def test_a_file_that_differs_from_the_manifest_is_refused(
    path: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(path / "iterations.parquet")
    found = opened(path)
    assert len(found.rows(RUNS)) == 2
    with pytest.raises(
        StoreError, match=f"iterations.parquet of the bundle .* is damaged: .*{message}.*download it again"
    ):
        found.rows("iterations")


def test_no_more_of_a_file_is_read_than_the_size_in_the_manifest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (path / "iterations.parquet").open("ab") as file:
        file.truncate(2**33)
    asked: list[int | None] = []
    get = Folder.get

    def watched(folder: Folder, name: str, max_bytes: int | None = None) -> bytes | None:
        asked.append(max_bytes)
        return get(folder, name, max_bytes)

    found = opened(path)
    monkeypatch.setattr(Folder, "get", watched)
    with pytest.raises(StoreError, match="bytes, as in the manifest"):
        found.rows("iterations")
    assert asked[0] is not None
    assert asked[0] < 100_000


def with_column(name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    rows = tables()["iterations"]
    return rows.set_column(rows.schema.get_field_index(name), pa.field(name, kind), pa.array(values, kind))


def with_second_run_column() -> pa.Table:
    rows = tables()["iterations"]
    return rows.append_column("run", rows.column("run"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (with_column("iteration", ["1", "2", "1", "2"], pa.string()), "iteration must be int64, got string"),
        (
            with_column("iteration", [1, 2, 1, 10**12], pa.int64()),
            "the 2 iterations of 'pong/rnd/seed-0' must be numbered from 1, got 1 to 1000000000000",
        ),
        (
            with_column("iteration", [1, 2, 0, 1], pa.int64()),
            "the 2 iterations of 'pong/rnd/seed-0' must be numbered from 1, got 0 to 1",
        ),
        (
            with_column("iteration", [1, 2, 1, None], pa.int64()),
            "iteration must be present and without empty values",
        ),
        (
            with_column("steps", [1, 1, 1, 2**62], pa.int64()),
            "steps must be within ±9007199254740992, got 1 to 4611686018427387904",
        ),
        (with_column("steps", [1, 1, 1, -(2**63)], pa.int64()), "steps must be within .* got -9223372036854775808"),
        (
            with_column("run", [*NAMES, "other", NAMES[0]], pa.string()),
            "it has rows of the run 'other', which the manifest does not list",
        ),
        (tables()["iterations"].drop_columns(["steps"]), "steps must be present"),
        (tables()["iterations"].drop_columns(["run"]), "run must be present"),
        (with_second_run_column(), "columns must have different names"),
        (pa.table({}), ""),
    ],
)
def test_a_table_that_no_run_writes_is_refused(path: Path, rows: pa.Table, message: str) -> None:
    put(path, "iterations", rows)
    if not message:
        assert len(opened(path).rows("iterations")) == 0  # no rows, hence no missing values
        return
    with pytest.raises(StoreError, match=f"iterations.parquet of the bundle .* is damaged: {message}"):
        opened(path).rows("iterations")


def test_runs_that_differ_from_the_manifest_are_refused(path: Path) -> None:
    rows = tables()[RUNS]
    for wrong in (rows.slice(1), pa.concat_tables([rows, rows]), pa.concat_tables([rows.slice(1), rows.slice(1)])):
        put(path, RUNS, wrong)
        with pytest.raises(StoreError, match="its runs differ from the manifest's"):
            opened(path).rows(RUNS)


def test_a_file_with_another_number_of_rows_than_in_the_manifest_is_refused(path: Path) -> None:
    change_manifest(path, lambda values: values["files"][1].update(rows=5))
    with pytest.raises(StoreError, match="it must have 5 rows, as in the manifest, got 4"):
        opened(path).rows("iterations")


def test_a_file_that_would_fill_the_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables()["iterations"].take(pa.array([0] * 20_000))
    phases = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 100_000])
    put(path, "iterations", rows.set_column(rows.column_names.index("phase"), "phase", phases))
    assert (path / "iterations.parquet").stat().st_size < 100_000
    with pytest.raises(StoreError, match="it must take <= 1,073,741,824 bytes of memory, got 2,000,360,000"):
        opened(path).rows("iterations")
    put(path, "iterations", tables()["iterations"])
    monkeypatch.setattr(bundle, "MAX_DECOMPRESSED_BYTES", 1_000)
    with pytest.raises(StoreError, match=r"it must take <= 1,000 bytes of memory, got \d,\d+"):
        opened(path).rows("iterations")


def test_a_column_unknown_to_an_older_version_is_empty_and_one_of_a_newer_version_is_ignored(path: Path) -> None:
    rows = tables()["iterations"].drop_columns(["loss_mean"]).append_column("newer", pa.array([1, 2, 3, 4]))
    put(path, "iterations", rows)
    assert opened(path).rows("iterations").equals(tables()["iterations"])


@pytest.mark.parametrize("name", ["notes.txt", "iterations.parquet"])
def test_only_a_bundle_is_replaced_by_a_bundle(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(StoreError, match=f"must be empty or hold a bundle and nothing else, got {name}; nothing was"):
        write_bundle(tmp_path / "out", [listed(run) for run in NAMES], tables(), SUITE)
    assert (tmp_path / "out" / name).read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="choose another folder"):
        write_bundle(tmp_path / "file", [listed(name) for name in NAMES], tables(), SUITE)


def test_an_empty_folder_and_a_bundle_are_replaced(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", path):
        write_bundle(out, [listed(name) for name in NAMES[:1]], _of_first_run(), SUITE)
        assert [run.name for run in opened(out).manifest.runs] == [NAMES[0]]


def test_a_write_that_fails_leaves_the_older_bundle_and_nothing_else(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def full(folder: Folder, name: str, data: bytes) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", full)
        with pytest.raises(StoreError, match="the disk is full"):
            write_bundle(path, [listed(name) for name in NAMES[:1]], _of_first_run(), SUITE)

    rename = Path.rename

    def refusing(source: Path, target: Path) -> Path:
        if Path(target) == path and "old" not in source.suffix:
            raise OSError("not permitted")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(StoreError, match="cannot write the bundle"):
        write_bundle(path, [listed(name) for name in NAMES[:1]], _of_first_run(), SUITE)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_manifest_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    put = Folder.put

    def watched(folder: Folder, name: str, data: bytes) -> None:
        written.append(name)
        put(folder, name, data)

    monkeypatch.setattr(Folder, "put", watched)
    write_bundle(tmp_path / "bundle", [listed(name) for name in NAMES], tables(), SUITE)
    assert written[-1] == "manifest.json"
    assert len(written) == 1 + len((RUNS, *TABLES))


def test_a_bundle_that_a_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"runs\[0\].name must be"):
        write_bundle(tmp_path / "bundle", [listed("line\nbreak")], tables(), SUITE)
    assert list(tmp_path.iterdir()) == []


def _of_first_run() -> dict[str, pa.Table]:
    return {table: rows.filter(pa.compute.equal(rows["run"], NAMES[0])) for table, rows in tables().items()}


def test_the_manifest_has_the_keys_of_its_format(path: Path) -> None:
    values = json.loads((path / "manifest.json").read_text())
    assert list(values) == [*Manifest.__dataclass_fields__, "blake2b"]
    assert values["bundle"] == 2
