"""Every error that offpiste raises on purpose.

OffpisteError
├── ConfigError           a setting is unknown, of the wrong type or out of range
├── RunMismatch           the folder holds another run, or one of another RESULTS_VERSION
├── MachineError          a machine cannot train: a device is missing, code does not load, its own disk is full
├── StoreError            an object could not be read or written
│   ├── AccessDenied      the store answered, and refused
│   └── Damaged           a file of a store is not what it must be
├── CheckpointError       checkpoints are missing or broken
├── NotFinite             the loss, a bonus or one of its scalars is not finite; the last checkpoint stays
├── BonusError            the code of a bonus raised an error, which it would raise again
└── Superseded            a newer attempt at the same run has started; this one stops
"""

import difflib
import re
from collections.abc import Iterable
from typing import Any


class OffpisteError(Exception):
    """An error that its message explains; the command line prints it without a traceback."""


class ConfigError(OffpisteError):
    """A setting is unknown, of the wrong type or out of range."""


class RunMismatch(OffpisteError):
    """The folder holds another run, or one of another RESULTS_VERSION."""


class MachineError(OffpisteError):
    """A machine cannot train, whatever the run: a device is missing, code does not load, its own disk is full."""


class StoreError(OffpisteError):
    """An object could not be read or written."""


class AccessDenied(StoreError):
    """The store answered, and refused."""


class Damaged(StoreError):
    """A file of a store is not what it must be."""


class CheckpointError(OffpisteError):
    """Checkpoints are missing or broken."""


class NotFinite(OffpisteError):
    """The loss, a bonus or one of its scalars is not finite; the last checkpoint stays."""


class BonusError(OffpisteError):
    """The code of a bonus raised an error, its cause, which it would raise again."""


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


def printable(text: str) -> str:
    """Return a text for a terminal: control characters, which could be commands to it, are shown by their codes."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""All but tab and newline; among them those that reorder text, and halves of characters, which cannot be printed."""
