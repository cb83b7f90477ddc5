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
_SAID_OTHERWISE = ("game", "method", "seed", "frames", "results_version", "bonus.name")


def train_command(settings: Mapping[str, Any], frames: int) -> str:
    """Return the command for a run of these settings, given as flat dotted keys."""
    words = ["offpiste", "train", "--game", settings["game"], "--seed", str(settings["seed"])]
    return shell_line([*words, *train_options(settings, frames)])


def shell_line(words: Iterable[str]) -> str:
    """Return a command as one line that bash and zsh read as exactly these words, whatever is in them."""
    return " ".join(map(_shell_word, words))


def train_options(settings: Mapping[str, Any], frames: int) -> list[str]:
    """Return the words of it but for game and seed: all that is not the game's and the method's own."""
    words, base = _method(settings["game"], settings["method"], settings.get("bonus.name", "none"))
    words += ["--frames", str(frames)]
    for key, value in settings.items():
        if key not in _SAID_OTHERWISE and value != base.get(key) and not (value in ({}, "") and key not in base):
            words += _option(key, value)
    return words


def _shell_word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # Quoted, a line break would still split the line, and an escape sequence could end a terminal's bracketed paste.
    escaped = (chr(byte) if chr(byte) in _UNESCAPED else f"\\x{byte:02x}" for byte in word.encode())
    return f"$'{''.join(escaped)}'"


def _method(game: str, method: str, bonus: str) -> tuple[list[str], dict[str, Any]]:
    """Return the words that name a method, and the settings that these alone give."""
    for asked, words in ((None, []), (bonus, ["--bonus", bonus])):
        try:
            base = identity(base_run(game, method, asked))
        except OffpisteError:  # a method of somebody's own, which only its bonus describes
            continue
        if (base["method"], base["bonus.name"]) == (method, bonus):
            return ["--method", method, *words], base
    return ["--method", method, "--bonus", bonus], {}


def _option(key: str, value: Any) -> Iterator[str]:
    if key.startswith("bonus.options."):
        yield f"--{key}"
        yield value if isinstance(value, str) else json.dumps(value)  # which TOML reads too
        return
    place, _, name = key.replace("_", "-").rpartition(".")
    prefix = f"--{place}." if place else "--"
    if isinstance(value, bool):
        yield f"{prefix}{'' if value else 'no-'}{name}"
        return
    yield f"{prefix}{name}"
    yield from map(str, _listed(value))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]
