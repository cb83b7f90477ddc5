"""Dataclasses from plain values and back: dictionaries, TOML, and text from the command line.

Values are checked against the type of their field, and against the range in `Annotated[int, Range(min=1, max=512)]`.
The same holds for the settings of a run, the file of a study and the `Options` of a bonus.
"""

import dataclasses
import functools
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w

from offpiste.errors import ConfigError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The range of a number, beside the type of its field: `Annotated[int, Range(min=1, max=512)]`.

    A number with a range must be finite. `min` and `max` are inclusive, `above` is exclusive.
    """

    min: float = -math.inf
    max: float = math.inf
    above: float = -math.inf

    def requirement(self, value: float) -> str:
        """Return what the value must be, such as ">= 1", or an empty string if it is in range."""
        if not -math.inf < value < math.inf:  # NaN too
            return "finite"
        if value < self.min:
            return f">= {self.min:_}"
        if value <= self.above:
            return f"> {self.above:_}"
        return f"<= {self.max:_}" if value > self.max else ""

    def __str__(self) -> str:
        ends = ((">=", self.min), (">", self.above), ("<=", self.max))
        return " and ".join(f"{sign} {end:_}" for sign, end in ends if math.isfinite(end)) or "finite"


@dataclass(frozen=True)
class Pattern:
    """A regular expression that a whole string must match, and its meaning for people."""

    expression: str
    meaning: str

    def requirement(self, value: str) -> str:
        """Return what the string must be, or an empty string if it matches."""
        return "" if re.fullmatch(self.expression, value, re.ASCII) else self.meaning

    def __str__(self) -> str:
        return self.meaning


@dataclass(frozen=True)
class Length:
    """The length of a list, both ends inclusive."""

    min: int
    max: int

    def requirement(self, value: Sequence[Any]) -> str:
        """Return what the list must be, or an empty string if its length is in range."""
        return "" if self.min <= len(value) <= self.max else str(self)

    def __str__(self) -> str:
        return f"a list of {self.min} to {self.max} values"


def field_types(kind: type[Any]) -> dict[str, Any]:
    """Return the type of each field of a dataclass, annotations included."""
    return _field_types(typing.cast(Hashable, kind))


@functools.cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def known(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values that a dataclass has a field for: a later version may have written more."""
    return {key: value for key, value in values.items() if key in field_types(kind)}


def from_dict(kind: type[T], settings: dict[str, Any], where: str = "", base: T | None = None) -> T:
    """Return a dataclass with these values over its defaults, or over `base`; raise `ConfigError` for unknown keys."""
    if not isinstance(settings, dict):
        raise _refusal(where.rstrip(".") or "the settings", "a table", settings)
    hints = field_types(kind)
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in hints:
            raise ConfigError(f"no setting named {where + key!r}{did_you_mean(key, hints, where)}")
        values[key] = _parsed(hints[key], value, where + key, getattr(base, key, None))
    if base is not None:
        return typing.cast(T, dataclasses.replace(typing.cast(Any, base), **values))
    required = [field.name for field in dataclasses.fields(typing.cast(Any, kind)) if _is_required(field)]
    if missing := [where + name for name in required if name not in values]:
        raise ConfigError(f"{', '.join(missing)} must be set")
    return kind(**values)


def check(settings: Any, where: str = "") -> None:
    """Raise `ConfigError` for a value that `from_dict` would not accept; tables in it check themselves."""
    for key, hint in field_types(type(settings)).items():
        name, value = where + key, getattr(settings, key)
        if not dataclasses.is_dataclass(value) and (parsed := _parsed(hint, value, name)) != value:
            raise ConfigError(f"{name} must be {parsed!r}, got {value!r}")


def to_dict(settings: Any) -> dict[str, Any]:
    """Return a dataclass as plain JSON and TOML values."""
    return {field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file, unchecked."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number with thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}") from None


def to_toml(settings: Any) -> str:
    """Return a dataclass as TOML; `read_settings` and `from_dict` restore it."""
    return tomli_w.dumps(to_dict(settings))


def parse_count(text: str, name: str = "a count") -> int:
    """Return 200M, 20k, 1.5M or 20_000 as an int; `name` is what the error message calls it."""
    factors = {"k": 10**3, "m": 10**6, "g": 10**9}
    number, factor = (text[:-1], factors[text[-1].lower()]) if text[-1:].lower() in factors else (text, 1)
    try:
        value = Decimal(number) * factor  # exact, where a float rounds above 2**53
    except ArithmeticError:
        raise ConfigError(f"{name} must be a number, got {text!r}; write it as 20000, 20k or 200M") from None
    if not value.is_finite() or not 0 <= value < 10**18 or value % 1:
        raise ConfigError(f"{name} must be a whole number >= 0 and < 10**18, got {text!r}")
    return int(value)


def parse_value(text: str, kind: Any = Any) -> Any:
    """Return a TOML value or a count such as 20k as its type; what does not fit is a string, if a string fits."""
    value = _parse_toml(text.lower() if text in ("True", "False") else text)
    with suppress(ConfigError):
        _parsed(kind, value, text)
        return value
    with suppress(ConfigError):
        return _parsed(kind, text, text)
    return value  # the caller refuses it, with the name of the setting


def _parse_toml(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
        json.dumps(value)
    except (ValueError, TypeError):  # a TOML date is not JSON
        with suppress(ConfigError):
            return parse_count(text)
        return text
    return value


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _parsed(hint: Any, value: Any, name: str, base: Any = None) -> Any:
    """Return a value as the type of its field, or raise `ConfigError` with its name."""
    if hint is Any:
        return value
    if isinstance(hint, type):
        is_table = dataclasses.is_dataclass(hint)
        return from_dict(hint, value, f"{name}.", base) if is_table else _parsed_plain(hint, value, name)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        parsed = _parsed(arguments[0], value, name, base)
        for mark in arguments[1:]:
            if isinstance(mark, Range | Pattern | Length) and (requirement := mark.requirement(parsed)):
                raise _refusal(name, requirement, parsed)
        return parsed
    if origin is Literal:
        if value not in arguments:
            raise _refusal(name, _described(hint), value)
        return value
    if origin in (typing.Union, types.UnionType):
        return _parsed_union(arguments, value, name)
    if origin in (list, tuple):
        return _parsed_items(origin, arguments, value, name)
    return _parsed_plain(origin, value, name)


def _parsed_plain(kind: Any, value: Any, name: str) -> Any:
    if kind is int and isinstance(value, str):
        return parse_count(value, name)
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _refusal(name, "finite", value) from None
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise _refusal(name, _described(kind), value)
    return value


def _parsed_items(kind: type[Any], arguments: tuple[Any, ...], value: Any, name: str) -> Any:
    """Return the items of list[int], tuple[int, ...] or tuple[int, int], each as its type."""
    fixed = kind is tuple and arguments[-1:] != (...,)
    if not isinstance(value, list | tuple) or (fixed and len(value) != len(arguments)):
        raise _refusal(name, f"a list of {len(arguments)} values" if fixed else "a list", value)
    pairs = zip(arguments if fixed else arguments[:1] * len(value), value, strict=True)
    return kind(_parsed(hint, item, f"{name}[{index}]") for index, (hint, item) in enumerate(pairs))


def _parsed_union(hints: tuple[Any, ...], value: Any, name: str) -> Any:
    if value is None and types.NoneType in hints:
        return None
    hints = tuple(hint for hint in hints if hint is not types.NoneType)
    if len(hints) == 1:
        return _parsed(hints[0], value, name)
    for hint in hints:
        with suppress(ConfigError):
            return _parsed(hint, value, name)
    raise _refusal(name, " or ".join(map(_described, hints)), value)


def _described(hint: Any) -> str:
    """Return a type for an error message, such as "an int >= 1"."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        marks = [str(mark) for mark in arguments[1:] if isinstance(mark, Range)]
        return " ".join([_described(arguments[0]), *marks])
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    names = {int: "an int", float: "a float", bool: "true or false", str: "a string", list: "a list", dict: "a table"}
    return names.get(origin or hint, getattr(hint, "__name__", str(hint)))


def _refusal(name: str, requirement: str, value: Any) -> ConfigError:
    return ConfigError(f"{name} must be {requirement}, got {value!r}")


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return field.init and no_default
