"""What the commands below `offpiste study` share: types of arguments, and the log."""

import sys
from datetime import datetime
from typing import Annotated

import tyro

from offpiste.errors import printable

File = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")]
Store = Annotated[str, tyro.conf.arg(metavar="URL")]
Flag = tyro.conf.FlagCreatePairsOff[bool]


def log(message: str) -> None:
    """Print a message with the time to standard error."""
    print(f"{datetime.now():%H:%M:%S} {printable(message)}", file=sys.stderr, flush=True)
