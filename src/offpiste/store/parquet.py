"""Tables as Parquet files, and those of a stranger checked before they are read."""

import dataclasses
import io
import types
import typing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offpiste.store.layout import MAX_TABLE_BYTES

MAX_DECOMPRESSED_BYTES, MAX_ROWS = 2**30, 10**7
"""Limits of what is in the file of a table."""


def row_schema(kind: type[Any]) -> pa.Schema:
    """Return the Arrow schema of a row's dataclass."""
    hints = typing.get_type_hints(kind)
    return pa.schema([_field(field.name, hints[field.name]) for field in dataclasses.fields(kind)])


def conform(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with exactly the wanted columns; a column that an older version did not write is empty.

    Raises ValueError if a column has another type or two have one name, or if a required one is missing or has empty
    values.
    """
    if len({*rows.column_names}) < len(rows.column_names):
        raise ValueError("columns must have different names")
    columns = []
    for field in wanted:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
        elif rows.schema.field(field.name).type != field.type:
            raise ValueError(f"{field.name} must be {field.type}, got {rows.schema.field(field.name).type}")
        else:
            columns.append(rows.column(field.name))
        if not field.nullable and columns[-1].null_count:
            raise ValueError(f"{field.name} must be present and without empty values")
    return pa.Table.from_arrays(columns, schema=wanted)


def check_parquet(source: Path | io.BytesIO, wanted: pa.Schema) -> None:
    """Raise ValueError, or an error of pyarrow, for a file that is not of this table or would fill the memory."""
    if isinstance(source, Path) and not source.is_file():  # a pipe would never end
        raise ValueError("it is no file")
    size = source.stat().st_size if isinstance(source, Path) else source.getbuffer().nbytes
    if size > MAX_TABLE_BYTES:
        raise ValueError(f"it must have <= {MAX_TABLE_BYTES:,} bytes, got {size:,}")
    with pq.ParquetFile(source) as file:
        metadata, columns = file.metadata, file.schema_arrow
    _check_columns(columns, wanted)
    if metadata.num_rows > MAX_ROWS:
        raise ValueError(f"it must have <= {MAX_ROWS:,} rows, got {metadata.num_rows:,}")
    # Not by the metadata of a column: there are bits with which pyarrow ends the process when it is asked for that.
    needed = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    texts = [name for name in wanted.names if name in columns.names and wanted.field(name).type == pa.string()]
    if needed <= MAX_DECOMPRESSED_BYTES and texts:
        # A text that many rows share is in the file once, so only its length says what they take.
        found = pq.ParquetFile(source, read_dictionary=texts).read(texts, use_threads=False)
        needed += sum(map(text_bytes, found.columns))
    if needed > MAX_DECOMPRESSED_BYTES:
        raise ValueError(f"it must take <= {MAX_DECOMPRESSED_BYTES:,} bytes of memory, got {needed:,}")


def _check_columns(found: pa.Schema, wanted: pa.Schema) -> None:
    """Raise ValueError for columns of another type, and for those that readers add themselves."""
    names = [name.casefold() for name in found.names]  # as DuckDB compares them
    if len({*names}) < len(names) or {*names} & {"run", "filename"}:
        raise ValueError("columns must have different names, and neither run nor filename")
    for field in wanted:
        if field.name not in found.names:
            if not field.nullable:
                raise ValueError(f"{field.name} is missing")
            continue
        kind = found.field(field.name).type
        if kind not in (field.type, pa.null()) and not (is_encoded_text(kind) and field.type == pa.string()):
            raise ValueError(f"{field.name} must be {field.type}, got {kind}")


def read_parquet(data: bytes, wanted: pa.Schema) -> pa.Table:
    """Return the table in a Parquet file, with exactly the wanted columns; errors as of `check_parquet`."""
    check_parquet(io.BytesIO(data), wanted)
    file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
    return conform(file.read(use_threads=False), wanted)


def text_bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of all texts in a dictionary-encoded column, each counted as often as it occurs."""
    if not is_encoded_text(column.type):
        return 0
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(each).as_py() or 0 for each in lengths)


def is_encoded_text(kind: pa.DataType) -> bool:
    """Return whether a column holds texts, dictionary-encoded."""
    return bool(pa.types.is_dictionary(kind) and kind.value_type == pa.string())


def from_parquet(data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file."""
    # Without threads: pyarrow's sometimes abort a process that ends soon after.
    rows: list[dict[str, Any]] = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False).to_pylist()
    return rows


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", write_page_checksum=True)
    return out.getvalue()


def _field(name: str, hint: Any) -> pa.Field:
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(part for part in parts if part is not types.NoneType)
    return pa.field(name, kinds[kind], nullable=types.NoneType in parts)
