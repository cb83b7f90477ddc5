"""`offpiste verify`: compare a store or a bundle with its checksums."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.output import say, warn
from offpiste.errors import OffpisteError, StoreError
from offpiste.store.bundle import open_bundle
from offpiste.store.finding import find_runs
from offpiste.store.storage import Folder
from offpiste.store.verify import Verified, verify_run

_READERS = 4  # each holds an object at a time
_NO_DAMAGE = ("bundle in a store",)


@dataclass(frozen=True)
class Arguments:
    """Read all that a store holds and compare it with its checksums: run.json, both checkpoints and the tables of every
    run, and imported curves; or the files of a bundle. Exit code 0: all is whole; 1: something is damaged or
    missing.
    """

    store: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """Folder or s3:// URL that runs were written to, the folder of one run, or a bundle."""


def main(arguments: Arguments) -> int:
    """Print what is damaged, and return 1 if anything is."""
    from offpiste.analysis.reference import read_imported

    store = Folder(arguments.store)
    bundle = open_bundle(store)
    if bundle is not None:
        for table in bundle.tables:
            bundle.rows(table)  # raises StoreError
        say(f"{store.location}: a bundle of {len(bundle.manifest.runs)} runs, whole")
        return 0
    with ThreadPoolExecutor(_READERS) as pool:
        names, skipped = find_runs(store, pool)
        lost = [each for each in skipped if each.kind not in _NO_DAMAGE]
        if not names and not lost:
            raise StoreError(f"there is no run below {store.location}; is it the folder that runs were written to?")
        found = list(pool.map(lambda name: _verify(store, name), names))
    for each in lost:
        warn(f"{each.path or '.'}: {each.message}")
    for name, verified in zip(names, found, strict=True):
        for damage in verified.damage:
            warn(f"{name or '.'}: {damage}")
    _, wrong = read_imported(store)
    for name, message in wrong.items():
        warn(f"{name}: {message}")
    damaged = len(lost) + len(wrong) + sum(bool(verified.damage) for verified in found)
    files, size = sum(verified.files for verified in found), sum(verified.bytes for verified in found)
    verdict = f"{damaged:,} damaged" if damaged else "all whole"
    say(f"{len(names) + len(lost):,} runs: {verdict}; {files:,} files, {size / 1e9:.2f} GB")
    if damaged:
        warn(
            "training a run again writes damaged tables, marks and status.json anew, if its checkpoint is whole and "
            "has its replay; restore what else is damaged from a backup"
        )
    return 1 if damaged else 0


def _verify(store: Folder, name: str) -> Verified:
    try:
        return verify_run(store.below(name) if name else store)
    except OffpisteError as error:
        return Verified(damage=[str(error)])
