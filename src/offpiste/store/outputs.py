"""Files that a command writes for people, such as a report: made in a new folder, then moved to where they belong.

The current folder may be a stranger's store, in which the name of an output is a link to a file of ours.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from offpiste.errors import StoreError
from offpiste.store.disk import UNFINISHED


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; without an error, its files then replace those of the same names in the given folder.

    A file there that is a link is replaced and not followed; a folder in it that is a link is refused.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", suffix=UNFINISHED, dir=folder) as name:
            new = Path(name).absolute()
            yield new
            found = [(folder / Path(path).relative_to(new), Path(path), files) for path, _, files in os.walk(new)]
            for target, _, _ in found[1:]:
                refuse_link(target)
            for target, path, files in found:
                target.mkdir(exist_ok=True)
                for file in files:
                    (path / file).replace(target / file)
    except OSError as error:
        raise StoreError(f"cannot write to {folder} ({error}); may you write there?") from error


def refuse_link(folder: Path) -> None:
    """Raise StoreError if a folder that nobody named is a link: what it leads to may be no place for outputs."""
    if folder.is_symlink():
        raise StoreError(
            f"{folder} must be a folder, and is a link to {folder.readlink()}, which was not followed; delete the "
            "link, or give another folder by --out"
        )
