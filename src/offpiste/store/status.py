"""status.json: the progress of a run, which is written anew every half minute; read as if a stranger had written it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from offpiste.config import CountOrZero
from offpiste.parsing import Range, from_dict, known
from offpiste.store import documents, layout
from offpiste.store.documents import NameOrEmpty
from offpiste.store.storage import Folder

Rate = Annotated[float, Range(min=0, max=10**12)]


@dataclass(frozen=True)
class StoredStatus:
    """What status.json says of a run; every value may be missing."""

    state: NameOrEmpty = ""
    frames: CountOrZero = 0
    target_frames: CountOrZero | None = None
    steps_per_second: Rate | None = None
    seconds_left: Rate | None = None
    note: str = ""
    at: NameOrEmpty = ""
    attempt: NameOrEmpty = ""
    host: NameOrEmpty = ""
    job: NameOrEmpty = ""
    process: NameOrEmpty = ""
    """Its process (`offpiste.store.attempts`)."""
    steps: CountOrZero | None = None
    """Agent steps of training and evaluation together."""
    run_id: NameOrEmpty = ""
    protocol_fingerprint: NameOrEmpty = ""
    method_fingerprint: NameOrEmpty = ""
    bonus_source: NameOrEmpty = ""
    """As in run.json."""
    tables: dict[str, Any] | None = None
    """The checksum of each table in the run's folder, by file, where they are as new as the checkpoints."""

    @property
    def written_at(self) -> datetime | None:
        """When it was written."""
        return datetime.fromisoformat(self.at) if self.at else None


def read_status(folder: Folder, identity: Mapping[str, str] | None = None) -> StoredStatus:
    """Return what status.json says, nothing if there is none; raise `Damaged` if it cannot be used.

    With the identity of the run, that of another run is refused.
    """
    values = documents.read(folder, layout.STATUS)
    if values is None:
        return StoredStatus()
    return documents.parsed(folder, layout.STATUS, lambda: _parse_status(documents.unsigned(values), identity or {}))


def _parse_status(values: Mapping[str, Any], identity: Mapping[str, str]) -> StoredStatus:
    if other := documents.differing(values, identity):
        raise ValueError(f"it belongs to another run: {other}")
    status = from_dict(StoredStatus, known(StoredStatus, values))
    if status.written_at is not None and status.written_at.tzinfo is None:
        raise ValueError("at must have a time zone")
    if not status.state:
        raise ValueError("it says no state")
    return status
