"""What a finished run leaves: its tables, its mark, and not always its replay."""

from pathlib import Path

import pytest

from offpiste.errors import CheckpointError
from offpiste.run.train import train
from offpiste.store import layout
from offpiste.store.checkpoints import newest_whole
from offpiste.store.finished import holds_only_results, refuse_results_only
from offpiste.store.parquet import from_parquet
from offpiste.store.records import read_records
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run


def test_the_records_of_a_checkpoint_are_those_of_the_tables(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(tiny_run(), folder)
    found = newest_whole(folder)
    assert found is not None
    records = read_records(found.objects)
    assert records.rows("episodes") == from_parquet(folder.get("episodes.parquet") or b"")
    complete = [row for row in from_parquet(folder.get("iterations.parquet") or b"") if row["complete"]]
    assert records.rows("iterations") == complete
    assert not holds_only_results(folder)


def test_a_damaged_manifest_is_not_taken_for_a_dropped_replay(folder: Folder) -> None:
    assert not holds_only_results(folder)
    folder.put("manifests/000000000001-1.json", b"{")
    assert not holds_only_results(folder)
    refuse_results_only(folder)


def test_a_run_with_only_its_results_kept_is_refused_with_what_to_do(folder: Folder) -> None:
    from offpiste.store.manifests import write_manifest

    agent = {"name": "objects/1", "bytes": 0, "blake2b": "0" * 32}
    manifest = {"format": layout.FORMAT, "step": 1, "attempt": "1", "objects": {"agent": agent}}
    write_manifest(folder, "000000000001-1.json", manifest)
    with pytest.raises(CheckpointError, match="only the results were kept; train it again in another folder"):
        refuse_results_only(folder)
