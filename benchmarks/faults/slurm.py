"""A study under a real Slurm that takes its jobs away in every way it knows ends as if nothing had happened.

A Slurm of three nodes on this machine trains 12 small runs by `offpiste study slurm`, in twelve parts of which three
run at once, in turn into a folder and into a real Ceph object gateway. Meanwhile: scancel, and sbatch again; Slurm's
warning before a time limit that is shorter than a run, and the limit itself; `scontrol requeue`; preemption by a higher
partition; slurmd killed with SIGKILL, so that a job starts again beside its old processes; SIGKILL of a driver and of a
batch shell; a study's file that is changed under its jobs. Every digest must equal that of the same run left alone; no
more than three jobs run at once; no process may survive; what is cancelled stays cancelled, and what is finished is not
trained again. Needs root and Debian's packages of Slurm (and of Ceph).
"""

import argparse
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.shared.left_alone import left_alone
from benchmarks.shared.slurm_cluster import SlurmCluster
from benchmarks.shared.small_study import settings
from benchmarks.shared.step_counter import counting_environment, steps_computed
from offpiste.run.digest import digest
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import Study, read_study

STUDY = """
games = ["freeway", "deep_sea_6"]
methods = ["epsilon_greedy", "cts"]
seeds = [0, 1, 2]
frames = {frames}
keep = "all"
resources = {{ cpus = 1, memory_gb = 0.5 }}
"""
CHECKPOINT_MINUTES, LAST_CHECKPOINT_MINUTES = 0.1, 1.0
"""While the study is disturbed, and after that, when on a busy machine little but checkpoints would be made."""
FRAMES = 1_600
"""To begin with; later four times as many, and more."""
JOBS, AT_ONCE = 12, 3
MIN_STARTS = 8
"""Of jobs that are warned, to see in which order Slurm resumes them."""
MAX_SECONDS = 3_600
MARKER = "OFFPISTE_SLURM_BENCHMARK"


def main() -> int:
    """Let everything happen and return 0 if nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="on a folder only")
    parser.add_argument("--store", choices=("folder", "ceph"), action="append", help="default: both")
    parser.add_argument("--frames", type=int, default=FRAMES, help="of the runs to begin with; fewer on a busy machine")
    options = parser.parse_args()
    good = True
    for kind in options.store or (("folder",) if options.quick else ("folder", "ceph")):
        work = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        try:
            with store_of(kind, work) as location, SlurmCluster(work / "cluster") as cluster:
                scenario = Scenario(cluster, work, location, options.frames)
                scenario.run()
                good &= scenario.compare(kind)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    print("every run as if left alone" if good else "FAIL")
    return 0 if good else 1


@contextlib.contextmanager
def store_of(kind: str, work: Path) -> Iterator[str]:
    """Yield the location of an empty store."""
    if kind == "folder":
        yield str(work / "store")
        return
    from benchmarks.shared.ceph_gateway import ceph_gateway

    with ceph_gateway(work / "ceph") as location:
        yield location


class Scenario:
    """One study, and what it goes through."""

    def __init__(self, cluster: SlurmCluster, work: Path, location: str, frames: int) -> None:
        self._cluster, self._work, self._location = cluster, work, location
        self._file, self._store = work / "small.toml", Folder(location)
        self._frames, self._more_frames, self._checkpoint_minutes = frames, frames // 2, CHECKPOINT_MINUTES
        self._alone: list[Folder] = []
        """The same runs, left alone."""
        self._write()
        self._token = secrets.token_hex(8)
        self._environment = cluster.environment | counting_environment(work / "steps") | {MARKER: self._token}
        self._start = time.monotonic()

    def _write(self) -> None:
        self._file.write_text(STUDY.format(frames=self._frames) + settings(self._checkpoint_minutes))

    @property
    def _study(self) -> Study:
        return read_study(self._file)

    def run(self) -> None:
        """Let everything happen in turn, then let the study finish."""
        self._three_at_once_then_cancelled()
        self._limit()
        self._warning()
        steady = self._submit()
        self._requeue(steady)
        self._preempt()
        self._lose_a_node()
        self._kill("driver")
        self._kill("shell")
        self._change_the_file()
        self._finish()
        self._submit_once_more()

    # What happens

    def _three_at_once_then_cancelled(self) -> None:
        job = self._submit()
        self._wait_for("three jobs at once", lambda: len(self._running()) == AT_ONCE)
        self._wait_for_progress()
        self._cancel(job)
        time.sleep(5.0)
        assert not self._cluster.jobs(), "cancelled jobs came back"
        self._say("twelve parts, three at once; scancel: no job came back, and no process is left")

    def _limit(self) -> None:
        self._frames *= 4  # longer than the limit
        self._write()
        job = self._submit("1", unwarned=True)
        self._wait_for("the time limit itself", lambda: "interrupted by a signal" in self._log(job), resubmit=False)
        self._cancel(job)
        self._say("a job met its time limit: its run saved, and it did not come back")

    def _warning(self) -> None:
        job = self._submit("1")

        def again() -> bool:
            starts = self._starts(job)
            return len(starts) >= MIN_STARTS and len(set(starts)) < len(starts)

        self._wait_for("jobs that were warned to run again", again, resubmit=False)
        order = " ".join(map(str, self._starts(job)))
        self._cancel(job)
        self._say(f"jobs were warned before a limit shorter than a run, saved and came back; parts in order: {order}")

    def _starts(self, job: str) -> list[int]:
        """Return the parts that a job's tasks have begun, in the order in which they did."""
        found = []
        for path in self._work.glob(f"offpiste-small-{job}_*.log"):
            part = int(path.stem.rpartition("_")[2])
            found += [(line[:8], part) for line in path.read_text().splitlines() if " study small: " in line]
        return [part for _, part in sorted(found)]

    def _change_the_file(self) -> None:
        self._cancel("--user", str(os.getuid()))
        job = self._submit()
        self._wait_for("jobs that wait", lambda: len(self._running()) == AT_ONCE, resubmit=False)
        before = self._file.read_text()
        self._file.write_text(before + "# changed\n")
        task = self._running()[0]
        self._cluster.command("scontrol", "requeue", task)
        self._wait_for(
            "a job that refuses the file", lambda: "was changed since this job" in self._log(job), resubmit=False
        )
        self._file.write_text(before)
        self._cancel(job)
        self._say("a job refused the file of the study once it was changed")

    def _requeue(self, job: str) -> None:
        self._wait_for_progress()
        task = next(task for task in self._running() if task.startswith(f"{job}_"))
        self._cluster.command("scontrol", "requeue", task)
        saved = "interrupted by a signal"
        self._wait_for("the requeued task to save", lambda: saved in self._log(task) and self._state(task))
        self._say("scontrol requeue: the task saved, and has its turn again")

    def _preempt(self) -> None:
        self._wait_for_progress()
        node = next(one["node"] for one in self._cluster.jobs() if one["node"])
        before = {one["job"] for one in self._cluster.jobs() if one["node"] == node}
        argv = ["sbatch", "-p", "high", "-w", node, "--cpus-per-task=8", "--output=/dev/null", "--wrap=sleep 2"]
        self._cluster.command(*argv, cwd=self._work)
        self._wait_for("preemption", lambda: any(self._state(job) != "RUNNING" for job in before))
        self._wait_for("the high job to end", lambda: all(one["partition"] != "high" for one in self._cluster.jobs()))
        self._say(f"a job of a higher partition preempted {len(before)} jobs on {node}")

    def _lose_a_node(self) -> None:
        self._lengthen(JOBS)  # Slurm takes most of a minute to notice, and else the job would wait behind all others
        self._wait_for_progress()
        task, node = next((one["job"], one["node"]) for one in self._cluster.jobs() if one["node"])
        old = set(self._processes("driver", task))
        self._cluster.kill_node(node)
        self._wait_for(
            "the job to start again",
            lambda: self._log(task).count(" study small: ") > 1,
            resubmit=False,
        )
        beside = "beside its old processes" if old & set(self._processes("driver", task)) else "after these had ended"
        self._say(f"slurmd killed: the job started again, {beside}")
        self._cluster.start_node(node)
        self._wait_for("the old processes to end", lambda: not old & set(self._processes("driver")), resubmit=False)
        self._say("slurmd is back, and the old processes are gone")

    def _kill(self, kind: str) -> None:
        self._wait_for_progress()
        victim = self._processes(kind)[0]
        os.kill(victim, signal.SIGKILL)
        self._wait_for("it to end", lambda: victim not in self._processes(kind))
        self._say(f"SIGKILL of a {'batch shell' if kind == 'shell' else kind}")

    def _finish(self) -> None:
        self._checkpoint_minutes = LAST_CHECKPOINT_MINUTES
        self._lengthen()
        with left_alone(self._study.runs, self._work / "alone") as alone:
            while not self._is_done():
                if not any(one["state"] in ("RUNNING", "PENDING") for one in self._cluster.jobs()):
                    self._submit()
                time.sleep(1.0)
            self._wait_for(
                "all jobs to end", lambda: not self._cluster.jobs() and not self._processes(), resubmit=False
            )
            self._say("all runs are done; the same ones, left alone, may take longer")
            self._alone = alone()
        self._say("all runs are done, and no process is left")

    def _submit_once_more(self) -> None:
        argv = ["study", "slurm", str(self._file), "--store", self._location, "--jobs", str(JOBS), "--submit"]
        printed = self._run([sys.executable, "-m", "offpiste", *argv])
        assert printed == "nothing is left to submit\n", printed
        self._say("submitted once more, nothing is left")

    # How it is seen

    def _submit(self, limit: str = "60", at_once: int = AT_ONCE, *, unwarned: bool = False) -> str:
        out = self._work / "small.sbatch"
        argv = ["study", "slurm", str(self._file), "--store", self._location, "--jobs", str(JOBS)]
        argv += ["--at-once", str(at_once), "--time", limit, "--out", str(out)] + ([] if unwarned else ["--submit"])
        printed = self._run([sys.executable, "-m", "offpiste", *argv])
        if unwarned:  # as if nobody had thought of the limit
            text = re.sub(r" --hours \S+", "", out.read_text())
            out.write_text(re.sub(r"#SBATCH --signal=.*\n", "", text))
            printed = self._run(["sbatch", str(out)])
        return printed.split()[-1]

    def _cancel(self, *jobs: str) -> None:
        self._cluster.command("scancel", *jobs)
        self._wait_for(
            "the cancelled jobs to end", lambda: not (self._cluster.jobs() or self._processes()), resubmit=False
        )

    def _running(self) -> list[str]:
        """Return the tasks that run, of which there may be no more than were asked for."""
        running = [
            one["job"] for one in self._cluster.jobs() if one["state"] == "RUNNING" and one["partition"] == "low"
        ]
        assert len(running) <= AT_ONCE, running
        return running

    def _run(self, argv: list[str]) -> str:
        return subprocess.run(
            argv, env=self._environment, cwd=self._work, check=True, capture_output=True, text=True
        ).stdout

    def _processes(self, kind: str = "", task: str = "") -> list[int]:
        """Return the processes of the jobs: drivers, batch shells, or all, and of one task."""
        words = {"driver": b"\0work\0", "shell": b"slurm_script", "": b""}[kind]
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = dict(part.partition(b"=")[::2] for part in (path / "environ").read_bytes().split(b"\0"))
                name = variables.get(b"SLURM_ARRAY_JOB_ID", b"") + b"_" + variables.get(b"SLURM_ARRAY_TASK_ID", b"")
                of_job = variables.get(MARKER.encode()) == self._token.encode() and name != b"_"
                if of_job and words in (path / "cmdline").read_bytes() and (not task or name == task.encode()):
                    found.append(int(path.name))
        return sorted(found)

    def _is_done(self) -> bool:
        return all(seen.state == "done" for seen in status.read_all(self._store, self._study.runs))

    def _state(self, task: str) -> str:
        return next((one["state"] for one in self._cluster.jobs() if one["job"] == task), "")

    def _log(self, job: str) -> str:
        return "".join(
            path.read_text() for path in self._work.glob(f"offpiste-small-{job}{'' if '_' in job else '_*'}.log")
        )

    def _keep_at_work(self) -> None:
        """See to it that there is something to do, and somebody to do it."""
        if self._is_done():
            self._lengthen()
        if not any(one["state"] in ("RUNNING", "PENDING") for one in self._cluster.jobs()):
            self._submit()

    def _lengthen(self, at_once: int = AT_ONCE) -> None:
        """Give the runs more to do, and submit jobs that know of it."""
        self._frames += self._more_frames
        self._write()
        self._say(f"the runs continue to {self._frames:,} frames")
        self._cancel("--user", str(os.getuid()))
        self._submit(at_once=at_once)

    def _wait_for_progress(self) -> None:
        """Wait until a run that is under way has saved something new."""
        before = self._manifests()
        self._wait_for("a new checkpoint", lambda: self._manifests() - before)

    def _manifests(self) -> set[str]:
        runs = self._study.runs
        return {f"{run.run_id}/{name}" for run in runs for name in self._store.below(run.run_id).list("manifests")}

    def _wait_for(self, what: str, happened: Callable[[], Any], *, resubmit: bool = True) -> None:
        deadline = time.monotonic() + MAX_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-800:] for path in self._work.glob("*.log"))
                raise SystemExit(f"waited in vain for {what}: {self._cluster.jobs()}\n{logs}")
            if resubmit and what == "a new checkpoint":
                self._keep_at_work()
            time.sleep(0.3)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {text}", flush=True)

    # What comes out

    def compare(self, kind: str) -> bool:
        """Print how the study compares with runs left alone, and return whether it is the same."""
        runs = self._study.runs
        pairs = zip(runs, self._alone, strict=True)
        equal = sum(digest(self._store.below(run.run_id)) == digest(alone) for run, alone in pairs)
        attempts = sum(len(self._store.below(run.run_id).list("attempts")) for run in runs)
        needed = sum(int(max(self._store.below(run.run_id).list("manifests")).partition("-")[0]) for run in runs)
        twice = steps_computed(self._work / "steps") - needed
        print(
            f"{kind}: {equal} of {len(runs)} digests equal; {attempts} attempts; {twice:,} steps computed twice, "
            f"{twice / needed:.1%} of {needed:,}",
            flush=True,
        )
        return equal == len(runs) and not self._processes()


if __name__ == "__main__":
    sys.exit(main())
