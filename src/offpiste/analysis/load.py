"""Read the runs of stores and bundles, on a disk or in an object store, one or several at once."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

from offpiste.analysis import bundles, stores
from offpiste.analysis.reference import Published
from offpiste.analysis.results import Results
from offpiste.analysis.sources import Opened
from offpiste.errors import StoreError
from offpiste.store.bundle import open_bundle
from offpiste.store.storage import Folder
from offpiste.worlds.registry import SUITE_VERSION


def load(store: str | Path | Folder, *beside: str | Path | Folder) -> Results:
    """Read all runs below a folder or URL, finished or not, and what was imported into it; or those of a bundle.

    Other stores and bundles may be read beside it: the names of their runs begin with their location. The column
    `store` has the location of every run. Where several hold the same run, that of the first of them is kept.
    """
    roots = [each if isinstance(each, Folder) else Folder(each) for each in (store, *beside)]
    opened = [_open(roots[0], lambda name: name), *(_open(root, _located(root)) for root in roots[1:])]
    _refuse_overlap([root for root, each in zip(roots, opened, strict=True) if not each.bundle])
    for names in ([each.location for each in opened], [run.name for each in opened for run in each.runs]):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise StoreError(f"{twice[0]} would be read twice; name each store and each bundle once")
    published: list[Published] = []
    for found in (found for each in opened for found in each.published):
        published += [found] * (found not in published)  # the same file, imported into two stores
    return Results(
        [run for each in opened for run in each.runs],
        {name: source for each in opened for name, source in each.sources.items()},
        [each.bundle for each in opened if each.bundle],
        published,
        [warning for each in opened for warning in each.warnings],
        {each.location: "bundle" if each.bundle else "store" for each in opened},
    )


def _open(root: Folder, named: Callable[[str], str]) -> Opened:
    bundle = open_bundle(root, SUITE_VERSION)
    opened = stores.read(root, named) if bundle is None else bundles.read(bundle, named)
    if not opened.runs and not opened.published and not opened.warnings:
        raise StoreError(f"there is no run below {root.location}; is it the folder that runs were written to?")
    return opened


def _refuse_overlap(stores: Sequence[Folder]) -> None:
    """Refuse a store on a disk that lies in another: its runs are read with that one."""
    paths = {store.location: store.local_path.resolve() for store in stores if store.local_path is not None}
    for (outer, path), (inner, below) in permutations(paths.items(), 2):
        if below.is_relative_to(path):
            raise StoreError(f"{inner} lies in {outer} and would be read twice; leave one of them out")


def _located(root: Folder) -> Callable[[str], str]:
    """Return how the runs of a store are named that is read beside another."""
    return lambda name: root.location if name == "." else root.below(name).location
