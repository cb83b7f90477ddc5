"""The digest covers all that does not depend on the machine, and nothing that does."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from offpiste import arrays
from offpiste.errors import CheckpointError, StoreError
from offpiste.run.digest import digest, digests
from offpiste.run.train import train
from offpiste.store.attempts import begin_attempt
from offpiste.store.checkpoints import Checkpoints, newest_whole
from offpiste.store.identity import claim, read_run
from offpiste.store.parquet import from_parquet
from offpiste.store.records import column_digests, one_digest, to_parquet
from offpiste.store.storage import Folder
from offpiste.study.keep import keep_results
from tests.run.test_train import tiny_run

Objects = dict[str, bytes]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp("trained")
    train(tiny_run(), Folder(path))
    return Folder(path)


def objects_of(folder: Folder) -> Objects:
    found = newest_whole(folder)
    assert found is not None
    return found.objects


def digest_with(folder: Folder, tmp_path: Path, change: Callable[[Objects], None]) -> str:
    """Return the digest of a copy of the run whose newest checkpoint was changed."""
    assert folder.local_path is not None
    copy = Folder(shutil.copytree(folder.local_path, tmp_path / "copy"))
    objects = objects_of(copy)
    change(objects)
    stored = read_run(copy)
    assert stored is not None
    Checkpoints(copy, begin_attempt(copy, {}), stored.identity).save(10**6, objects, {})
    return digest(copy)


def changed(key: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Objects], None]:
    """Return a function that changes the values of one packed object."""

    def apply(objects: Objects) -> None:
        values = arrays.unpack(objects[key])
        change(values)
        objects[key] = arrays.pack(values)

    return apply


def changed_part(table: str, column: str, value: Any) -> Callable[[Objects], None]:
    def apply(objects: Objects) -> None:
        key = f"part/{table}/000001"
        rows = from_parquet(objects[key])
        assert rows[0][column] != value
        rows[0][column] = value
        objects[key] = to_parquet(table, rows)

    return apply


def newest_chunk(objects: Objects) -> str:
    return max(key for key in objects if key.startswith("chunk/"))


def next_float(array: np.ndarray[Any, Any]) -> None:
    """Change the first number by its last bit."""
    array.flat[0] = np.nextafter(array.flat[0], np.inf, dtype=array.dtype)


def first_float(values: dict[str, Any], part: str) -> np.ndarray[Any, Any]:
    """Return an array of the agent's state whose name holds this text."""
    names = [name for name, value in values.items() if part in name and getattr(value, "dtype", None) == np.float32]
    assert names, sorted(values)
    found: np.ndarray[Any, Any] = values[names[0]]
    return found


def swap_frames(objects: Objects) -> None:
    """Replace the last frame of a chunk by its first."""
    key = newest_chunk(objects)
    chunk = arrays.unpack(objects[key])
    data, bounds = chunk["data"].tobytes(), chunk["bounds"].tolist()
    compressed = [data[start:end] for start, end in pairwise(bounds)]
    assert compressed[-1] != compressed[0]
    compressed[-1] = compressed[0]
    chunk["data"] = np.frombuffer(b"".join(compressed), np.uint8)
    chunk["bounds"] = np.cumsum([0, *map(len, compressed)], dtype=np.uint32)
    objects[key] = arrays.pack(chunk)


def recompress_frames(objects: Objects) -> None:
    """Compress the same frames of a chunk to other bytes: another level, and no dictionary."""
    key = newest_chunk(objects)
    chunk = arrays.unpack(objects[key])
    data, bounds = chunk["data"].tobytes(), chunk["bounds"].tolist()
    dictionary = objects.get(f"dictionary/{chunk['dictionary']:08d}")
    decompressor = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary)) if dictionary else None
    decompressor = decompressor or zstandard.ZstdDecompressor()
    frames = [decompressor.decompress(data[start:end], max_output_size=84 * 84) for start, end in pairwise(bounds)]
    compressed = [zstandard.ZstdCompressor(19).compress(frame) for frame in frames]
    assert b"".join(compressed) != data
    chunk |= {"dictionary": 0, "data": np.frombuffer(b"".join(compressed), np.uint8)}
    chunk["bounds"] = np.cumsum([0, *map(len, compressed)], dtype=np.uint32)
    objects[key] = arrays.pack(chunk)


def replace_first(values: dict[str, Any], key: str) -> None:
    values[key].flat[0] ^= 1


@pytest.mark.parametrize(
    "change",
    [
        changed("agent", lambda values: next_float(first_float(values, "weight"))),
        changed("replay", lambda values: next_float(values["tree/leaves"])),
        changed("replay", lambda values: replace_first(values, "actions")),
        lambda objects: changed(newest_chunk(objects), lambda values: replace_first(values, "actions"))(objects),
        lambda objects: changed(newest_chunk(objects), lambda values: next_float(values["intrinsic"]))(objects),
        swap_frames,
        changed("coverage", lambda values: replace_first(values, "seen_cells")),
        changed("cells", lambda values: replace_first(values, "visits")),
        changed("scalars", lambda values: values.update(steps=values["steps"] + 1)),
        changed("loop", lambda values: replace_first(values, "world")),
        changed("loop", lambda values: values.update(training_steps=values["training_steps"] + 1)),
        changed("loop", lambda values: values["generators"]["actions"].update(has_uint32=2)),
        changed_part("episodes", "game_return", 1e-9),
        changed_part("iterations", "loss_mean", 1e-9),
    ],
    ids=[
        "one bit of a weight",
        "one bit of a priority",
        "an action not yet in a chunk",
        "an action in a chunk",
        "one bit of a bonus",
        "a frame",
        "a cell found",
        "a visit",
        "the open window",
        "one bit of the world",
        "the counter",
        "a generator",
        "a return",
        "a loss",
    ],
)
def test_the_digest_changes_with(trained: Folder, tmp_path: Path, change: Callable[[Objects], None]) -> None:
    assert digest_with(trained, tmp_path, change) != digest(trained)


def test_digests_say_which_column_and_which_array_differ(trained: Folder, tmp_path: Path) -> None:
    assert trained.local_path is not None
    changes: list[Callable[[Objects], None]] = [
        changed_part("episodes", "game_return", 1e-9),
        changed("agent", lambda values: next_float(values["target/head.bias"])),
        changed("replay", lambda values: next_float(values["tree/leaves"])),
    ]

    def change(objects: Objects) -> None:
        for each in changes:
            each(objects)

    digest_with(trained, tmp_path, change)
    before, after = digests(trained), digests(Folder(tmp_path / "copy"))
    assert before.keys() == after.keys() >= {"iterations.loss_mean", "loop/generators", "replay/frames"}
    differing = {part for part in before if before[part] != after[part]}
    assert differing == {"episodes.game_return", "agent/target/head.bias", "replay/priorities"}


def test_a_column_that_is_empty_or_added_later_changes_no_digest() -> None:
    rows = pa.table({"episode": [1, 2], "steps": [7, None]})
    found = column_digests("episodes", rows)
    assert found.keys() == {"episodes.episode", "episodes.steps"}
    assert column_digests("episodes", rows.append_column("later", pa.nulls(2, pa.int64()))) == found
    more = column_digests("episodes", rows.append_column("later", pa.array([1, None])))
    assert more.items() > found.items()
    assert one_digest(more) != one_digest(found)
    assert column_digests("episodes", rows.slice(0, 0)) == {}


def test_the_digest_changes_with_an_open_row(trained: Folder, tmp_path: Path) -> None:
    def add(values: dict[str, Any]) -> None:
        values["open"]["episodes"].append({"episode": 3})

    assert digest_with(trained, tmp_path, changed("records", add)) != digest(trained)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        changed_part("timing", "seconds", 1e9),
        changed("records", lambda values: values["open"]["timing"].append({"iteration": 3})),
        recompress_frames,
        lambda objects: objects.update({"kept/000001-weights": b"only a copy for later"}),
    ],
    ids=[
        "nothing but step and attempt",
        "timing in a part",
        "open timing",
        "frames compressed otherwise",
        "kept weights",
    ],
)
def test_the_digest_does_not_change_with(trained: Folder, tmp_path: Path, change: Callable[[Objects], None]) -> None:
    assert digest_with(trained, tmp_path, change) == digest(trained)


def test_taking_the_digest_changes_nothing_even_where_a_newer_checkpoint_is_broken(
    trained: Folder, tmp_path: Path
) -> None:
    assert trained.local_path is not None
    path = shutil.copytree(trained.local_path, tmp_path / "copy")
    (path / "manifests" / "000000999999-000009-abcdef.json").write_text("{")
    (path / "objects" / "being-written.12345678.unfinished").write_text("by a run that goes on")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.warns(UserWarning, match="is used, since a newer one is broken: manifests/000000999999-000009-abcdef"):
        assert digest(Folder(path)) == digest(trained)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_folder_without_a_run_or_without_a_checkpoint_has_no_digest(folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"holds no run: there is no run\.json in it"):
        digest(folder)
    claim(folder, tiny_run())
    with pytest.raises(StoreError, match="has no checkpoint yet; train the run first"):
        digest(folder)


def test_a_run_of_which_only_results_were_kept_has_no_digest(trained: Folder, tmp_path: Path) -> None:
    assert trained.local_path is not None
    folder = Folder(shutil.copytree(trained.local_path, tmp_path / "copy"))
    keep_results(folder)
    with pytest.raises(CheckpointError, match="only the results were kept"):
        digest(folder)
