"""A study on one machine whose processes, drivers and bonus are disturbed ends as if nothing had happened.

Twelve small runs, of ε-greedy, CTS and a bonus of the user's, are trained by two drivers (`offpiste study run`) on one
store at once, beside a live `offpiste train` of one of the runs. Meanwhile: SIGKILL of processes that train; one that
is stopped for good, as if it hung; a driver without the GPU that its runs need; the file of the bonus is edited, and a
process killed, so that new ones would import it; SIGKILL of a driver. Then the file is put back, and the same command
finishes the study. Every digest must equal that of the same run left alone; no run may be quarantined; the run of
`offpiste train` must have one attempt, its own; every other attempt must follow from a disturbance; and no process may
be left. Drivers look at their runs every eight seconds here, not every minute, so that a hung one is found in time.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.shared.left_alone import left_alone
from benchmarks.shared.small_study import settings
from benchmarks.shared.step_counter import VARIABLE, counting_environment, counting_processes, steps_computed
from offpiste.run.digest import digest
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.plan import load_bonuses, read_study

STUDY = """
games = ["freeway", "deep_sea_6"]
methods = ["epsilon_greedy", "cts", {{ bonus = "mine:Mine" }}]
seeds = {seeds}
frames = {frames}
keep = "all"
resources = {{ cpus = 1, memory_gb = 0.5 }}
"""
BONUS = """
from offpiste.bonuses.oracle import Oracle


class Mine(Oracle):
    pass
"""
ON_GPU = """
games = ["freeway"]
methods = ["epsilon_greedy"]
seeds = {seeds}
frames = 400
settings = {{ machine = {{ device = "cuda:99" }} }}
resources = {{ gpus = 1 }}
"""
DRIVER = """
import sys
from offpiste.study import driver
driver.LOOK_SECONDS = 8.0
from offpiste.cli import main
sys.exit(main(sys.argv[1:]))
"""
CHECKPOINT_MINUTES, LAST_CHECKPOINT_MINUTES = 0.03, 1.0
"""While the study is disturbed, and after that, when on a busy machine little but checkpoints would be made."""
FRAMES, QUICK_FRAMES = 12_000, 4_000
MAX_SECONDS = 3_600


def main() -> int:
    """Let everything happen and return 0 if nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="runs of a third of the length, and one seed")
    parser.add_argument("--frames", type=int, help="of the runs, in place of 12,000; fewer on a busy machine")
    parser.add_argument("--chance", type=int, default=0, help="seed of the victims")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pool-", dir="/tmp") as temporary:
        frames = options.frames or (QUICK_FRAMES if options.quick else FRAMES)
        pool = Pool(Path(temporary), [0] if options.quick else [0, 1], frames)
        try:
            pool.find_no_gpu()
            pool.disturb(random.Random(options.chance))  # noqa: S311
            good = pool.compare()
        finally:
            pool.kill_all()
    print("every run as if left alone" if good else "FAIL")
    return 0 if good else 1


class Pool:
    """One study, and what it goes through."""

    def __init__(self, work: Path, seeds: list[int], frames: int) -> None:
        self._work, self._store = work, Folder(work / "store")
        self._file, self._bonus = work / "pool.toml", work / "mine.py"
        self._plain = STUDY.format(seeds=seeds, frames=frames)
        self._file.write_text(self._plain + settings(CHECKPOINT_MINUTES))
        self._bonus.write_text(BONUS)
        self._environment = os.environ | counting_environment(work / "steps")
        self._drivers: list[subprocess.Popen[bytes]] = []
        self._disturbed = 0
        """Attempts that were ended by a disturbance."""
        self._alone: list[Folder] = []
        """The same runs, left alone."""
        self._start = time.monotonic()
        os.chdir(work)
        self._study = load_bonuses(read_study(self._file))

    def find_no_gpu(self) -> None:
        """See that a driver without a working GPU says so, and quarantines nothing."""
        file = self._work / "gpu.toml"
        file.write_text(ON_GPU.format(seeds=list(range(20))))
        driver = self._drive("gpu", "run", str(file), "--store", str(self._work / "gpu"), "--slots", "2")
        code = driver.wait(timeout=MAX_SECONDS)
        assert code == 1, self._log("gpu")
        assert "no run could be started, and none advanced: machine.device must be" in self._log("gpu"), self._log(
            "gpu"
        )
        seen = status.read_all(Folder(self._work / "gpu"), read_study(file).runs)
        assert {one.state for one in seen} == {"waiting"}, seen
        self._say("20 runs, and no GPU: the driver ended with 1 and the reason, and no run is quarantined")

    def disturb(self, generator: random.Random) -> None:
        """Let everything happen in turn, then let the study finish."""
        live = self._study.runs[0]
        line = subprocess.check_output([sys.executable, "-m", "offpiste", "study", "plan", str(self._file), "--list"])
        argv = line.decode().splitlines()[0].split()[1:]
        trainer = self._start_process("train", [sys.executable, "-m", "offpiste", *argv, "--out", self._store.location])
        self._wait_for("a live run", lambda: self._store.below(live.run_id).list("manifests"))
        for name in ("one", "two"):
            self._study_run(name)
        for _ in range(3):
            self._wait_for_progress()
            victim = generator.choice(self._training())
            os.kill(victim, signal.SIGKILL)
            self._disturbed += 1
            self._say("SIGKILL of a process that trains")
        self._wait_for_progress()
        os.kill(generator.choice(self._training()), signal.SIGSTOP)
        self._disturbed += 1
        self._wait_for("the hung process to be killed", lambda: "it made no step in 30 looks" in self._logs())
        self._say("a process that hung was killed, and no other")
        assert self._logs().count("it made no step") == 1
        self._edit_the_bonus()
        self._study_run("one")
        self._wait_for_progress()
        self._drivers[-1].kill()
        self._drivers[-1].wait()
        self._disturbed += 1  # the runs of its slots save when it dies, and at most one more attempt each follows
        self._file.write_text(self._plain + settings(LAST_CHECKPOINT_MINUTES))
        self._study_run("one")
        self._say("SIGKILL of a driver; the same command again")
        with left_alone(self._study.runs, self._work / "alone") as alone:
            self._wait_for("all runs to be done", lambda: self._states() == {"done"})
            self._say("all runs are done; the same ones, left alone, may take longer")
            self._alone = alone()
        assert trainer.wait(timeout=MAX_SECONDS) == 0
        assert self._drivers[-1].wait(timeout=MAX_SECONDS) == 0, self._log("one")
        self._wait_for("all processes to end", lambda: not self._ours())
        attempts = self._store.below(live.run_id).list("attempts")
        assert len(attempts) == 1, f"the run of `offpiste train` was taken from it: {attempts}"
        self._say("all runs are done, no process is left, and `offpiste train` kept its run")

    def _edit_the_bonus(self) -> None:
        self._bonus.write_text(BONUS + "\n# changed\n")
        victims = self._training()
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        self._disturbed += len(victims)
        try:
            self._wait_for(
                "the changed bonus to be refused",
                lambda: "is not the one" in self._logs() or self._states() == {"done"},
            )
        finally:
            self._bonus.write_text(BONUS)
        for driver in self._drivers:
            driver.send_signal(signal.SIGTERM)
        for driver in self._drivers:
            driver.wait(timeout=MAX_SECONDS)
        self._disturbed += len(victims)
        refused = "is not the one" in self._logs()
        self._say(
            "new processes refused the edited bonus" if refused else "no run of the edited bonus was left to start"
        )

    # How it is seen

    def _study_run(self, name: str) -> None:
        argv = ["run", str(self._file), "--store", self._store.location, "--slots", "2"]
        self._drivers.append(self._drive(name, *argv))

    def _drive(self, name: str, *argv: str) -> "subprocess.Popen[bytes]":
        return self._start_process(name, [sys.executable, "-c", DRIVER, "study", *argv])

    def _start_process(self, name: str, argv: list[str]) -> "subprocess.Popen[bytes]":
        with (self._work / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                argv, env=self._environment, cwd=self._work, stdout=log, stderr=log, start_new_session=True
            )  # Linux shares a busy machine between sessions, not between processes

    def _training(self) -> list[int]:
        """Return the processes of drivers that train a run."""
        found: list[int] = []
        while not found:
            counting = counting_processes(self._work / "steps")
            found = [pid for pid in self._ours() if pid in counting and "offpiste.study.child" in command_of(pid)]
            time.sleep(0.1)
        return found

    def _ours(self) -> list[int]:
        mark = f"{VARIABLE}={self._work / 'steps' / 'counts'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def _states(self) -> set[str]:
        return {seen.state for seen in status.read_all(self._store, self._study.runs)}

    def _log(self, name: str) -> str:
        return (self._work / f"{name}.log").read_text()

    def _logs(self) -> str:
        return self._log("one") + self._log("two")

    def _wait_for_progress(self) -> None:
        before = self._manifests()
        self._wait_for("a new checkpoint", lambda: self._manifests() - before or self._states() == {"done"})

    def _manifests(self) -> set[str]:
        runs = self._study.runs[1:]
        return {f"{run.run_id}/{name}" for run in runs for name in self._store.below(run.run_id).list("manifests")}

    def _wait_for(self, what: str, happened: Callable[[], Any]) -> None:
        deadline = time.monotonic() + MAX_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise SystemExit(f"waited in vain for {what}:\n{self._logs()[-4_000:]}")
            time.sleep(0.3)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {text}", flush=True)

    def kill_all(self) -> None:
        """Leave nothing behind, whatever happened."""
        for pid in self._ours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # What comes out

    def compare(self) -> bool:
        """Print how the study compares with runs left alone, and return whether it is the same."""
        runs = self._study.runs
        pairs = zip(runs, self._alone, strict=True)
        equal = sum(digest(self._store.below(run.run_id)) == digest(alone) for run, alone in pairs)
        attempts = sum(len(self._store.below(run.run_id).list("attempts")) for run in runs)
        needed = sum(int(max(self._store.below(run.run_id).list("manifests")).partition("-")[0]) for run in runs[1:])
        twice = steps_computed(self._work / "steps") - needed
        # Two drivers that begin at the same moment may collide once in each slot, as may those that follow a kill.
        allowed = len(runs) + self._disturbed + 3 * 2
        print(
            f"{equal} of {len(runs)} digests equal; {attempts} attempts, at most {allowed} by what happened; {twice:,} "
            f"steps computed twice, {twice / needed:.1%} of {needed:,}"
        )
        return equal == len(runs) and attempts <= allowed


def command_of(pid: int) -> str:
    """Return how a process calls itself."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


if __name__ == "__main__":
    sys.exit(main())
