"""`offpiste study work`: run one part of a study, as a job of a scheduler does."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.cli.output import STOPPED_EARLY, warn
from offpiste.cli.study_arguments import File, Flag, Store, asked_to_stop, log
from offpiste.errors import AccessDenied, ConfigError, MachineError, StoreError
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.parts import part_of
from offpiste.study.plan import load_bonuses, read_study

STUDY_STOPPED = 3
"""Exit code where the study was asked to stop: the part is not to be started again."""
MACHINE_FAILED = 76
"""Exit code where the machine or the store failed: the part may be started again, on another machine."""


@dataclass(frozen=True)
class Work:
    """Run one part of a study on this machine, as a job of your scheduler: N jobs with --part 1/N to N/N run all of it.
    SIGTERM, Ctrl-C and SIGUSR1 let all runs save a checkpoint first. Exit code 0: all runs of the part are done; 1:
    some are quarantined, or an error; 3: the study was asked to stop; 75: interrupted by a signal, or time is up, and
    the same command continues; 76: this machine cannot train, or the store fails.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder or s3:// URL that all parts share; each run gets a folder below it."""
    part: str = "1/1"
    """Which part, as I/N; each run is in exactly one, and sizes differ by at most one."""
    slots: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Runs to train at once; by default, as many as fit on this machine by the study's resources."""
    hours: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Time until this machine is taken away; the runs save before."""
    batch: Flag = False
    """As a part of a batch job: stop with the process that started this one, and refuse a store without the study."""
    file_hash: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None
    """End at once unless the study's file has this hash, as `study slurm` writes it."""
    accept_version: Flag = False
    """Resume runs that were started by a version with other results, or before the file of their bonus was changed."""

    def main(self) -> int:
        """Work, and return the exit code."""
        from offpiste.study import here
        from offpiste.study.child import end_with
        from offpiste.study.driver import Terms

        if self.batch:
            end_with(os.getppid())
        content, part = Path(self.file).read_bytes(), part_of(self.part)
        if self.file_hash not in (None, here.file_hash(content)):
            raise ConfigError(
                f"{self.file} was changed since this job was written; stop the study, and submit it again with "
                "`offpiste study slurm`"
            )
        study, store = load_bonuses(read_study(self.file)), Folder(self.store)
        terms = Terms(self.hours, self.accept_version)
        try:
            if status.stop_requested(store, study.name):
                log(asked_to_stop(self.file, store))
                return STUDY_STOPPED
            copied = None if self.batch else content
            summary = here.run_part(study, copied, self.store, part, self.slots, terms, log)
        except AccessDenied:
            raise
        except (MachineError, StoreError) as error:
            warn(str(error))
            return MACHINE_FAILED
        if summary.reason == "the study was asked to stop":
            log(asked_to_stop(self.file, store))
            return STUDY_STOPPED
        return STOPPED_EARLY if summary.unfinished else int(summary.failed > 0)
