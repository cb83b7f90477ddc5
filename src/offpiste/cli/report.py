"""`offpiste report`: write a report on the runs of stores and bundles."""

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.cli.output import say
from offpiste.errors import ConfigError, OffpisteError
from offpiste.store.outputs import refuse_link

NEEDED = ("duckdb", "jinja2", "matplotlib", "scipy")


@dataclass(frozen=True)
class Arguments:
    """Write a report on all runs below a folder: a self-contained index.html, a page for each run, figures as PDF and
    PNG, tables as CSV. Unfinished runs are included, and marked; runs that were not made alike are shown, but not
    compared.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to, or a bundle."""
    beside: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STORE [STORE ...]")] = ()
    """More stores and bundles, also a bundle's https:// address; of a run that several hold, the first is used."""
    out: str = "report"
    """Folder for the report; an older report there is overwritten."""
    frames: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Compare runs at this frame instead of at the end of the longest complete run."""
    about: Annotated[str, tyro.conf.arg(metavar="METHOD")] = ""
    """Begin with this method: its verdict, its tuning, and its curves and maps beside those that matter to it."""
    allow_mixed: tyro.conf.FlagCreatePairsOff[bool] = False
    """Pool runs whose settings differ, and list the differences; otherwise each method is shown by itself."""
    world: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORLD [WORLD ...]")] = ()
    """Worlds of yours whose declared returns the report is to use, as module:World; their code is imported."""


def main(arguments: Arguments) -> int:
    """Write the report and print its verdict."""
    require("a report", NEEDED)
    if arguments.frames is not None and arguments.frames < 1:
        raise ConfigError(f"--frames must be > 0, got {arguments.frames}")
    if ":/" in arguments.out:
        raise ConfigError("--out must be a folder on a disk, got a URL; write the report to a disk and copy it")
    if arguments.out == Arguments.out:
        refuse_link(Path(arguments.out))
    from offpiste.report.page import build
    from offpiste.worlds.registry import load

    for name in arguments.world:
        load(name)
    report = build(
        arguments.store,
        arguments.out,
        beside=arguments.beside,
        allow_mixed=arguments.allow_mixed,
        frames=arguments.frames,
        about=arguments.about,
    )
    say(" ".join(report.lead))
    if report.notes:
        print(f"The report lists {len(report.notes)} caveat{'s' * (len(report.notes) != 1)}.", file=sys.stderr)
    print(report.page)
    return 0


def require(what: str, modules: Sequence[str], extra: str = "report") -> None:
    """Raise OffpisteError, with what to install, if modules of an extra are missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise OffpisteError(f"{what} needs {', '.join(missing)}; install with: pip install 'offpiste[{extra}]'")
