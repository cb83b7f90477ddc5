"""Put, get, list and delete objects below one folder, on a disk or in an object store; read bundles from the web.

Writes are atomic: on a disk, a temporary file is flushed and renamed; in an object store, an upload becomes visible
when its last request succeeds. Each object passes through memory: a few hundred megabytes at most.

A URL may hold credentials. Only its scheme, bucket, path and the options in `offpiste.store.urls` are ever shown, and
the library's errors only if they hold nothing of the rest.
"""

import builtins
import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from offpiste.errors import AccessDenied, StoreError
from offpiste.store import urls
from offpiste.store.disk import NO_NAME, Disk, Stat

if TYPE_CHECKING:
    from offpiste.store.bucket import Bucket
    from offpiste.store.web import Web

__all__ = ["NO_NAME", "Folder", "Stat"]
_Result = TypeVar("_Result")


class Folder:
    """A folder of objects named by relative paths with forward slashes."""

    def __init__(self, location: str | Path) -> None:
        """Open a folder by path or URL, such as `runs/x` or `s3://bucket/runs/x?region=eu-west-1`."""
        path = urls.local_path(str(location))
        self._backend: Disk | Bucket | Web
        if path is not None:
            self.location, self._secrets = path, urls.Secrets()
            self._root = str(Path(path).expanduser().absolute())
            self._backend = Disk(self._root)
        else:
            url = urls.parse(str(location))
            self.location, self._secrets = url.shown, url.secrets
            self._backend, self._root = self._try(f"open {url.shown}", lambda: _open(url)), url.path

    def __repr__(self) -> str:
        return f"Folder({self.location!r})"

    @property
    def local_path(self) -> Path | None:
        """The folder's path if it is on a local disk, else None."""
        return Path(self._root) if isinstance(self._backend, Disk) else None

    @property
    def holds_keys(self) -> bool:
        """Whether the folder was opened by a URL with credentials, which `location` omits."""
        return bool(self._secrets)

    def below(self, name: str) -> "Folder":
        """Return the folder of this name below this one."""
        inner = copy.copy(self)
        base, mark, query = self.location.partition("?") if self.local_path is None else (self.location, "", "")
        inner.location = f"{base.rstrip('/')}/{name}{mark}{query}"
        inner._root = self._path(name)
        return inner

    def put(self, name: str, data: bytes) -> None:
        """Write an object atomically, replacing an older one: a failure leaves the old object or the new one."""
        self._try(
            f"write {name} to {self.location}",
            lambda: self._backend.put(self._path(name), data),
            "; check permissions and free space",
        )

    def get(self, name: str, max_bytes: int | None = None) -> bytes | None:
        """Return an object's bytes, the first `max_bytes` of them if given; None if there is no such object."""
        return self._try(f"read {name} from {self.location}", lambda: self._backend.get(self._path(name), max_bytes))

    def list(self, prefix: str = "") -> list[str]:
        """Return the sorted names of the objects directly below a prefix."""
        return sorted(self._listed(prefix)[0])

    def entries(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        """Return the sorted names of the objects, and those of the folders, directly below a prefix."""
        files, folders = self._listed(prefix)
        return sorted(files), sorted(folders)

    def stat(self, prefix: str = "") -> dict[str, Stat]:
        """Return size and time of the objects directly below a prefix, by name, from one listing."""
        return self._listed(prefix)[0]

    def sweep(self, prefix: str, seconds: float) -> None:
        """Delete temporary files of writes to a local disk that began this long ago and never finished."""
        self._backend.sweep(self._path(prefix), seconds)

    def is_link(self, name: str) -> bool:
        """Return whether this is a link on a disk."""
        return self.local_path is not None and Path(self._path(name)).is_symlink()

    def delete(self, name: str) -> None:
        """Delete an object, or a link to one, if it exists."""
        self._try(f"delete {name} from {self.location}", lambda: self._backend.delete(self._path(name)))

    def _listed(self, prefix: str) -> tuple[dict[str, Stat], builtins.list[str]]:
        path = self._path(prefix)
        return self._try(f"list {prefix or 'objects'} in {self.location}", lambda: self._backend.entries(path))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".strip("/") if self.local_path is None else f"{self._root}/{name}".rstrip("/")

    def _try(self, what: str, work: Callable[[], _Result], advice: str = "") -> _Result:
        """Return the result of the work; if it fails, raise a StoreError without the secrets of the URL."""
        try:
            return work()
        except StoreError:
            raise
        except Exception as error:
            if not _is_of_a_store(error):
                raise
            message, denied = str(error), isinstance(error, PermissionError)
            if not isinstance(error, OSError) or type(error).__module__ != "builtins" or "\n" in message:
                from offpiste.store.bucket import advice_on, is_denied, reason_of

                message = reason_of(error)
                denied, advice = is_denied(message), f"; {found}" if (found := advice_on(message)) else advice
            if self._secrets.are_in(message):
                message = "the reason is hidden, because it holds a part of the URL that may be a key"
            failure = (AccessDenied if denied else StoreError)(f"cannot {what}: {message}{advice}")
            if not self._secrets:
                failure.__cause__ = error
        raise failure  # outside the handler: its context would be an error that may hold a secret


def _open(url: urls.Url) -> "Bucket | Web":
    if url.scheme in ("http", "https"):
        from offpiste.store.web import Web

        return Web(url)
    from offpiste.store.bucket import open_bucket

    return open_bucket(url)


def _is_of_a_store(error: Exception) -> bool:
    """Return whether an error is one of a disk or of an object store, not of our own code."""
    return isinstance(error, OSError | ValueError) or type(error).__module__.startswith("obstore")
