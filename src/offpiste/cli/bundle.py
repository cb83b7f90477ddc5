"""`offpiste bundle`: write the finished runs of a store as a few small files to publish."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.report import require
from offpiste.errors import ConfigError, printable

_SHOWN = 5


@dataclass(frozen=True)
class Arguments:
    """Write the finished runs of a store as a bundle: a few Parquet files and a manifest, a few megabytes for a
    thousand short runs. Scores, curves, findings and cells are exact; episodes and scalars are thinned. Unfinished runs
    are skipped, and listed. A bundle is read like a store, by `offpiste report` and `offpiste.load`.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to."""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")]
    """Folder for the bundle; it must be empty, or hold an older bundle, which is replaced."""


def main(arguments: Arguments) -> int:
    """Write the bundle, and print its size and the runs that were skipped."""
    require("a bundle", ("duckdb",))
    if ":/" in arguments.out:
        raise ConfigError("--out must be a folder on a disk, got a URL; write the bundle to a disk and copy it")
    from offpiste.analysis.bundling import bundle_store

    made = bundle_store(arguments.store, arguments.out)
    for each in made.left_out[:_SHOWN]:
        print(printable(f"skipped: {each.where}: {each.message}"), file=sys.stderr)
    if len(made.left_out) > _SHOWN:
        print(f"skipped: {len(made.left_out) - _SHOWN} more", file=sys.stderr)
    if made.warnings:
        print(f"{len(made.warnings)} warnings from reading the store; a report on it lists them", file=sys.stderr)
    megabytes = sum(file.bytes for file in made.manifest.files) / 1e6
    runs = len(made.manifest.runs)
    print(f"{arguments.out}: {runs} run{'s' * (runs != 1)}, {len(made.left_out)} skipped; {megabytes:.1f} MB")
    return 0
