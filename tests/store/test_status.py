"""A status that a stranger may have written is refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from offpiste.errors import Damaged
from offpiste.store import documents
from offpiste.store.status import read_status
from offpiste.store.storage import Folder


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"frames": "many"}, "frames must be a number"),
        ({"frames": -1}, "frames must be >= 0"),
        ({"frames": 1.5}, "frames must be an int"),
        ({"steps_per_second": 1e300}, "steps_per_second must be <= "),
        ({"seconds_left": -1}, "seconds_left must be >= 0"),
        ({"note": ["x"]}, "note must be a string"),
        ({"state": "run\nning"}, "state must be"),
        ({"at": "yesterday"}, "Invalid isoformat string"),
        ({"at": "2024-05-06T07:08:09"}, "at must have a time zone"),
        ({"tables": 3}, "tables must be a table"),
        ({"frames": int("9" * 4000)}, "an integer must have <= 64 bits, got 4,000 digits; delete it"),
    ],
)
def test_a_status_is_refused_with_the_reason(tmp_path: Path, values: dict[str, Any], reason: str) -> None:
    Folder(tmp_path).put("status.json", json.dumps(documents.signed(values)).encode())
    with pytest.raises(Damaged) as refused:
        read_status(Folder(tmp_path))
    assert reason in str(refused.value)
