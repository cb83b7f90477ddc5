"""The stores that `chaos` makes fail: a folder on a small disk, and S3 behind a proxy that can refuse writes."""

import contextlib
import http.client
import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.s3_server import s3_location, s3_server

TMPFS_MEGABYTES = 300
PER_CONNECTION = ("transfer-encoding", "content-length", "connection", "expect")
"""Headers that a proxy does not pass on."""


@dataclass(frozen=True)
class Store:
    """Where runs lie, and how that can fail."""

    location: str
    manifests: Callable[[], set[str]]
    """Returns the manifests that were written, asking no S3 server, which would have time for little else."""
    faults: dict[str, Callable[[], contextlib.AbstractContextManager[None]]]


@contextlib.contextmanager
def folder_store(work: Path) -> Iterator[Store]:
    """Make a small disk."""
    disk = work / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MEGABYTES}m", "none", str(disk)], check=True)

    @contextlib.contextmanager
    def closed() -> Iterator[None]:
        folders = [str(path) for name in ("objects", "manifests") for path in disk.glob(f"store/*/*/*/{name}")]
        subprocess.run(["chattr", "+i", *folders], check=True)
        try:
            yield
        finally:
            subprocess.run(["chattr", "-i", *folders], check=True)

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        filler = disk / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as out:
                while out.write(bytes(2**20)):
                    pass
            with filler.open("r+b") as out:  # room for a status, not for a checkpoint
                out.truncate(filler.stat().st_size - 64 * 1024)
            yield
        finally:
            filler.unlink()

    def manifests() -> set[str]:
        return {str(path) for path in disk.glob("store/*/*/*/manifests/*.json")}

    try:
        yield Store(str(disk / "store"), manifests, {"a store that refuses writes": closed, "a full disk": full})
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextlib.contextmanager
def s3_store(work: Path) -> Iterator[Store]:
    """Start an S3 server, and a proxy before it that can refuse writes."""
    with s3_server(work / "moto.log") as server:
        proxy = Proxy(server.port)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        location = s3_location(proxy.server_port, "store")
        yield Store(location, proxy.manifests.copy, {"a store that refuses writes": proxy.refusing})
        proxy.shutdown()


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to an S3 server, except writes of checkpoints while it is set to refuse them."""

    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.target = target
        self.refuses = False
        self.manifests: set[str] = set()
        """The paths of those that were written."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless a client was killed in the middle of its request."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse for a while."""
        self.refuses = True
        try:
            yield
        finally:
            self.refuses = False


class Passing(http.server.BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass_on(self) -> None:
        body = self._body()
        writes = self.command in ("PUT", "POST") and ("/objects/" in self.path or "/manifests/" in self.path)
        if writes and self.server.refuses:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in PER_CONNECTION}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if self.command == "PUT" and "/manifests/" in self.path and answer.status == http.HTTPStatus.OK:
            self.server.manifests.add(self.path)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in (*PER_CONNECTION, "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # what may follow the last part
        return b"".join(parts)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""
