"""The command line that trains a given run."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from string import ascii_letters, digits
from typing import Any

from offpiste.config import identity
from offpiste.errors import OffpisteError
from offpiste.methods import base_run

_UNESCAPED = frozenset(f"{ascii_letters}{digits} _-./:=")
_SET_OTHERWISE = ("game", "method", "seed", "frames", "results_version", "suite_version", "bonus.name")


def train_command(settings: Mapping[str, Any], frames: int) -> str:
    """Return the shell command that trains a run of these settings, given with flat dotted keys."""
    argv = ["offpiste", "train", "--game", settings["game"], "--seed", str(settings["seed"])]
    return shell_line([*argv, *train_options(settings, frames)])


def shell_line(argv: Iterable[str]) -> str:
    """Return a command as one line that bash and zsh parse into exactly these arguments, whatever they hold."""
    return " ".join(map(_quote, argv))


def train_options(settings: Mapping[str, Any], frames: int) -> list[str]:
    """Return the arguments of `train` except game and seed: each setting that differs from the game's and method's."""
    argv, base = _method(settings["game"], settings["method"], settings.get("bonus.name", "none"))
    argv += ["--frames", str(frames)]
    for key, value in settings.items():
        if key not in _SET_OTHERWISE and value != base.get(key) and not (value in ({}, "") and key not in base):
            argv += _option(key, value)
    return argv


def _quote(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    # Even in quotes, a line break would split the line, and an escape sequence could end a terminal's bracketed paste.
    escaped = (chr(byte) if chr(byte) in _UNESCAPED else f"\\x{byte:02x}" for byte in argument.encode())
    return f"$'{''.join(escaped)}'"


def _method(game: str, method: str, bonus: str) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments that choose a method, and the settings that follow from them."""
    for bonus_given, argv in ((None, []), (bonus, ["--bonus", bonus])):
        try:
            base = identity(base_run(game, method, bonus_given))
        except OffpisteError:  # a method of the user's own, which needs its bonus
            continue
        if (base["method"], base["bonus.name"]) == (method, bonus):
            return ["--method", method, *argv], base
    return ["--method", method, "--bonus", bonus], {}


def _option(key: str, value: Any) -> Iterator[str]:
    if key.startswith("bonus.options."):
        yield f"--{key}"
        yield value if isinstance(value, str) else json.dumps(value)  # also valid TOML
        return
    table, _, name = key.replace("_", "-").rpartition(".")
    prefix = f"--{table}." if table else "--"
    if isinstance(value, bool):
        yield f"{prefix}{'' if value else 'no-'}{name}"
        return
    yield f"{prefix}{name}"
    yield from map(str, _listed(value))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]
