"""The JSON files of a run's folder, read as if a stranger had written them: `run.json`, `status.json` and the rest.

A file is refused, with the reason, if it is too large or too deeply nested, holds numbers or texts beyond the limits
below, or has another checksum than it says. Its values are then checked by kind, range and pattern. `machine` is not
read: whoever trains a run says where and how.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, TypeVar

from offpiste.config import (
    AgentConfig,
    BonusConfig,
    CountOrZero,
    ExplorationConfig,
    RunConfig,
    ScheduleConfig,
    Seed,
    WorldConfig,
)
from offpiste.errors import ConfigError, Damaged
from offpiste.parsing import Pattern, Range, field_types, from_dict, to_dict
from offpiste.store import layout
from offpiste.store.storage import Folder

MAX_BYTES = 2**20
"""Size of any of these files but a manifest."""
MAX_DEPTH, MAX_VALUES, MAX_TEXT = 16, 2**20, 100_000
"""Nesting of a file, values in it, and characters of a text."""
MAX_INTEGER = 2**63 - 1
_MAX_DIGITS = 20
_HALF = re.compile("[\ud800-\udfff]")

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
Name = Annotated[str, Pattern(f"[^{_CONTROL}]{{1,1000}}", "1 to 1000 characters without control characters")]
NameOrEmpty = Annotated[str, Pattern(f"[^{_CONTROL}]{{0,1000}}", "up to 1000 characters without control characters")]
RUN_NAME = Pattern(
    rf"(?!.{{1001}})(\.|((?!\.\.?/)[^/{_CONTROL}]+/)*(?!\.\.?\Z)[^/{_CONTROL}]+)",
    "a path below the store of up to 1000 characters, without control characters and without ..",
)
"""Of the folder of a run below its store; `.` is the store itself."""
RunName = Annotated[str, RUN_NAME]
Rate = Annotated[float, Range(min=0, max=10**12)]

T = TypeVar("T")


@dataclass(frozen=True)
class StoredRun:
    """What run.json says of a run."""

    config: dict[str, Any]
    """All settings but `machine`, those known to this version in range; a later version may have more."""
    protocol_fingerprint: Name
    method_fingerprint: Name
    results_version: Annotated[int, Range(min=0, max=10**6)]
    offpiste: Name
    run_id: Name
    bonus_source: Name | None = None

    @property
    def settings(self) -> RunConfig:
        """The settings, with `machine` at its defaults; ConfigError for one that this version does not know."""
        return from_dict(RunConfig, self.config)

    @property
    def identity(self) -> dict[str, str]:
        """What every manifest, mark and status of the run repeats."""
        return {
            "run_id": self.run_id,
            "protocol_fingerprint": self.protocol_fingerprint,
            "method_fingerprint": self.method_fingerprint,
            **({"bonus_source": self.bonus_source} if self.bonus_source else {}),
        }


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
    """Its process (`offpiste.store.process_id`)."""
    steps: CountOrZero | None = None
    """Agent steps of training and evaluation together."""
    tables: dict[str, Any] | None = None
    """The checksum of each table in the run's folder, by file, where they are as new as the checkpoints."""

    @property
    def written_at(self) -> datetime | None:
        """When it was written."""
        return datetime.fromisoformat(self.at) if self.at else None


@dataclass(frozen=True)
class _Named:
    """What names a run among its settings."""

    game: Name
    method: Name
    seed: Seed
    frames: CountOrZero
    variant: NameOrEmpty = ""


_ADVICE = {layout.STATUS: "delete it: it holds progress alone, and is written anew when the run is trained again"}
_TABLES: dict[str, type[Any]] = {
    "world": WorldConfig,
    "agent": AgentConfig,
    "schedule": ScheduleConfig,
    "exploration": ExplorationConfig,
    "bonus": BonusConfig,
}


def read_run(folder: Folder) -> StoredRun | None:
    """Return what run.json says, or None if there is none; raise `Damaged` if it cannot be used."""
    values = read(folder, layout.RUN)
    if values is None:
        return None
    if values.get("format") != layout.FORMAT:
        found = values.get("format", "an older one")
        raise Damaged(
            f"{layout.RUN} in {folder.location} must have format {layout.FORMAT}, got {found!s:.20}; read and resume "
            f"the run with the version of offpiste that wrote it ({values.get('offpiste', 'unknown')!s:.40}), or train "
            "it again in another folder"
        )
    return _refused(folder, layout.RUN, lambda: parse_run(unsigned(values)))


def read_status(folder: Folder, identity: Mapping[str, str] | None = None) -> StoredStatus:
    """Return what status.json says, nothing if there is none; raise `Damaged` if it cannot be used.

    With the identity of the run, that of another run is refused.
    """
    values = read(folder, layout.STATUS)
    if values is None:
        return StoredStatus()
    return _refused(folder, layout.STATUS, lambda: _parse_status(unsigned(values), identity or {}))


def read(folder: Folder, name: str, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """Return a JSON file within the limits, or None if there is none; raise `Damaged` for any other."""
    data = folder.get(name, max_bytes + 1)
    return None if data is None else _refused(folder, name, lambda: parse(data, max_bytes))


def parse(data: bytes, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return a JSON table within the limits; ValueError for anything else."""
    values = parse_any(data, max_bytes)
    if not isinstance(values, dict):
        raise ValueError(f"it must be a table, got {type(values).__name__}")
    return values


def parse_any(data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Return JSON within the limits; ValueError for anything else."""
    if len(data) > max_bytes:
        raise ValueError(f"it must have <= {max_bytes:,} bytes")
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:  # before they take memory
        raise ValueError(f"it must have <= {MAX_VALUES:,} values")
    try:
        values = json.loads(data, parse_int=_parse_int)
    except RecursionError:
        raise ValueError(f"it must be nested <= {MAX_DEPTH} deep") from None
    _check_values(values)
    return values


def parse_run(values: Mapping[str, Any]) -> StoredRun:
    """Return the run of a run.json; ConfigError or ValueError if it does not say what the run is."""
    stored = from_dict(StoredRun, known(StoredRun, values))
    config = {key: value for key, value in stored.config.items() if key != "machine"}
    config = _checked(_Named, config)
    for table, kind in _TABLES.items():
        config[table] = _checked(kind, config.get(table), f"{table}.")
    for table, key in (("schedule", "iteration_steps"), ("schedule", "evaluation_steps"), ("world", "frame_skip")):
        if key not in config[table]:
            raise ConfigError(f"{table}.{key} must be set")
    return replace(stored, config=config)


def checksum(data: bytes) -> str:
    """Return the checksum of objects, tables and signed files."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def signed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with its own checksum."""
    return {**values, "blake2b": checksum(json.dumps(values).encode())}


def unsigned(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without its checksum; ValueError if that is missing or differs."""
    if "blake2b" not in values:
        raise ValueError("it has no checksum")
    plain = {key: value for key, value in values.items() if key != "blake2b"}
    if values["blake2b"] != checksum(json.dumps(plain).encode()):
        raise ValueError("its checksum differs")
    return plain


def differing(values: Mapping[str, Any], identity: Mapping[str, str]) -> str:
    """Return how a file names another run than this one, or "" if it does not."""
    wrong = [key for key, value in identity.items() if values.get(key) != value]
    return ", ".join(f"{key} {values.get(key)!r:.200} for {identity[key]!r}" for key in wrong)


def _parse_status(values: Mapping[str, Any], identity: Mapping[str, str]) -> StoredStatus:
    if other := differing(values, identity):
        raise ValueError(f"it belongs to another run: {other}")
    status = from_dict(StoredStatus, known(StoredStatus, values))
    if status.written_at is not None and status.written_at.tzinfo is None:
        raise ValueError("at must have a time zone")
    if not status.state:
        raise ValueError("it says no state")
    return status


def _checked(kind: Any, values: Any, where: str = "") -> dict[str, Any]:
    """Return settings, those that this version knows checked and as their types."""
    if not isinstance(values, dict):
        raise ConfigError(f"{where.rstrip('.')} must be a table, got {values!r:.100}")
    checked = json.loads(_checked_json(kind, json.dumps(known(kind, values)), where))
    return {key: checked.get(key, value) for key, value in values.items()}


@functools.lru_cache(256)  # a thousand runs have the same tables, but for names and seeds
def _checked_json(kind: Any, values: str, where: str) -> str:
    return json.dumps(to_dict(from_dict(kind, json.loads(values), where)))


def known(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that this version knows."""
    return {key: value for key, value in values.items() if key in field_types(kind)}


def _refused(folder: Folder, name: str, parsed: Callable[[], T]) -> T:
    try:
        return parsed()
    except (ValueError, OverflowError, ConfigError) as error:
        advice = _ADVICE.get(name, "restore it from a backup, or leave the run out")
        raise Damaged(f"{name} in {folder.location} is damaged: {error!s:.300}; {advice}") from None


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"an integer must have <= 64 bits, got {len(digits):,} digits")
    return int(digits)


def _check_values(values: Any) -> None:
    """Raise ValueError for nesting, numbers or texts beyond the limits."""
    level: list[Any] = [values]
    count = 0
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            count += 1
            if isinstance(value, dict):
                inner += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, str):
                size = len(value.encode(errors="surrogatepass"))
                if size > MAX_TEXT:
                    raise ValueError(f"a text must have <= {MAX_TEXT:,} bytes, got {size:,}")
                if _HALF.search(value):
                    raise ValueError("a text must hold no half of a character (a lone surrogate)")
            elif isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise ValueError(f"an integer must have <= 64 bits, got {value.bit_length()}")
            elif isinstance(value, float) and not -float("inf") < value < float("inf"):
                raise ValueError(f"a number must be finite, got {value}")
        if not inner:
            return
        if count > MAX_VALUES:
            raise ValueError(f"it must have <= {MAX_VALUES:,} values")
        level = inner
    raise ValueError(f"it must be nested <= {MAX_DEPTH} deep")
