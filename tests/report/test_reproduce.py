"""Loops over methods, games and seeds stand for one command per run."""

import subprocess
from dataclasses import replace
from pathlib import Path

from offpiste.analysis.results import load
from offpiste.analysis.runs import Run
from offpiste.commands import train_command
from offpiste.config import RunConfig
from offpiste.methods import base_run
from offpiste.report.reproduce import import_command, loops
from offpiste.store.storage import Folder
from tests.analysis.small_store import write_run
from tests.analysis.small_study import import_curves
from tests.shell import HOSTILE_NAMES, calls

SCHEDULE = replace(RunConfig().schedule, iteration_steps=100)


def run_of(tmp_path: Path, config: RunConfig) -> Run:
    write_run(Folder(tmp_path), config, [1.0])
    return next(run for run in load(Folder(tmp_path)).runs if run.name == config.run_id)


def test_loops_go_over_the_same_runs(tmp_path: Path) -> None:
    for game, seeds in (("freeway", (0, 1)), ("hero", (0, 1)), ("pong", (0, 1, 2))):
        for seed in seeds:
            for method in ("epsilon_greedy", "cts"):
                config = replace(base_run(game, method), seed=seed, frames=400, schedule=SCHEDULE)
                write_run(Folder(tmp_path), config, [1.0])
    runs = load(Folder(tmp_path)).runs
    lines = loops(runs)
    assert len(lines) == 2  # both methods in two games of two seeds, and in one of three
    program = 'offpiste() { echo offpiste "$@"; }\n' + "\n".join(lines)
    said = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True).stdout
    assert sorted(said.splitlines()) == sorted(train_command(run.settings, run.target_frames) for run in runs)


def test_a_single_run_needs_no_loop(tmp_path: Path) -> None:
    run = run_of(tmp_path, replace(base_run("freeway", "cts"), frames=400, schedule=SCHEDULE))
    assert loops([run]) == [train_command(run.settings, run.target_frames)]
    assert train_command(run.settings, run.target_frames) == (
        "offpiste train --game freeway --seed 0 --method cts --frames 400 --schedule.iteration-steps 100"
    )


def test_the_command_that_imports(tmp_path: Path) -> None:
    store = Folder(tmp_path / "a store")
    published = import_curves(store, "freeway", [[1.0]])
    assert import_command([published], "a store") == "offpiste import dopamine freeway.json --store 'a store'"
    assert import_command([], "x") == ""


def test_loops_over_hostile_names_run_nothing_but_offpiste(tmp_path: Path) -> None:
    run = run_of(tmp_path / "store", replace(base_run("freeway", "cts"), frames=400, schedule=SCHEDULE))
    runs = [
        replace(run, game=game, seed=seed, settings=run.settings | {"game": game, "seed": seed})
        for game in HOSTILE_NAMES
        for seed in (0, 1)
    ]
    (line,) = loops(runs)
    found = calls(line, tmp_path / "shell")
    assert {(words[2], words[4]) for words in found} == {(game, seed) for game in HOSTILE_NAMES for seed in "01"}
    assert line.isprintable()
    one_by_one = "\n".join(train_command(run.settings, run.target_frames) for run in runs)
    assert sorted(found) == sorted(calls(one_by_one, tmp_path / "shell"))


def test_files_of_hostile_names_are_imported_by_these_names(tmp_path: Path) -> None:
    published = import_curves(Folder(tmp_path / "store"), "freeway", [[1.0]])
    command = import_command([replace(published, file=name) for name in HOSTILE_NAMES], "$(touch PWNED)")
    (words,) = calls(command, tmp_path / "shell")
    assert words == ["import", "dopamine", *sorted(HOSTILE_NAMES), "--store", "$(touch PWNED)"]
