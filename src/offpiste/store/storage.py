"""Put, get, list and delete objects below one folder, on a disk or in an object store, over pyarrow.fs.

An object appears whole or not at all: on a disk it is written beside its place, flushed and renamed; in an object
store it is one upload. Small objects only, a few hundred megabytes at most: each passes through memory.
"""

import os
import uuid
from pathlib import Path
from typing import Any

from pyarrow import fs

from offpiste.errors import StoreError


class Folder:
    """A folder of objects named by relative paths with forward slashes."""

    def __init__(self, location: str | Path) -> None:
        """Open a folder by path or URL, for example `runs/x` or `s3://bucket/runs/x?region=eu-west-1`."""
        self.location = str(location)
        self._fs, self._root = _open(self.location)

    @property
    def local_path(self) -> Path | None:
        """The folder's path where it is on a local disk, else None."""
        return Path(self._root) if isinstance(self._fs, fs.LocalFileSystem) else None

    def below(self, name: str) -> "Folder":
        """Return the folder of this name inside this one."""
        inner = object.__new__(Folder)
        base, mark, query = self.location.partition("?")
        inner.location = f"{base.rstrip('/')}/{name}{mark}{query}"
        inner._fs, inner._root = self._fs, f"{self._root}/{name}"
        return inner

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole, over an older one of that name if there is one."""
        try:
            if self.local_path is not None:
                _put_local(self.local_path / name, data)
            else:
                with self._fs.open_output_stream(f"{self._root}/{name}") as out:
                    out.write(data)
        except OSError as error:
            raise StoreError(f"cannot write {name} to {self.location}: {error}") from error

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
        path = f"{self._root}/{prefix}".rstrip("/")
        try:
            found: Any = self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise StoreError(f"cannot list {prefix} in {self.location}: {error}") from error
        names = (info.base_name for info in found if info.type == fs.FileType.File)
        return sorted(name for name in names if not name.endswith(_UNFINISHED))

    def delete(self, name: str) -> None:
        """Delete an object; it is fine if there is none."""
        try:
            self._fs.delete_file(f"{self._root}/{name}")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(f"cannot delete {name} from {self.location}: {error}") from error


_UNFINISHED = ".unfinished"


def _open(location: str) -> tuple[Any, str]:
    if "://" not in location:
        return fs.LocalFileSystem(), str(Path(location).expanduser().absolute())
    try:
        filesystem, path = fs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise StoreError(f"cannot open {location}: {error}") from error
    return filesystem, path.rstrip("/")


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
