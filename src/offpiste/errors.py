"""Every error that offpiste raises on purpose.

OffpisteError
├── ConfigError           a setting is unknown, of the wrong kind or out of range
├── RunMismatch           the folder holds another run, or one made by a version with other results
├── StoreError            an object could not be read or written
├── CheckpointError       checkpoints exist, but none of them is whole
├── NotFinite             loss, bonus or a number that it logs is not finite; the last good checkpoint is untouched
└── Superseded            a newer attempt at the same run has started; this one must stop
"""

import difflib
from collections.abc import Iterable
from typing import Any


class OffpisteError(Exception):
    """Something went wrong that the message explains; the command line prints it without a traceback."""


class ConfigError(OffpisteError):
    """A setting is unknown, of the wrong kind or out of range."""


class RunMismatch(OffpisteError):
    """The folder holds another run than the one asked for."""


class StoreError(OffpisteError):
    """An object could not be read or written."""


class CheckpointError(OffpisteError):
    """Checkpoints exist, but none of them is whole."""


class NotFinite(OffpisteError):
    """Loss, bonus or a number that it logs is not finite; the last good checkpoint is untouched."""


class Superseded(OffpisteError):
    """A newer attempt at the same run has started."""


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return "; did you mean 'rnd'?" for the closest known name, else a list of what is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {prefix + close[0]!r}?" if close else f"; known: {', '.join(known)}"


def kind_of(value: Any) -> str:
    """Return the name of a value's class."""
    kind = type(value)
    return "None" if value is None else f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
