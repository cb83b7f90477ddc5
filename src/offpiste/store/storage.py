"""Put, get, list and delete objects below one folder, on a disk or in an object store, over pyarrow.fs.

Writes are atomic: on a disk, a temporary file is flushed and renamed; in an object store, an upload becomes visible
when its last request succeeds. Each object passes through memory: a few hundred megabytes at most.

A URL may hold credentials. Only its scheme, bucket, path and the options listed below are ever shown, and the library's
errors only if they hold nothing of the rest.
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
    """Size and time of an object, from a listing."""

    bytes: int
    modified: float
    """When it was written, in seconds since the epoch, by the store's clock."""


class Folder:
    """A folder of objects named by relative paths with forward slashes."""

    def __init__(self, location: str | Path) -> None:
        """Open a folder by path or URL, such as `runs/x` or `s3://bucket/runs/x?region=eu-west-1`."""
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
        """The folder's path if it is on a local disk, else None."""
        return Path(self._root) if isinstance(self._fs, fs.LocalFileSystem) else None

    @property
    def holds_keys(self) -> bool:
        """Whether the folder was opened by a URL with credentials, which `location` omits."""
        return bool(self._secrets)

    def below(self, name: str) -> "Folder":
        """Return the folder of this name below this one."""
        inner = copy.copy(self)
        base, mark, query = self.location.partition("?") if self.local_path is None else (self.location, "", "")
        inner.location = f"{base.rstrip('/')}/{name}{mark}{query}"
        inner._root = f"{self._root}/{name}"
        return inner

    def put(self, name: str, data: bytes) -> None:
        """Write an object atomically, replacing an older one: a failure leaves the old object or the new one."""

        def write() -> None:
            if self.local_path is not None:
                _put_local(self.local_path / name, data)
            else:
                _put_remote(self._fs, f"{self._root}/{name}", data)

        self._try(f"write {name} to {self.location}", write, "; check permissions and free space")

    def get(self, name: str, max_bytes: int | None = None) -> bytes | None:
        """Return an object's bytes, the first `max_bytes` of them if given; None if there is no such object."""
        path = f"{self._root}/{name}"

        def read() -> bytes | None:
            try:
                info = self._fs.get_file_info(path)
                if info.type != fs.FileType.File:
                    return None
                with self._fs.open_input_file(path) as source:  # reading allocates as much as it is asked for
                    return bytes(source.read(max_bytes if max_bytes is None else min(max_bytes, info.size)))
            except FileNotFoundError:
                return None

        return self._try(f"read {name} from {self.location}", read)

    def list(self, prefix: str = "") -> list[str]:
        """Return the sorted names of the objects directly below a prefix."""
        return self.entries(prefix)[0]

    def entries(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        """Return the sorted names of the objects, and those of the folders, directly below a prefix."""
        found = [*self._listed(prefix)]
        files = sorted(_name(info) for info in found if info.type == fs.FileType.File)
        folders = sorted(_name(info) for info in found if info.type == fs.FileType.Directory)
        return files, folders

    def stat(self, prefix: str = "") -> dict[str, Stat]:
        """Return size and time of the objects directly below a prefix, by name, from one listing."""
        found = (info for info in self._listed(prefix) if info.type == fs.FileType.File)
        return {_name(info): Stat(info.size, info.mtime_ns / 1e9) for info in found}

    def _listed(self, prefix: str) -> Iterator[Any]:
        path = f"{self._root}/{prefix}".rstrip("/")
        found: Any = self._try(
            f"list {prefix or 'objects'} in {self.location}",
            lambda: self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True)),
        )
        return (info for info in found if not _name(info).endswith(_UNFINISHED))

    def sweep(self, prefix: str, seconds: float) -> None:
        """Delete temporary files of writes to a local disk that began this long ago and never finished."""
        if self.local_path is not None:
            for path in (self.local_path / prefix).glob(f"*{_UNFINISHED}"):
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > seconds:
                        path.unlink()

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""

        def delete() -> None:
            with suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._root}/{name}")

        self._try(f"delete {name} from {self.location}", delete)

    def _try(self, what: str, work: Callable[[], _Result], advice: str = "") -> _Result:
        """Return the result of the work; if it fails, raise a StoreError without the secrets of the URL."""
        try:
            return work()
        except _FAILURES as error:
            message = str(error)
            if self._secrets.are_in(message):
                message = "the reason is hidden, because it holds a part of the URL that may be a key"
            failure = StoreError(f"cannot {what}: {message}{advice}")
            if not self._secrets:
                failure.__cause__ = error
        raise failure  # outside the handler: its context would be an error that may hold a secret


NO_NAME = "\ufffd"
"""Stands for a name that is not UTF-8, which cannot be opened."""


def _name(info: Any) -> str:
    try:
        return str(info.base_name)
    except UnicodeDecodeError:
        return NO_NAME


_FAILURES = (ArrowException, ImportError, OSError, ValueError)
_UNFINISHED = ".unfinished"
_S3_ATTEMPTS = 4  # gives up on a silent server after some 15 s; without a limit pyarrow takes 100 s
_S3_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_S3_SWITCHES = ("allow_bucket_creation", "anonymous", "force_virtual_addressing")
_SHOWN_OPTIONS = _S3_TEXTS + _S3_SWITCHES

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)\??([^#]*)", re.IGNORECASE)
_ALMOST_A_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*:/|(s3|gs|gcs|abfss?|hdfs|file|https?):)", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
_NOT_SHOWN = "The URL is not shown, because it may hold a key"


class _Secrets:
    """The parts of a URL that are never shown, not even by this object's repr."""

    def __init__(self, *parts: str) -> None:
        whole = {form for part in parts for form in (part, unquote(part)) if form}
        # A library may print a piece of a secret; under four characters it reveals nothing and occurs in many words.
        pieces = {piece for form in whole for piece in re.split("[^0-9A-Za-z]+", form) if len(piece) >= 4}
        self._texts = {text.casefold() for text in whole | pieces}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def are_in(self, message: str) -> bool:
        """Return whether a message holds any of them."""
        return any(text in message.casefold() for text in self._texts)


@dataclass(frozen=True, repr=False)
class _Url:
    """A well-formed URL; only `shown` may be shown."""

    text: str
    shown: str
    scheme: str
    account: str
    bucket: str
    path: str
    options: list[tuple[str, str]]
    secrets: _Secrets


def _local_path(location: str) -> str | None:
    """Return the path of a folder on a disk, or None if the location is a URL."""
    if location.startswith("file:///"):
        return unquote(location.removeprefix("file://"))
    if "://" in location:
        return None
    if _ALMOST_A_URL.match(location):
        raise StoreError(
            "cannot open the location: it looks like a URL but has no ://; write s3://bucket/folder, with two slashes, "
            f"or ./NAME for a folder on a disk. {_NOT_SHOWN}"
        )
    return location


def _parse(location: str) -> _Url:
    """Return the parts of a URL; refuse one in which it is uncertain where the credentials end."""
    found = _URL.fullmatch(location)
    if found is None:
        raise StoreError(f"cannot open the URL: it must be written s3://bucket/folder?option=value. {_NOT_SHOWN}")
    scheme, authority, path, query = found[1].lower(), *found.groups()[1:]
    account, _, bucket = authority.rpartition("@")
    if not bucket:
        raise StoreError(f"cannot open the URL: it names no bucket; write {scheme}://bucket/folder. {_NOT_SHOWN}")
    if not (_BUCKET if scheme == "s3" else _HOST).fullmatch(bucket) or "@" in path or "@" in unquote(query):
        raise StoreError(
            f"cannot open the URL: between {scheme}:// and the next slash there is no bucket, or there is a @ after "
            "it; in a key or secret, write / ? # and @ as %2F %3F %23 and %40, or better set it in the environment. "
            f"{_NOT_SHOWN}"
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
            raise StoreError(f"cannot open {url.shown}: it has an unknown option{near}")
        if key in _S3_SWITCHES and value not in ("true", "false"):
            raise StoreError(f"cannot open {url.shown}: {key} must be true or false, got {value!r}")
        options[key] = value == "true" if key in _S3_SWITCHES else value
    if url.account:
        access_key, _, secret_key = url.account.partition(":")
        options |= {"access_key": unquote(access_key), "secret_key": unquote(secret_key)}
    if "region" not in options and "endpoint_override" not in options:
        options["region"] = fs.resolve_s3_region(url.bucket)
    filesystem = fs.S3FileSystem(
        **options,
        # The only safe mode, and only without `allow_delayed_open`: a stream is closed after a failed request too,
        # and in other modes closing it then publishes the parts sent so far, or an empty object.
        background_writes=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
    )
    return filesystem, f"{url.bucket}/{unquote(url.path).strip('/')}".rstrip("/")


def _put_remote(filesystem: Any, path: str, data: bytes) -> None:
    def upload() -> None:
        with filesystem.open_output_stream(path) as out:
            out.write(data)

    # Closing a stream publishes it, so an interrupt between open and write would leave an empty object.
    # Interrupts reach the main thread only, so another thread finishes the upload.
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(upload).result()


def _put_local(path: Path, data: bytes) -> None:
    _make_folder(path.parent)
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
    _sync_folder(path.parent)


def _make_folder(path: Path) -> None:
    """Make a folder and those above it; the name of each new one is flushed, as its content will be."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        _sync_folder(folder.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
