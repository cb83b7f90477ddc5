"""Objects as files on a disk, written whole or not at all."""

import errno
import os
import stat
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offpiste.errors import StoreError

UNFINISHED = ".unfinished"
NO_NAME = "\ufffd"
"""Stands for a name that is not UTF-8, which cannot be opened."""


@dataclass(frozen=True)
class Stat:
    """Size and time of an object, from a listing."""

    bytes: int
    modified: float
    """When it was written, in seconds since the epoch, by the store's clock."""


class Disk:
    """Files on a disk, below one folder; errors are OSErrors.

    Folders that are links are read, but nothing is written or deleted in them: a stranger's may lead to files of ours.
    """

    def __init__(self, root: str) -> None:
        """Open the folder, which may be a link, since the caller has named it."""
        self._root = root

    def put(self, path: str, data: bytes) -> None:
        """Write a file: it is flushed under another name, renamed, and the folder flushed."""
        target = Path(path)
        self._refuse_links(target.parent)
        _make_folder(target.parent)
        unfinished = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}{UNFINISHED}")
        try:
            with unfinished.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)

    def get(self, path: str, max_bytes: int | None) -> bytes | None:
        """Return the bytes of a file, or None if there is none; a pipe, which may never end, is none."""
        try:
            with open(path, "rb", opener=_open_at_once) as source:
                about = os.fstat(source.fileno())
                if not stat.S_ISREG(about.st_mode):
                    return None
                size = about.st_size  # reading allocates as much as it is asked for
                return source.read(size if max_bytes is None else min(max_bytes, size))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def entries(self, path: str) -> tuple[dict[str, Stat], list[str]]:
        """Return the files directly in a folder, by name, and its folders; none if there is no such folder."""
        files: dict[str, Stat] = {}
        folders = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as found:
            for entry in found:
                name = entry.name if _is_utf8(entry.name) else NO_NAME
                with suppress(OSError):  # deleted in the meantime, or a link to itself
                    if entry.is_dir():
                        folders.append(name)
                    elif entry.is_file() and not name.endswith(UNFINISHED):
                        about = entry.stat()
                        files[name] = Stat(about.st_size, about.st_mtime)
        return files, folders

    def delete(self, path: str) -> None:
        """Delete a file or a link, if it exists."""
        self._refuse_links(Path(path).parent)
        with suppress(FileNotFoundError, NotADirectoryError):
            Path(path).unlink()

    def sweep(self, path: str, seconds: float) -> None:
        """Delete what is left of writes to a folder that began this long ago and never finished."""
        self._refuse_links(Path(path))
        for unfinished in Path(path).glob(f"*{UNFINISHED}"):
            with suppress(FileNotFoundError):
                if time.time() - unfinished.stat().st_mtime > seconds:
                    unfinished.unlink()

    def _refuse_links(self, folder: Path) -> None:
        """Raise StoreError if a folder, or one above it and below the one that was opened, is a link."""
        parts = folder.relative_to(self._root).parts
        for count in range(1, len(parts) + 1):
            link = Path(self._root, *parts[:count])
            if link.is_symlink():
                raise StoreError(
                    f"{link} is a link to {link.readlink()}, and nothing is written or deleted through links below a "
                    "store; delete it, or move the folder that it leads to into its place"
                )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are not became surrogates
        return False
    return True


def _make_folder(path: Path) -> None:
    """Make a folder and those above it; the name of each new one is flushed, as its content will be."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        _sync_folder(folder.parent)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; opening a pipe does not wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # how some file systems (CIFS, FUSE) say that they cannot flush a folder
            raise
    finally:
        os.close(folder)
