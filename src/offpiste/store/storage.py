"""Put, get, list and delete objects below one folder, on a disk or in an object store, over pyarrow.fs.

An object appears whole or not at all: on a disk it is written beside its place, flushed and renamed; in an
object store it is one upload that becomes visible when its last request succeeds. Small objects only, a few
hundred megabytes at most: each passes through memory.

A URL may hold keys. Of a URL, only scheme, bucket, path and the options listed below are ever shown, and errors of the
library only where they hold nothing of the rest.
"""

import builtins
import copy
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

from pyarrow import ArrowException, fs

from offpiste.errors import StoreError, did_you_mean

_Result = TypeVar("_Result")


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
        path = _local_path(str(location))
        if path is not None:
            self.location, self._secrets = path, _Secrets()
            self._fs, self._root = fs.LocalFileSystem(), str(Path(path).expanduser().absolute())
        else:
            url = _parse(str(location))
            self.location, self._secrets = url.shown, url.secrets
            self._fs, self._root = self._try(f"open {url.shown}", lambda: _open(url))

    def __repr__(self) -> str:
        return f"Folder({self.location!r})"

    @property
    def local_path(self) -> Path | None:
        """The folder's path where it is on a local disk, else None."""
        return Path(self._root) if isinstance(self._fs, fs.LocalFileSystem) else None

    @property
    def holds_keys(self) -> bool:
        """Whether the folder was opened by a URL with parts that `location` does not show."""
        return bool(self._secrets)

    def below(self, name: str) -> "Folder":
        """Return the folder of this name inside this one."""
        inner = copy.copy(self)
        base, mark, query = self.location.partition("?") if self.local_path is None else (self.location, "", "")
        inner.location = f"{base.rstrip('/')}/{name}{mark}{query}"
        inner._root = f"{self._root}/{name}"
        return inner

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole, over an older one of that name if there is one.

        A write that fails or is interrupted leaves the older object as it was, or the new one whole.
        """

        def write() -> None:
            if self.local_path is not None:
                _put_local(self.local_path / name, data)
            else:
                _put_remote(self._fs, f"{self._root}/{name}", data)

        self._try(f"write {name} to {self.location}", write, "; may you write there?")

    def get(self, name: str, max_bytes: int | None = None) -> bytes | None:
        """Return an object's bytes, only the first of them where `max_bytes` is given; None if there is no object."""
        path = f"{self._root}/{name}"

        def read() -> bytes | None:
            try:
                if self._fs.get_file_info(path).type != fs.FileType.File:
                    return None
                with self._fs.open_input_file(path) as source:
                    return bytes(source.read(max_bytes))
            except FileNotFoundError:
                return None

        return self._try(f"read {name} from {self.location}", read)

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
        found: Any = self._try(
            f"list {prefix or 'what there is'} in {self.location}",
            lambda: self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True)),
        )
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

        def delete() -> None:
            with suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._root}/{name}")

        self._try(f"delete {name} from {self.location}", delete)

    def _try(self, what: str, work: Callable[[], _Result], advice: str = "") -> _Result:
        """Return what the work returns; where it fails, say so without anything that `location` does not show."""
        try:
            return work()
        except _FAILURES as error:
            words = str(error)
            if self._secrets.are_in(words):
                words = "the reason is left out, for it holds a part of the URL that may be a key"
            failure = StoreError(f"cannot {what}: {words}{advice}")
            if not self._secrets:
                failure.__cause__ = error
        raise failure  # out here, so that it does not lead back to an error that may hold a secret


_FAILURES = (ArrowException, ImportError, OSError, ValueError)
_UNFINISHED = ".unfinished"
_S3_ATTEMPTS = 4  # a silent server is given up after some 15 s; without a limit pyarrow takes 100 s
_S3_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_S3_SWITCHES = ("allow_bucket_creation", "anonymous", "force_virtual_addressing")
_SHOWN_OPTIONS = _S3_TEXTS + _S3_SWITCHES

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)\??([^#]*)", re.IGNORECASE)
_ALMOST_A_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*:/|(s3|gs|gcs|abfss?|hdfs|file|https?):)", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
_NOT_SHOWN = "It is not shown, for it may hold a key"


class _Secrets:
    """The parts of a URL that are never shown; nor does this show them."""

    def __init__(self, *parts: str) -> None:
        told = {form for part in parts for form in (part, unquote(part)) if form}
        # A library may tell a part of it, but one of less than four characters tells nothing and is in many words.
        pieces = {piece for form in told for piece in re.split("[^0-9A-Za-z]+", form) if len(piece) >= 4}
        self._texts = {text.casefold() for text in told | pieces}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def are_in(self, words: str) -> bool:
        """Tell whether words hold any of them."""
        return any(text in words.casefold() for text in self._texts)


@dataclass(frozen=True, repr=False)
class _Url:
    """A URL that is well formed; only `shown` may be shown."""

    text: str
    shown: str
    scheme: str
    account: str
    bucket: str
    path: str
    options: list[tuple[str, str]]
    secrets: _Secrets


def _local_path(location: str) -> str | None:
    """Return the path of a folder on a disk, or None where it is a URL."""
    if location.startswith("file:///"):
        return unquote(location.removeprefix("file://"))
    if "://" in location:
        return None
    if _ALMOST_A_URL.match(location):
        raise StoreError(
            "cannot open what is almost a URL; write s3://bucket/folder, with two slashes, or ./NAME for a folder on a "
            f"disk. {_NOT_SHOWN}"
        )
    return location


def _parse(location: str) -> _Url:
    """Return the parts of a URL; refuse one of which it is not certain where its keys end."""
    found = _URL.fullmatch(location)
    if found is None:
        raise StoreError(f"cannot open the URL, for it is not written s3://bucket/folder?option=value. {_NOT_SHOWN}")
    scheme, authority, path, query = found[1].lower(), *found.groups()[1:]
    account, _, bucket = authority.rpartition("@")
    if not bucket:
        raise StoreError(f"cannot open the URL: it names no bucket; write {scheme}://bucket/folder. {_NOT_SHOWN}")
    if not (_BUCKET if scheme == "s3" else _HOST).fullmatch(bucket) or "@" in path or "@" in unquote(query):
        raise StoreError(
            f"cannot open the URL: between {scheme}:// and the next slash there is no bucket, or there is a @ behind "
            "it; a key or secret with / ? # or @ in it is written with %2F %3F %23 or %40, or better left to the "
            f"environment. {_NOT_SHOWN}"
        )
    options = parse_qsl(query, keep_blank_values=True)
    hidden = [text for option in options if option[0] not in _SHOWN_OPTIONS for text in option]
    shown = f"{scheme}://{bucket}{path}"
    if query and not hidden:
        shown += f"?{query}"
    return _Url(
        location, shown, scheme, account, bucket, path, options, _Secrets(account, *account.split(":"), *hidden)
    )


def _open(url: _Url) -> tuple[Any, str]:
    if url.scheme != "s3":
        filesystem, path = fs.FileSystem.from_uri(url.text)
        return filesystem, path.rstrip("/")
    options: dict[str, Any] = {}
    for key, value in url.options:
        if key not in _SHOWN_OPTIONS:
            near = did_you_mean(key, _SHOWN_OPTIONS)
            raise StoreError(f"cannot open {url.shown}: it has an option of no known name{near}")
        if key in _S3_SWITCHES and value not in ("true", "false"):
            raise StoreError(f"cannot open {url.shown}: {key} is true or false, not {value!r}")
        options[key] = value == "true" if key in _S3_SWITCHES else value
    if url.account:
        access_key, _, secret_key = url.account.partition(":")
        options |= {"access_key": unquote(access_key), "secret_key": unquote(secret_key)}
    if "region" not in options and "endpoint_override" not in options:
        options["region"] = fs.resolve_s3_region(url.bucket)
    filesystem = fs.S3FileSystem(
        **options,
        # Safe only so, and without `allow_delayed_open`: a stream is closed after a failed request too, and
        # in the other modes closing it then publishes the parts sent so far, or an empty object.
        background_writes=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
    )
    return filesystem, f"{url.bucket}/{unquote(url.path).strip('/')}".rstrip("/")


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
