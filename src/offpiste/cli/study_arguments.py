"""What the commands below `offpiste study` share: types of arguments, and the log."""

import sys
from datetime import datetime
from typing import Annotated

import tyro

from offpiste.commands import shell_line
from offpiste.errors import printable
from offpiste.store.storage import Folder

File = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")]
Store = Annotated[str, tyro.conf.arg(metavar="URL")]
Flag = tyro.conf.FlagCreatePairsOff[bool]


def asked_to_stop(file: str, store: Folder) -> str:
    """Return a message that a study was asked to stop, with the command that withdraws that."""
    undo = shell_line(["offpiste", "study", "stop", file, "--store", str(store.local_path or store.location), "--undo"])
    return f"the study was asked to stop, so nothing of it begins; `{undo}` withdraws that"


def log(message: str) -> None:
    """Print a message with the time to standard error."""
    print(f"{datetime.now():%H:%M:%S} {printable(message)}", file=sys.stderr, flush=True)
