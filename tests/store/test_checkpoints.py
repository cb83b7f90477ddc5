"""A checkpoint is restored whole or not at all, whatever breaks and whichever attempts write concurrently."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig
from offpiste.errors import CheckpointError, StoreError, Superseded
from offpiste.store import checkpoints as checkpoints_module
from offpiste.store import documents, layout
from offpiste.store.attempts import attempt_names, attempt_order, begin_attempt, read_attempts
from offpiste.store.checkpoints import Checkpoints, Saved, delete_unneeded, newest_objects, newest_whole
from offpiste.store.documents import checksum
from offpiste.store.identity import about
from offpiste.store.manifests import Foreign, manifest_names, read_manifest, write_manifest
from offpiste.store.storage import Folder
from tests.late_writer import every_sleep

FIRST = {"loop": b"first loop", "agent": b"first agent"}
SECOND = {"loop": b"second loop", "agent": b"second agent"}


class Recorder(Folder):
    """A folder that records puts and deletes, fails at a chosen put, and calls back before each put."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.puts: list[str] = []
        self.deletes: list[str] = []
        self.failing_put: int | None = None
        self.before_put: Callable[[str], None] = lambda _: None

    def put(self, name: str, data: bytes) -> None:
        self.before_put(name)
        self.puts.append(name)
        if len(self.puts) == self.failing_put:
            raise StoreError(f"cannot write {name}: the disk is full")
        super().put(name, data)

    def delete(self, name: str) -> None:
        self.deletes.append(name)
        super().delete(name)


def immutable(**values: bytes) -> dict[str, Callable[[], bytes]]:
    return {f"chunk/{key}": lambda value=value: value for key, value in values.items()}  # type: ignore[misc]


def begun(folder: Folder) -> Checkpoints:
    return Checkpoints(folder, begin_attempt(folder, {}))


def contents(folder: Folder) -> dict[str, bytes | None]:
    names = [f"{prefix}/{name}" for prefix in ("attempts", "manifests", "objects") for name in folder.list(prefix)]
    return {name: folder.get(name) for name in names}


def manifest(folder: Folder, index: int = -1) -> dict[str, Any]:
    return read_manifest(folder, folder.list("manifests")[index])


def restored_objects(folder: Folder) -> Mapping[str, bytes]:
    restored = begun(folder).restore()
    assert restored is not None
    return restored.objects


def test_what_was_saved_is_restored_by_another_attempt(folder: Folder) -> None:
    saved = begun(folder).save(7, FIRST, immutable(a=b"one", b=b"three"))
    restored = begun(folder).restore()
    assert restored is not None
    assert restored.step == 7
    assert restored.objects == FIRST | {"chunk/a": b"one", "chunk/b": b"three"}
    assert restored.broken == []
    assert saved == Saved(written_bytes=10 + 11 + 3 + 5, written_objects=4)


def test_a_folder_without_manifests_restores_as_none(folder: Folder) -> None:
    assert begun(folder).restore() is None
    folder.put("objects/000000000001-000001-abcdef-loop", b"of an attempt that was killed before its manifest")
    assert begun(folder).restore() is None


def test_objects_and_manifest_are_named_by_step_and_attempt_and_the_manifest_comes_last(location: str) -> None:
    folder = Recorder(location)
    attempt = begin_attempt(folder, {})
    folder.puts.clear()
    Checkpoints(folder, attempt).save(12, {"loop": b"x"}, {"part/episodes/000001": lambda: b"y"})
    assert folder.puts == [
        f"objects/000000000012-{attempt}-loop",
        f"objects/000000000012-{attempt}-part-episodes-000001",
        f"manifests/000000000012-{attempt}.json",
        "checkpointed.json",
    ]


def test_an_immutable_object_is_made_and_written_once_and_listed_by_every_later_manifest(location: str) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    made: list[str] = []
    chunk = {"chunk/a": lambda: made.append("a") or b"one"}  # type: ignore[func-returns-value]
    for step in (1, 2, 3):
        checkpoints.save(step, {"loop": b"loop %d" % step}, chunk)
    assert made == ["a"]
    assert [name for name in folder.puts if name.endswith("chunk-a")] == [
        manifest(folder)["objects"]["chunk/a"]["name"]
    ]
    # A later attempt neither writes it nor makes its bytes.
    resumed = begun(Recorder(location))
    assert resumed.restore() is not None
    saved = resumed.save(4, {"loop": b"loop 4"}, {"chunk/a": pytest.fail})
    assert saved == Saved(written_bytes=6, written_objects=1)
    assert restored_objects(folder) == {"loop": b"loop 4", "chunk/a": b"one"}


def test_an_immutable_object_that_is_no_longer_passed_is_dropped(folder: Folder) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one", b=b"two"))
    checkpoints.save(2, FIRST, immutable(b=b"two"))
    assert manifest(folder)["objects"].keys() == {"loop", "agent", "chunk/b"}
    assert any(name.endswith("chunk-a") for name in folder.list("objects"))  # the previous manifest still lists it
    checkpoints.save(3, FIRST, immutable(b=b"two"))
    assert not any(name.endswith("chunk-a") for name in folder.list("objects"))


def test_the_newest_checkpoint_is_that_of_the_highest_step_not_the_last_in_text_order(folder: Folder) -> None:
    checkpoints = begun(folder)
    checkpoints.save(9, FIRST, {})
    checkpoints.save(10, SECOND, {})
    assert restored_objects(folder) == SECOND


def cut(data: bytes) -> bytes:
    return data[:-1]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "must have 12 bytes, got 11"),
        (flip, "is damaged: its checksum differs"),
        (None, "is missing"),
    ],
    ids=["truncated", "one bit flipped", "missing"],
)
def test_if_an_object_of_the_newest_checkpoint_is_broken_the_previous_one_is_restored(
    folder: Folder, damage: Callable[[bytes], bytes] | None, message: str
) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    checkpoints.save(2, SECOND, immutable(a=b"one"))
    victim = manifest(folder)["objects"]["agent"]["name"]
    if damage is None:
        folder.delete(victim)
    else:
        folder.put(victim, damage(SECOND["agent"]))
    whole, broken = folder.list("manifests")
    later = begun(folder)
    restored = later.restore()
    assert restored is not None
    assert (restored.step, restored.objects) == (1, FIRST | {"chunk/a": b"one"})
    assert restored.broken == [f"{victim} {message}"]
    assert folder.list("manifests") == [whole, broken]  # nothing is deleted before the next save
    later.save(2, SECOND, immutable(a=b"one"))
    assert restored_objects(folder) == SECOND | {"chunk/a": b"one"}
    assert whole in folder.list("manifests")
    assert broken not in folder.list("manifests")
    assert victim.removeprefix("objects/") not in folder.list("objects")


def changed_key(data: bytes) -> bytes:
    return data.replace(b'"agent"', b'"agenT"')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "is truncated or damaged"),
        (lambda _: b"", "is truncated or damaged"),
        (lambda _: b"12", "is truncated or damaged"),
        (lambda data: b"\xff" + data, "is truncated or damaged"),
        (changed_key, "is damaged: its checksum differs"),
        (lambda data: data.replace(b'"format": 3', b'"format": 9'), "must have format 3, got 9"),
    ],
    ids=["truncated", "empty", "a number", "not text", "one key changed", "of a later version"],
)
def test_if_the_newest_manifest_is_damaged_the_previous_one_is_restored(
    folder: Folder, damage: Callable[[bytes], bytes], message: str
) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, {})
    checkpoints.save(2, SECOND, {})
    name = folder.list("manifests")[-1]
    data = folder.get(f"manifests/{name}")
    assert data is not None
    assert damage(data) != data
    folder.put(f"manifests/{name}", damage(data))
    later = begun(folder)
    restored = later.restore()
    assert restored is not None
    assert restored.objects == FIRST
    assert restored.broken == [f"manifests/{name} {message}"]
    later.save(2, SECOND, {})
    assert name not in folder.list("manifests")
    assert restored.manifest in folder.list("manifests")


def test_if_no_checkpoint_is_whole_every_broken_file_is_named_and_nothing_is_changed(folder: Folder) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, {})
    checkpoints.save(2, SECOND, {})
    victims = [manifest(folder, index)["objects"]["loop"]["name"] for index in (0, 1)]
    for victim in victims:
        folder.put(victim, b"")
    later = begun(folder)
    before = contents(folder)
    with pytest.raises(CheckpointError, match="no file of it was changed") as caught:
        later.restore()
    assert all(victim in str(caught.value) for victim in victims)
    assert folder.location in str(caught.value)
    assert contents(folder) == before


def test_reading_the_newest_whole_checkpoint_changes_nothing(folder: Folder) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, {})
    checkpoints.save(2, SECOND, {})
    folder.delete(manifest(folder)["objects"]["loop"]["name"])
    before = contents(folder)
    found = newest_whole(folder)
    assert found is not None
    assert found.objects == FIRST
    assert contents(folder) == before


def test_only_objects_listed_by_the_last_two_manifests_are_kept(folder: Folder) -> None:
    checkpoints = begun(folder)
    for step in range(1, 6):
        mutable = {"loop": b"loop %d" % step}
        checkpoints.save(step, mutable, {f"chunk/{step // 2}": lambda: b"chunk"})
        listed = {
            entry["name"].removeprefix("objects/")
            for name in folder.list("manifests")
            for entry in read_manifest(folder, name)["objects"].values()
        }
        assert [int(name.partition("-")[0]) for name in folder.list("manifests")] == [step - 1, step][-min(step, 2) :]
        assert set(folder.list("objects")) == listed


def test_orphans_of_a_killed_attempt_are_deleted_after_an_hour_and_those_of_this_attempt_at_once(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Recorder(location)
    begun(folder).save(1, FIRST, {})
    orphan = f"objects/000000000002-{begin_attempt(folder, {})}-loop"
    folder.put(orphan, b"written, then killed before the manifest")
    later = begun(folder)
    assert later.restore() is not None
    own = f"objects/000000000002-{attempt_names(folder)[-1]}-half"
    folder.put(own, b"of a save of this attempt that failed")
    later.save(2, SECOND, {})
    assert folder.get(orphan) is not None
    assert folder.get(own) is None
    monkeypatch.setattr(checkpoints_module, "ORPHAN_SECONDS", -60.0)
    later.save(3, SECOND, {})
    assert folder.get(orphan) is None


def test_the_age_of_an_orphan_is_measured_by_the_clock_of_the_store(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    attempts = [begin_attempt(folder, {}) for _ in range(2)]
    old, young = (f"objects/000000000001-{attempts[0]}-{key}" for key in ("old", "young"))
    for name, seconds in ((old, 3_700.0), (young, 3_500.0)):
        folder.put(name, b"orphan")
        at = (tmp_path / name).stat().st_mtime - seconds
        os.utime(tmp_path / name, (at, at))
    Checkpoints(folder, attempts[1]).save(1, FIRST, {})
    assert (folder.get(old), folder.get(young)) == (None, b"orphan")


def test_restoring_deletes_temporary_files_of_writes_unfinished_for_an_hour(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    begun(folder).save(1, FIRST, {})
    for prefix in ("", "attempts/", "manifests/", "objects/"):
        for name, seconds in (("old", 3_700.0), ("young", 0.0)):
            path = tmp_path / f"{prefix}{name}.json.12345678.unfinished"
            path.write_bytes(b"half")
            os.utime(path, (time.time() - seconds,) * 2)
    begun(folder).restore()
    assert {path.name for path in tmp_path.rglob("*.unfinished")} == {"young.json.12345678.unfinished"}
    assert len(list(tmp_path.rglob("*.unfinished"))) == 4


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_if_the_store_loses_a_new_checkpoint_save_fails_and_deletes_nothing_older(location: str, damage: str) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    checkpoints.save(2, FIRST, immutable(a=b"one"))
    before = contents(folder)

    def lose(name: str) -> None:
        if name.startswith("manifests/"):
            victim = next(put for put in folder.puts if put.startswith("objects/000000000003") and "agent" in put)
            Folder.delete(folder, victim)
            if damage == "empty":
                Folder.put(folder, victim, b"")

    folder.before_put = lose
    with pytest.raises(StoreError, match=r"lost what was just written for step 3: agent; the previous checkpoints"):
        checkpoints.save(3, SECOND, immutable(a=b"one", b=b"two"))
    assert folder.deletes == []
    assert before.items() <= contents(folder).items()
    folder.before_put = lambda _: None
    checkpoints.save(4, SECOND, immutable(a=b"one", b=b"two"))
    assert [int(name.partition("-")[0]) for name in folder.list("manifests")] == [2, 4]
    assert restored_objects(folder) == SECOND | {"chunk/a": b"one", "chunk/b": b"two"}


def test_an_object_corrupted_while_written_to_a_disk_is_detected_by_its_checksum(tmp_path: Path) -> None:
    folder = Recorder(str(tmp_path))
    checkpoints = begun(folder)

    def flip_agent(name: str) -> None:
        if name.startswith("manifests/"):
            victim = tmp_path / next(put for put in folder.puts if put.endswith("agent"))
            victim.write_bytes(flip(victim.read_bytes()))

    folder.before_put = flip_agent
    with pytest.raises(StoreError, match="lost what was just written for step 1: agent"):
        checkpoints.save(1, FIRST, {})


def test_an_immutable_object_that_the_store_lost_is_written_again_by_the_next_checkpoint(folder: Folder) -> None:
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    folder.delete(manifest(folder)["objects"]["chunk/a"]["name"])
    with pytest.raises(StoreError, match="chunk/a"):
        checkpoints.save(2, SECOND, immutable(a=b"one"))
    checkpoints.save(3, SECOND, immutable(a=b"one"))
    assert restored_objects(folder) == SECOND | {"chunk/a": b"one"}


def test_a_late_writer_that_sleeps_at_any_point_of_a_save_does_not_harm_a_newer_attempt(tmp_path: Path) -> None:
    for number, sleep in enumerate(late_saves(tmp_path)):
        if not sleep():
            break
        folder = Folder(tmp_path / f"{number:03d}")
        found = newest_whole(folder)
        assert found is not None, number
        assert found.step == 9, number
        assert found.objects == SECOND | {"chunk/a": b"one", "chunk/c": b"three"}, number
    assert number > 30


def late_saves(path: Path) -> Iterator[Callable[[], bool]]:
    """Yield one save per point at which it can sleep while another attempt finishes the run, at step 9."""
    numbers = iter(range(1_000))
    folders: list[Folder] = []

    def sleeper() -> None:
        folders.append(Folder(path / f"{next(numbers):03d}"))
        first = begun(folders[-1])
        if first.restore() is None:
            first.save(1, FIRST, immutable(a=b"one", b=b"two"))
            first.save(2, FIRST, immutable(a=b"one", b=b"two"))
            first.save(3, FIRST, immutable(a=b"one"))

    def other() -> None:
        second = begun(folders[-1])
        second.restore()
        for step in (5, 7, 9):
            second.save(step, SECOND, immutable(a=b"one", c=b"three"))

    yield from every_sleep(sleeper, other)


def test_a_late_writer_deletes_nothing_once_its_manifest_is_gone(folder: Folder) -> None:
    attempt = begin_attempt(folder, {})
    Checkpoints(folder, attempt).save(1, FIRST, {})
    before = contents(folder)
    delete_unneeded(folder, attempt, "000000000002-000001-aaaaaa.json", {})
    assert contents(folder) == before


def test_a_late_writer_deletes_nothing_once_a_newer_attempt_has_a_checkpoint(folder: Folder) -> None:
    older = begin_attempt(folder, {})
    Checkpoints(folder, older).save(1, FIRST, {})
    (own,) = folder.list("manifests")
    begun(folder).save(2, SECOND, {})
    before = contents(folder)
    delete_unneeded(folder, older, own, {})
    assert contents(folder) == before


def test_attempts_sort_by_number_beyond_six_digits_and_other_files_are_ignored(folder: Folder) -> None:
    for name in ("999999-ffffff.json", "1000000-000000.json", ".DS_Store", "notes.txt"):
        folder.put(f"attempts/{name}", b"{}")
    assert attempt_names(folder) == ["999999-ffffff", "1000000-000000"]
    assert begin_attempt(folder, {}).startswith("1000001-")
    with pytest.raises(Superseded):
        Checkpoints(folder, "1000000-000000").save(1, FIRST, {})


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("000012-ab34cd", (12, "ab34cd")),
        ("000012-123456", (12, "123456")),
        ("000000000345-000012-ab34cd.json", (12, "ab34cd")),
        ("000000000345-000012-123456-part-episodes-000001", (12, "123456")),
        ("000000000345-1000012-123456-agent", (1_000_012, "123456")),
        ("anything else", (0, "")),
    ],
)
def test_the_attempt_is_parsed_from_the_name_of_what_it_wrote(name: str, order: tuple[int, str]) -> None:
    assert attempt_order(name) == order


def test_an_older_attempt_stops_once_a_newer_one_has_begun_and_changes_nothing(location: str) -> None:
    folder = Recorder(location)
    older = begun(folder)
    older.save(1, FIRST, {})
    older.save(2, FIRST, {})
    newer = begin_attempt(folder, {})
    before = contents(folder)
    with pytest.raises(Superseded, match=f"attempt {newer} has taken over this run"):
        older.save(3, SECOND, {})
    assert contents(folder) == before


@pytest.mark.parametrize("moment", ["objects/", "manifests/"])
def test_an_attempt_superseded_while_it_saves_deletes_nothing(location: str, moment: str) -> None:
    folder = Recorder(location)
    older = begun(folder)
    older.save(1, FIRST, {})
    older.save(2, FIRST, {})
    in_flight = "objects/000000000003-000002-abcdef-loop"

    def take_over(name: str) -> None:
        if name.startswith(moment):
            folder.before_put = lambda _: None
            begin_attempt(folder, {})
            folder.put(in_flight, b"being written by the newer attempt, which has no manifest yet")

    folder.before_put = take_over
    with pytest.raises(Superseded):
        older.save(3, SECOND, {})
    assert folder.get(in_flight) is not None
    assert len([name for name in folder.deletes if name.startswith("manifests/")]) == 0
    # Superseded before its manifest was written, it left none; while it was being written, a whole one.
    assert restored_objects(folder) == (FIRST if moment == "objects/" else SECOND)


def test_manifests_of_a_superseded_attempt_are_replaced_by_those_of_the_newer_one(location: str) -> None:
    folder = Recorder(location)
    older = begun(folder)
    older.save(10, FIRST, {})
    newer = begun(folder)
    assert newer.restore() is not None
    # Two manifests of later steps, both without their objects, as left by attempts superseded while they wrote.
    template = manifest(folder)
    for step in (500, 520):
        late = {**template, "step": step, "objects": {"loop": {"name": "objects/gone", "bytes": 1, "blake2b": "0"}}}
        late["blake2b"] = checksum(json.dumps(late).encode())
        folder.put(f"manifests/{step:012d}-000001-zzzzzz.json", json.dumps(late).encode())
    newer.save(20, SECOND, {})
    assert [int(name.partition("-")[0]) for name in folder.list("manifests")] == [10, 20]
    assert restored_objects(folder) == SECOND


def test_two_attempts_that_save_the_same_step_use_different_names(location: str) -> None:
    one, two = Recorder(location), Recorder(location)
    begun(one).save(5, FIRST, immutable(a=b"one"))
    # The second has not restored the first, so it writes everything again.
    begun(two).save(5, SECOND, immutable(a=b"one"))
    assert set(one.puts).isdisjoint(two.puts)
    assert len(one.puts) == 6  # with the mark that there is a checkpoint
    assert len(two.puts) == 5
    assert restored_objects(one) == SECOND | {"chunk/a": b"one"}


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
def test_a_write_that_fails_at_any_point_leaves_the_previous_checkpoint_whole(location: str, failing: int) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    folder.puts.clear()
    folder.failing_put = failing
    both = immutable(a=b"one", b=b"two", c=b"three")
    with pytest.raises(StoreError, match="the disk is full"):
        checkpoints.save(2, SECOND, both)  # two mutable objects, two new immutable ones and the manifest
    assert len(folder.puts) == failing
    folder.failing_put = None
    found = newest_whole(folder)
    assert found is not None
    assert found.objects == FIRST | {"chunk/a": b"one"}
    checkpoints.save(3, SECOND, both)
    found = newest_whole(folder)
    assert found is not None
    assert (found.step, found.objects) == (3, SECOND | {"chunk/a": b"one", "chunk/b": b"two", "chunk/c": b"three"})
    assert not any(name.startswith("000000000002") for name in folder.list("objects"))


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_what_a_failed_checkpoint_wrote_is_deleted_so_that_retries_do_not_fill_a_disk(
    location: str, failing: int
) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    before = folder.list("objects")
    folder.puts.clear()
    folder.failing_put = failing
    with pytest.raises(StoreError, match="the disk is full"):
        checkpoints.save(2, SECOND, immutable(a=b"one", b=b"two", c=b"three"))
    assert folder.list("objects") == before


def test_the_checkpoint_above_makes_five_puts(location: str) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, immutable(a=b"one"))
    folder.puts.clear()
    checkpoints.save(2, SECOND, immutable(a=b"one", b=b"two", c=b"three"))
    assert len(folder.puts) == 5


def test_one_object_is_read_from_the_newest_checkpoint_in_which_it_is_whole(folder: Folder) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint; give the folder of a run"):
        newest_objects(folder, ["agent"], list[str]().append)
    checkpoints = begun(folder)
    checkpoints.save(1, FIRST, {})
    checkpoints.save(2, SECOND, {})
    assert newest_objects(folder, ["agent"], pytest.fail) == {"agent": b"second agent"}
    folder.delete(manifest(folder)["objects"]["agent"]["name"])
    warnings: list[str] = []
    assert newest_objects(folder, ["agent"], warnings.append) == {"agent": b"first agent"}
    (warning,) = warnings
    assert re.fullmatch(
        r"the checkpoint of step 1 is used, since a newer one is broken: objects/\S*-agent is missing", warning
    )
    assert newest_objects(folder, ["loop"], pytest.fail) == {"loop": b"second loop"}
    folder.delete(manifest(folder, 0)["objects"]["agent"]["name"])
    with pytest.raises(CheckpointError, match=r"agent is missing; objects/.*agent is missing"):
        newest_objects(folder, ["agent"], list[str]().append)
    with pytest.raises(KeyError):
        newest_objects(folder, ["no such object"], list[str]().append)


def test_attempts_are_numbered_from_one_and_sort_by_number(folder: Folder) -> None:
    names = [begin_attempt(folder, {"host": number}) for number in range(11)]
    assert [int(name.partition("-")[0]) for name in names] == list(range(1, 12))
    assert attempt_names(folder) == names
    assert documents.unsigned(json.loads(folder.get(f"attempts/{names[3]}.json") or b"")) == {
        "host": 3,
        "attempt": names[3],
    }


def test_of_two_attempts_that_begin_at_the_same_moment_one_stops(folder: Folder) -> None:
    for name in ("000001-aaaaaa", "000001-bbbbbb"):
        folder.put(f"attempts/{name}.json", b"{}")
    with pytest.raises(Superseded):
        Checkpoints(folder, "000001-aaaaaa").save(1, FIRST, {})
    Checkpoints(folder, "000001-bbbbbb").save(1, SECOND, {})
    assert begin_attempt(folder, {}).startswith("000002-")
    assert restored_objects(folder) == SECOND


IDENTITY = {"run_id": "freeway/rnd/seed-1", "protocol_fingerprint": "a" * 12, "method_fingerprint": "b" * 12}


def claimed(folder: Folder, **identity: str) -> Checkpoints:
    """Return the checkpoints of a new attempt at a run of this identity, which run.json names."""
    stored = about(RunConfig()) | IDENTITY | identity
    folder.put("run.json", json.dumps(documents.signed(stored)).encode())
    return Checkpoints(folder, begin_attempt(folder, {}), IDENTITY | identity)


def test_a_manifest_names_its_run_as_run_json_does(folder: Folder) -> None:
    claimed(folder).save(1, FIRST, {})
    assert {key: manifest(folder)[key] for key in IDENTITY} == IDENTITY
    restored = claimed(folder).restore()
    assert restored is not None
    assert restored.objects == FIRST


@pytest.mark.parametrize("key", IDENTITY)
def test_checkpoints_of_another_run_are_refused_and_nothing_is_changed(folder: Folder, key: str) -> None:
    checkpoints = claimed(folder)
    checkpoints.save(1, FIRST, {})
    checkpoints.save(2, SECOND, {})
    later = claimed(folder, **{key: "another"})
    before = contents(folder)
    text = rf"manifests/\S* in .* belongs to another run than run\.json: {key} '{IDENTITY[key]}' for 'another'; no file"
    with pytest.raises(Foreign, match=text):
        later.restore()
    with pytest.raises(Foreign, match=text):
        newest_objects(folder, ["agent"], list[str]().append)
    assert contents(folder) == before


def test_a_manifest_that_names_no_run_is_refused(folder: Folder) -> None:
    begun(folder).save(1, FIRST, {})
    assert not IDENTITY.keys() & manifest(folder).keys()
    with pytest.raises(Foreign, match=r"belongs to another run than run\.json: run_id None for 'freeway/rnd/seed-1'"):
        claimed(folder).restore()


def test_manifests_that_are_missing_after_a_first_checkpoint_are_refused(folder: Folder) -> None:
    begun(folder).save(1, FIRST, {})
    folder.delete(f"manifests/{folder.list('manifests')[0]}")
    before = contents(folder)
    later = begun(folder)
    with pytest.raises(CheckpointError, match=r"is whole; no file of it was changed.*: all manifests are missing"):
        later.restore()
    assert contents(folder).items() >= before.items()


def test_a_first_save_that_was_killed_begins_anew(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Recorder(location)
    checkpoints = begun(folder)
    folder.failing_put = len(folder.puts) + 2
    monkeypatch.setattr(folder, "delete", lambda _: None)  # a killed process deletes nothing
    with pytest.raises(StoreError):
        checkpoints.save(1, FIRST, {})
    assert folder.list("objects")
    assert begun(folder).restore() is None


def test_attempts_and_manifests_are_in_order_beyond_a_million(folder: Folder) -> None:
    folder.put("attempts/999999-abcdef.json", b"{}")
    later = begin_attempt(folder, {})
    assert later.startswith("1000000-")
    assert attempt_names(folder) == ["999999-abcdef", later]
    names = ["000000000005-999999-abcdef.json", f"000000000005-{later}.json", f"1000000000000-{later}.json"]
    for name in reversed(names):
        folder.put(f"manifests/{name}", b"")
    folder.put("manifests/.DS_Store", b"")
    assert manifest_names(folder) == names
    assert folder.list("manifests") != [".DS_Store", *names]  # which is sorted as text


def test_an_object_larger_than_its_manifest_says_is_not_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    begun(folder).save(1, FIRST, {})
    with (tmp_path / manifest(folder)["objects"]["agent"]["name"]).open("wb") as file:
        file.truncate(40 * 2**30)
    with pytest.raises(CheckpointError, match=r"-agent must have 11 bytes, got more"):
        newest_objects(folder, ["agent"], list[str]().append)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "../../secret"},
        {"name": "objects/../../secret"},
        {"name": "/etc/hostname"},
        {"name": "objects/.."},
        {"name": 5},
        {"bytes": 40 * 2**30},
        {"bytes": -1},
        {"bytes": "x"},
        {"blake2b": None},
        {"more": 1},
    ],
)
def test_an_entry_of_a_manifest_that_is_not_ours_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    folder = Folder(tmp_path / "run")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / "objects").mkdir(parents=True)
    secret = {"name": "objects/x", "bytes": 6, "blake2b": checksum(b"secret")}
    content = {"format": layout.FORMAT, "step": 1, "attempt": "000001-abcdef", "objects": {"agent": secret | entry}}
    write_manifest(folder, "000000000001-000001-abcdef.json", content)
    with pytest.raises(
        CheckpointError, match=r"manifests/000000000001-000001-abcdef\.json is damaged: agent\.|setting"
    ):
        newest_objects(folder, ["agent"], list[str]().append)


@pytest.mark.parametrize(
    "content", [{}, {"objects": []}, {"objects": {}, "step": -1}, {"objects": {"a": 1}, "step": 1}]
)
def test_a_manifest_without_step_or_objects_is_damaged(tmp_path: Path, content: dict[str, Any]) -> None:
    write_manifest(Folder(tmp_path), "000000000001-000001-abcdef.json", {"format": layout.FORMAT} | content)
    with pytest.raises(CheckpointError, match=r"000001-abcdef\.json is damaged"):
        newest_whole(Folder(tmp_path))


def test_a_checkpoint_larger_than_the_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(Folder(tmp_path)).save(1, FIRST, {})
    monkeypatch.setattr("offpiste.store.checkpoints.memory_bytes", lambda: 20)
    with pytest.raises(CheckpointError, match=r"must fit into 20 bytes of memory, got 21"):
        newest_whole(Folder(tmp_path))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"threads": "many"}', b'{"note": 5}', b"[" * 10**6])
def test_a_damaged_description_of_an_attempt_is_left_out(tmp_path: Path, content: bytes) -> None:
    folder = Folder(tmp_path)
    about_it = {"started_at": "", "start_step": 0, "host": "", "hardware": "", "threads": 1, "versions": "", "note": ""}
    good = begin_attempt(folder, {"run_id": "one", **about_it})
    folder.put("attempts/000002-abcdef.json", content)
    folder.put("attempts/.DS_Store", b"\x00")
    assert read_attempts(folder, "one") == [about_it | {"attempt": good}]


def test_the_description_of_another_attempt_or_run_is_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    about_it = {"started_at": "", "start_step": 0, "host": "", "hardware": "", "threads": 1, "versions": "", "note": ""}
    first, second = (begin_attempt(folder, {"run_id": "one", **about_it}) for _ in range(2))
    foreign = begin_attempt(folder, {"run_id": "another", **about_it})
    nameless = begin_attempt(folder, about_it)
    unsigned = begin_attempt(folder, {})
    folder.put(layout.attempt(unsigned), json.dumps({**about_it, "run_id": "one", "attempt": unsigned}).encode())
    assert [row["attempt"] for row in read_attempts(folder, "one")] == [first, second]
    assert [row["attempt"] for row in read_attempts(folder)] == [first, second, foreign, nameless]
    folder.put(layout.attempt(second), folder.get(layout.attempt(first)) or b"")
    assert [row["attempt"] for row in read_attempts(folder, "one")] == [first]
