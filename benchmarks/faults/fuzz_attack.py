"""Attacks by a store, whose checksums are right; a part of `fuzz`."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.fuzz_change import (
    MARK,
    Generator,
    change_json,
    change_table,
    changed_object,
    files_of,
    pick,
    read,
    write_json,
)
from offpiste.store import documents

PRECIOUS = "precious"
"""A folder beside the store that nothing may change."""

EVIL = """
from pathlib import Path

from offpiste.bonuses.cts import Cts as Evil

Path(__file__).with_name("imported").touch()
"""


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
    return change_json(run / "run.json", generator)


def change_status(run: Path, generator: Generator) -> str:
    """Say something else of its progress."""
    return change_json(run / "status.json", generator)


def change_other(run: Path, generator: Generator) -> str:
    """Say something else in a manifest, an attempt or a mark."""
    found = sorted([*run.glob("manifests/*.json"), *run.glob("attempts/*.json"), *run.glob("finished-*.json")])
    return change_json(pick(generator, found), generator) if found else ""


def change_object(run: Path, generator: Generator) -> str:
    """Replace an object of a checkpoint, and its checksum."""
    manifests = sorted(run.glob("manifests/*.json"))
    if not manifests:
        return ""
    path = manifests[-1]
    try:
        manifest = json.loads(read(path))
        key = pick(generator, sorted(manifest["objects"]))
        entry = manifest["objects"][key]
        data = changed_object(read(run / entry["name"]), generator)
        (run / entry["name"]).write_bytes(data)
        entry |= {"bytes": len(data), "blake2b": documents.checksum(data)}
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return "spoilt already"
    write_json(path, manifest)
    return str(key)


def change_tables(run: Path, generator: Generator) -> str:
    """Replace a table by one that is none of ours; marks and status no longer say its checksum."""
    for path in (run / "status.json", *run.glob("finished-*.json")):
        try:
            values = json.loads(read(path))
            values.pop("checksums" if path.name.startswith("finished") else "tables", None)
            write_json(path, values)
        except (ValueError, AttributeError, OSError):
            continue
    found = sorted([*run.glob("*.parquet"), *run.glob("tables/*.parquet")])
    if not found:
        return ""
    file: Path = pick(generator, found)
    return change_table(file, generator)


def link(run: Path, generator: Generator) -> str:
    """Make links: to the folder itself, to a secret, to devices and pipes, and to a folder outside of the store."""
    kind = int(generator.integers(6))
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
    elif kind == 4:
        folders = [run / name for name in ("objects", "tables", "attempts", "manifests")]
        folder = pick(generator, [*folders, _store_of(run) / "studies", run])
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            folder.symlink_to(_store_of(run).parent / PRECIOUS)
    else:
        victim = pick(generator, files_of(run) or [run / "run.json"])
        victim.unlink(missing_ok=True)
        victim.mkdir()
    return f"kind {kind}"


def plant_outputs(run: Path, generator: Generator) -> str:
    """Make links, where commands write, to a file outside of the store."""
    outputs = ("report/index.html", "report/commands.txt", "report/final_scores.csv", "csv/episodes.csv", "watch.gif")
    output: Path = _store_of(run).parent / pick(generator, outputs)
    output.parent.mkdir(exist_ok=True)
    if not output.is_symlink():
        output.symlink_to(_store_of(run).parent / PRECIOUS / "file")
    return output.name


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
    return change_json(pick(generator, found), generator) if found else ""


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
    change_tables,
    change_tables,
    link,
    link,
    plant_outputs,
    inflate,
    name_folders,
    change_import,
    take_files,
    fill_json,
)


def _store_of(run: Path) -> Path:
    """Return the store of a run."""
    while run.name != "store" and run != run.parent:
        run = run.parent
    return run


def _copy(run: Path, target: Path, *, without: str) -> None:
    """Copy a run, but for one name, and for what other attacks have made a link, a pipe or too large."""
    for path in sorted(run.rglob("*")):
        file = target / path.relative_to(run)
        plain = all(not each.is_symlink() and (each.is_file() or not each.exists()) for each in (path, file))
        if plain and path.exists() and path.stat().st_size < 10**8 and without not in path.relative_to(run).parts:
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, file)
