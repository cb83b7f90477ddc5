"""Write a bundle atomically: into a temporary folder beside its own, the manifest last, then rename that folder."""

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
from offpiste.store.documents import signed
from offpiste.store.storage import Folder


def write_bundle(out: Path, runs: Sequence[ListedRun], tables: Mapping[str, pa.Table], suite_version: int) -> Manifest:
    """Write a bundle, replacing an older one if there is one; the same rows give the same bytes."""
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
    manifest = from_dict(Manifest, values)  # refuses what a reader would refuse
    unfinished = out.absolute().with_name(f".{out.absolute().name}.{uuid.uuid4().hex[:8]}.unfinished")
    try:
        for name, (data, _) in files.items():
            Folder(unfinished).put(name, data)
        Folder(unfinished).put(layout.BUNDLE, f"{json.dumps(signed(values), indent=1)}\n".encode())
        _move(unfinished, out)
    except OSError as error:
        raise StoreError(f"cannot write the bundle to {out}: {error}; check permissions and free space") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return manifest


def _refuse_unless_bundle(out: Path) -> None:
    """Refuse to replace a folder that holds anything but a bundle."""
    try:
        names = {path.name for path in out.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot write a bundle to {out}: {error}; choose another folder") from error
    others = sorted(names - {layout.BUNDLE, *FILES}) or sorted(names if layout.BUNDLE not in names else ())
    if others:
        raise StoreError(
            f"{out} must be empty or hold a bundle and nothing else, got {others[0]}; nothing was changed. Choose "
            "another folder, or empty this one"
        )


def _move(new: Path, out: Path) -> None:
    """Rename a folder over an older one, which is deleted afterwards, or restored if the rename fails."""
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
    # The bytes depend on where chunks end, so write one chunk.
    pq.write_table(rows.combine_chunks(), out, compression="zstd", compression_level=9)
    return out.getvalue()
