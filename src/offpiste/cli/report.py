"""`offpiste report`: what the runs of a store show, as one page."""

import importlib.util
import sys
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
    """Folder or s3:// URL that runs were written to."""
    out: str = "report"
    """Folder for the report; an older report there is written over."""
    frames: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Compare runs at this frame instead of at the end of the longest complete one."""
    allow_mixed: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take runs together whose settings differ; the report says in what."""


def main(arguments: Arguments) -> int:
    """Write the report and print its verdict."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OffpisteError(f"a report needs {', '.join(missing)}; install them with: pip install 'offpiste[report]'")
    if arguments.frames is not None and arguments.frames < 1:
        raise ConfigError(f"--frames is above 0, not {arguments.frames}")
    if ":/" in arguments.out:
        raise ConfigError("--out is a folder on a disk, not a URL; copy the report to its place from there")
    from offpiste.report.page import build

    report = build(arguments.store, arguments.out, allow_mixed=arguments.allow_mixed, frames=arguments.frames)
    print(" ".join(report.lead))
    if report.notes:
        print(f"The report names {len(report.notes)} weak points.", file=sys.stderr)
    print(report.page)
    return 0
