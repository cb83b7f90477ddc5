"""Every error that offpiste raises on purpose.

OffpisteError
├── ConfigError           a setting is unknown, of the wrong type or out of range
├── RunMismatch           the folder holds another run, or one of another RESULTS_VERSION
├── StoreError            an object could not be read or written
├── CheckpointError       checkpoints are missing or broken
├── NotFinite             the loss, a bonus or one of its scalars is not finite; the last checkpoint stays
└── Superseded            a newer attempt at the same run has started; this one stops
"""

import difflib
from collections.abc import Iterable
from typing import Any


class OffpisteError(Exception):
    """An error that its message explains; the command line prints it without a traceback."""


class ConfigError(OffpisteError):
    """A setting is unknown, of the wrong type or out of range."""


class RunMismatch(OffpisteError):
    """The folder holds another run, or one of another RESULTS_VERSION."""


class StoreError(OffpisteError):
    """An object could not be read or written."""


class CheckpointError(OffpisteError):
    """Checkpoints are missing or broken."""


class NotFinite(OffpisteError):
    """The loss, a bonus or one of its scalars is not finite; the last checkpoint stays."""


class Superseded(OffpisteError):
    """A newer attempt at the same run has started; this one stops."""


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return "; did you mean 'rnd'?" for the closest known name, else the list of known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {prefix + close[0]!r}?" if close else f"; known: {', '.join(known)}"


def kind_of(value: Any) -> str:
    """Return the name of a value's type."""
    kind = type(value)
    return "None" if value is None else f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
