"""The command `offpiste`: one module per subcommand, with its `Arguments` and a `main` that returns the exit code.

Only the given command is imported, and only those that compute import torch, so that help appears at once.
"""

import functools
import importlib
import io
import operator
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from types import ModuleType
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

import offpiste
from offpiste.cli.output import plain, warn
from offpiste.errors import BonusError, OffpisteError, did_you_mean
from offpiste.parsing import parse_count

GROUPS = {
    "Start": {
        "demo": ("demo", "watch two agents learn, one with a bonus, one without"),
        "doctor": ("doctor", "check whether this machine can train"),
        "train": ("train", "train one agent on one game, or resume it"),
        "watch": ("watch", "write a video of one episode of a run"),
        "eval": ("eval", "play episodes with the newest weights of a run"),
    },
    "Your bonus or world": {
        "check-bonus": ("check_bonus", "check that a bonus keeps the contract, and say what is wrong"),
        "try": ("try_bonus", "tune and run a bonus in the small worlds, beside the others"),
        "check-world": ("check_world", "check that an environment can be a world, and say what is wrong"),
        "methods": ("methods", "list the exploration methods, or show one"),
        "games": ("games", "list the games and worlds"),
    },
    "Studies": {
        "study": ("study", "plan, run and watch many runs, here or on a cluster"),
        "report": ("report", "make a page of what runs show"),
        "verify": ("verify", "check that what a store holds is whole"),
        "digest": ("digest", "print a checksum of a run's results"),
    },
    "Data": {
        "bundle": ("bundle", "write the records of finished runs into a few files"),
        "export": ("export", "write records for TensorBoard, Weights & Biases or as CSV"),
        "import": ("importing", "add published curves to a store"),
    },
}
"""By group and command: its module, of which only that of the given command is imported, and what it does."""
EXIT_CODES = "Exit code 0: done; 1: an error; 2: an invalid command line; 130: interrupted by Ctrl-C."
"""What the help of a command ends with, unless it has codes of its own."""
_NO_DEFAULT = re.compile(r"\(default:(?: |\s*│\s*│ +)(?:None|'')?\)")
"""What the parser says of an option that is not given, maybe over the border of a box."""
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv in (["--version"], ["-V"]):
        print(offpiste.__version__)
        return 0
    if not argv or argv[0] in ("--help", "-h"):
        print("\n".join(_overview()))
        return 0
    if argv[0].startswith("--tyro-"):  # for completion in a shell
        tyro.cli(_commands(), prog="offpiste", args=argv, registry=_registry())
    if argv[0] not in COMMANDS:
        if argv[0].startswith("-"):
            warn(f"no option named {argv[0]!r}; `offpiste --help` lists the commands")
        else:
            warn(f"no command named {argv[0]!r}{did_you_mean(argv[0], COMMANDS)}")
        return 2
    try:
        command = _parse(argv)
        run: Callable[[Any], int] = sys.modules[type(command).__module__].main
        return run(command)
    except OffpisteError as error:
        if isinstance(error, BonusError):
            traceback.print_exception(error.__cause__)  # its author's code
        warn(str(error))
        return 1
    except KeyboardInterrupt:
        print("offpiste: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _overview() -> Iterator[str]:
    """Yield the help: a line for each command."""
    yield from ("usage: offpiste COMMAND [OPTIONS]", "", f"{offpiste.__doc__}")
    for group, commands in GROUPS.items():
        yield from ("", f"{group}:")
        yield from (f"  {name:<13}{about}" for name, (_, about) in commands.items())
    yield from ("", "offpiste COMMAND --help has its options and exit codes; offpiste --version.")


def _parse(argv: list[str]) -> Any:
    """Return the arguments of a command, by a parser of its own, so that errors refer to its help."""
    module, prog = _module(argv[0]), f"offpiste {argv[0]}"
    argv, default = module.defaults(argv) if hasattr(module, "defaults") else (argv, None)
    with _fitting_help():
        return tyro.cli(module.Arguments, prog=prog, args=argv[1:], default=default, registry=_registry())


@contextmanager
def _fitting_help() -> Iterator[None]:
    """Break what the parser prints, which is help, between words where it is wider than the terminal.

    Exit codes come last, and an option that is not given has no default.
    """
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)  # else it draws no boxes
    try:
        with redirect_stdout(printed):
            yield
    finally:
        width = shutil.get_terminal_size().columns
        text = _NO_DEFAULT.sub(lambda found: re.sub(r"[^│\s]", " ", found[0]), printed.buffer.getvalue().decode())
        if text and "Exit code" not in text:
            text += f"\n{EXIT_CODES}"
        for line in map(str.rstrip, text.splitlines()):
            if not re.fullmatch("│ +│", line):
                print(textwrap.fill(line, width, break_on_hyphens=False) if len(line) > width else line)


def _commands() -> Any:
    """Return the union of all commands' arguments."""
    kinds = [Annotated[_module(name).Arguments, tyro.conf.subcommand(name)] for name in COMMANDS]
    return functools.reduce(operator.or_, kinds)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"offpiste.cli.{COMMANDS[command]}")


def _registry() -> ConstructorRegistry:
    """Return constructors that accept integers written as 200M or 20k, and show numbers as people write them."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def count(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
        if info.type is not int:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda argv: _parse_count(argv[0]),
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [_count(value)],
        )

    @registry.primitive_rule
    def number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[float] | None:
        if info.type is not float:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="FLOAT",
            instance_from_str=lambda argv: float(argv[0]),
            is_instance=lambda value: isinstance(value, int | float),
            str_from_instance=lambda value: [plain(value)],
        )

    return registry


def _count(value: int) -> str:
    """Return an integer as the command line takes it: 200M, 250k, 108."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)


def _parse_count(text: str) -> int:
    try:
        return parse_count(text)
    except OffpisteError as error:
        raise ValueError(str(error)) from None
