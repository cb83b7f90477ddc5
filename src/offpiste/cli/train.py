"""`offpiste train`: train one agent on one game, or resume it."""

import copy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import tyro

from offpiste.cli.bonus_options import set_options, take
from offpiste.cli.output import STOPPED_EARLY
from offpiste.cli.progress_view import show_progress
from offpiste.commands import shell_line
from offpiste.config import RunConfig
from offpiste.errors import ConfigError
from offpiste.methods import METHODS, base_run
from offpiste.parsing import from_dict, read_settings, to_toml
from offpiste.run.attempt import attempt
from offpiste.store.storage import Folder
from offpiste.worlds import registry


@dataclass(frozen=True)
class Arguments:
    """Train one agent on one game. The same command resumes a run that was stopped or killed, with identical results.
    Exit code 0: the frames are done; 75: stopped before that (SIGTERM, Ctrl-C), to be resumed; 1: an error; 2: an
    invalid command line. Integers may be written as 20k or 200M. Any bonus is added with --bonus, and its options are
    set with --bonus.options.OPTION VALUE; see `offpiste methods NAME`.
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)
    out: str = "runs"
    """Folder or s3:// URL below which the run gets a folder of its own."""
    config: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """TOML file with settings, which the command line overrides. --print-config prints one."""
    print_config: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print all settings as TOML and exit."""
    accept_version: tyro.conf.FlagCreatePairsOff[bool] = False
    """Resume a run that was started by a version with other results, or before the file of its bonus was changed."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print only errors and warnings."""


def defaults(argv: Sequence[str]) -> tuple[list[str], Arguments]:
    """Return the arguments left to parse, and the defaults that follow from the rest.

    Method, game, file, bonus and its options are read here, because other settings have defaults that depend on them.
    """
    argv, taken = take(argv, "--method", "--bonus.name")
    file = _last(argv, "--config")
    settings = read_settings(file) if file else {}
    method, bonus = taken.pop("--method", None), taken.pop("--bonus.name", None)
    file_method, file_bonus = _text(settings, "method"), _text(settings.get("bonus"), "name")
    _refuse_conflict(file, "method", file_method, method)
    _refuse_conflict(file, "bonus", file_bonus, bonus)
    if file_method is not None and bonus == file_bonus:
        bonus = None  # the method in the file includes it
    method = method or file_method
    if method is not None and method not in METHODS and bonus is None:
        bonus = file_bonus
    game = _last(argv, "--game") or _text(settings, "game") or RunConfig().game
    registry.load(game)  # its own settings
    base = base_run(game, method, bonus)
    run = from_dict(RunConfig, settings, base=base)
    options = copy.deepcopy(run.bonus.options)
    set_options(options, taken, run.bonus.name)
    run = replace(run, method=base.method, bonus=replace(run.bonus, options=options))
    return argv, Arguments(run=run, config=file)


def main(arguments: Arguments) -> int:
    """Train, and show the progress."""
    config = arguments.run
    if arguments.print_config:
        print(to_toml(config), end="")
        return 0
    folder = Folder(arguments.out).below(config.run_id)
    with show_progress(config, folder.location, quiet=arguments.quiet) as report:
        last = attempt(config, folder, report, accept_version=arguments.accept_version)
    finished = last.state == "finished"
    message = f"{last.frames:,} frames are done; results in {folder.location}"
    if not finished:
        message = f"stopped at {last.frames:,} of {last.target_frames:,} frames; the same command continues"
    if not arguments.quiet:
        print(message, file=sys.stderr)
        if finished:
            commands = next_commands(config, folder.location, Folder(arguments.out).location)
            print("\n".join(commands), file=sys.stderr)
    return 0 if finished else STOPPED_EARLY


def next_commands(config: RunConfig, run: str, out: str) -> Iterator[str]:
    """Yield what to do with a finished run; whoever trained it trusts the code that it names."""
    own_world = not registry.is_ours(config.game)
    trust = ["--trust-world"] * own_world + ["--trust-bonus"] * (":" in config.bonus.name)
    world = ["--world", config.game] * own_world
    yield f"  {shell_line(['offpiste', 'watch', run, *trust, '--out', 'episode.mp4'])}"
    yield f"  {shell_line(['offpiste', 'report', out, *world, '--out', 'report'])}"


def _last(argv: Sequence[str], name: str) -> str | None:
    """Return the last value of an option, or None."""
    found = None
    for argument, following in zip(argv, [*argv[1:], None], strict=True):
        if argument == name:
            found = following
        elif argument.startswith(f"{name}="):
            found = argument.removeprefix(f"{name}=")
    return found


def _text(settings: Any, key: str) -> str | None:
    """Return a string of the file's settings, or None; a value of another type is refused when all are parsed."""
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, str) else None


def _refuse_conflict(file: str | None, kind: str, in_file: str | None, in_argv: str | None) -> None:
    if in_file is not None and in_argv is not None and in_file != in_argv:
        raise ConfigError(
            f"--{kind} must be {in_file!r}, as in {file}, got {in_argv!r}; remove `method`, [exploration] and [bonus] "
            f"from the file to use it with any {kind}"
        )
