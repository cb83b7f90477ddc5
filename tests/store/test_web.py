"""A bundle on a web server is read by its manifest alone; the server is not trusted."""

import functools
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import StoreError
from offpiste.store import web
from offpiste.store.storage import Folder


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Start a server of a handler on loopback, and return its address."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(handler: Any) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def redirecting(target: str) -> type[Quiet]:
    class Redirecting(Quiet):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", target + self.path)
            self.end_headers()

    return Redirecting


@pytest.fixture
def files(tmp_path: Path, serve: Callable[[Any], str]) -> str:
    """The address of a server of a folder."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a b#%.json").write_bytes(b"0123456789")
    return serve(functools.partial(Quiet, directory=str(tmp_path)))


def test_a_file_is_read_by_its_name_and_a_missing_one_is_none(files: str) -> None:
    folder = Folder(f"{files}/inner")
    assert folder.get("a b#%.json") == b"0123456789"
    assert folder.get("a b#%.json", 4) == b"0123"
    assert folder.get("missing") is None
    assert (folder.location, folder.local_path) == (f"{files}/inner", None)


def test_nothing_is_written_deleted_or_listed(files: str) -> None:
    folder = Folder(files)
    with pytest.raises(StoreError, match="a web server is read only; give a folder"):
        folder.put("x", b"")
    with pytest.raises(StoreError, match="a web server is read only; give a folder"):
        folder.delete("x")
    with pytest.raises(StoreError, match=r"there is no manifest\.json, and from a web server only bundles can be read"):
        folder.list()


def test_a_file_that_is_too_large_is_refused(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_BYTES", 9)
    with pytest.raises(StoreError, match="it is larger than 9 bytes"):
        Folder(files).get("inner/a b#%.json")


def test_an_answer_that_takes_too_long_is_given_up(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_SECONDS", -1.0)
    with pytest.raises(StoreError, match="it took longer than"):
        Folder(files).get("inner/a b#%.json")


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nA: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["status", "headers", "length of a chunk", "chunk", "body"],
)
def test_an_answer_that_drips_is_given_up(
    begin: bytes, serve: Callable[[Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dripping(Quiet):
        def do_GET(self) -> None:
            with suppress(OSError):  # the client is gone
                self.wfile.write(begin)
                for _ in range(2_000):
                    self.wfile.write(b"0")
                    time.sleep(0.05)

    monkeypatch.setattr(web, "MAX_SECONDS", 0.2)
    start = time.monotonic()
    with pytest.raises(StoreError, match="it took longer than"):
        Folder(serve(Dripping)).get("x")
    assert time.monotonic() - start < 50.0  # it drips for 100


@pytest.mark.parametrize(
    "answer",
    [
        b"GARBAGE hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nbroken off",
        b"",
    ],
)
def test_an_answer_that_is_no_http_or_breaks_off_is_an_error(serve: Callable[[Any], str], answer: bytes) -> None:
    class Broken(Quiet):
        def do_GET(self) -> None:
            self.wfile.write(answer)

    with pytest.raises(StoreError, match="cannot read x from http"):
        Folder(serve(Broken)).get("x")


def test_a_redirect_to_another_host_or_scheme_is_refused(files: str, serve: Callable[[Any], str]) -> None:
    for target in (files, "file:///etc", "ftp://127.0.0.1", files.replace("127.0.0.1", "localhost")):
        with pytest.raises(StoreError, match="cannot read inner/x"):
            Folder(serve(redirecting(target))).get("inner/x")


def test_a_redirect_within_the_host_is_followed(tmp_path: Path, serve: Callable[[Any], str]) -> None:
    (tmp_path / "new").write_bytes(b"found")

    class Moved(Quiet):
        def do_GET(self) -> None:
            if self.path == "/new":
                super().do_GET()
                return
            self.send_response(301)
            self.send_header("Location", "/new")
            self.end_headers()

    assert Folder(serve(functools.partial(Moved, directory=str(tmp_path)))).get("old") == b"found"


@pytest.mark.parametrize("location", ["http://me:hush@host/x", "https://hush@host/x", "https://host/x?token=hush"])
def test_an_address_with_a_password_or_a_token_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(StoreError, match=r"cannot open https?://host/x: ") as refused:
        Folder(location)
    assert "hush" not in str(refused.value)


def test_an_error_of_the_server_is_an_error(serve: Callable[[Any], str]) -> None:
    class Failing(Quiet):
        def do_GET(self) -> None:
            self.send_error(500)

    with pytest.raises(StoreError, match="500"):
        Folder(serve(Failing)).get("x")
