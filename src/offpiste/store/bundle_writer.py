"""Writing a bundle whole: into a folder beside its place, the manifest last, and then into its place."""

import hashlib
import io
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from offpiste.config import RESULTS_VERSION
from offpiste.errors import StoreError
from offpiste.parsing import from_dict
from offpiste.store import layout
from offpiste.store.bundle import FILES, FORMAT, RUNS, TABLES, ListedRun, Manifest
from offpiste.store.storage import Folder


def write_bundle(out: Path, runs: Sequence[ListedRun], tables: Mapping[str, pa.Table], suite_version: int) -> Manifest:
    """Write a bundle, in the place of an older one if there is one; the same rows give the same bytes."""
    _refuse_unless_bundle(out)
    files = {layout.table_file(table): (_parquet(tables[table]), len(tables[table])) for table in (RUNS, *TABLES)}
    listed = [
        {"name": name, "bytes": len(data), "rows": rows, "sha256": hashlib.sha256(data).hexdigest()}
        for name, (data, rows) in files.items()
    ]
    values = {
        "bundle": FORMAT,
        "suite_version": suite_version,
        "results_version": RESULTS_VERSION,
        "offpiste": version("offpiste"),
        "runs": [asdict(run) for run in runs],
        "files": listed,
    }
    manifest = from_dict(Manifest, values)  # refuses what no reader would take
    unfinished = out.absolute().with_name(f".{out.absolute().name}.{uuid.uuid4().hex[:8]}.unfinished")
    try:
        for name, (data, _) in files.items():
            Folder(unfinished).put(name, data)
        Folder(unfinished).put(layout.BUNDLE, f"{json.dumps(values, indent=1)}\n".encode())
        _move(unfinished, out)
    except OSError as error:
        raise StoreError(f"cannot write the bundle to {out} ({error}); may you write there?") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return manifest


def _refuse_unless_bundle(out: Path) -> None:
    """Refuse to replace what is not a bundle, or a folder with more in it than one."""
    try:
        names = {path.name for path in out.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot write a bundle to {out} ({error}); name another folder") from error
    others = sorted(names - {layout.BUNDLE, *FILES}) or sorted(names if layout.BUNDLE not in names else ())
    if others:
        raise StoreError(
            f"{out} holds {others[0]}, and only a bundle is replaced by a bundle; nothing was changed. Name another "
            "folder, or empty this one"
        )


def _move(new: Path, out: Path) -> None:
    """Move a folder to where another may be, which is deleted, or is put back if that fails."""
    old = new.with_suffix(".old")
    with suppress(FileNotFoundError):
        out.rename(old)
    try:
        new.rename(out)
    except OSError:
        with suppress(FileNotFoundError):
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    # In one chunk, for the bytes depend on where chunks end.
    pq.write_table(rows.combine_chunks(), out, compression="zstd", compression_level=9)
    return out.getvalue()
