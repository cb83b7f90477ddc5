"""Ways to harm a store: accidents, after which checksums differ, and attacks, whose checksums are right; for `fuzz`."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from offpiste.store import arrays, documents

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
    [], {}, [1, [2, [3]]], {"a": {"b": {}}}, [0] * 2000,
)  # fmt: skip
EVIL = """
from pathlib import Path

from offpiste.bonuses.cts import Cts as Evil

Path(__file__).with_name("imported").touch()
"""


def files_of(store: Path) -> list[Path]:
    """Return all files of a store, in a fixed order, but for logs of TensorBoard."""
    return sorted(path for path in store.rglob("*") if path.is_file() and path.parent.name != "tensorboard")


def pick(generator: Generator, items: Any) -> Any:
    """Return one of the items."""
    return items[int(generator.integers(len(items)))]


def damage(store: Path, generator: Generator) -> str:
    """Do what disks, copies and hands do to files of a store or a bundle, once to three times; return what was done."""
    done = []
    for _ in range(int(generator.integers(1, 4))):
        path = pick(generator, files_of(store) or [_lost(store)])
        act = pick(generator, ACCIDENTS)
        act(path, generator)
        done.append(f"{act.__name__} {path.relative_to(store)}")
    return ", ".join(done)


def _lost(store: Path) -> Path:
    """Return an empty file in a folder that has lost all its files."""
    path = store / "left"
    path.touch()
    return path


def flip(path: Path, generator: Generator) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    if data:
        data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
    path.write_bytes(data)


def cut(path: Path, generator: Generator) -> None:
    """Lose the end."""
    data = path.read_bytes()
    path.write_bytes(data[: int(generator.integers(len(data) + 1))])


def zero(path: Path, generator: Generator) -> None:
    """Overwrite a block with zeros."""
    data = bytearray(path.read_bytes())
    start = int(generator.integers(len(data) + 1))
    length = len(data[start : start + 512])
    data[start : start + length] = bytes(length)
    path.write_bytes(data)


def empty(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Leave no byte."""
    path.write_bytes(b"")


def lose(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Delete the file."""
    path.unlink()


def lose_folder(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Delete all files beside it."""
    for beside in path.parent.iterdir():
        if beside.is_file():
            beside.unlink()


def mix_up(path: Path, generator: Generator) -> None:
    """Copy another file of the same kind over it, of the same run or another."""
    root = path.parent
    while root.name not in ("store", "bundle"):
        root = root.parent
    alike = [other for other in files_of(root) if other.parent.name == path.parent.name and other != path]
    if alike:
        shutil.copyfile(pick(generator, alike), path)


def append(path: Path, generator: Generator) -> None:
    """Add bytes at the end."""
    path.write_bytes(path.read_bytes() + generator.bytes(20))


def clutter(path: Path, generator: Generator) -> None:
    """Leave files of other programs beside it."""
    for name in (".DS_Store", "Thumbs.db", "x.unfinished", "desktop.ini"):
        path.with_name(name).write_bytes(generator.bytes(30))


ACCIDENTS = (flip, flip, flip, cut, zero, empty, lose, lose_folder, mix_up, append, clutter)


def attack(store: Path, generator: Generator) -> str:
    """Do to a store what a stranger may, once to three times; return what was done."""
    done = []
    for _ in range(int(generator.integers(1, 4))):
        act = pick(generator, ATTACKS)
        run = pick(generator, sorted(path.parent for path in store.rglob("run.json")) or [store])
        done.append(f"{act.__name__} {act(run, generator) or ''} in {run.relative_to(store)}")
    return ", ".join(done)


def change_run_json(run: Path, generator: Generator) -> str:
    """Say something else of the run, with a right checksum."""
    return _change_json(run / "run.json", generator)


def change_status(run: Path, generator: Generator) -> str:
    """Say something else of its progress."""
    return _change_json(run / "status.json", generator)


def change_other(run: Path, generator: Generator) -> str:
    """Say something else in a manifest, an attempt or a mark."""
    found = sorted([*run.glob("manifests/*.json"), *run.glob("attempts/*.json"), *run.glob("finished-*.json")])
    return _change_json(pick(generator, found), generator) if found else ""


def change_object(run: Path, generator: Generator) -> str:
    """Replace an object of a checkpoint, and its checksum."""
    manifests = sorted(run.glob("manifests/*.json"))
    if not manifests:
        return ""
    path = manifests[-1]
    try:
        manifest = json.loads(_read(path))
        key = pick(generator, sorted(manifest["objects"]))
        entry = manifest["objects"][key]
        data = _changed_object(_read(run / entry["name"]), generator)
        (run / entry["name"]).write_bytes(data)
        entry |= {"bytes": len(data), "blake2b": documents.checksum(data)}
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return "spoilt already"
    _write_json(path, manifest)
    return str(key)


def change_table(run: Path, generator: Generator) -> str:
    """Replace a table by one that is none of ours; marks and status no longer say its checksum."""
    for path in (run / "status.json", *run.glob("finished-*.json")):
        try:
            values = json.loads(_read(path))
            values.pop("checksums" if path.name.startswith("finished") else "tables", None)
            _write_json(path, values)
        except (ValueError, AttributeError, OSError):
            continue
    found = sorted([*run.glob("*.parquet"), *run.glob("tables/*.parquet")])
    if not found:
        return ""
    file: Path = pick(generator, found)
    return _change_table(file, generator)


def link(run: Path, generator: Generator) -> str:
    """Make links: to the folder itself, to a secret, to devices and pipes."""
    kind = int(generator.integers(5))
    if kind == 0:
        for number in range(3):
            (run.parent / f"loop-{number}").symlink_to(pick(generator, [".", "..", "../.."]))
    elif kind == 1:
        victim = pick(generator, files_of(run) or [run / "run.json"])
        victim.unlink(missing_ok=True)
        victim.symlink_to(run.parents[-1] / Path.cwd() / "secret")
    elif kind == 2:
        victim = pick(generator, files_of(run) or [run / "run.json"])
        victim.unlink(missing_ok=True)
        victim.symlink_to(pick(generator, ["/dev/zero", "/dev/stdin", "/proc/self/environ"]))
    elif kind == 3:
        victim = pick(generator, files_of(run) or [run / "run.json"])
        victim.unlink(missing_ok=True)
        os.mkfifo(victim)
    else:
        victim = pick(generator, files_of(run) or [run / "run.json"])
        victim.unlink(missing_ok=True)
        victim.mkdir()
    return f"kind {kind}"


def inflate(run: Path, generator: Generator) -> str:
    """Make a file 40 GB large, without taking space."""
    victim: Path = pick(generator, files_of(run) or [run / "run.json"])
    with victim.open("ab") as file:
        file.truncate(40 * 2**30)
    return victim.name


def name_folders(run: Path, generator: Generator) -> str:
    """Copy the run to a folder of a hostile name, or nest folders without end."""
    names = (
        f"<img src=x onerror=\"document.title='{MARK}'\">",
        "a\x1b[2Jb\nc",
        "x" * 255,
        "$(touch PWNED)",
        "-rf",
        "a?b*[c]'d",
        "\udcff",
        "steps=7",
        "run=x",
    )
    if generator.integers(4) == 0:
        (run.parent / "/".join("d" * 200)).mkdir(parents=True, exist_ok=True)
    elif not (target := run.parent / pick(generator, names)).exists():
        _copy(run, target, without="objects")
    return ""


def change_import(run: Path, generator: Generator) -> str:
    """Change imported curves."""
    found = sorted(_store_of(run).glob("published/*.json"))
    return _change_json(pick(generator, found), generator) if found else ""


def take_files(run: Path, generator: Generator) -> str:
    """Give the run all files of another one but its run.json."""
    other: Path = pick(generator, sorted(path.parent for path in _store_of(run).rglob("run.json")) or [run])
    if other != run:
        _copy(other, run, without="run.json")
    return f"of {other.name}"


def fill_json(run: Path, generator: Generator) -> str:
    """Replace a file by 60 MB of JSON, whose values would take gigabytes."""
    found = sorted([*run.glob("*.json"), *run.glob("manifests/*.json"), *_store_of(run).glob("published/*.json")])
    victim: Path = pick(generator, found or [run / "run.json"])
    victim.unlink(missing_ok=True)
    victim.write_bytes(b'{"a": [' + b"{}," * 20_000_000 + b"{}]}")
    return victim.name


ATTACKS: tuple[Callable[[Path, Generator], str], ...] = (
    change_run_json,
    change_run_json,
    change_run_json,
    change_status,
    change_status,
    change_other,
    change_other,
    change_object,
    change_object,
    change_table,
    change_table,
    link,
    inflate,
    name_folders,
    change_import,
    take_files,
    fill_json,
)


def attack_bundle(bundle: Path, generator: Generator) -> str:
    """Change the manifest or a table of a bundle, whose checksums are right afterwards; return what was done."""
    manifest = bundle / "manifest.json"
    done = []
    for _ in range(int(generator.integers(1, 4))):
        kind = int(generator.integers(4))
        if kind == 0:
            done.append(_change_json(manifest, generator))
        elif kind == 1:
            done.append(_rename_run(bundle, generator))
        else:
            file: Path = pick(generator, sorted(bundle.glob("*.parquet")))
            done.append(_change_table(file, generator))
    _sign_bundle(bundle)
    return f"attack_bundle {', '.join(done)}"


def _rename_run(bundle: Path, generator: Generator) -> str:
    """Give a run of a bundle another name, in all its files."""
    names = [
        "../escaped", "a/../../escaped", str(Path.cwd() / "escaped"), "..", ".", "", "a//b", "a\x00b", "steps=7",
        "x" * 300, "\x1b[2J", f"<img src=x onerror=\"document.title='{MARK}'\">", "=1+1", "-rf", "\u202egnp.exe",
    ]  # fmt: skip
    manifest = bundle / "manifest.json"
    try:
        values = json.loads(manifest.read_bytes())
        run = pick(generator, values["runs"])
        old, run["name"] = run["name"], pick(generator, names)
        for file in sorted(bundle.glob("*.parquet")):
            table = _read_table(file)
            runs = pa.array([run["name"] if name == old else name for name in table.column("run").to_pylist()])
            pq.write_table(table.set_column(table.column_names.index("run"), "run", runs), file)
        _write_json(manifest, values)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, pa.ArrowException):
        return "spoilt already"
    return f"{old} is {run['name']!r:.60}"


def _sign_bundle(bundle: Path) -> None:
    """Write sizes, rows and checksums of the files of a bundle into its manifest."""
    manifest = bundle / "manifest.json"
    try:
        values = json.loads(manifest.read_bytes())
        for listed in values["files"]:
            data = (bundle / listed["name"]).read_bytes()
            rows = pq.read_metadata(pa.BufferReader(data)).num_rows
            listed |= {"bytes": len(data), "rows": rows, "sha256": hashlib.sha256(data).hexdigest()}
        _write_json(manifest, values)
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        return  # the manifest itself was spoilt


def _store_of(run: Path) -> Path:
    """Return the store of a run."""
    while run.name != "store" and run != run.parent:
        run = run.parent
    return run


def _copy(run: Path, target: Path, *, without: str) -> None:
    """Copy a run, but for one name, for pipes and for files that another attack has made too large."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder, name) for name in names]
        small = [path.name for path in paths if path.is_dir() or (path.is_file() and path.stat().st_size < 10**8)]
        return [name for name in names if name == without or name not in small]

    shutil.copytree(run, target, symlinks=True, dirs_exist_ok=True, ignore=ignored)


def _change_json(path: Path, generator: Generator) -> str:
    """Set, add or delete one value anywhere in a file, and sign it again."""
    try:
        values = json.loads(_read(path))
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
        _write_json(path, values)
    except (ValueError, KeyError, IndexError, AttributeError, OSError, TypeError):
        return "spoilt already"
    return f"{path.name} {key!r:.60}"


def _change_table(file: Path, generator: Generator) -> str:
    try:
        pq.write_table(_changed_table(_read_table(file), generator), file)
    except (ValueError, pa.ArrowException, OSError):
        return "spoilt already"
    return file.name


def _read_table(file: Path) -> pa.Table:
    """Return a table that no other attack has made too large."""
    table = pq.ParquetFile(pa.BufferReader(_read(file)))
    if table.metadata.num_rows > 10**5:
        raise OSError("spoilt already")
    return table.read()


def _read(path: Path) -> bytes:
    """Return the content of a file that no other attack has replaced by a pipe or made too large."""
    if not path.is_file() or path.stat().st_size > 10**8:
        raise OSError("spoilt already")
    return path.read_bytes()


def _write_json(path: Path, values: Any) -> None:
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


def _changed_object(data: bytes, generator: Generator) -> bytes:
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


def _changed_table(table: pa.Table, generator: Generator) -> pa.Table:
    rows = max(1, len(table))
    name = pick(generator, table.column_names)
    kind = int(generator.integers(9))
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(pick(generator, ["run", "filename", "game"]), pa.array(["x"] * len(table)))
    if kind == 2:
        return pa.table({name: pa.array([pick(generator, ["<b>", "\x1b[2J", "x" * 10**5])] * rows)})
    index = table.column_names.index(name)
    field = table.schema.field(name)
    values = {pa.float64(): [np.nan, np.inf, 1e308], pa.int64(): [2**63 - 1, -(2**63), 10**9, -1]}.get(field.type)
    if kind in (3, 4) and values:
        return table.set_column(index, field, pa.array([pick(generator, values)] * len(table), field.type))
    if kind == 5:
        return table.set_column(index, name, pa.nulls(len(table), field.type))
    if kind == 6:
        return table.slice(0, 0)
    if kind == 7 and field.type == pa.string():
        long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**6, np.int32)), ["x" * 20_000])
        return pa.table({name: long})
    return pa.concat_tables([table] * 50)
