"""`offpiste train`: train one agent on one game, or go on where it stopped."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from offpiste import methods
from offpiste.cli.view import watch
from offpiste.config import RunConfig, from_dict, read_settings, to_toml
from offpiste.errors import ConfigError
from offpiste.store.storage import Folder
from offpiste.worlds.atari import check_game

STOPPED_EARLY = 75
"""Exit code of a run that was told to stop before its end: the same command continues it."""


@dataclass(frozen=True)
class Arguments:
    """Train one agent on one game. The same command continues a run that was stopped or killed, exactly where it was.
    Exit code 0: the frames are done; 75: told to stop before that (SIGTERM, Ctrl-C), to be continued; 1: an error;
    2: the command line makes no sense. Whole numbers may be written as 20k or 200M.
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)
    out: str = "runs"
    """Folder or s3:// URL below which the run gets a folder of its own."""
    config: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """TOML file with settings; the command line wins over it. --print-config writes one."""
    print_config: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print all settings as TOML and stop."""
    accept_version: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue a run that was begun by a version with other results."""


def defaults(words: Sequence[str]) -> Arguments:
    """Return the defaults for reading a command line: those of the method and of the file that it names."""
    file, asked = _option(words, "--config"), _option(words, "--method")
    settings = read_settings(file) if file else {}
    name = settings.get("method", asked or RunConfig().method)
    if asked and asked != name:
        raise ConfigError(
            f"{file} is for the method {name!r}, and --method says {asked!r}; take `method`, [exploration] and [bonus] "
            "out of the file to use it with any method"
        )
    method = methods.find(name)
    base = dataclasses.replace(RunConfig(), method=name, exploration=method.exploration, bonus=method.bonus)
    return Arguments(run=from_dict(RunConfig, settings, base=base), config=file)


def main(arguments: Arguments) -> int:
    """Train and show how it goes."""
    config = arguments.run
    check_game(config.game)
    if arguments.print_config:
        print(to_toml(config), end="")
        return 0
    from offpiste.run.train import train

    folder = Folder(arguments.out).below(config.run_id)
    with watch(config, folder.location) as report:
        last = train(config, folder, report, accept_version=arguments.accept_version)
        report(last)
    if last.state == "finished":
        print(f"{last.frames:,} frames are done; results in {folder.location}", file=sys.stderr)
        return 0
    print(f"stopped at {last.frames:,} of {last.target_frames:,} frames; the same command continues", file=sys.stderr)
    return STOPPED_EARLY


def _option(words: Sequence[str], name: str) -> str | None:
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None
