"""Attacks by a bundle, whose checksums are right; a part of `fuzz`."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.faults.fuzz_change import MARK, Generator, change_json, change_table, pick, read_table, write_json


def attack_bundle(bundle: Path, generator: Generator) -> str:
    """Change the manifest or a table of a bundle, whose checksums are right afterwards; return what was done."""
    manifest = bundle / "manifest.json"
    done = []
    for _ in range(int(generator.integers(1, 4))):
        kind = int(generator.integers(4))
        if kind == 0:
            done.append(change_json(manifest, generator))
        elif kind == 1:
            done.append(_rename_run(bundle, generator))
        else:
            file: Path = pick(generator, sorted(bundle.glob("*.parquet")))
            done.append(change_table(file, generator))
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
            table = read_table(file)
            runs = pa.array([run["name"] if name == old else name for name in table.column("run").to_pylist()])
            pq.write_table(table.set_column(table.column_names.index("run"), "run", runs), file)
        write_json(manifest, values)
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
        write_json(manifest, values)
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        return  # the manifest itself was spoilt
