"""Shared fixtures: a real S3 server on this machine, and folders on a disk and on that server."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyarrow import fs

from offpiste.store.storage import Folder

# The same examples on every machine; no time limit, since machines differ.
settings.register_profile("offpiste", derandomize=True, deadline=None, database=None)
settings.load_profile("offpiste")

_START_SECONDS = 60.0


@pytest.fixture(autouse=True)
def denormal_numbers() -> Iterator[None]:
    """Enable denormal numbers again after a test that trains, because other tests draw them."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_flush_denormal(False)


class S3Server:
    """A `moto_server` process: S3 in memory, empty at the start."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                ["moto_server", "-H", "127.0.0.1", "-p", str(self.port)], stdout=out, stderr=out
            )
        self._log = log

    def wait(self) -> None:
        """Return once the server answers."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"moto_server did not start: {self._log.read_text()}")

    def requests(self, part: str) -> list[str]:
        """Return method and path of the requests so far whose line in the log contains this text."""
        lines = [line for line in self._log.read_text().splitlines() if '"' in line and part in line]
        return [line.split('"')[1].rpartition(" ")[0] for line in lines]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[None]:
    """Credentials for the test server, and none of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("NO_COLOR", "1")  # plain lines in the server's log
        yield


@pytest.fixture(scope="session")
def s3_server(s3_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server with one bucket, named bucket."""
    server = S3Server(tmp_path_factory.mktemp("s3") / "log")
    try:
        server.wait()
        filesystem, _ = fs.FileSystem.from_uri(s3_location(server.port, "") + "&allow_bucket_creation=true")
        filesystem.create_dir("bucket")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def new_s3_location(s3_server: S3Server) -> Callable[[], str]:
    """A function that returns the URL of a new empty folder on the S3 server."""
    return lambda: s3_location(s3_server.port, uuid.uuid4().hex)


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path or URL of an empty folder; the test runs once on a disk and once on S3."""
    if request.param == "disk":
        return str(tmp_path / "folder")
    new: Callable[[], str] = request.getfixturevalue("new_s3_location")
    return new()


@pytest.fixture
def folder(location: str) -> Folder:
    """An empty folder, once on a disk and once on S3."""
    return Folder(location)


def s3_location(port: int, prefix: str) -> str:
    return f"s3://bucket/{prefix}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Set torch to one thread, as in runs by default: with more, concurrent tests stall one another."""
    import torch

    torch.set_num_threads(1)
