"""`offpiste report`: what the runs of stores and bundles show, as one page."""

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.errors import ConfigError, OffpisteError

NEEDED = ("duckdb", "jinja2", "matplotlib", "scipy")


@dataclass(frozen=True)
class Arguments:
    """Write a report on all runs below a folder: index.html, which needs nothing else, figures as PDF and PNG, tables
    as CSV. Runs that are not finished are there too, and marked.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to, or a bundle."""
    beside: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STORE [STORE ...]")] = ()
    """Other stores and bundles, whose runs are in the report too. Of runs that several hold, those of the first are
    kept."""
    out: str = "report"
    """Folder for the report; an older report there is written over."""
    frames: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Compare runs at this frame instead of at the end of the longest complete one."""
    allow_mixed: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take runs together whose settings differ; the report says in what."""


def main(arguments: Arguments) -> int:
    """Write the report and print its verdict."""
    refuse_without("a report", NEEDED)
    if arguments.frames is not None and arguments.frames < 1:
        raise ConfigError(f"--frames is above 0, not {arguments.frames}")
    if ":/" in arguments.out:
        raise ConfigError("--out is a folder on a disk, not a URL; copy the report to its place from there")
    from offpiste.report.page import build

    report = build(
        arguments.store,
        arguments.out,
        beside=arguments.beside,
        allow_mixed=arguments.allow_mixed,
        frames=arguments.frames,
    )
    print(" ".join(report.lead))
    if report.notes:
        print(f"The report names {len(report.notes)} weak points.", file=sys.stderr)
    print(report.page)
    return 0


def refuse_without(what: str, modules: Sequence[str]) -> None:
    """Raise, with what to install, where modules of the extra `report` are missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise OffpisteError(f"{what} needs {', '.join(missing)}; install them with: pip install 'offpiste[report]'")
