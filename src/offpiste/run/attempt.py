"""One attempt at a run, in this process: what `offpiste train` and the processes of a study call."""

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from offpiste.config import RunConfig
from offpiste.run.stopping import stop_on_signals
from offpiste.store.storage import Folder

if TYPE_CHECKING:
    from offpiste.run.progress import Progress


def attempt(
    run: RunConfig, folder: Folder, report: Callable[["Progress"], None], *, accept_version: bool = False
) -> "Progress":
    """Train or resume a run until it is finished or stopped; return its last progress, which was reported, too."""
    with stop_on_signals():  # before torch is imported, which takes seconds
        keep_compiled_code_on_this_machine()
        from offpiste.run.train import train

        last = train(run, folder, report, accept_version=accept_version)
        report(last)
    return last


def keep_compiled_code_on_this_machine() -> None:
    """Set numba's cache to a local disk: a home folder may be shared by machines with other processors."""
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    folder = Path(tempfile.gettempdir()) / f"offpiste-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)  # only if no other user can put code there
