"""A bundle on a web server, read-only: files are read by the names in its manifest, since a web server lists nothing.

The server is not trusted: no answer is read beyond a limit, for longer than a limit or after a long silence, and a
redirect to another host is refused, so that a bundle's address cannot make this machine ask others.
"""

import io
import time
import urllib.error
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Any
from urllib.parse import quote, urlsplit

from offpiste.errors import StoreError
from offpiste.store.disk import Stat
from offpiste.store.urls import Url

MAX_BYTES = 2**28
MAX_SECONDS = 600.0
SILENT_SECONDS = 20.0
_PIECE_BYTES = 2**20


class Web:
    """Files of a web server below one host; errors are OSErrors."""

    def __init__(self, url: Url) -> None:
        if url.account:
            raise StoreError(f"cannot open {url.shown}: the address of a bundle must hold no user and no password")
        self._host = f"{url.scheme}://{url.bucket}"

    def get(self, path: str, max_bytes: int | None) -> bytes | None:
        """Return the first bytes of a file, or None if there is none; OSError if it is larger than any bundle's."""
        limit = MAX_BYTES if max_bytes is None else max_bytes
        try:
            opener = _opener(time.monotonic() + MAX_SECONDS)
            with opener.open(f"{self._host}/{quote(path)}", timeout=SILENT_SECONDS) as answer:
                data = _read(answer, limit + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                return None
            raise OSError(f"the server answers {error.code} {error.reason}") from None
        except HTTPException as error:
            raise OSError(f"the server's answer is no HTTP, or breaks off: {error!r:.200}") from None
        if max_bytes is None and len(data) > limit:
            raise OSError(f"it is larger than {limit:,} bytes")
        return data[:limit]

    def put(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Refuse to."""
        raise OSError("a web server is read only; give a folder or an s3:// URL")

    def entries(self, path: str) -> tuple[dict[str, Stat], list[str]]:  # noqa: ARG002
        """Refuse to: a web server lists nothing."""
        raise OSError("there is no manifest.json, and from a web server only bundles can be read; check the address")

    def delete(self, path: str) -> None:
        """Refuse to."""
        self.put(path, b"")

    def sweep(self, path: str, seconds: float) -> None:
        """Do nothing."""


def _opener(deadline: float) -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _UntilHTTP(deadline),
        _UntilHTTPS(deadline),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SameHost(),
    ):
        opener.add_handler(handler)
    return opener


class _Until(urllib.request.AbstractHTTPHandler):
    """Gives an answer up at a deadline, wherever it is: in the headers, in the length of a chunk or in the body."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def do_open(self, http_class: Any, req: urllib.request.Request, **arguments: Any) -> HTTPResponse:
        """Return the answer to a request."""

        def connection(host: str, **more: Any) -> HTTPConnection:
            made: HTTPConnection = http_class(host, **more)
            made.response_class = partial(_Answer, deadline=self._deadline)  # type: ignore[assignment]
            return made

        return super().do_open(connection, req, **arguments)


class _UntilHTTP(_Until, urllib.request.HTTPHandler):
    pass


class _UntilHTTPS(_Until, urllib.request.HTTPSHandler):
    pass


class _Answer(HTTPResponse):
    def __init__(self, *arguments: Any, deadline: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.fp = io.BufferedReader(_Bytes(self.fp.detach(), deadline))


class _Bytes(io.RawIOBase):
    """The bytes of a socket, each piece of which may take as long as its timeout; none is awaited after a deadline."""

    def __init__(self, socket: io.RawIOBase, deadline: float) -> None:
        self._socket, self._deadline = socket, deadline

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read the next piece; OSError after the deadline."""
        if time.monotonic() > self._deadline:
            raise OSError(f"it took longer than {MAX_SECONDS:.0f} s")
        return self._socket.readinto(buffer)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect within the same scheme, host and port only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request to follow, or raise."""
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            fp.close()
            raise OSError("its server redirects to another host, which is refused; give the address there")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read(answer: HTTPResponse, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := answer.read1(min(limit, _PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
