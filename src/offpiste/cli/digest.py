"""`offpiste digest`: print the digest of a run."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.output import warn
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class Arguments:
    """Print one hash over a run's newest checkpoint: the same however often the run was interrupted."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder or s3:// URL of the run."""


def main(arguments: Arguments) -> int:
    """Print the digest."""
    from offpiste.run.digest import digest

    print(digest(Folder(arguments.run), warn))
    return 0
