"""`offpiste verify` finds every byte that was changed and every file that is missing, and changes nothing itself."""

import json
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from offpiste.analysis.reference import import_dopamine
from offpiste.analysis.results import load
from offpiste.cli import main
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.run.train import train
from offpiste.store import documents
from offpiste.store.storage import Folder
from offpiste.study.keep import keep_results
from tests.analysis.small_store import THREE, config_of, write_run

NAME = "deep_sea_3/cts/seed-0"
BASE = base_run("deep_sea_3", "cts")
RUN = from_dict(type(BASE), {"frames": 30, "agent": {"replay_capacity": 100}}, base=BASE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one run with two checkpoints."""
    path = tmp_path_factory.mktemp("trained")
    for frames in (30, 60):
        assert train(replace(RUN, frames=frames), Folder(path / NAME)).state == "finished"
    return path


@pytest.fixture
def store(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "store"))


def verify(store: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["verify", str(store)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_whole_store_is_whole_and_unchanged(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    code, out, err = verify(store, capsys)
    assert (code, err) == (0, "")
    assert out.startswith("1 runs: all whole; ")
    assert {file: file.read_bytes() for file in store.rglob("*") if file.is_file()} == before
    keep_results(Folder(store / NAME))
    assert verify(store, capsys)[0] == 0


def signed_files(store: Path) -> list[Path]:
    """Return every file that has a checksum somewhere."""
    files = (file for file in sorted((store / NAME).rglob("*")) if file.is_file())
    return [file for file in files if file.parent.name != "tensorboard" and file.name != "checkpointed.json"]


def test_every_file_that_was_changed_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = signed_files(store)
    assert len(files) > 30
    for file in files:
        whole = file.read_bytes()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 4
        for data in (bytes(changed), whole[:-1], b""):
            file.write_bytes(data)
            code, out, err = verify(store, capsys)
            assert code == 1, file
            assert file.name in err, file
            assert out.startswith("1 runs: 1 damaged; "), file
        file.write_bytes(whole)
    assert verify(store, capsys)[0] == 0


def test_every_file_that_is_missing_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in signed_files(store):
        if file.parent.name in ("attempts", "manifests") or file.name.startswith(("finished-", "status")):
            continue  # nothing lists each of them
        whole = file.read_bytes()
        file.unlink()
        code, _, err = verify(store, capsys)
        assert code == 1, file
        assert file.name in err, file
        file.write_bytes(whole)


def test_manifests_that_are_missing_and_runs_that_are_mixed_up_are_named(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = documents.unsigned(json.loads((store / NAME / "run.json").read_text()))
    (store / NAME / "run.json").write_text(json.dumps(documents.signed(stored | {"run_id": "another"})))
    code, _, err = verify(store, capsys)
    assert code == 1
    assert "belongs to another run than run.json" in err
    shutil.rmtree(store / NAME / "manifests")
    code, _, err = verify(store, capsys)
    assert code == 1
    assert "all manifests are missing" in err


def test_marks_and_attempts_that_are_missing_are_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(store / NAME / "attempts")
    for mark in (store / NAME).glob("finished-*"):
        mark.unlink()
    code, _, err = verify(store, capsys)
    assert code == 1
    assert "attempts/ is empty" in err
    assert "the mark of a run that finished is missing, finished-000000000060.json" in err


def test_a_file_that_was_copied_over_another_one_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [file for file in sorted((store / NAME).rglob("*.json")) if "tensorboard" not in file.parts]
    pairs = [(one, other) for one, other in permutations(files, 2) if one.name != "checkpointed.json"]
    assert len(pairs) > 50
    for file, other in pairs:
        whole = file.read_bytes()
        file.write_bytes(other.read_bytes())
        code, _, err = verify(store, capsys)
        assert code == 1, (file, other)
        assert file.name in err, (file, other)
        file.write_bytes(whole)


def test_an_attempt_of_another_run_is_named(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(replace(RUN, seed=1, frames=60), Folder(tmp_path / "other"))
    file = min((store / NAME / "attempts").iterdir())
    (other,) = (tmp_path / "other" / "attempts").iterdir()
    file.write_bytes(other.read_bytes())
    code, _, err = verify(store, capsys)
    assert code == 1
    assert f"attempts/{file.name} is damaged: it belongs to another run" in err


@pytest.mark.parametrize("state", ["finished", "paused"])
def test_the_records_of_another_run_are_named_and_not_used(
    store: Path, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    train(replace(RUN, seed=1, frames=60), Folder(other))
    for run in (store / NAME, other):
        if state == "paused":
            shutil.rmtree(run / "tables")
            for mark in run.glob("finished-*"):
                mark.unlink()
            status = documents.unsigned(json.loads((run / "status.json").read_text())) | {"state": state}
            (run / "status.json").write_text(json.dumps(documents.signed(status)))
    before = load(str(store)).columns("SELECT game_return FROM episodes ORDER BY end_step")
    for file in [*other.glob("*.parquet"), *other.glob("finished-*"), other / "status.json", *other.glob("tables/*")]:
        target = store / NAME / file.relative_to(other)
        target.write_bytes(file.read_bytes())
    code, _, err = verify(store, capsys)
    assert code == 1
    assert "belongs to another run: run_id 'deep_sea_3/cts/seed-1' for 'deep_sea_3/cts/seed-0'" in err
    results = load(str(store))
    assert "damaged status.json" in {warning.kind for warning in results.warnings}
    assert results.columns("SELECT game_return FROM episodes ORDER BY end_step") == before


def test_a_damaged_table_mark_and_status_are_written_anew_by_training_again(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = store / NAME
    for files in (run.glob("tables/*-episodes.parquet"), run.glob("finished-*60.json"), run.glob("status.json")):
        for file in files:
            file.write_bytes(file.read_bytes()[:-9])
        code, _, err = verify(store, capsys)
        assert code == 1
        assert "training a run again writes damaged tables, marks and status.json anew" in err
        train(replace(RUN, frames=60), Folder(run))
        for file in run.glob("tables/000000000030-*"):  # of the shorter run, which this one does not mend
            file.unlink()
        (run / "finished-000000000030.json").unlink(missing_ok=True)
        assert verify(store, capsys)[0] == 0


def test_imported_curves_are_verified(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"Agent": "Rainbow", "Iteration": number, "Value": float(number)} for number in range(3)]
    (tmp_path / "freeway.json").write_text(json.dumps(rows))
    import_dopamine([tmp_path / "freeway.json"], Folder(store))
    assert verify(store, capsys)[0] == 0
    (imported,) = (store / "published").iterdir()
    whole = imported.read_text()
    assert "2.0]" in whole
    for data in (whole.replace("2.0]", "92.0]"), whole[:-1]):
        imported.write_text(data)
        code, _, err = verify(store, capsys)
        assert code == 1
        assert f"published/{imported.name}: " in err
        assert "import it again" in err
        assert load(str(store)).published == ()


def test_tables_that_no_status_vouches_for_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    bad, good = (write_run(folder, config_of(seed=seed), THREE) for seed in (0, 1))
    code, out, _ = verify(tmp_path, capsys)
    assert code == 0
    assert out == "2 runs: all whole; 8 files, 0.00 GB\n"
    (tmp_path / bad / "episodes.parquet").write_bytes(b"PAR1")
    code, out, err = verify(tmp_path, capsys)
    assert (code, out[:19]) == (1, "2 runs: 1 damaged; ")
    assert bad in err
    assert good not in err


def test_a_bundle_is_verified_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(Folder(tmp_path / "store"), config_of(), THREE)
    assert main(["bundle", str(tmp_path / "store"), "--out", str(tmp_path / "bundle")]) == 0
    capsys.readouterr()
    code, out, _ = verify(tmp_path / "bundle", capsys)
    assert (code, out) == (0, f"{tmp_path / 'bundle'}: a bundle of 1 runs, whole\n")
    file = tmp_path / "bundle" / "episodes.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    code, _, err = verify(tmp_path / "bundle", capsys)
    assert code == 1
    assert "episodes.parquet of the bundle" in err


def test_where_there_is_no_run_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = verify(tmp_path, capsys)
    assert code == 1
    assert "there is no run below" in err
