"""`offpiste study work`: one worker of a study, wherever it is started."""

import os
from dataclasses import dataclass
from pathlib import Path

from offpiste.cli.output import STOPPED_EARLY
from offpiste.cli.study_arguments import File, Flag, Store, asked_to_stop, log
from offpiste.store.storage import Folder
from offpiste.study.plan import load_bonuses, read_study

STUDY_STOPPED = 3
"""Exit code of a worker whose study was asked to stop: it is not to be started again."""


@dataclass(frozen=True)
class Work:
    """Work on a study: claim runs that nobody works on, and train them, until none is left. Start as many workers as
    you like, on any machines that share the store; a scheduler may end them at any time. SIGTERM, Ctrl-C and SIGUSR1
    let all runs save a checkpoint first. Exit code 0: nothing is left to do here; 1: the same, and some runs are
    quarantined, or an error, as of a store that refuses or has failed for an hour; 3: the study was asked to stop;
    75: interrupted by a signal, or time is up, and the same command resumes it.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder or s3:// URL that all workers share; each run gets a folder below it."""
    slots: int | None = None
    """Runs to train at once; by default, as many as fit on this machine by the study's resources."""
    hours: float | None = None
    """Time until this machine is taken away; the runs save before."""
    batch: Flag = False
    """As a part of a batch job: stop if the process that started this worker ends, and refuse a store that does not
    know the study, as a folder does that this machine does not share."""
    accept_version: Flag = False
    """Resume runs that were started by a version with other results, or before the file of their bonus was changed."""

    def main(self) -> int:
        """Work, and return the exit code."""
        from offpiste.study.child import end_with
        from offpiste.study.here import run_worker
        from offpiste.study.worker import Terms

        if self.batch:
            end_with(os.getppid())
        study = load_bonuses(read_study(self.file))
        terms = Terms(self.slots, self.hours, share_of(os.environ), accept_version=self.accept_version)
        content = None if self.batch else Path(self.file).read_bytes()
        summary, reason = run_worker(study, content, self.store, terms, log)
        if reason == "the study was asked to stop":
            log(asked_to_stop(self.file, Folder(self.store)))
            return STUDY_STOPPED
        if reason in ("interrupted by a signal", "time is up"):
            return STOPPED_EARLY if summary.unfinished else int(summary.failed > 0)
        return int(summary.failed > 0)


def share_of(environment: "os._Environ[str] | dict[str, str]") -> tuple[int, int] | None:
    """Return the index of this worker and the number of workers, if it is a task of a Slurm array."""
    try:
        first, count = int(environment["SLURM_ARRAY_TASK_MIN"]), int(environment["SLURM_ARRAY_TASK_COUNT"])
        return int(environment["SLURM_ARRAY_TASK_ID"]) - first, count
    except (KeyError, ValueError):
        return None
