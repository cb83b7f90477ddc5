"""Files of a stranger's run are refused with the reason before they cost anything, or read as what they say."""

import tracemalloc
from pathlib import Path

import pytest

from offpiste.errors import Damaged
from offpiste.store.documents import MAX_BYTES, parse, read
from offpiste.store.identity import read_run
from offpiste.store.manifests import MAX_MANIFEST_BYTES
from offpiste.store.status import StoredStatus, read_status
from offpiste.store.storage import Folder


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 10**6, b'{"a": 1e999}', b'{"a": ' + b"9" * 5000]
)
def test_what_is_no_table_of_json_is_refused(tmp_path: Path, data: bytes) -> None:
    Folder(tmp_path).put("status.json", data)
    with pytest.raises(Damaged, match=r"status\.json in .* is damaged: "):
        read_status(Folder(tmp_path))


def test_a_file_of_many_values_takes_little_memory_to_refuse(tmp_path: Path) -> None:
    data = b'{"a": [' + b"{}," * (MAX_MANIFEST_BYTES // 3 - 10) + b"{}]}"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="it must have <= 1,048,576 values"):
            parse(data, MAX_MANIFEST_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_a_file_beyond_the_limit_is_refused_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(40 * 2**30)
    with pytest.raises(Damaged, match=f"it must have <= {MAX_BYTES:,} bytes"):
        read_run(Folder(tmp_path))


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert read(Folder(tmp_path), "run.json") is None
    assert read_run(Folder(tmp_path)) is None
    assert read_status(Folder(tmp_path)) == StoredStatus()
