"""Put, get, list and delete objects below one folder, on a disk or in an object store, over pyarrow.fs.

An object appears whole or not at all: on a disk it is written beside its place, flushed and renamed; in an
object store it is one upload that becomes visible when its last request succeeds. Small objects only, a few
hundred megabytes at most: each passes through memory.
"""

import builtins
import os
import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow import fs

from offpiste.errors import StoreError, did_you_mean


@dataclass(frozen=True)
class Stat:
    """What a listing says of an object."""

    bytes: int
    modified: float
    """When it was written, in seconds, by the store's own clock."""


class Folder:
    """A folder of objects named by relative paths with forward slashes."""

    def __init__(self, location: str | Path) -> None:
        """Open a folder by path or URL, for example `runs/x` or `s3://bucket/runs/x?region=eu-west-1`."""
        self._fs, self._root = _open(str(location))
        self.location = _shown(str(location))

    @property
    def local_path(self) -> Path | None:
        """The folder's path where it is on a local disk, else None."""
        return Path(self._root) if isinstance(self._fs, fs.LocalFileSystem) else None

    def below(self, name: str) -> "Folder":
        """Return the folder of this name inside this one."""
        inner = object.__new__(Folder)
        base, mark, query = self.location.partition("?") if "://" in self.location else (self.location, "", "")
        inner.location = f"{base.rstrip('/')}/{name}{mark}{query}"
        inner._fs, inner._root = self._fs, f"{self._root}/{name}"
        return inner

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole, over an older one of that name if there is one.

        A write that fails or is interrupted leaves the older object as it was, or the new one whole.
        """
        try:
            if self.local_path is not None:
                _put_local(self.local_path / name, data)
            else:
                _put_remote(self._fs, f"{self._root}/{name}", data)
        except OSError as error:
            raise StoreError(f"cannot write {name} to {self.location} ({error}); may you write there?") from error

    def get(self, name: str) -> bytes | None:
        """Return an object's bytes, or None if there is no such object."""
        path = f"{self._root}/{name}"
        try:
            if self._fs.get_file_info(path).type != fs.FileType.File:
                return None
            with self._fs.open_input_file(path) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read {name} from {self.location}: {error}") from error

    def list(self, prefix: str = "") -> list[str]:
        """Return the sorted names of the objects directly in a folder below this one."""
        return self.entries(prefix)[0]

    def entries(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        """Return the sorted names of the objects, and of the folders, directly in a folder below this one."""
        found = [*self._listed(prefix)]
        files = sorted(info.base_name for info in found if info.type == fs.FileType.File)
        folders = sorted(info.base_name for info in found if info.type == fs.FileType.Directory)
        return files, folders

    def stat(self, prefix: str = "") -> dict[str, Stat]:
        """Return size and time of the objects directly in a folder below this one, by name, from one listing."""
        found = (info for info in self._listed(prefix) if info.type == fs.FileType.File)
        return {info.base_name: Stat(info.size, info.mtime_ns / 1e9) for info in found}

    def _listed(self, prefix: str) -> Iterator[Any]:
        path = f"{self._root}/{prefix}".rstrip("/")
        try:
            found: Any = self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise StoreError(f"cannot list {prefix or 'what there is'} in {self.location}: {error}") from error
        return (info for info in found if not info.base_name.endswith(_UNFINISHED))

    def sweep(self, prefix: str, seconds: float) -> None:
        """Delete writes to a local disk that were begun this long ago and never finished."""
        if self.local_path is not None:
            for left in (self.local_path / prefix).glob(f"*{_UNFINISHED}"):
                with suppress(FileNotFoundError):
                    if time.time() - left.stat().st_mtime > seconds:
                        left.unlink()

    def delete(self, name: str) -> None:
        """Delete an object; it is fine if there is none."""
        try:
            self._fs.delete_file(f"{self._root}/{name}")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(f"cannot delete {name} from {self.location}: {error}") from error


_UNFINISHED = ".unfinished"
_S3_ATTEMPTS = 4  # a silent server is given up after some 15 s; without a limit pyarrow takes 100 s
_S3_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_S3_SWITCHES = ("allow_bucket_creation", "anonymous", "force_virtual_addressing")


def _open(location: str) -> tuple[Any, str]:
    if "://" not in location:
        return fs.LocalFileSystem(), str(Path(location).expanduser().absolute())
    try:
        if location.startswith("s3://"):
            return _open_s3(location)
        filesystem, path = fs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise StoreError(f"cannot open {_shown(location)}: {_shown(str(error))}") from None
    return filesystem, path.rstrip("/")


def _open_s3(location: str) -> tuple[Any, str]:
    url = urlsplit(location)
    account, _, bucket = url.netloc.rpartition("@")
    if not bucket:
        raise ValueError("it names no bucket; write s3://bucket/folder")
    options: dict[str, Any] = {}
    for key, value in parse_qsl(url.query):
        if key not in _S3_TEXTS + _S3_SWITCHES:
            raise ValueError(f"no option named {key!r}{did_you_mean(key, _S3_TEXTS + _S3_SWITCHES)}")
        if key in _S3_SWITCHES and value not in ("true", "false"):
            raise ValueError(f"{key} is true or false, not {value!r}")
        options[key] = value == "true" if key in _S3_SWITCHES else value
    if account:
        access_key, _, secret_key = account.partition(":")
        options |= {"access_key": unquote(access_key), "secret_key": unquote(secret_key)}
    if "region" not in options and "endpoint_override" not in options:
        options["region"] = fs.resolve_s3_region(bucket)
    filesystem = fs.S3FileSystem(
        **options,
        # Safe only so, and without `allow_delayed_open`: a stream is closed after a failed request too, and
        # in the other modes closing it then publishes the parts sent so far, or an empty object.
        background_writes=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
    )
    return filesystem, f"{bucket}/{unquote(url.path).strip('/')}".rstrip("/")


def _shown(text: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://", text)  # without the keys that a URL may hold


def _put_remote(filesystem: Any, path: str, data: bytes) -> None:
    def upload() -> None:
        with filesystem.open_output_stream(path) as out:
            out.write(data)

    # A stream cannot be closed without publishing, so an interrupt between open and write would leave an
    # empty object. Interrupts reach the main thread only; this one finishes what it began.
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(upload).result()


def _put_local(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{_UNFINISHED}")
    try:
        with unfinished.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
