"""`offpiste check-world`: check that an environment can be a world."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.output import show_share


@dataclass(frozen=True)
class Arguments:
    """Check an environment of gymnasium, or one of yours, and explain each failure: whether the same seed and actions
    show the same frames, whether it continues identically when it is saved and restored, here and in a new process,
    what its frames show, and how fast it is. Exit code 0: all checks passed; 1: a check failed.
    """

    world: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORLD")]
    """gymnasium:ID, a class or a function of yours as module:World, or the name of any game."""


def main(arguments: Arguments) -> int:
    """Check the world and print the report."""
    from offpiste.worlds.contract import check_world

    report = check_world(arguments.world, show_share if sys.stderr.isatty() else None)
    print(report)
    return 0 if report.passed else 1
