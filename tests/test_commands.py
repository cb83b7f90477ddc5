"""The command of a run makes the same run again: the command line parses it into the same settings."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.commands import train_command
from offpiste.config import BonusConfig, ExplorationConfig, RunConfig, identity
from offpiste.methods import base_run
from offpiste.parsing import from_dict, read_settings
from tests.shell import HOSTILE_NAMES, calls

SCHEDULE = replace(RunConfig().schedule, iteration_steps=100)


def read_back(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> RunConfig:
    """Return the configuration that `offpiste train` parses from a command."""
    from offpiste.cli import main

    argv = shlex.split(command)
    assert argv[0] == "offpiste"
    assert main([*argv[1:], "--print-config"]) == 0
    file = tmp_path / "printed.toml"
    file.write_text(capsys.readouterr().out)
    return from_dict(RunConfig, read_settings(file))


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
        replace(base_run("freeway", "my_name", "module:Mine"), variant="beta=2"),
        replace(
            base_run("freeway", None, "module:Mine"),
            bonus=BonusConfig("module:Mine", {"flag": True, "off": False, "sizes": [1, 2], "tiny": 1e-5, "of": "a b"}),
        ),
    ],
)
def test_a_command_makes_the_same_run(config: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = read_back(train_command(identity(config), config.frames), capsys, tmp_path)
    assert identity(found) == identity(config)
    assert found.frames == config.frames


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_command_is_one_line_in_which_a_shell_runs_nothing_else(name: str, tmp_path: Path) -> None:
    named = {"game": name, "method": "mine", "variant": f"v{name}", "bonus.name": f"module:{name}"}
    command = train_command(identity(RunConfig()) | named | {f"bonus.options.key{name}": f"value{name}"}, 400)
    assert command.isprintable()
    (argv,) = calls(command, tmp_path)
    assert argv[:8] == ["train", "--game", name, "--seed", "0", "--method", "mine", "--bonus"]
    assert argv[8] == f"module:{name}"
    assert {"--variant", f"v{name}"} <= set(argv)
    assert argv[-2:] == [f"--bonus.options.key{name}", f"value{name}"]
