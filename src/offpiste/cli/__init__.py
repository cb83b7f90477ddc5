"""The command `offpiste`: one module per subcommand, with its `Arguments` and a `main` that returns the exit code.

Only the given command is imported, and only those that compute import torch, so that help appears at once.
"""

import functools
import importlib
import operator
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

import offpiste
from offpiste.cli.output import warn
from offpiste.errors import BonusError, OffpisteError, did_you_mean
from offpiste.parsing import parse_count

COMMANDS = {
    "demo": "demo",
    "train": "train",
    "eval": "eval",
    "watch": "watch",
    "games": "games",
    "digest": "digest",
    "doctor": "doctor",
    "check-bonus": "check_bonus",
    "try": "try_bonus",
    "methods": "methods",
    "study": "study",
    "report": "report",
    "bundle": "bundle",
    "export": "export",
    "import": "importing",
    "verify": "verify",
}
"""The module of each command; only that of the given one is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv in (["--version"], ["-V"]):
        print(offpiste.__version__)
        return 0
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
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


def _parse(argv: list[str]) -> Any:
    """Return the arguments of a command; a known command has a parser of its own, so that errors refer to its help."""
    if argv and argv[0] in COMMANDS:
        module, prog = _module(argv[0]), f"offpiste {argv[0]}"
        argv, default = module.defaults(argv) if hasattr(module, "defaults") else (argv, None)
        return tyro.cli(module.Arguments, prog=prog, args=argv[1:], default=default, registry=_registry())
    about = f"{offpiste.__doc__} --version prints the version."
    return tyro.cli(_commands(), prog="offpiste", description=about, args=argv or ["--help"], registry=_registry())


def _commands() -> Any:
    """Return the union of all commands' arguments."""
    kinds = [Annotated[_module(name).Arguments, tyro.conf.subcommand(name)] for name in COMMANDS]
    return functools.reduce(operator.or_, kinds)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"offpiste.cli.{COMMANDS[command]}")


def _registry() -> ConstructorRegistry:
    """Return constructors that accept integers written as 200M or 20k."""
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
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def _parse_count(text: str) -> int:
    try:
        return parse_count(text)
    except OffpisteError as error:
        raise ValueError(str(error)) from None
