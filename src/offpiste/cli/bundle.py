"""`offpiste bundle`: the finished runs of a store as a few small files, to publish."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.report import refuse_without
from offpiste.errors import ConfigError

_SHOWN = 5


@dataclass(frozen=True)
class Arguments:
    """Write the finished runs of a store as a bundle: a few Parquet files and a manifest, some megabytes for a thousand
    short runs. Scores, curves and findings are exact in it; of episodes and scalars it holds some. `offpiste report`
    and `offpiste.load` read bundles and stores alike. Runs that are not finished are left out, by name.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to."""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")]
    """Folder for the bundle; an older bundle there is replaced, and nothing else ever is."""


def main(arguments: Arguments) -> int:
    """Write the bundle and print how much is in it."""
    refuse_without("a bundle", ("duckdb",))
    if ":/" in arguments.out:
        raise ConfigError("--out is a folder on a disk, not a URL; copy the bundle to its place from there")
    from offpiste.analysis.bundling import bundle_store

    made = bundle_store(arguments.store, arguments.out)
    for each in made.left_out[:_SHOWN]:
        print(f"left out: {each.where}: {each.message}", file=sys.stderr)
    if len(made.left_out) > _SHOWN:
        print(f"left out: {len(made.left_out) - _SHOWN} more", file=sys.stderr)
    if made.warnings:
        print(f"Not read without fault: {len(made.warnings)}, which a report on the store names.", file=sys.stderr)
    megabytes = sum(file.bytes for file in made.manifest.files) / 1e6
    runs = len(made.manifest.runs)
    print(f"{arguments.out}: {runs} run{'s' * (runs != 1)}, {len(made.left_out)} left out; {megabytes:.1f} MB")
    return 0
