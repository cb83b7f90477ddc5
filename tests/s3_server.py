"""A real S3 server on this machine: `moto_server`, in memory, gone at the end."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

_START_SECONDS = 300.0
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_COLOR": "1",  # plain lines in the server's log
}


class S3Server:
    """A `moto_server` process, which may not answer yet."""

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
        """Return method and path of the requests so far whose line holds this text."""
        text = re.sub(r"\x1b\[\d*m", "", self._log.read_text())
        lines = [line for line in text.splitlines() if '"' in line and part in line]
        return [line.split('"')[1].rpartition(" ")[0] for line in lines]

    def stop(self) -> None:
        """End the process."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=300)


@contextlib.contextmanager
def s3_environment() -> Iterator[None]:
    """Set credentials that the server takes, and hide those of this machine, until the end."""
    with mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(_ENVIRONMENT)
        yield


@contextlib.contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Yield a running server with one bucket, named bucket, and the environment that it needs."""
    with s3_environment():
        server = S3Server(log)
        try:
            server.wait()
            make = urllib.request.Request(f"http://127.0.0.1:{server.port}/bucket", method="PUT")
            urllib.request.urlopen(make, timeout=60).close()  # noqa: S310
            yield server
        finally:
            server.stop()


def s3_location(port: int, folder: str) -> str:
    """Return the URL of a folder in the bucket."""
    return f"s3://bucket/{folder}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
