"""Find the run folders of a store, level by level. Links are followed, but never to a folder that was read already."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from offpiste.errors import StoreError
from offpiste.rows import TABLES
from offpiste.store import layout
from offpiste.store.documents import RUN_NAME
from offpiste.store.storage import NO_NAME, Folder

MAX_LEVELS = 32
"""Of folders, from a store to its runs."""
_PARTS_OF_A_RUN = {
    layout.ATTEMPTS,
    layout.MANIFESTS,
    layout.OBJECTS,
    layout.FINISHED_TABLES,
    layout.STATUS,
    layout.CHECKPOINTED,
    *map(layout.table_file, TABLES),
}


@dataclass(frozen=True)
class SkippedFolder:
    """A folder that should hold runs, but holds none that can be read."""

    kind: str
    """missing run.json, bundle in a store, not readable or folder not read."""
    path: str
    """Below the store; empty for the store itself."""
    message: str


def find_runs(root: Folder, pool: ThreadPoolExecutor) -> tuple[list[str], list[SkippedFolder]]:
    """Return the run folders below a folder, sorted, and what was skipped."""
    runs: list[str] = []
    skipped: list[SkippedFolder] = []
    level, seen = [""], _Seen(root)
    for _ in range(MAX_LEVELS):
        following: list[str] = []
        for name, found in zip(level, pool.map(lambda name: _entries(root, name), level), strict=True):
            if isinstance(found, SkippedFolder):
                skipped.append(found)
            elif layout.RUN in found[0]:
                wrong = RUN_NAME.requirement(name or ".")
                if wrong:
                    skipped.append(
                        SkippedFolder("folder not read", name, f"the name of a run must be {wrong}; rename it")
                    )
                else:
                    runs.append(name)
            elif layout.BUNDLE in found[0]:
                what = "a bundle, which is read only where it is named itself, as with --beside"
                skipped.append(SkippedFolder("bundle in a store", name, what))
            elif layout.DISCARDED not in found[0] and len(_PARTS_OF_A_RUN & {*found[0], *found[1]}) > 1:
                what = "a run folder without run.json: half written, or half deleted"
                skipped.append(SkippedFolder("missing run.json", name, what))
            else:
                if NO_NAME in found[1]:
                    what = "it holds a folder whose name is not UTF-8; rename it"
                    skipped.append(SkippedFolder("folder not read", name, what))
                following += [path for path in _below(name, found[1]) if not seen.before(path)]
        level = following
    if level:
        what = f"folders must be nested <= {MAX_LEVELS} deep; what is below was not read"
        skipped.append(SkippedFolder("folder not read", level[0], what))
    return sorted(runs), skipped


class _Seen:
    """The folders of a store on a disk that links lead to."""

    def __init__(self, root: Folder) -> None:
        self._root = root.local_path
        self._folders = set() if self._root is None else {self._root.resolve()}

    def before(self, name: str) -> bool:
        """Return whether this is a link to a folder that holds it, that another link leads to, or of this store."""
        if self._root is None or not (path := self._root / name).is_symlink():
            return False
        target, inside = path.resolve(), path.parent.resolve()
        if target in self._folders or inside.is_relative_to(target) or _is_read(self._root.resolve(), target):
            return True
        self._folders.add(target)
        return False


def _is_read(root: Path, target: Path) -> bool:
    """Return whether a folder lies in a store where it is found without a link."""
    return target.is_relative_to(root) and not any(part.startswith(".") for part in target.relative_to(root).parts)


def _below(name: str, folders: list[str]) -> Iterator[str]:
    for folder in folders:
        if not folder.startswith((".", NO_NAME)) and (name or folder != layout.PUBLISHED):
            yield f"{name}/{folder}".lstrip("/")


def _entries(root: Folder, name: str) -> tuple[list[str], list[str]] | SkippedFolder:
    try:
        return root.entries(name)
    except StoreError as error:
        if not name:
            raise
        return SkippedFolder("not readable", name, str(error))
