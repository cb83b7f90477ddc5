"""A bundle opens by its manifest alone; one that is not what its manifest says is refused, whoever wrote it."""

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
from offpiste.store import bundle, run_folder
from offpiste.store.bundle import RUNS, TABLES, Bundle, ListedRun, Manifest, RunRow, open_bundle, schema
from offpiste.store.bundle_writer import write_bundle
from offpiste.store.records import IterationRow
from offpiste.store.storage import Folder

SUITE = 7
NAMES = ("freeway/rnd/seed-0", "pong/rnd/seed-0")


def listed(name: str) -> ListedRun:
    about = run_folder.about(RunConfig())
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
    found = open_bundle(Folder(path), SUITE)
    assert found is not None
    return found


def change(path: Path, harm: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest."""
    values = json.loads((path / "manifest.json").read_text())
    harm(values)
    (path / "manifest.json").write_text(json.dumps(values))


def put(path: Path, table: str, rows: pa.Table) -> None:
    """Put another table into a bundle, as somebody would who also writes the manifest."""
    pq.write_table(rows, path / f"{table}.parquet")
    data = (path / f"{table}.parquet").read_bytes()
    said = {"bytes": len(data), "rows": len(rows), "sha256": hashlib.sha256(data).hexdigest()}
    change(path, lambda values: next(f for f in values["files"] if f["name"] == f"{table}.parquet").update(said))


def test_a_bundle_gives_back_what_was_written(path: Path) -> None:
    found = opened(path)
    assert found.manifest.runs == [listed(name) for name in NAMES]
    assert found.manifest.suite_version == SUITE
    assert found.manifest.results_version == RESULTS_VERSION
    for table, rows in tables().items():
        assert found.rows(table).equals(rows)


def test_a_bundle_is_read_without_a_listing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Folder, prefix: str) -> None:
        raise AssertionError(f"listed {prefix}")

    monkeypatch.setattr(Folder, "_listed", refuse)
    assert len(opened(path).rows("iterations")) == 4


def test_a_bundle_is_read_from_s3(path: Path, folder: Folder) -> None:
    for file in path.iterdir():
        folder.put(file.name, file.read_bytes())
    found = open_bundle(folder, SUITE)
    assert found is not None
    assert found.rows("iterations").equals(tables()["iterations"])


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    assert open_bundle(Folder(tmp_path), SUITE) is None


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "damaged manifest.json"),
        ("{", "damaged manifest.json"),
        ("[]", "it is not that of a bundle"),
        ('"bundle"', "it is not that of a bundle"),
        (nested(100_000), "damaged manifest.json"),
        ('{"bundle": ' + "9" * 10_000 + "}", "damaged manifest.json"),
        ('{"bundle": 2}', "has format 2, and this version reads 1; install a newer offpiste"),
        ('{"bundle": true}', "bundle must be an int"),
        ('{"bundle": 1}', "must be set"),
        ("\xff", "damaged manifest.json"),
    ],
)
def test_a_manifest_that_is_none_is_refused(path: Path, text: str, told: str) -> None:
    (path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match="the bundle .*" + told):
        open_bundle(Folder(path), SUITE)


def first_file(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["files"][0].update(values)


def first_run(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["runs"][0].update(values)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (first_file(name="../../secret.parquet"), r"files\[0\].name must be one of runs.parquet"),
        (first_file(name="/etc/passwd"), r"files\[0\].name must be one of"),
        (first_file(name="iterations.parquet"), "does not name each of its files once"),
        (first_file(bytes=10**15), r"files\[0\].bytes must be <= 268_435_456"),
        (first_file(bytes=-1), r"files\[0\].bytes must be >= 0"),
        (first_file(bytes=1e300), r"files\[0\].bytes must be an int"),
        (first_file(rows=10**12), r"files\[0\].rows must be <= 4_000_000"),
        (first_file(sha256="0"), r"files\[0\].sha256 must be 64 hexadecimal digits"),
        (first_file(code="import os"), r"no setting named 'files\[0\].code'"),
        (lambda manifest: manifest.update(files=[]), "does not name each of its files once"),
        (lambda manifest: manifest.update(files={}), "files must be a list"),
        (lambda manifest: manifest.update(files=[None] * 5), r"files\[0\] must be a table"),
        (lambda manifest: manifest.pop("runs"), "runs must be set"),
        (lambda manifest: manifest["runs"].append(manifest["runs"][0]), "names a run twice"),
        (lambda manifest: manifest.update(offpiste="\x1b[2J"), "offpiste must be"),
        (first_run(name=["a"]), r"runs\[0\].name must be a string"),
        (first_run(name=""), r"runs\[0\].name must be"),
        (first_run(name="\x1b[2J"), r"runs\[0\].name must be"),
        (first_run(name="a" * 10**6), r"runs\[0\].name must be"),
        (first_run(frames=-1), r"runs\[0\].frames must be >= 0"),
        (first_run(frames=10**30), r"runs\[0\].frames must be <="),
        (first_run(digest=None), r"runs\[0\].digest must be a string"),
        (first_run(protocol_fingerprint="x"), r"runs\[0\].protocol_fingerprint must be 12 hexadecimal digits"),
    ],
)
def test_a_manifest_with_a_wrong_value_is_refused_by_its_name(
    path: Path, harm: Callable[[dict[str, Any]], object], told: str
) -> None:
    change(path, harm)
    with pytest.raises(StoreError, match="damaged manifest.json: .*" + told) as refused:
        open_bundle(Folder(path), SUITE)
    assert len(str(refused.value)) < 500 + len(str(path))


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ({"results_version": 2}, f"is of results version 2, and this is version {RESULTS_VERSION}"),
        ({"suite_version": 8}, "is of suite version 8, and this is version 7"),
    ],
)
def test_a_bundle_of_another_version_is_refused_with_what_to_do(path: Path, version: dict[str, int], told: str) -> None:
    change(path, lambda manifest: manifest.update(version))
    with pytest.raises(StoreError, match=f"{told}.*read it with offpiste .*, or run its study anew"):
        open_bundle(Folder(path), SUITE)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda file: file.unlink(), "there is no such file"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "does not have the .* bytes of the manifest"),
        (lambda file: file.write_bytes(file.read_bytes() + b"0"), "does not have the .* bytes of the manifest"),
        (lambda file: file.write_bytes(b"0" + file.read_bytes()[1:]), "its SHA-256 is not that of the manifest"),
    ],
)
def test_a_file_that_is_not_that_of_the_manifest_is_refused(
    path: Path, harm: Callable[[Path], object], told: str
) -> None:
    harm(path / "iterations.parquet")
    found = opened(path)
    assert len(found.rows(RUNS)) == 2
    with pytest.raises(StoreError, match=f"iterations.parquet of the bundle .* is damaged: .*{told}.*fetch it anew"):
        found.rows("iterations")


def test_of_a_file_that_is_larger_than_its_manifest_says_no_more_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (path / "iterations.parquet").open("ab") as file:
        file.truncate(2**33)
    asked: list[int | None] = []
    get = Folder.get

    def watched(folder: Folder, name: str, max_bytes: int | None = None) -> bytes | None:
        asked.append(max_bytes)
        return get(folder, name, max_bytes)

    found = opened(path)
    monkeypatch.setattr(Folder, "get", watched)
    with pytest.raises(StoreError, match="does not have the"):
        found.rows("iterations")
    assert asked[0] is not None
    assert asked[0] < 100_000


def with_column(name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    rows = tables()["iterations"]
    return rows.set_column(rows.schema.get_field_index(name), pa.field(name, kind), pa.array(values, kind))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (with_column("iteration", ["1", "2", "1", "2"], pa.string()), "iteration is string, not int64"),
        (with_column("iteration", [1, 2, 1, 10**12], pa.int64()), "'pong/rnd/seed-0' has 2 iterations, one of them"),
        (with_column("iteration", [1, 2, 0, 1], pa.int64()), "'pong/rnd/seed-0' has 2 iterations"),
        (with_column("iteration", [1, 2, 1, None], pa.int64()), "iteration is missing or has empty values"),
        (with_column("steps", [1, 1, 1, 2**62], pa.int64()), "steps goes from 1 to 4611686018427387904"),
        (with_column("steps", [1, 1, 1, -(2**63)], pa.int64()), "steps goes from -9223372036854775808"),
        (
            with_column("run", [*NAMES, "other", NAMES[0]], pa.string()),
            "it has rows of 'other', a run that the manifest",
        ),
        (tables()["iterations"].drop_columns(["steps"]), "steps is missing"),
        (tables()["iterations"].drop_columns(["run"]), "run is missing"),
        (pa.table({}), ""),
    ],
)
def test_a_table_that_no_run_writes_is_refused(path: Path, rows: pa.Table, told: str) -> None:
    put(path, "iterations", rows)
    if not told:
        assert len(opened(path).rows("iterations")) == 0  # no row, and so nothing missing in one
        return
    with pytest.raises(StoreError, match=f"iterations.parquet of the bundle .* is damaged: {told}"):
        opened(path).rows("iterations")


def test_runs_are_those_of_the_manifest(path: Path) -> None:
    rows = tables()[RUNS]
    for wrong in (rows.slice(1), pa.concat_tables([rows, rows]), pa.concat_tables([rows.slice(1), rows.slice(1)])):
        put(path, RUNS, wrong)
        with pytest.raises(StoreError, match="its runs are not those of the manifest"):
            opened(path).rows(RUNS)


def test_a_file_has_the_rows_that_the_manifest_says(path: Path) -> None:
    change(path, lambda values: values["files"][1].update(rows=5))
    with pytest.raises(StoreError, match="it has 4 rows, and in the manifest 5"):
        opened(path).rows("iterations")


def test_a_file_that_would_take_all_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables()["iterations"].take(pa.array([0] * 20_000))
    phases = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 100_000])
    put(path, "iterations", rows.set_column(rows.column_names.index("phase"), "phase", phases))
    assert (path / "iterations.parquet").stat().st_size < 100_000
    with pytest.raises(StoreError, match="it would take 2,000,360,000 bytes of memory"):
        opened(path).rows("iterations")
    put(path, "iterations", tables()["iterations"])
    monkeypatch.setattr(bundle, "MAX_DECOMPRESSED_BYTES", 1_000)
    with pytest.raises(StoreError, match=r"it would take \d,\d+ bytes of memory"):
        opened(path).rows("iterations")


def test_a_column_that_an_older_version_did_not_write_is_empty_and_one_of_a_newer_is_left_out(path: Path) -> None:
    rows = tables()["iterations"].drop_columns(["loss_mean"]).append_column("newer", pa.array([1, 2, 3, 4]))
    put(path, "iterations", rows)
    assert opened(path).rows("iterations").equals(tables()["iterations"])


@pytest.mark.parametrize("there", ["notes.txt", "iterations.parquet"])
def test_what_is_no_bundle_is_not_replaced(tmp_path: Path, there: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / there).write_text("mine")
    with pytest.raises(StoreError, match=f"holds {there}, and only a bundle is replaced by a bundle"):
        write_bundle(tmp_path / "out", [listed(name) for name in NAMES], tables(), SUITE)
    assert (tmp_path / "out" / there).read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="name another folder"):
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


def test_what_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"runs\[0\].name must be"):
        write_bundle(tmp_path / "bundle", [listed("line\nbreak")], tables(), SUITE)
    assert list(tmp_path.iterdir()) == []


def _of_first_run() -> dict[str, pa.Table]:
    return {table: rows.filter(pa.compute.equal(rows["run"], NAMES[0])) for table, rows in tables().items()}


def test_the_manifest_has_the_keys_of_its_format(path: Path) -> None:
    values = json.loads((path / "manifest.json").read_text())
    assert list(values) == list(Manifest.__dataclass_fields__)
    assert values["bundle"] == 1
