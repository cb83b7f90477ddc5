"""A real S3 server on this machine for the benchmarks: `moto_server`, in memory, gone at the end."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs


@contextlib.contextmanager
def s3_server(log: Path) -> Iterator[int]:
    """Yield the port of a server with one bucket, named bucket, and set credentials that it takes."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    port = free_port()
    with log.open("wb") as out:
        server = subprocess.Popen(["moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out)
    try:
        wait_for_port(port)
        filesystem, _ = fs.FileSystem.from_uri(s3_location(port, "") + "&allow_bucket_creation=true")
        filesystem.create_dir("bucket")
        yield port
    finally:
        server.terminate()
        server.wait()


def s3_location(port: int, folder: str) -> str:
    """Return the URL of a folder in the bucket."""
    return f"s3://bucket/{folder}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Return once somebody listens."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit(f"nobody listens on port {port}")
