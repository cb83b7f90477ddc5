"""What commands return, and what they print of a store: text of a stranger, which a terminal must not obey."""

import sys
from decimal import Decimal

from offpiste.errors import printable

STOPPED_EARLY = 75
"""Exit code of a run that was stopped before its end; the same command resumes it."""


def plain(value: float) -> str:
    """Return a number as people write it: 0.00005, not 5e-05."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def say(text: str) -> None:
    """Print a text that may hold what a store says."""
    print(printable(text), flush=True)


def warn(text: str) -> None:
    """Print a warning or an error, with the name of the program, to standard error."""
    print(f"offpiste: {printable(text)}", file=sys.stderr, flush=True)


def show_share(share: float) -> None:
    """Overwrite the line of progress on standard error, and clear it at the end."""
    print(f"\r{share:4.0%}" if share < 1.0 else "\r\x1b[K", end="", file=sys.stderr, flush=True)
