"""JSON files with their own checksum, which a stranger may have written: run.json, status.json, manifests and the rest.

A file is refused, with the reason, if it is too large or too deeply nested, holds numbers or texts beyond the limits
below, or has another checksum than it says. Whoever reads one then checks its values by kind, range and pattern.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from offpiste.errors import ConfigError, Damaged
from offpiste.parsing import Pattern
from offpiste.store import layout
from offpiste.store.storage import Folder

MAX_BYTES = 2**20
"""Size of any of these files but a manifest."""
MAX_DEPTH, MAX_VALUES, MAX_TEXT = 16, 2**20, 100_000
"""Nesting of a file, values in it, and characters of a text."""
MAX_INTEGER = 2**63 - 1
_MAX_DIGITS = 20

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
Name = Annotated[str, Pattern(f"[^{_CONTROL}]{{1,1000}}", "1 to 1000 characters without control characters")]
NameOrEmpty = Annotated[str, Pattern(f"[^{_CONTROL}]{{0,1000}}", "up to 1000 characters without control characters")]
RUN_NAME = Pattern(
    rf"(?!.{{1001}})(\.|((?!\.\.?/)[^/{_CONTROL}]+/)*(?!\.\.?\Z)[^/{_CONTROL}]+)",
    "a path below the store of up to 1000 characters, without control characters and without ..",
)
"""Of the folder of a run below its store; `.` is the store itself."""
RunName = Annotated[str, RUN_NAME]

T = TypeVar("T")

_ADVICE = {layout.STATUS: "delete it: it holds progress alone, and is written anew when the run is trained again"}


def read(folder: Folder, name: str, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """Return a JSON file within the limits, or None if there is none; raise `Damaged` for any other."""
    data = folder.get(name, max_bytes + 1)
    return None if data is None else parsed(folder, name, lambda: parse(data, max_bytes))


def parsed(folder: Folder, name: str, parser: Callable[[], T]) -> T:
    """Return what the parser of a file returns; raise `Damaged`, with what to do, if it refuses the file."""
    try:
        return parser()
    except (ValueError, OverflowError, ConfigError) as error:
        advice = _ADVICE.get(name, "restore it from a backup, or leave the run out")
        raise Damaged(f"{name} in {folder.location} is damaged: {error!s:.300}; {advice}") from None


def write(folder: Folder, name: str, values: Mapping[str, Any], indent: int | None = None) -> None:
    """Write a table as JSON, with its own checksum."""
    folder.put(name, json.dumps(signed(values), indent=indent).encode())


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
                try:
                    size = len(value.encode())
                except UnicodeEncodeError:
                    raise ValueError("a text must hold no half of a character (a lone surrogate)") from None
                if size > MAX_TEXT:
                    raise ValueError(f"a text must have <= {MAX_TEXT:,} bytes, got {size:,}")
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
