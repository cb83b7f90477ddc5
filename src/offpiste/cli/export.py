"""`offpiste export`: write the records of a store for another tool."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from offpiste.cli.output import say
from offpiste.cli.report import require
from offpiste.store.outputs import refuse_link


@dataclass(frozen=True)
class Arguments:
    """Write the curves of every run in a store for another tool: CSV files, TensorBoard's event files, or runs of
    Weights & Biases. They come from the records, so it works after the fact and on any machine. Weights & Biases is
    used offline, for `wandb sync` to upload later, unless WANDB_MODE is online.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to, or a bundle."""
    to: Literal["csv", "tensorboard", "wandb"]
    """The tool."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("export")
    """Folder to write to."""


def main(arguments: Arguments) -> int:
    """Export the runs, and print what was written."""
    require("an export", ("duckdb", "scipy"))
    if arguments.to == "wandb":
        require("an export to Weights & Biases", ("wandb",), extra="wandb")
    from offpiste.analysis.results import load
    from offpiste.report.export import TARGETS

    if arguments.out == Arguments.out:
        refuse_link(arguments.out)
    results = load(arguments.store)
    for written in TARGETS[arguments.to](results, arguments.out):
        say(written)
    if results.warnings:
        print(f"{len(results.warnings)} warnings from reading the store; a report on it lists them", file=sys.stderr)
    if arguments.to == "wandb":
        # From home, since it takes settings, such as who gets the key, from the current folder: maybe a stranger's.
        folder = shlex.quote(str(arguments.out.absolute()))
        print(f"to upload them:  cd && wandb sync {folder}/wandb/offline-run-*")
    return 0
