"""`offpiste train`: train one agent on one game, or go on where it stopped."""

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import tyro

from offpiste.cli.bonus_options import set_options, take
from offpiste.cli.progress_view import show_progress
from offpiste.config import RunConfig
from offpiste.errors import ConfigError
from offpiste.methods import METHODS, base_run
from offpiste.parsing import from_dict, read_settings, to_toml
from offpiste.store.storage import Folder
from offpiste.worlds import registry

STOPPED_EARLY = 75
"""Exit code of a run that was told to stop before its end: the same command continues it."""


@dataclass(frozen=True)
class Arguments:
    """Train one agent on one game. The same command continues a run that was stopped or killed, exactly where it was.
    Exit code 0: the frames are done; 75: told to stop before that (SIGTERM, Ctrl-C), to be continued; 1: an error;
    2: the command line makes no sense. Whole numbers may be written as 20k or 200M. Any bonus is added with --bonus;
    its own options, which `offpiste methods NAME` tells, are set with --bonus.options.OPTION VALUE.
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)
    out: str = "runs"
    """Folder or s3:// URL below which the run gets a folder of its own."""
    config: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """TOML file with settings; the command line wins over it. --print-config writes one."""
    print_config: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print all settings as TOML and stop."""
    accept_version: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue a run that was begun by a version with other results, or before the file of its bonus was changed."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print nothing but what goes wrong."""


def defaults(words: Sequence[str]) -> tuple[list[str], Arguments]:
    """Return the words that are left to read, and what holds where those say nothing.

    What decides the defaults is read here: the method, the bonus and its options, and which game and file it is.
    """
    words, taken = take(words, "--method", "--bonus.name")
    file = _last(words, "--config")
    settings = read_settings(file) if file else {}
    method, bonus = taken.pop("--method", None), taken.pop("--bonus.name", None)
    file_method, file_bonus = _text(settings, "method"), _text(settings.get("bonus"), "name")
    _agree(file, "method", file_method, method)
    _agree(file, "bonus", file_bonus, bonus)
    if file_method is not None and bonus == file_bonus:
        bonus = None  # the file has the name for it already
    method = method or file_method
    if method is not None and method not in METHODS and bonus is None:
        bonus = file_bonus
    game = _last(words, "--game") or _text(settings, "game") or RunConfig().game
    base = base_run(game, method, bonus)
    run = from_dict(RunConfig, settings, base=base)
    options = copy.deepcopy(run.bonus.options)
    set_options(options, taken, run.bonus.name)
    run = replace(run, method=base.method, bonus=replace(run.bonus, options=options))
    return words, Arguments(run=run, config=file)


def main(arguments: Arguments) -> int:
    """Train and show how it goes."""
    config = arguments.run
    registry.check_game(config.game)
    if arguments.print_config:
        print(to_toml(config), end="")
        return 0
    from offpiste.run.train import train

    folder = Folder(arguments.out).below(config.run_id)
    with show_progress(config, folder.location, quiet=arguments.quiet) as report:
        last = train(config, folder, report, accept_version=arguments.accept_version)
        report(last)
    finished = last.state == "finished"
    end = f"{last.frames:,} frames are done; results in {folder.location}"
    if not finished:
        end = f"stopped at {last.frames:,} of {last.target_frames:,} frames; the same command continues"
    if not arguments.quiet:
        print(end, file=sys.stderr)
    return 0 if finished else STOPPED_EARLY


def _last(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option, or None; the last one counts."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.removeprefix(f"{name}=")
    return found


def _text(settings: Any, key: str) -> str | None:
    """Return a text of the file's settings, or None; what is of the wrong kind is refused when all are read."""
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, str) else None


def _agree(file: str | None, kind: str, said: str | None, asked: str | None) -> None:
    if said is not None and asked is not None and said != asked:
        raise ConfigError(
            f"{file} is for the {kind} {said!r}, and --{kind} says {asked!r}; take `method`, [exploration] and [bonus] "
            f"out of the file to use it with any {kind}"
        )
