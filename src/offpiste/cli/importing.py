"""`offpiste import`: import published results into a store, so that reports show them beside its runs."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from offpiste.errors import ConfigError
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class Arguments:
    """Import published training curves into a store: offpiste import dopamine FILE… --store STORE. Dopamine keeps them
    in baselines/atari/data, one JSON file per game. Reports draw them in grey and never pool them with runs.
    """

    source: Annotated[Literal["dopamine"], tyro.conf.Positional]
    """The format of the files."""
    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The files as published, named after their games."""
    store: Annotated[str, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to."""
    agent: str = "Rainbow"
    """Which agent of the files to import."""


def main(arguments: Arguments) -> int:
    """Read all files, then write their curves into the store."""
    from offpiste.analysis.reference import import_dopamine

    if not arguments.files:
        raise ConfigError("FILE must be at least one file, got none; give the files to import, such as freeway.json")
    for found in import_dopamine(arguments.files, Folder(arguments.store), arguments.agent):
        runs, iterations = len(found.returns), len(found.returns[0])
        print(f"{found.game}: {found.series}, {runs} runs of {iterations} iterations, fingerprint {found.fingerprint}")
    return 0
