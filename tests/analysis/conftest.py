"""What the tests of the analysis share."""

from pathlib import Path

import pytest

from offpiste.store.storage import Folder


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")
