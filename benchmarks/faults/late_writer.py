"""A process that is stopped at any step on its store, and woken after another attempt has finished, destroys nothing.

Real training on a real game. A process is stopped (SIGSTOP) before a step that it takes on its store: an object read,
listed, written, renamed into its name or deleted, while it trains, saves, writes its tables or drops the replay. Then
another process works on the same run to its end, and the first is woken (SIGCONT). Afterwards the run must be finished,
with the digest and the records of a run that was left alone, or hold the results that were to be kept; and training it
again must find it finished. Every step is tried, on a disk.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from offpiste.analysis.results import load
from offpiste.config import AgentConfig, ExplorationConfig, RunConfig, ScheduleConfig, WorldConfig
from offpiste.errors import CheckpointError, Superseded
from offpiste.run.digest import digest
from offpiste.run.evaluate import evaluate
from offpiste.run.train import train
from offpiste.store.finished import finished_frames, holds_only_results
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.keep import keep_results
from tests.store_steps import interrupted_before

RUN = RunConfig(
    game="freeway",
    frames=240,
    world=WorldConfig(episode_frames=200),
    agent=AgentConfig(
        replay_capacity=80,
        min_history_steps=30,
        target_update_steps=40,
        batch_size=8,
        convolution_channels=(4, 4, 4),
        hidden_units=16,
    ),
    schedule=ScheduleConfig(iteration_steps=40),
    exploration=ExplorationConfig(epsilon_decay_steps=40),
)
LONGER = replace(RUN, frames=400)
QUICK_EVERY = 25


def main() -> int:
    """Try every step of every case and return 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK_EVERY}th step only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        cases = Cases(Path(path))
        tried, lost = 0, 0
        for case in (cases.training, cases.keeping_beside_longer, cases.keeping_twice):
            steps, failures = case_by_step(Path(path), case, QUICK_EVERY if options.quick else 1)
            line = f"{case.__name__:24} stopped at {steps:3} steps, {len(failures)} with a loss {failures[:3] or ''}"
            print(line, flush=True)
            tried, lost = tried + steps, lost + len(failures)
    print(f"{tried} processes stopped and woken late, {lost} losses")
    return 1 if lost or not tried else 0


Case = Callable[[Folder, int], str | None]
"""Plays out one case in a folder, with the sleeper stopped at this step; returns what was lost, or None if the sleeper
did not get so far."""


def case_by_step(path: Path, case: Case, every: int) -> tuple[int, list[str]]:
    """Try a case at one step after the other; return how many there were and what was lost."""
    failures: list[str] = []
    tried = 0
    step = 1
    while True:
        store = path / "store"
        try:
            lost = case(Folder(store / RUN.run_id), step)
        except CheckpointError as error:  # what cannot be read any more is lost
            lost = str(error)
        shutil.rmtree(store, ignore_errors=True)
        if lost is None:
            return tried, failures
        tried += 1
        if lost:
            failures.append(f"at step {step}: {lost}")
        step += every


class Cases:
    """What the sleeper does, what others do meanwhile, and what must be there in the end."""

    def __init__(self, path: Path) -> None:
        for name, run in (("alone", RUN), ("longer", LONGER)):
            in_child(lambda run=run, name=name: train(run, Folder(path / name / run.run_id)))  # type: ignore[misc]
        self._digests = {
            run.frames: digest(Folder(path / name / run.run_id)) for name, run in (("alone", RUN), ("longer", LONGER))
        }
        self._records = records(path / "alone")

    def training(self, folder: Folder, step: int) -> str | None:
        """Train in two parts, and let another attempt train to the end."""

        def sleeper() -> None:
            train(replace(RUN, frames=120), folder)
            train(RUN, folder)

        if not stopped(sleeper, step, lambda: train(RUN, folder)):
            return None
        if digest(folder) != self._digests[RUN.frames]:
            return "the digest differs"
        if records(store_of(folder)) != self._records:
            return "the records differ"
        if status.read_one(Folder(store_of(folder)), RUN).state != "done":
            return "it is not finished"
        in_child(lambda: train(RUN, folder))
        return "" if digest(folder) == self._digests[RUN.frames] else "trained again, the digest differs"

    def keeping_beside_longer(self, folder: Folder, step: int) -> str | None:
        """Drop the replay of a finished run, and let another attempt train it for longer."""
        if not stopped(lambda: finish_and_keep(folder), step, lambda: train(LONGER, folder)):
            return None
        frames = finished_frames(folder.list())
        if holds_only_results(folder):
            return "" if frames > 0 and list(evaluate(folder, 1, seed=0)) else "the results are gone"
        return "" if digest(folder) == self._digests.get(frames) else "the digest differs"

    def keeping_twice(self, folder: Folder, step: int) -> str | None:
        """Drop the replay of a finished run, and let another process do the same."""
        if not stopped(lambda: finish_and_keep(folder), step, lambda: finish_and_keep(folder)):
            return None
        if records(store_of(folder)) != self._records:
            return "the records differ"
        return "" if list(evaluate(folder, 1, seed=0)) else "the weights are gone"


def finish_and_keep(folder: Folder) -> None:
    """Do what a study with `keep = "results"` does."""
    if not holds_only_results(folder):
        train(RUN, folder)
    keep_results(folder)


def store_of(folder: Folder) -> Path:
    """Return the store of a run's folder."""
    assert folder.local_path is not None
    return folder.local_path.parents[len(Path(RUN.run_id).parts) - 1]


def records(store: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all reproducible rows of a store."""
    results = load(store)
    return {table: results.query(f"SELECT * FROM {table}").to_pylist() for table in ("episodes", "iterations")}  # noqa: S608


def stopped(act: Callable[[], object], step: int, meanwhile: Callable[[], object]) -> bool:
    """Stop a process before a step on its store and wake it when another is done; return whether it got there."""
    sleeper = os.fork()
    if sleeper == 0:
        with interrupted_before(step, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            run_and_exit(act)
    _, state = os.waitpid(sleeper, os.WUNTRACED)
    if not os.WIFSTOPPED(state):
        return False
    in_child(meanwhile)
    os.kill(sleeper, signal.SIGCONT)
    os.waitpid(sleeper, 0)
    return True


def in_child(act: Callable[[], object]) -> None:
    """Act in a process of its own and wait for it."""
    child = os.fork()
    if child == 0:
        run_and_exit(act)
    os.waitpid(child, 0)


def run_and_exit(act: Callable[[], object]) -> None:
    """Act and end this process; being superseded, or refused a run whose replay was dropped, is a proper end."""
    try:
        act()
    except (Superseded, CheckpointError):
        pass
    except BaseException as error:
        print(f"a process failed: {error!r}", file=sys.stderr)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
