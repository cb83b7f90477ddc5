"""The sbatch file of a study's workers: an array of jobs, each of which claims runs in the store until none is left.

What Slurm does, and why the file is as it is, was seen with Slurm 22.05:
- `--signal=B:USR1@180` warns the batch shell alone, up to a minute earlier than asked for.
- scancel, preemption, requeue and the time limit send SIGTERM to all processes of the job, and SIGKILL soon after.
- `scontrol requeue` with the id of one task's job starts finished tasks of the array again, so a task is named in full.
- A job that requeued itself whenever its worker was stopped would come back after scancel, so it does so only if its
  time was up: the worker ended with 75, and there was no SIGTERM.
- If the batch shell ended first, its job could start again beside its own processes: so it waits for the worker, and if
  it is killed, the kernel signals the worker (`study work --batch`).
"""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from offpiste.commands import shell_line
from offpiste.errors import ConfigError
from offpiste.study.plan import Study
from offpiste.study.resources import max_needs_of

WARNING_SECONDS = 180
"""How long before the time limit Slurm warns; a quarter of a shorter time."""
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
terminated= worker=
trap '[ -n "$worker" ] && kill -TERM "$worker"' USR1                  # time is nearly up
trap 'terminated=1; [ -n "$worker" ] && kill -TERM "$worker"' TERM    # scancel, preemption, requeue, time limit
{command} &
worker=$!
while :; do
  wait "$worker"; code=$?
  [ "$code" -le 128 ] && break
  kill -0 "$worker" 2>/dev/null && continue   # a signal has ended the wait, not the worker
  wait "$worker"; last=$?
  [ "$last" != 127 ] && code=$last
  break
done
[ "$code" = 75 ] && [ -z "$terminated" ] && exec scontrol requeue "$task"
exit "$code"
"""


@dataclass(frozen=True)
class Batch:
    """What to ask Slurm for."""

    workers: int
    slots: int
    """Runs at once in each worker."""
    time: str
    """Time limit of a job, as for `sbatch --time`; it is requeued until no run is left."""
    options: Sequence[str] = ()
    """More options of sbatch."""


def script(study: Study, batch: Batch, file: str, location: str, *, accept_version: bool = False) -> str:
    """Return the sbatch file of a study, whose own file and store have these locations."""
    if batch.workers < 1 or batch.slots < 1:
        raise ConfigError(f"--workers and --slots must be >= 1, got {batch.workers} and {batch.slots}")
    seconds = seconds_of(batch.time)
    command = [sys.executable, "-m", "offpiste", "study", "work", file, "--store", location, "--batch"]
    command += ["--slots", str(batch.slots), "--hours", f"{seconds / 3_600:.4f}"]
    command += ["--accept-version"] * accept_version
    directives = _directives(study, batch, seconds)
    return _SCRIPT.format(directives="\n".join(f"#SBATCH {one}" for one in directives), command=shell_line(command))


def _directives(study: Study, batch: Batch, seconds: int) -> list[str]:
    needs, name = max_needs_of(study), re.sub("[^A-Za-z0-9_.-]", "_", study.name)
    for option in batch.options:
        if not option.startswith("-") or not option.isprintable():
            raise ConfigError(f"--sbatch must be one option of sbatch, such as --partition=long, got {option!r}")
    asked = [
        f"--job-name=offpiste-{name}",
        f"--output=offpiste-{name}-%A_%a.log",
        "--open-mode=append",
        f"--array=0-{batch.workers - 1}",
        f"--time={batch.time}",
        f"--cpus-per-task={math.ceil(needs['CPU'] * batch.slots) or 1}",
        f"--mem={math.ceil(needs['memory'] * batch.slots / 1e6)}M",
        "--requeue",
        f"--signal=B:USR1@{min(WARNING_SECONDS, seconds // 4)}",
    ]
    if needs["GPU"]:
        asked.append(f"--gres=gpu:{math.ceil(needs['GPU'] * batch.slots)}")
    return [*asked, *batch.options]


def seconds_of(text: str) -> int:
    """Return the seconds of a time limit, written as for sbatch: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS."""
    found = next(filter(None, (re.fullmatch(form, text) for form in _TIMES)), None)
    seconds = sum(_UNITS[unit] * int(value or 0) for unit, value in found.groupdict().items()) if found else 0
    if not seconds:
        raise ConfigError(f"--time must be > 0 and written as for sbatch, as in 24:00:00 or 2-00, got {text!r}")
    return seconds
