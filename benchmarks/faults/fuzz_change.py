"""What the harms of `fuzz` share: the files of a store, and changes in them whose checksums are right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from offpiste import arrays
from offpiste.store import documents

Generator = np.random.Generator
SECRET = "canary-of-a-secret-0123456789"  # noqa: S105
MARK = "live-canary"
"""Text of tags that must not come alive in a page."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, -0.5, float("nan"), float("inf"), "", "x", "20k", "1e999",
    "x" * 300, "y" * 150_000, "../../secret", "/etc/hostname", "objects/../../secret", "evil:Evil", "evil", "\ud800",
    f"<script>document.title='{MARK}'</script>", f"<img src=x onerror=\"document.title='{MARK}'\">",
    r"\042\076\074img src=x onerror=alert(1)\076", f"' onmouseover='{MARK}' x='", "javascript:alert(1)",
    "\x1b]0;t\x07\x1b[2J\r\n", "\u202egnp.exe", "a\x00b", "$(touch PWNED)`touch PWNED`", "$\\frac{1$", "{{ 7*7 }}",
    "world.frame_skip", "schedule.iteration_steps", [], {}, [1, [2, [3]]], {"a": {"b": {}}}, [0] * 2000,
)  # fmt: skip


def files_of(store: Path) -> list[Path]:
    """Return all files of a store, in a fixed order, but for logs of TensorBoard."""
    return sorted(path for path in store.rglob("*") if path.is_file() and path.parent.name != "tensorboard")


def pick(generator: Generator, items: Any) -> Any:
    """Return one of the items."""
    return items[int(generator.integers(len(items)))]


def change_json(path: Path, generator: Generator) -> str:
    """Set, add or delete one value anywhere in a file, and sign it again."""
    try:
        values = json.loads(read(path))
        spots = list(_spots(values))
        inside, key = pick(generator, spots)
        kind = int(generator.integers(10))
        if kind == 0:
            del inside[key]
        elif kind == 1 and isinstance(inside, dict):
            inside[str(pick(generator, VALUES))[:500]] = pick(generator, VALUES)
        elif kind == 2:
            deep: Any = []
            for _ in range(int(pick(generator, [10, 50, 900]))):
                deep = [deep]
            inside[key] = deep
        else:
            inside[key] = pick(generator, VALUES)
        write_json(path, values)
    except (ValueError, KeyError, IndexError, AttributeError, OSError, TypeError):
        return "spoilt already"
    return f"{path.name} {key!r:.60}"


def change_table(file: Path, generator: Generator) -> str:
    """Replace a table by one that is none of ours, or change bytes of its file."""
    try:
        if generator.integers(4) == 0:
            file.write_bytes(_mangled(read(file), generator))
        else:
            pq.write_table(_changed_table(read_table(file), generator), file)
    except (ValueError, pa.ArrowException, OSError):
        return "spoilt already"
    return file.name


def read_table(file: Path) -> pa.Table:
    """Return a table that no other attack has made too large."""
    table = pq.ParquetFile(pa.BufferReader(read(file)))
    if table.metadata.num_rows > 10**5:
        raise OSError("spoilt already")
    return table.read()


def read(path: Path) -> bytes:
    """Return the content of a file that no other attack has replaced by a pipe or made too large."""
    if not path.is_file() or path.stat().st_size > 10**8:
        raise OSError("spoilt already")
    return path.read_bytes()


def write_json(path: Path, values: Any) -> None:
    """Write values, and the checksum of those that have one."""
    if isinstance(values, dict) and "blake2b" in values:
        values.pop("blake2b")
        values = documents.signed(values)
    path.write_text(json.dumps(values))


def _spots(values: Any) -> Iterator[tuple[Any, Any]]:
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield values, key
        if isinstance(value, dict | list):
            yield from _spots(value)


def changed_object(data: bytes, generator: Generator) -> bytes:
    """Return an object of a checkpoint with another value, or random bytes."""
    if generator.integers(4) == 0:
        return bytes(generator.bytes(int(generator.integers(200))))
    values = arrays.unpack(data)  # a part or a dictionary is none: ValueError
    key = pick(generator, sorted(values))
    if isinstance(values[key], np.ndarray):
        old = values[key]
        values[key] = pick(
            generator,
            [
                old.reshape(-1)[:1],
                np.zeros((0,), old.dtype),
                np.full_like(old, 255),
                old.astype(np.float64) * np.nan,
                np.arange(10**6),
                "text",
                generator.integers(0, 256, old.shape).astype(np.uint8),
            ],
        )
    else:
        values[key] = pick(generator, [value for value in VALUES if value != "\ud800"])
    return arrays.pack(values)


def _mangled(data: bytes, generator: Generator) -> bytes:
    """Change some bytes of a Parquet file, most of them in its footer, which has no checksum."""
    changed = bytearray(data)
    footer = max(0, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    for _ in range(int(generator.integers(1, 6))):
        first = footer if generator.integers(5) else 0
        changed[int(generator.integers(first, len(data) - 8))] = pick(generator, (0, 1, 127, 128, 255, 0xC3))
    return bytes(changed)


def _changed_table(table: pa.Table, generator: Generator) -> pa.Table:
    rows = max(1, len(table))
    name = pick(generator, table.column_names)
    kind = int(generator.integers(10))
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(pick(generator, ["run", "filename", "game"]), pa.array(["x"] * len(table)))
    if kind == 2:
        return pa.table({name: pa.array([pick(generator, ["<b>", "\x1b[2J", "x" * 10**5])] * rows)})
    index = table.column_names.index(name)
    field = table.schema.field(name)
    values = {pa.float64(): [np.nan, np.inf, -np.inf, 1e308], pa.int64(): [2**63 - 1, -(2**63), 10**9, -1]}.get(
        field.type
    )
    if kind in (3, 4) and values:
        return table.set_column(index, field, pa.array([pick(generator, values)] * len(table), field.type))
    if kind == 5:
        return table.set_column(index, name, pa.nulls(len(table), field.type))
    if kind == 6:
        return table.slice(0, 0)
    if kind == 9:
        return table.rename_columns([each.title() if each == name else each for each in table.column_names])
    if kind == 7 and field.type == pa.string():
        long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**6, np.int32)), ["x" * 20_000])
        return pa.table({name: long})
    return pa.concat_tables([table] * 50)
