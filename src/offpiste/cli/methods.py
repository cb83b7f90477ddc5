"""`offpiste methods`: list the exploration methods with their constants, or show one in detail."""

import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from offpiste.cli.output import plain
from offpiste.config import BonusConfig, ExplorationConfig
from offpiste.errors import ConfigError
from offpiste.field_docs import field_docs
from offpiste.methods import METHODS, SMALL_WORLDS, Method, choose, find
from offpiste.parsing import Range

_HEADINGS = ("method", "scale β", "options", "reward + β·bonus", "from")
_MORE = """
Constants are those for Atari games.
  offpiste methods NAME                 shows a method with all its options
  offpiste train --bonus module:Class   trains with a bonus of yours"""
_WIDTH = 80


@dataclass(frozen=True)
class Arguments:
    """List the exploration methods with their constants, or show one in detail."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """A method, a bonus, or module:Class of a bonus of yours, to show with all options."""


def main(arguments: Arguments) -> int:
    """Print the list, or one method."""
    lines = _table() if arguments.name is None else _detail(arguments.name)
    print("\n".join(lines))
    return 0


def _table() -> Iterator[str]:
    rows = [_HEADINGS, *(_row(name, method) for name, method in METHODS.items())]
    yield from _columns(rows)
    yield _MORE


def _row(name: str, method: Method) -> tuple[str, ...]:
    bonus, source = method.bonus, method.source.removeprefix("the ")
    if bonus.name == "none":
        return (name, "–", "–", "–", source)
    return (name, plain(bonus.scale), _set(bonus) or "–", _sum(method), source)


def _set(bonus: BonusConfig) -> str:
    """Return the options that are set, as in decay 1.0."""
    return ", ".join(
        f"{key} {plain(value) if isinstance(value, float) else value}" for key, value in bonus.options.items()
    )


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _actions(exploration: ExplorationConfig) -> str:
    if exploration.noisy:
        return f"noisy layers, σ0 {exploration.noise_scale:g}"
    return f"ε {exploration.epsilon_start:g} to {exploration.epsilon_final:g}"


def _sum(method: Method) -> str:
    return "clipped to ±1" if method.bonus.clip_sum else "not clipped"


def _detail(name: str) -> Iterator[str]:
    name, method = _named(name)
    bonus = method.bonus
    yield name
    about = [("actions", _actions(method.exploration))]
    if bonus.name != "none":
        from offpiste.bonuses.base import options_class
        from offpiste.bonuses.registry import import_path  # imports torch

        kind = _kind(bonus.name)
        about += [
            ("bonus", import_path(kind)),
            ("scale β", plain(bonus.scale)),
            ("reward + β·bonus", _sum(method)),
        ]
    about.append(("constants from", method.source))
    if SMALL_WORLDS in method.constants:
        tuned = method.constants[SMALL_WORLDS]
        constants = ", ".join([f"β {plain(tuned.scale)}", *([_set(tuned)] if tuned.options else [])])
        about.append(("tuned on Deep Sea", constants))
    yield from _facts(about)
    if bonus.name != "none":
        yield ""
        yield from _wrapped(inspect.getdoc(kind) or "The class has no docstring.", "  ")
        yield ""
        yield from _options(options_class(kind), bonus.options)


def _facts(about: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield names and values in two columns, long values over several lines."""
    start = 4 + max(len(name) for name, _ in about)
    for name, value in about:
        yield from textwrap.wrap(value, _WIDTH, initial_indent=f"  {name}".ljust(start), subsequent_indent=" " * start)


def _named(name: str) -> tuple[str, Method]:
    """Return the method of this name, or the one that `--bonus` with this name makes."""
    if name in METHODS:
        return name, METHODS[name]
    try:
        _kind(name)
    except ConfigError:
        if ":" in name:
            raise
        find(name)  # raises with the closest name of a method
    return choose(bonus=name)


def _kind(bonus: str) -> type[Any]:
    from offpiste.bonuses import registry  # imports torch

    return registry.find(bonus)


def _options(kind: Any, chosen: dict[str, Any]) -> Iterator[str]:
    """Yield name, type, default and docstring of each field of a bonus's `Options`."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ConfigError("`Options` in the class of a bonus must be a frozen dataclass")
    fields = dataclasses.fields(kind)
    yield "  --bonus.options.OPTION VALUE, where OPTION is" if fields else "  The bonus has no options."
    docs, hints = field_docs(kind), typing.get_type_hints(kind, include_extras=True)
    for option in fields:
        yield ""
        yield f"  {option.name} ({_type(hints[option.name])}) {_default(option, chosen)}"
        yield from _wrapped(docs.get(option.name, ""), "      ")


def _default(option: dataclasses.Field[Any], chosen: dict[str, Any]) -> str:
    default = option.default
    if option.default_factory is not dataclasses.MISSING:
        default = option.default_factory()
    value = chosen.get(option.name, default)
    if value is dataclasses.MISSING:
        return "must be set"
    return f"= {value!r}" if value == default else f"= {value!r}, default of the bonus {default!r}"


def _type(hint: Any) -> str:
    """Return a type as written in Python, with its range: float > 0."""
    if typing.get_origin(hint) is Annotated:
        ranges = [str(mark) for mark in hint.__metadata__ if isinstance(mark, Range)]
        return " ".join([_type(hint.__origin__), *ranges])
    return hint.__name__ if type(hint) is type else str(hint).replace("typing.", "")


def _wrapped(text: str, indent: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        yield from textwrap.wrap(" ".join(paragraph.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent)
