"""The options of a bonus on the command line: `--bonus.options.NAME VALUE`, whichever bonus it is."""

import dataclasses
import typing
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from offpiste.errors import ConfigError
from offpiste.parsing import parse_value

_OPTIONS = "--bonus.options."


def take(words: Sequence[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line without the options of the bonus and those of these names, and both by name."""
    queue = deque(words)
    rest: list[str] = []
    taken: dict[str, str] = {}
    while queue:
        word = queue.popleft()
        name, has_value, value = word.partition("=")
        name = "--bonus.name" if name == "--bonus" else name
        if name not in names and not name.startswith(_OPTIONS):
            rest.append(word)
        elif has_value:
            taken[name] = value
        elif queue and not queue[0].startswith("--"):
            taken[name] = queue.popleft()
        elif name.startswith(_OPTIONS):
            raise ConfigError(f"{word} needs a value, as in {word} VALUE")
        else:
            rest.append(word)  # and be refused there, for it has no value
    return rest, taken


def set_options(options: dict[str, Any], taken: dict[str, str], bonus: str) -> None:
    """Set the options of a bonus that were taken from the command line, each read by its kind in `Options`."""
    kind = None
    if taken:
        from offpiste.bonuses.registry import find  # imports torch

        with suppress(ConfigError):  # which is told once the bonus is made
            kind = getattr(find(bonus), "Options", None)
    for name, text in taken.items():
        place = name.removeprefix(_OPTIONS).replace("-", "_")
        _set(options, place, parse_value(text, _kind(kind, place)))


def _kind(options: Any, place: str) -> Any:
    """Return the kind of an option, or Any where it is not known."""
    for key in place.split("."):
        options = typing.get_type_hints(options).get(key, Any) if dataclasses.is_dataclass(options) else Any
    return options


def _set(options: dict[str, Any], place: str, value: Any) -> None:
    """Set an option; the options of `a.b` are those in the table `a`."""
    *tables, key = place.split(".")
    for table in tables:
        inner = options.setdefault(table, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"bonus.options.{place}: {table} is no table of options but {inner!r}")
        options = inner
    options[key] = value
