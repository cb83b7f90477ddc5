"""The sbatch file of a study: an array of jobs, each of which runs one part of it.

What Slurm does, and why the file is as it is, was seen with Slurm 22.05:
- `--signal=B:USR1@180` warns the batch shell alone, up to a minute earlier than asked for.
- scancel, preemption, requeue and the time limit send SIGTERM to all processes of the job, and SIGKILL soon after.
- `scontrol requeue` with the id of one task's job starts finished tasks of the array again, so a task is named in full.
- A job that requeued itself whenever its driver was stopped would come back after scancel, so it does so only without
  a SIGTERM: if its time was up (75), and at most three times in a row if the machine or the store failed (76).
- If the batch shell ended first, its job could start again beside its own processes: so it waits for the driver, and if
  it is killed, the kernel signals the driver (`study work --batch`).
"""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from offpiste.commands import shell_line
from offpiste.errors import ConfigError
from offpiste.study.parts import numbers_text
from offpiste.study.plan import Study
from offpiste.study.resources import max_needs_of

WARNING_SECONDS = 180
"""How long before the time limit Slurm warns; a quarter of a shorter time."""
MAX_JOBS = 1_000
"""Arrays end at index 1,000 on most clusters."""
MAX_FAILURES = 3
"""How often in a row a job is requeued because its machine or the store failed."""
_TIMES = (
    r"(?P<minutes>\d+)(:(?P<seconds>\d+))?",
    r"(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)",
    r"(?P<days>\d+)-(?P<hours>\d+)(:(?P<minutes>\d+)(:(?P<seconds>\d+))?)?",
)
_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}

_SCRIPT = """\
#!/bin/bash
{directives}

task=$SLURM_JOB_ID
[ -n "$SLURM_ARRAY_JOB_ID" ] && task=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
failures={name}-$task.failures
terminated= driver=
trap '[ -n "$driver" ] && kill -TERM "$driver"' USR1                  # time is nearly up
trap 'terminated=1; [ -n "$driver" ] && kill -TERM "$driver"' TERM    # scancel, preemption, requeue, time limit
{command} --part "$SLURM_ARRAY_TASK_ID/{jobs}" &
driver=$!
while :; do
  wait "$driver"; code=$?
  [ "$code" -le 128 ] && break
  kill -0 "$driver" 2>/dev/null && continue   # a signal has ended the wait, not the driver
  wait "$driver"; last=$?
  [ "$last" != 127 ] && code=$last
  break
done
again=
[ "$code" = 75 ] && again=1
if [ "$code" = 76 ]; then                     # the machine or the store failed
  echo "$code" >> "$failures"
  [ "$(wc -l < "$failures")" -le {max_failures} ] && again=1
else
  rm -f "$failures"
fi
[ -n "$again" ] && [ -z "$terminated" ] && exec scontrol requeue "$task"
exit "$code"
"""


@dataclass(frozen=True)
class JobArray:
    """What to ask Slurm for."""

    jobs: int
    """The parts into which the study is divided."""
    slots: int
    """Runs at once in each job."""
    time: str
    """Time limit of a job, as for `sbatch --time`; it is requeued until no run of its part is left."""
    left: Sequence[int]
    """The parts in which something is left; no other is submitted."""
    at_once: int | None = None
    """Jobs that may run at once."""
    options: Sequence[str] = ()
    """More options of sbatch."""


def jobs_of(study: Study, jobs: int | None, slots: int) -> int:
    """Return the number of parts: as asked for, or as many as have a run for each slot."""
    if slots < 1 or (jobs is not None and not 1 <= jobs <= len(study.runs)):
        raise ConfigError(f"--slots must be >= 1 and --jobs in 1 to {len(study.runs)} (runs), got {slots} and {jobs}")
    return jobs or min(math.ceil(len(study.runs) / slots), MAX_JOBS)


def script(
    study: Study, array: JobArray, file: str, file_hash: str, location: str, *, accept_version: bool = False
) -> str:
    """Return the sbatch file of a study, whose own file has this path and hash, and whose store this location."""
    if array.at_once is not None and array.at_once < 1:
        raise ConfigError(f"--at-once must be >= 1, got {array.at_once}")
    seconds = seconds_of(array.time)
    command = [sys.executable, "-m", "offpiste", "study", "work", file, "--store", location, "--batch"]
    command += ["--slots", str(array.slots), "--hours", f"{seconds / 3_600:.4f}"]
    command += ["--file-hash", file_hash]
    command += ["--accept-version"] * accept_version
    directives = "\n".join(f"#SBATCH {one}" for one in _directives(study, array, seconds))
    name = _name(study)
    return _SCRIPT.format(
        directives=directives, command=shell_line(command), name=name, jobs=array.jobs, max_failures=MAX_FAILURES
    )


def _directives(study: Study, array: JobArray, seconds: int) -> list[str]:
    needs, name = max_needs_of(study), _name(study)
    for option in array.options:
        if not option.startswith("-") or not option.isprintable():
            raise ConfigError(f"--sbatch must be one option of sbatch, such as --partition=long, got {option!r}")
    asked = [
        f"--job-name={name}",
        f"--output={name}-%A_%a.log",
        "--open-mode=append",
        f"--array={numbers_text(array.left)}" + (f"%{array.at_once}" if array.at_once else ""),
        f"--time={array.time}",
        f"--cpus-per-task={math.ceil(needs['CPU'] * array.slots) or 1}",
        f"--mem={math.ceil(needs['memory'] * array.slots / 1e6)}M",
        "--requeue",
        f"--signal=B:USR1@{min(WARNING_SECONDS, seconds // 4)}",
    ]
    if needs["GPU"]:
        asked.append(f"--gres=gpu:{math.ceil(needs['GPU'] * array.slots)}")
    return [*asked, *array.options]


def _name(study: Study) -> str:
    return f"offpiste-{re.sub('[^A-Za-z0-9_.-]', '_', study.name)}"


def seconds_of(text: str) -> int:
    """Return the seconds of a time limit, written as for sbatch: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS."""
    found = next(filter(None, (re.fullmatch(form, text) for form in _TIMES)), None)
    seconds = sum(_UNITS[unit] * int(value or 0) for unit, value in found.groupdict().items()) if found else 0
    if not seconds:
        raise ConfigError(f"--time must be > 0 and written as for sbatch, as in 24:00:00 or 2-00, got {text!r}")
    return seconds
