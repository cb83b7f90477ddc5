"""A bundle: the records of finished runs as a few Parquet files and a manifest, small enough to publish.

Each table is one file with the rows of all runs. The manifest lists the files with size, rows and SHA-256, so opening a
bundle needs no listing. A bundle is untrusted input: nothing in it is code, no name in it is a path, and what differs
from the manifest or exceeds the limits below is refused with a StoreError. It is written atomically: into a temporary
folder beside its own, the manifest last, then that folder is renamed.
"""

import hashlib
import io
import json
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offpiste.config import RESULTS_VERSION, CountOrZero
from offpiste.errors import ConfigError, StoreError
from offpiste.parsing import Pattern, Range, from_dict
from offpiste.store import layout, parquet, records
from offpiste.store.documents import Name, RunName, parse, signed, unsigned
from offpiste.store.storage import Folder

FORMAT = 2
TABLES = ("iterations", "episodes", "scalars", "attempts", "cells")
"""Tables of the records in a bundle; one without `cells` is read too."""
RUNS = "runs"
MAX_MANIFEST_BYTES = 2**26
MAX_BYTES, MAX_DECOMPRESSED_BYTES, MAX_ROWS = 2**28, 2**30, 4 * 10**6
"""Limits of one file."""

FILES = tuple(map(layout.table_file, (RUNS, *TABLES)))
FileName = Annotated[str, Pattern("|".join(map(re.escape, FILES)), f"one of {', '.join(FILES)}")]
Fingerprint = Annotated[str, Pattern("[0-9a-f]{12}", "12 hexadecimal digits")]
Sha256 = Annotated[str, Pattern("[0-9a-f]{64}", "64 hexadecimal digits")]


@dataclass(frozen=True)
class RunRow:
    """One run in `runs.parquet`."""

    run: str
    """Its name."""
    config: str
    """All its settings as JSON, as in `run.json`, without `machine`."""
    bonus_source: str | None
    """As in `run.json`."""
    offpiste: str
    """The version that started the run."""


@dataclass(frozen=True)
class ListedRun:
    """One run in the manifest."""

    name: RunName
    """Its folder below the store."""
    frames: CountOrZero
    """Frames it was trained for."""
    protocol_fingerprint: Fingerprint
    """As in `run.json`."""
    method_fingerprint: Fingerprint
    """As in `run.json`."""
    digest: Sha256
    """SHA-256 of its `episodes` and `iterations`, before thinning."""
    digest_form: Literal["columns", "rows"] = "columns"
    """Of what: of hashes of each column that is not empty; or, in bundles that had format 1, of all rows at once, which
    is not comparable."""


@dataclass(frozen=True)
class ListedFile:
    """One file in the manifest."""

    name: FileName
    """One of the six above."""
    bytes: Annotated[int, Range(min=0, max=MAX_BYTES)]
    """Its size."""
    rows: Annotated[int, Range(min=0, max=MAX_ROWS)]
    """Rows of the table in it."""
    sha256: Sha256
    """Its checksum."""


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`."""

    bundle: int
    """The format: 2."""
    suite_version: int
    """Version of the worlds and suites that the runs belong to."""
    results_version: int
    """Results version of the runs, the same for all."""
    offpiste: Name
    """The version that wrote the bundle."""
    runs: list[ListedRun]
    """Sorted by name."""
    files: list[ListedFile]
    """One for each table; `cells.parquet` may be missing."""


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest has been read and checked."""

    folder: Folder
    manifest: Manifest

    @property
    def tables(self) -> list[str]:
        """The tables that it has."""
        files = {file.name for file in self.manifest.files}
        return [table for table in (RUNS, *TABLES) if layout.table_file(table) in files]

    def rows(self, table: str) -> pa.Table:
        """Return a table, with the run's name in the column `run`, after checking its file against the manifest."""
        file = next(file for file in self.manifest.files if file.name == layout.table_file(table))
        data = self.folder.get(file.name, file.bytes + 1)
        try:
            if data is None:
                raise ValueError("it is missing")
            if len(data) != file.bytes:
                raise ValueError(f"it must have {file.bytes:,} bytes, as in the manifest")
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise ValueError("its SHA-256 differs from the manifest's")
            rows = parquet.conform(_read_parquet(data, file.rows, schema(table)), schema(table))
            names = {run.name for run in self.manifest.runs}
            unknown = set(pc.unique(rows.column("run")).to_pylist()) - names
            if unknown:
                raise ValueError(f"it has rows of the run {min(unknown)!r}, which the manifest does not list")
            records.check_values(table, rows)
            if table == RUNS and sorted(rows.column("run").to_pylist()) != sorted(names):
                raise ValueError("its runs differ from the manifest's")
        except (ValueError, OSError, pa.ArrowException) as error:
            raise StoreError(
                f"{file.name} of the bundle {self.folder.location} is damaged: {error!s:.200}; download it again"
            ) from None
        return rows


def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table of a bundle."""
    if table == RUNS:
        return parquet.row_schema(RunRow)
    return records.schema(table).insert(0, pa.field("run", pa.string(), nullable=False))


def open_bundle(folder: Folder) -> Bundle | None:
    """Return the bundle in a folder, or None if there is none; its runs may be of any results and suite version."""
    data = folder.get(layout.BUNDLE, MAX_MANIFEST_BYTES + 1)
    where = f"the bundle {folder.location}"
    if data is None:
        if folder.get(layout.table_file(RUNS), 1) is not None:  # which no run and no store has
            raise StoreError(f"{where} has lost {layout.BUNDLE}, which says what is in it; download it again")
        return None
    try:
        values = parse(data, MAX_MANIFEST_BYTES)
        if "bundle" not in values:
            raise ValueError("it must be a table with the key 'bundle'")
        if values["bundle"] != FORMAT or values["bundle"] is True:
            raise StoreError(
                f"{where} must have format {FORMAT}, got {values['bundle']!r:.20}; read it with the version of "
                f"offpiste that wrote it ({values.get('offpiste', 'unknown')!s:.40})"
            )
        manifest = from_dict(Manifest, unsigned(values))
        if len({run.name for run in manifest.runs}) < len(manifest.runs):
            raise ValueError("it must list each run once")
        names = [file.name for file in manifest.files]
        if len({*names}) < len(names) or {*FILES} - {*names} - {layout.table_file("cells")}:
            raise ValueError("it must list each of its files once")
    except (ValueError, ConfigError) as error:
        raise StoreError(f"{where} has a damaged {layout.BUNDLE}: {error!s:.200}; download it again") from None
    return Bundle(folder, manifest)


def _read_parquet(data: bytes, rows: int, wanted: pa.Schema) -> pa.Table:
    """Return those of the wanted columns that a Parquet file has; refuse a file that would fill the memory."""
    metadata = pq.read_metadata(io.BytesIO(data))
    if metadata.num_rows != rows:
        raise ValueError(f"it must have {rows:,} rows, as in the manifest, got {metadata.num_rows:,}")
    names = [name for name in wanted.names if name in metadata.schema.names]
    texts = [name for name in names if wanted.field(name).type == pa.string()]
    needed = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    if needed <= MAX_DECOMPRESSED_BYTES:
        # Dictionary-encoded, a long text that many rows share is in memory once.
        found = pq.ParquetFile(io.BytesIO(data), metadata=metadata, read_dictionary=texts).read(
            names, use_threads=False
        )
        needed = sum(map(parquet.text_bytes, found.columns))
    if needed > MAX_DECOMPRESSED_BYTES:
        raise ValueError(f"it must take <= {MAX_DECOMPRESSED_BYTES:,} bytes of memory, got {needed:,}")
    columns = [column.cast(pa.string()) if parquet.is_encoded_text(column.type) else column for column in found.columns]
    return pa.table(columns, names=found.column_names)


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
