"""Find the run folders of a store, on a disk or in an object store, and open them.

A run that is under way is there too, from its newest checkpoint, and marked. Whatever cannot be read becomes a warning
with the name of the run: nothing fails because of one bad file, and nothing is left out in silence.
"""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from offpiste.analysis import reference
from offpiste.analysis.runs import UNUSABLE, LoadWarning, Run, run_of
from offpiste.analysis.sources import Opened, Source
from offpiste.analysis.tables import THREADS
from offpiste.errors import OffpisteError, StoreError
from offpiste.store import layout
from offpiste.store.records import TABLES
from offpiste.store.run_folder import finished_frames, finished_tables
from offpiste.store.storage import Folder

_PARTS_OF_A_RUN = {
    layout.ATTEMPTS,
    layout.MANIFESTS,
    layout.OBJECTS,
    layout.FINISHED_TABLES,
    layout.STATUS,
    *map(layout.table_file, TABLES),
}


def read(root: Folder, named: Callable[[str], str]) -> Opened:
    """Return what a store holds; `named` gives the name by which a run is known from its folder below the store."""
    warnings: list[LoadWarning] = []
    with ThreadPoolExecutor(THREADS) as pool:
        paths = _find_runs(root, named, warnings, pool)
        found = list(pool.map(lambda path: _open_run(root, path, named(path or ".")), paths))
    opened = [pair for pair in found if not isinstance(pair, LoadWarning)]
    warnings += [pair for pair in found if isinstance(pair, LoadWarning)]
    published = list(_read_published(root, named, warnings))
    sources = {run.name: source for run, source in opened}
    return Opened(root.location, [run for run, _ in opened], warnings, sources, published)


def _find_runs(
    root: Folder, named: Callable[[str], str], warnings: list[LoadWarning], pool: ThreadPoolExecutor
) -> list[str]:
    """Return the run folders below a folder, level by level."""
    runs: list[str] = []
    level = [""]
    while level:
        following: list[str] = []
        for name, (files, folders) in zip(level, pool.map(root.entries, level), strict=True):
            if layout.RUN in files:
                runs.append(name)
            elif layout.BUNDLE in files:
                what = "a bundle, which is read only where it is named itself, as with --beside"
                warnings.append(LoadWarning("bundle in a store", named(name), what))
            elif _PARTS_OF_A_RUN & {*files, *folders}:
                what = "a run folder without run.json: half written, or half deleted"
                warnings.append(LoadWarning("missing run.json", named(name) if name else root.location, what))
            else:
                inner = (folder for folder in folders if not folder.startswith("."))
                following += [f"{name}/{folder}".lstrip("/") for folder in inner if name or folder != reference.FOLDER]
        level = following
    return sorted(runs)


def _open_run(root: Folder, path: str, name: str) -> tuple[Run, Source] | LoadWarning:
    folder = root.below(path) if path else root
    try:
        files = folder.list()
        data, status_data = folder.get(layout.RUN), folder.get(layout.STATUS)
        finished = finished_frames(files)
        tables = finished_tables(folder, finished) if finished >= 0 else {}
    except StoreError as error:
        return LoadWarning("not readable", name, str(error))
    try:
        run = run_of(name, root.location, json.loads(data or b""))
    except UNUSABLE as error:
        return LoadWarning("damaged run.json", name, f"it does not tell what the run is ({error!r})")
    try:
        status = json.loads(status_data or b"{}")
        run = replace(run, target_frames=int(status.get("target_frames", run.target_frames)), state=status["state"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # a watcher's file, which may be torn; what it tells is in the records too
    if finished >= run.target_frames:
        run = replace(run, target_frames=finished, state="finished")
    else:
        tables = {}  # it has been resumed since, towards more frames
    current = {table: layout.table_file(table) for table in TABLES if layout.table_file(table) in files}
    return run, Source(name, folder, current | tables, run.state)


def _read_published(
    root: Folder, named: Callable[[str], str], warnings: list[LoadWarning]
) -> Iterable[reference.Published]:
    for name in root.list(reference.FOLDER):
        try:
            yield reference.from_json(root.get(f"{reference.FOLDER}/{name}") or b"")
        except (ValueError, KeyError, TypeError, OffpisteError) as error:
            warnings.append(LoadWarning("damaged import", named(f"{reference.FOLDER}/{name}"), str(error)))
