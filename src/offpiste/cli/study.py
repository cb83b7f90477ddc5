"""`offpiste study`: plan, run, watch, retry, discard and stop the runs of a study."""

import itertools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.cli.output import STOPPED_EARLY
from offpiste.cli.study_arguments import File, Flag, Store, asked_to_stop, log
from offpiste.cli.study_slurm import Slurm
from offpiste.cli.study_work import Work
from offpiste.commands import train_command
from offpiste.config import MachineConfig, RunConfig, identity
from offpiste.errors import ConfigError, StoreError, did_you_mean
from offpiste.store.storage import Folder
from offpiste.study import cost, status
from offpiste.study.marks import discard, read_status
from offpiste.study.plan import Study, load_bonuses, read_study

POLL_SECONDS = 5.0
STUDY_FILE = "studies/*/study.toml"


@dataclass(frozen=True)
class Plan:
    """Show the runs of a study and their cost: memory, bytes, and time at a given or measured rate."""

    file: File
    """TOML file of the study."""
    list: Flag = False
    """Print one `offpiste train` command per run instead, for a scheduler of your own."""
    steps_per_second: float = 0.0
    """Agent steps per second of one run, to estimate how long the study takes; 0 leaves that out."""
    measure: Flag = False
    """Measure that rate on this machine, for some ten seconds per method."""
    runs_per_machine: int = 1
    """Runs that a machine trains at once."""

    def main(self) -> int:
        """Print the plan."""
        study = load_bonuses(read_study(self.file))
        if self.list:
            print("\n".join(command_line(run) for run in study.runs))
            return 0
        rates: dict[str, float] = {}
        if self.measure:
            first = {run.method: run for run in reversed(study.runs)}
            rates = {method: cost.measure(run) for method, run in reversed(first.items())}
        elif self.steps_per_second:
            rates = dict.fromkeys((run.method for run in study.runs), self.steps_per_second)
        print("\n".join(plan_lines(study, rates, self.runs_per_machine)))
        return 0


@dataclass(frozen=True)
class Run:
    """Run a study on this machine, or on a Ray cluster; the same command resumes a study that was stopped, killed or
    extended. Failed runs are retried, and quarantined if that cannot help, while the others continue. Exit code 0: all
    runs are done; 1: some failed and are quarantined, see `study status`; 75: stopped before that.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder or s3:// URL that all machines share; each run gets a folder below it."""
    slots: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Runs that this machine trains at once, without Ray; by default, as many as fit by the study's resources."""
    address: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None
    """Address of a Ray cluster, or auto for the one that this machine belongs to; RAY_ADDRESS, if set, is one, too."""
    ray: Flag = False
    """Start Ray on this machine and use it."""
    accept_version: Flag = False
    """Resume runs that were started by a version with other results, or before the file of their bonus was changed."""

    def main(self) -> int:
        """Run the study, and return its exit code."""
        study = load_bonuses(read_study(self.file))
        content = Path(self.file).read_bytes()
        if self.ray or self.address or os.environ.get("RAY_ADDRESS"):
            from offpiste.study.ray_cluster import run_on_ray

            summary = run_on_ray(study, content, self.store, log, self.address, accept_version=self.accept_version)
        else:
            from offpiste.study.here import run_here

            summary = run_here(study, content, self.store, log, self.slots, accept_version=self.accept_version)
        if summary.failed:
            log(f"{summary.failed} runs failed; `offpiste study status` shows why, `offpiste study retry` tries again")
            return 1
        return STOPPED_EARLY if summary.unfinished else 0


@dataclass(frozen=True)
class Status:
    """Show the progress of a study, and its quarantined runs with their errors: live on a terminal, once elsewhere.
    Without a file, list the studies in a store, or in the folders below the current one.
    """

    file: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="FILE")] = None
    """TOML file of the study."""
    store: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None
    """Folder or s3:// URL of its runs."""
    json: Flag = False
    """Print everything as JSON, once."""
    once: Flag = False
    """Print once, also on a terminal."""

    def main(self) -> int:
        """Show the status."""
        from offpiste.cli import status_view

        if self.file is None:
            stores = [Folder(self.store)] if self.store else stores_below(Path())
            print("\n".join(status_view.studies(stores)) or f"no studies in {self.store or Path().absolute()}")
            return 0
        if self.store is None:
            raise ConfigError("give --store, the folder or URL of the study's runs")
        study, store = open_study(self.file, self.store)
        if self.json:
            found = status_view.as_json(study.name, read_status(store, study))
            print(json.dumps(found | {"stop_requested": status.stop_requested(store, study.name)}, indent=1))
        elif self.once or not sys.stdout.isatty():
            print("\n".join(status_view.of_study(study, store)))
            if status.stop_requested(store, study.name):
                print(asked_to_stop(self.file, store))
        else:
            status_view.watch(study, store, asked_to_stop(self.file, store))
        return 0


@dataclass(frozen=True)
class Retry:
    """Lift the quarantine of failed runs, so that they are tried again: by a driver that still runs, within a minute,
    or else by the next one.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder or s3:// URL of its runs."""
    run: tuple[str, ...] = ()
    """Quarantined runs to try again, by name; by default, all."""

    def main(self) -> int:
        """Lift the quarantine."""
        study, store = open_study(self.file, self.store)
        check_runs(study, self.run)
        wanted = self.run or [seen.run_id for seen in read_status(store, study) if seen.quarantined]
        lifted = [run_id for run_id in wanted if status.lift_quarantine(store.below(run_id))]
        print("\n".join([*lifted, f"{len(lifted)} runs are no longer quarantined"]))
        return 0


@dataclass(frozen=True)
class Discard:
    """Delete all that runs of a study have left in the store, results included, so that they begin anew: by a driver
    that is started after this.
    """

    file: File
    """TOML file of the study."""
    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN")]
    """Names of the runs, as `study status` shows them."""
    store: Store
    """Folder or s3:// URL of its runs."""

    def main(self) -> int:
        """Delete them."""
        study, store = open_study(self.file, self.store)
        check_runs(study, self.runs)
        if not self.runs:
            raise ConfigError("name the runs to discard, as `offpiste study status` shows them")
        running = {seen.run_id for seen in read_status(store, study) if seen.state == "running"}
        if busy := [name for name in self.runs if name in running]:
            raise ConfigError(f"{', '.join(busy)} must not be running; stop the study first: `offpiste study stop`")
        discard(store, study, self.runs)
        print(f"{len(self.runs)} run{'s' * (len(self.runs) != 1)} discarded; `offpiste study run` trains them anew")
        return 0


@dataclass(frozen=True)
class Stop:
    """Stop a study, wherever it runs: its runs save a checkpoint and end, then its drivers, and no part begins until
    that is withdrawn, by `study run`, `study slurm --submit` or `study stop --undo`.
    """

    file: File
    """TOML file of the study."""
    store: Store
    """Folder or s3:// URL of its runs."""
    wait: bool = True
    """Wait until no run is running."""
    undo: Flag = False
    """Withdraw the request, so that parts can begin; `study run` and `study slurm --submit` do so, too."""

    def main(self) -> int:
        """Request the stop, and wait for it."""
        study, store = open_study(self.file, self.store)
        if self.undo:
            status.clear_stop(store, study.name)
            return 0
        status.request_stop(store, study.name)
        while self.wait:
            running = sum(seen.state == "running" for seen in read_status(store, study))
            log(f"{running} runs are running")
            if not running:
                break
            time.sleep(POLL_SECONDS)
        return 0


@dataclass(frozen=True)
class Arguments:
    """Plan, run, watch, retry, discard or stop a study: many runs, described by one TOML file."""

    command: Annotated[
        Annotated[Plan, tyro.conf.subcommand("plan")]
        | Annotated[Run, tyro.conf.subcommand("run")]
        | Annotated[Work, tyro.conf.subcommand("work")]
        | Annotated[Slurm, tyro.conf.subcommand("slurm")]
        | Annotated[Status, tyro.conf.subcommand("status")]
        | Annotated[Retry, tyro.conf.subcommand("retry")]
        | Annotated[Discard, tyro.conf.subcommand("discard")]
        | Annotated[Stop, tyro.conf.subcommand("stop")],
        tyro.conf.arg(name=""),
    ]


def defaults(argv: list[str]) -> tuple[list[str], None]:
    """Return the arguments as they are; refuse an option of sbatch after a space, which would be taken for ours."""
    for option, value in itertools.pairwise(argv):
        if option == "--sbatch" and value.startswith("-"):
            raise ConfigError(f"--sbatch must be followed by = and the option of sbatch: --sbatch={value}")
    return argv, None


def main(arguments: Arguments) -> int:
    """Run the command below `study`."""
    return arguments.command.main()


def open_study(file: str, location: str) -> tuple[Study, Folder]:
    """Return a study and its store, which must know it or hold runs of its games."""
    study, store = read_study(file), Folder(location)
    if not status.is_begun(store, study.name) and not {run.game for run in study.runs} & {*store.entries()[1]}:
        raise StoreError(
            f"there is nothing of the study {study.name} in {store.location}; check --store, or begin the study with "
            "`offpiste study run`"
        )
    return study, store


def stores_below(folder: Path) -> list[Folder]:
    """Return the folders with studies in this one, and up to three below it."""
    found = (path.parents[2] for depth in range(4) for path in sorted(folder.glob("*/" * depth + STUDY_FILE)))
    return [Folder(path) for path in dict.fromkeys(found)]


def check_runs(study: Study, names: Iterable[str]) -> None:
    """Raise ConfigError for a name that no run of the study has."""
    known = {run.run_id for run in study.runs}
    for name in names:
        if name not in known:
            raise ConfigError(f"the study has no run named {name!r}{did_you_mean(name, known)}")


def plan_lines(study: Study, rates: Mapping[str, float], runs_per_machine: int) -> Iterator[str]:
    """Yield the number of runs, the cost of those of each method, and the total cost, as lines."""
    games = list(dict.fromkeys(run.game for run in study.runs))
    seeds = list(dict.fromkeys(run.seed for run in study.runs))
    yield f"study {study.name}: {len(study.runs):,} runs, {sum(run.frames for run in study.runs):,} frames"
    yield f"games ({len(games)}): {', '.join(games)}"
    yield f"seeds ({len(seeds)}): {', '.join(map(str, seeds))}"
    yield ""
    yield (
        f"{'':<16}{'settings':>8}{'runs':>7}{'frames':>9}{'memory':>10}{'written':>12}{'kept':>10}{'rate':>15}"
        f"{'time':>18}"
    )
    costs = [(run, cost.cost(run, study.keep, rates.get(run.method))) for run in study.runs]
    for method in dict.fromkeys(run.method for run in study.runs):
        chosen = [(run, found) for run, found in costs if run.method == method]
        rate = f"{rates[method]:,.0f} steps/s" if method in rates else "–"
        yield (
            f"{method:<16}{len({run.variant for run, _ in chosen}):>8}{len(chosen):>7,}"
            f"{_short(sum(run.frames for run, _ in chosen)):>9}"
            f"{max(found.memory_gb for _, found in chosen):>7.1f} GB"
            f"{max(found.written_mb_per_second for _, found in chosen):>7.2f} MB/s"
            f"{max(found.kept_gb for _, found in chosen):>7.2f} GB"
            f"{rate:>15}{_days(found for _, found in chosen):>18}"
        )
    resources = study.resources
    memory = resources.memory_gb or max(found.memory_gb for _, found in costs)
    written = sum(found.written_mb_per_second for _, found in costs) / len(costs)
    yield "memory, written and kept are of one run; time is the sum over all runs"
    yield ""
    yield f"a run needs {resources.cpus:g} CPUs, {resources.gpus:g} GPUs and up to {memory:.1f} GB of memory"
    yield f"written while 100 runs train: {100 * written:,.0f} MB/s on average"
    yield f"kept at the end ({study.keep}): {sum(found.kept_gb for _, found in costs):,.1f} GB"
    if all(found.run_days is not None for _, found in costs):
        days = sum(found.run_days or 0.0 for _, found in costs) / runs_per_machine
        yield f"time: {days:,.1f} machine-days, with {runs_per_machine} runs at once on a machine"
    else:
        yield "time: give --steps-per-second of one run, or --measure it here"


def command_line(run: RunConfig) -> str:
    """Return the command that trains one run outside a study, in the same folder."""
    defaults = vars(MachineConfig())
    machine = {f"machine.{key}": value for key, value in vars(run.machine).items() if value != defaults[key]}
    return train_command(identity(run) | machine, run.frames)


def _short(count: int) -> str:
    """Return a count in billions, millions or thousands."""
    factor, letter = next((pair for pair in ((1e9, "G"), (1e6, "M")) if count >= pair[0]), (1e3, "k"))
    return f"{count / factor:,.3g} {letter}"


def _days(costs: Iterable[cost.Cost]) -> str:
    days = [found.run_days for found in costs if found.run_days is not None]
    return f"{sum(days):,.1f} run-days" if days else "–"
