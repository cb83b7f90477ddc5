"""`offpiste study slurm`: write, or submit, the sbatch file of a study."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.cli.study_arguments import File, Flag, Store, asked_to_stop
from offpiste.errors import ConfigError, OffpisteError, printable
from offpiste.store.outputs import replacing
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.marks import read_status
from offpiste.study.parts import parts_left, put_count
from offpiste.study.plan import load_bonuses, read_study


@dataclass(frozen=True)
class Slurm:
    """Write an sbatch file for a study: an array of jobs, each of which runs one part of it (`study work --part`).
    Parts in which nothing is left are not submitted. A job whose time is up lets its runs save and requeues itself; one
    that is cancelled stays cancelled.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder that all nodes share, or s3:// URL; each run gets a folder below it."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Parts into which the study is divided, a job for each; by default, a run for each slot, and 1000 at most."""
    at_once: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Jobs that may run at once; by default, as many as Slurm has room for."""
    time: str = "24:00:00"
    """Time limit of a job, as for sbatch."""
    slots: int = 1
    """Runs that each job trains at once; processors, memory and GPUs follow from the study's resources."""
    sbatch: tuple[str, ...] = ()
    """More options of sbatch, each as --sbatch=--partition=long."""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """The file to write; by default, NAME.sbatch in the current folder."""
    submit: Flag = False
    """Submit it, and withdraw an earlier request to stop the study; if sbatch refuses it, nothing changes."""
    accept_version: Flag = False
    """Resume runs that were started by a version with other results, or before the file of their bonus was changed."""

    def main(self) -> int:
        """Write the file, and submit it if asked to."""
        from offpiste.study.here import file_hash
        from offpiste.study.slurm import JobArray, jobs_of, script

        content = Path(self.file).read_bytes()
        study, store = load_bonuses(read_study(self.file)), Folder(self.store)
        if store.holds_keys:
            raise ConfigError(
                "the store's URL must hold no key, because it is written to a file and a command line; set "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the jobs"
            )
        location = str(store.local_path or store.location)
        found = read_status(store, study, accept_version=self.accept_version)
        failed = [seen for seen in found if seen.state == "failed"]
        if failed:
            print(f"{len(failed)} runs are left out, as {failed[0].run_id}: {printable(failed[0].note)}")
        jobs = jobs_of(study, self.jobs, self.slots)
        left = parts_left(study, found, jobs)
        if not left:
            print("nothing is left to submit")
            return 0
        array = JobArray(jobs, self.slots, self.time, left, self.at_once, self.sbatch)
        path, accept = str(Path(self.file).absolute()), self.accept_version
        text = script(study, array, path, file_hash(content), location, accept_version=accept)
        status.put_file(store, study.name, content)  # so a node sees that it shares the store
        put_count(store, study.name, jobs)
        stopped = status.stop_requested(store, study.name)
        out = Path(self.out or f"{study.name}.sbatch")
        if not self.submit:
            _write(out, text)
            print(f"{out}: submit it with `sbatch {out}`")
            if stopped:
                print(asked_to_stop(self.file, store))
            return 0
        if shutil.which("sbatch") is None:
            raise OffpisteError("there is no sbatch on this machine; leave out --submit, and submit the file elsewhere")
        status.clear_stop(store, study.name)  # before a job begins and sees it
        done = subprocess.run(["sbatch"], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            if stopped:
                status.request_stop(store, study.name)
            raise OffpisteError(f"sbatch refused the job, and {out} was not written: {done.stderr.strip()}")
        _write(out, text)
        print(done.stdout.strip())
        return 0


def _write(out: Path, text: str) -> None:
    with replacing(out.parent) as new:
        (new / out.name).write_text(text)
