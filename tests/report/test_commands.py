"""The commands make the same runs again: what a shell and the command line read is what the run says it is."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.load import Run, load
from offpiste.config import BonusConfig, ExplorationConfig, RunConfig, identity
from offpiste.methods import base_run
from offpiste.report.commands import import_command, loops, train_command
from offpiste.store.storage import Folder
from tests.analysis.small_store import write_run
from tests.report.small_study import import_curves

SCHEDULE = replace(RunConfig().schedule, iteration_steps=100)


def run_of(tmp_path: Path, config: RunConfig) -> Run:
    write_run(Folder(tmp_path), config, [1.0])
    return next(run for run in load(Folder(tmp_path)).runs if run.name == config.run_id)


def read_back(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> RunConfig:
    """Return the configuration that `offpiste train` takes from a command."""
    from offpiste.cli import main
    from offpiste.config import read_toml

    words = shlex.split(command)
    assert words[0] == "offpiste"
    assert main([*words[1:], "--print-config"]) == 0
    file = tmp_path / "printed.toml"
    file.write_text(capsys.readouterr().out)
    return read_toml(file)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(),
        replace(base_run("freeway", "rnd"), seed=3, frames=5_000, schedule=SCHEDULE),
        replace(base_run("hero", "noisy_nets"), agent=replace(RunConfig().agent, convolution_channels=(4, 4, 4))),
        replace(base_run("deep_sea_6", "cts"), frames=800),
        replace(
            base_run("montezuma_revenge", "pixelcnn"),
            variant="beta=5,c=0.5",
            bonus=BonusConfig(name="pixelcnn", options={"decay": 0.5, "gate": "product"}, scale=5.0),
        ),
        replace(base_run("freeway", "icm"), bonus=replace(base_run("freeway", "icm").bonus, clip_sum=False)),
        replace(base_run("freeway", "mine", "package.module:Mine"), bonus=BonusConfig("package.module:Mine", {"k": 3})),
        replace(base_run("freeway", "noisy_nets", "module:Mine"), exploration=ExplorationConfig(noisy=True)),
    ],
)
def test_a_command_makes_the_same_run(config: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = read_back(train_command(run_of(tmp_path, config)), capsys, tmp_path)
    assert identity(found) == identity(config)
    assert found.frames == config.frames


def test_loops_go_over_the_same_runs(tmp_path: Path) -> None:
    for game, seeds in (("freeway", (0, 1)), ("hero", (0, 1)), ("pong", (0, 1, 2))):
        for seed in seeds:
            for method in ("epsilon_greedy", "cts"):
                config = replace(base_run(game, method), seed=seed, frames=400, schedule=SCHEDULE)
                write_run(Folder(tmp_path), config, [1.0])
    runs = load(Folder(tmp_path)).runs
    lines = loops(runs)
    assert len(lines) == 4  # two methods, each with two games of two seeds and one of three
    program = 'offpiste() { echo offpiste "$@"; }\n' + "\n".join(lines)
    said = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True).stdout
    assert sorted(said.splitlines()) == sorted(train_command(run) for run in runs)


def test_a_single_run_needs_no_loop(tmp_path: Path) -> None:
    run = run_of(tmp_path, replace(base_run("freeway", "cts"), frames=400, schedule=SCHEDULE))
    assert loops([run]) == [train_command(run)]
    assert train_command(run) == (
        "offpiste train --game freeway --seed 0 --method cts --frames 400 --schedule.iteration-steps 100"
    )


def test_the_command_that_imports(tmp_path: Path) -> None:
    store = Folder(tmp_path / "a store")
    published = import_curves(store, "freeway", [[1.0]])
    assert import_command([published], "a store") == "offpiste import dopamine freeway.json --store 'a store'"
    assert import_command([], "x") == ""
