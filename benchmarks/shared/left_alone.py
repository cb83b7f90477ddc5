"""The runs of a disturbed study once more, without any disturbance, to be compared with it."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from offpiste.config import RunConfig
from offpiste.run.train import train
from offpiste.store.storage import Folder


@contextmanager
def left_alone(runs: Iterable[RunConfig], work: Path) -> Iterator[Callable[[], list[Folder]]]:
    """Train runs below a folder, while the disturbed ones finish; yield what waits for them and returns their folders.

    Runs that lie there already are done.
    """
    # Linux shares a busy machine between sessions, not between processes.
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=os.setsid) as processes:
        trained = [processes.submit(_train, run, work) for run in runs]
        try:
            yield lambda: [one.result() for one in trained]
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise


def _train(run: RunConfig, work: Path) -> Folder:
    folder = Folder(work / str(run.frames) / run.run_id)
    train(replace(run, machine=replace(run.machine, checkpoint_minutes=1_000.0)), folder)
    return folder
