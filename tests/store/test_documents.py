"""Files of a stranger's run are refused with the reason before they cost anything, or read as what they say."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig
from offpiste.errors import Damaged
from offpiste.store import documents, layout
from offpiste.store.documents import MAX_BYTES, StoredStatus, parse, read, read_run, read_status
from offpiste.store.manifests import MAX_MANIFEST_BYTES
from offpiste.store.run_folder import about
from offpiste.store.storage import Folder

Change = Callable[[dict[str, Any]], object]


def of(table: str, **values: Any) -> Change:
    return lambda stored: stored["config"][table].update(values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda stored: stored.update(run_id="a\x1b[2Jb"), "run_id must be 1 to 1000 characters without control"),
        (lambda stored: stored["config"].update(game="x\u202egnp"), "game must be 1 to 1000 characters without"),
        (lambda stored: stored["config"].update(game=""), "game must be 1 to 1000 characters"),
        (lambda stored: stored["config"].update(game="g" * 1001), "game must be 1 to 1000 characters"),
        (lambda stored: stored["config"].update(game=["pong"]), "game must be a string"),
        (lambda stored: stored["config"].update(seed=2**63 - 1, frames=-1), "frames must be >= 0"),
        (lambda stored: stored["config"].update(seed=2**64), "an integer must have <= 64 bits, got 65"),
        (lambda stored: stored["config"].update(world=7), "world must be a table, got 7"),
        (lambda stored: stored["config"].pop("seed"), "seed must be set"),
        (of("schedule", iteration_steps=0), "schedule.iteration_steps must be >= 1"),
        (of("schedule", iteration_steps=True), "schedule.iteration_steps must be an int, got True"),
        (of("world", frame_skip=1e300), "world.frame_skip must be an int"),
        (of("agent", learning_rate=float("nan")), "a number must be finite, got nan"),
        (lambda stored: stored["config"]["world"].pop("frame_skip"), "world.frame_skip must be set"),
        (lambda stored: stored.update(results_version="3" * 30), "results_version must be"),
        (lambda stored: stored.update(bonus_source=5), "bonus_source must be a string, got 5"),
        (lambda stored: stored.update(config=[]), "config must be a table"),
        (lambda stored: stored.pop("method_fingerprint"), "method_fingerprint must be set"),
        (of("bonus", options={"text": "x" * 200_000}), "a text must have <= 100,000 bytes"),
        (of("bonus", options={"text": "\ud800"}), "no half of a character"),
        (of("bonus", options=json.loads("[" * 20 + "]" * 20)), "it must be nested <= 16 deep"),
    ],
)
def test_a_run_json_is_refused_with_the_reason(tmp_path: Path, change: Change, reason: str) -> None:
    stored = about(RunConfig())
    change(stored)
    Folder(tmp_path).put("run.json", json.dumps(documents.signed(stored)).encode())
    with pytest.raises(Damaged) as refused:
        read_run(Folder(tmp_path))
    assert reason in str(refused.value)
    assert str(refused.value).startswith(f"run.json in {tmp_path} is damaged: ")


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


@pytest.mark.parametrize(("key", "seen"), [("format", "an older one"), ("format", 2), ("format", 4)])
def test_a_folder_of_another_format_is_refused_with_what_to_do(tmp_path: Path, key: str, seen: Any) -> None:
    stored = about(RunConfig()) | {key: seen, "offpiste": "0.0.9"}
    if seen == "an older one":
        del stored[key]
    Folder(tmp_path).put("run.json", json.dumps(stored).encode())
    with pytest.raises(Damaged) as refused:
        read_run(Folder(tmp_path))
    assert str(refused.value) == (
        f"run.json in {tmp_path} must have format {layout.FORMAT}, got {seen}; read and resume the run with the "
        "version of offpiste that wrote it (0.0.9), or train it again in another folder"
    )


def test_a_run_json_that_was_changed_or_has_no_checksum_is_refused(tmp_path: Path) -> None:
    folder, stored = Folder(tmp_path), about(RunConfig())
    folder.put("run.json", json.dumps(stored).encode())
    with pytest.raises(Damaged, match="it has no checksum; restore it from a backup"):
        read_run(folder)
    folder.put("run.json", json.dumps(documents.signed(stored), indent=1).encode())
    found = read_run(folder)
    assert found is not None
    assert found.settings == RunConfig()
    data = (folder.get("run.json") or b"").replace(b'"seed": 0', b'"seed": 1')
    folder.put("run.json", data)
    with pytest.raises(Damaged, match="its checksum differs; restore it from a backup"):
        read_run(folder)


def test_a_setting_of_a_later_version_is_kept(tmp_path: Path) -> None:
    stored = about(RunConfig())
    stored["config"]["agent"]["double_q"] = True
    stored["later"] = 1
    Folder(tmp_path).put("run.json", json.dumps(documents.signed(stored)).encode())
    found = read_run(Folder(tmp_path))
    assert found is not None
    assert found.config["agent"]["double_q"] is True


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"frames": "many"}, "frames must be a number"),
        ({"frames": -1}, "frames must be >= 0"),
        ({"frames": 1.5}, "frames must be an int"),
        ({"steps_per_second": 1e300}, "steps_per_second must be <= "),
        ({"seconds_left": -1}, "seconds_left must be >= 0"),
        ({"note": ["x"]}, "note must be a string"),
        ({"state": "run\nning"}, "state must be"),
        ({"at": "yesterday"}, "Invalid isoformat string"),
        ({"at": "2024-05-06T07:08:09"}, "at must have a time zone"),
        ({"tables": 3}, "tables must be a table"),
        ({"frames": int("9" * 4000)}, "an integer must have <= 64 bits, got 4,000 digits; delete it"),
    ],
)
def test_a_status_is_refused_with_the_reason(tmp_path: Path, values: dict[str, Any], reason: str) -> None:
    Folder(tmp_path).put("status.json", json.dumps(documents.signed(values)).encode())
    with pytest.raises(Damaged) as refused:
        read_status(Folder(tmp_path))
    assert reason in str(refused.value)


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert read(Folder(tmp_path), "run.json") is None
    assert read_run(Folder(tmp_path)) is None
    assert read_status(Folder(tmp_path)) == StoredStatus()
