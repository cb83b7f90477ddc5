"""Open the run folders of a store, on a disk or in an object store.

A run that is under way is there too, from its newest checkpoint, and marked. Whatever cannot be read becomes a warning
with the name of the run: nothing fails because of one bad file, and nothing is left out in silence.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from offpiste.analysis import reference
from offpiste.analysis.runs import LoadWarning, Run, run_of
from offpiste.analysis.sources import Opened, Source
from offpiste.analysis.tables import THREADS
from offpiste.errors import Damaged, StoreError
from offpiste.rows import TABLES
from offpiste.store import layout
from offpiste.store.documents import StoredStatus, read_run, read_status
from offpiste.store.finding import find_runs
from offpiste.store.run_folder import TableFile, finished_frames, finished_tables
from offpiste.store.storage import Folder


def read(root: Folder, named: Callable[[str], str]) -> Opened:
    """Return what a store holds; `named` gives the name by which a run is known from its folder below the store."""
    with ThreadPoolExecutor(THREADS) as pool:
        paths, skipped = find_runs(root, pool)
        found = list(pool.map(lambda path: _open_run(root, path, named(path or ".")), paths))
    opened = [pair for pair, _ in found if pair is not None]
    warnings = [
        LoadWarning(each.kind, named(each.path) if each.path else root.location, each.message) for each in skipped
    ]
    warnings += [warning for _, noted in found for warning in noted]
    published, unread = reference.read_imported(root)
    warnings += [LoadWarning("damaged import", named(name), message) for name, message in unread.items()]
    sources = {run.name: source for run, source in opened}
    return Opened(root.location, [run for run, _ in opened], warnings, sources, published)


def _open_run(root: Folder, path: str, name: str) -> tuple[tuple[Run, Source] | None, list[LoadWarning]]:
    folder = root.below(path) if path else root
    warnings: list[LoadWarning] = []
    try:
        files = folder.list()
        stored = read_run(folder)
        if stored is None:
            raise Damaged(f"{layout.RUN} is gone")
        run = run_of(name, root.location, stored)
        usable = _usable_status(folder, stored.identity, name, warnings)
        finished = finished_frames(files)
        tables: dict[str, TableFile] = {}
        if finished >= 0:
            tables = _usable_tables(folder, stored.identity, finished, name, warnings)
    except Damaged as error:
        return None, [LoadWarning("damaged run.json", name, str(error))]
    except StoreError as error:
        return None, [LoadWarning("not readable", name, str(error))]
    status = usable or StoredStatus()
    if status.state:
        target = run.target_frames if status.target_frames is None else status.target_frames
        run = replace(run, target_frames=target, state=status.state)
    if finished >= run.target_frames:
        run = replace(run, target_frames=finished, state="finished")
    else:
        tables = {}  # it has been resumed since, towards more frames
    sums = status.tables or {}
    current = {
        table: TableFile(file, sums.get(file)) for table in TABLES if (file := layout.table_file(table)) in files
    }
    # Without a status nothing says that the other tables are those of this run, so its checkpoint comes first.
    return (run, Source(name, folder, current | tables, run.state if usable or tables else "unknown")), warnings


def _usable_status(
    folder: Folder, identity: Mapping[str, str], name: str, warnings: list[LoadWarning]
) -> StoredStatus | None:
    try:
        return read_status(folder, identity)
    except Damaged as error:  # a watcher's file; what it says is in the records too
        warnings.append(LoadWarning("damaged status.json", name, str(error)))
        return None


def _usable_tables(
    folder: Folder, identity: Mapping[str, str], finished: int, name: str, warnings: list[LoadWarning]
) -> dict[str, TableFile]:
    try:
        return finished_tables(folder, finished, identity)
    except Damaged as error:
        warnings.append(LoadWarning("damaged mark", name, str(error)))
        return {}
