"""Options of any bonus on the command line: `--bonus.options.NAME VALUE`."""

import dataclasses
import typing
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from offpiste.errors import ConfigError
from offpiste.parsing import parse_value

_OPTIONS = "--bonus.options."


def take(argv: Sequence[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """Split off the options of the bonus and those of these names; return the other arguments, and the options."""
    queue = deque(argv)
    rest: list[str] = []
    taken: dict[str, str] = {}
    while queue:
        argument = queue.popleft()
        name, has_value, value = argument.partition("=")
        name = "--bonus.name" if name == "--bonus" else name
        if name not in names and not name.startswith(_OPTIONS):
            rest.append(argument)
        elif has_value:
            taken[name] = value
        elif queue and not queue[0].startswith("--"):
            taken[name] = queue.popleft()
        elif name.startswith(_OPTIONS):
            raise ConfigError(f"{argument} needs a value, as in {argument} VALUE")
        else:
            rest.append(argument)  # the parser of the rest refuses it for its missing value
    return rest, taken


def set_options(options: dict[str, Any], taken: dict[str, str], bonus: str) -> None:
    """Set options of a bonus from the command line, each parsed by its type in the bonus's `Options`."""
    declared = None
    if taken:
        from offpiste.bonuses.base import options_class
        from offpiste.bonuses.registry import find  # imports torch

        with suppress(ConfigError):  # raised again when the bonus is made
            declared = options_class(find(bonus))
    for name, text in taken.items():
        path = name.removeprefix(_OPTIONS).replace("-", "_")
        _set(options, path, parse_value(text, _type_of(declared, path)))


def _type_of(options: Any, path: str) -> Any:
    """Return the type of the option at a dotted path, or Any if it is unknown."""
    for key in path.split("."):
        options = typing.get_type_hints(options).get(key, Any) if dataclasses.is_dataclass(options) else Any
    return options


def _set(options: dict[str, Any], path: str, value: Any) -> None:
    """Set the option at a dotted path: `a.b` is the option `b` in the table `a`."""
    *tables, key = path.split(".")
    for table in tables:
        inner = options.setdefault(table, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"bonus.options.{path}: {table} must be a table of options, got {inner!r}")
        options = inner
    options[key] = value
