"""`offpiste bundle`: write the finished runs of stores as a few small files to publish."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.report import require
from offpiste.errors import ConfigError, printable

_SHOWN = 5


@dataclass(frozen=True)
class Arguments:
    """Write the finished runs of stores as a bundle: a few Parquet files and a manifest, a few megabytes for a
    thousand short runs. Scores, curves, findings and cells are exact; of episodes some are kept, and windows of scalars
    are joined. Unfinished runs are skipped, and listed. `offpiste report` and `offpiste.load` read a bundle
    like a store.
    """

    stores: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="STORE [STORE ...]")]
    """Folders or s3:// URLs that runs were written to, or bundles; of two runs with one name the first is kept."""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")]
    """Folder for the bundle; it must be empty, or hold an older bundle, which is replaced."""


def main(arguments: Arguments) -> int:
    """Write the bundle, and print its size and the runs that were skipped."""
    require("a bundle", ("duckdb", "scipy"))
    if not arguments.stores:
        raise ConfigError("STORE must be given, the folder that runs were written to; see offpiste bundle --help")
    if ":/" in arguments.out:
        raise ConfigError("--out must be a folder on a disk, got a URL; write the bundle to a disk and copy it")
    from offpiste.analysis.bundling import bundle_stores

    made = bundle_stores(arguments.stores, arguments.out)
    for each in made.left_out[:_SHOWN]:
        print(printable(f"skipped: {each.where}: {each.message}"), file=sys.stderr)
    if len(made.left_out) > _SHOWN:
        print(f"skipped: {len(made.left_out) - _SHOWN} more", file=sys.stderr)
    if made.warnings:
        print(f"{len(made.warnings)} warnings from reading the stores; a report on them lists these", file=sys.stderr)
    megabytes = sum(file.bytes for file in made.manifest.files) / 1e6
    runs = len(made.manifest.runs)
    print(f"{arguments.out}: {runs} run{'s' * (runs != 1)}, {len(made.left_out)} skipped; {megabytes:.1f} MB")
    return 0
