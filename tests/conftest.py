"""Shared fixtures: a real S3 server on this machine, and folders on a disk and on that server."""

import contextlib
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from offpiste.store.storage import Folder
from tests import s3_server as s3

# The same examples on every machine; no time limit, since machines differ.
settings.register_profile("offpiste", derandomize=True, deadline=None, database=None)
settings.load_profile("offpiste")


@pytest.fixture(autouse=True)
def denormal_numbers() -> Iterator[None]:
    """Enable denormal numbers again after a test that trains, because other tests draw them."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[None]:
    """Credentials that the server on this machine takes, and none that lie on this machine."""
    with s3.s3_environment():
        yield


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    """A running S3 server with one bucket, named bucket."""
    with s3.s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def new_s3_location(s3_server: s3.S3Server) -> Callable[[], str]:
    """A function whose every call returns the URL of an empty folder on the S3 server."""
    return lambda: s3.s3_location(s3_server.port, uuid.uuid4().hex)


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


@pytest.fixture(autouse=True, scope="session")
def outlines_for_fonts() -> None:
    """Draw the letters of PDFs as outlines: to embed fonts takes half of the time of a report.

    A test of a report in a process of its own sees that they are embedded.
    """
    with contextlib.suppress(ModuleNotFoundError):
        from offpiste.report.drawing import STYLE

        STYLE.update({"pdf.fonttype": 3, "ps.fonttype": 3})


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Set torch to one thread, as in runs by default: with more, concurrent tests stall one another."""
    import torch

    torch.set_num_threads(1)
