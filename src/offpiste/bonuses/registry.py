"""Find a bonus by name and build it: a built-in one, an installed package's entry point, or any module:Class.

Only a bonus named module:Class is searched for in the current folder too, after all that is installed: no other command
runs code that happens to be there, and no file there shadows a library.
"""

import dataclasses
import hashlib
import importlib
import inspect
import random
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from offpiste.bonuses.base import Bonus, Context, options_class
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError, did_you_mean, kind_of
from offpiste.methods import METHODS
from offpiste.parsing import from_dict

ENTRY_POINTS = "offpiste.bonuses"
_REQUIRED = ("observe", "state", "load_state")


def built_in() -> dict[str, str]:
    """Return the built-in bonuses: module:Class by name."""
    return {row.bonus.name: row.bonus_class for row in METHODS.values() if row.bonus_class is not None}


def find(name: str) -> type[Any]:
    """Return the class of a bonus."""
    known = _declared()
    path = name if ":" in name else known.get(name)
    if path is None:
        raise ConfigError(f"no bonus named {name!r}{did_you_mean(name, known)} (name a class of your own module:Class)")
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name or module_name.startswith("."):
        raise ConfigError(f"cannot load the bonus {name!r}: name it module:Class, as in my_module:MyBonus")
    if path == name and "" not in sys.path:
        sys.path.append("")
    try:
        with nullcontext() if path in built_in().values() else _from_source(module_name):
            module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(f"cannot load the bonus {name!r}: {_reason(error, module_name)}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        of_module = inspect.getmembers(module, inspect.isclass)
        classes = [key for key, kind in of_module if kind.__module__.startswith(module_name)]  # not what it imports
        raise ConfigError(
            f"cannot load the bonus {name!r}: {class_name} is not a class of "
            f"{getattr(module, '__file__', module_name)}; classes there: {', '.join(classes) or 'none'}"
        )
    return found


def is_declared(name: str) -> bool:
    """Return whether a bonus is built in or an installed package's entry point, by its name or by module:Class.

    That its module can be imported would not be enough: importing runs it, and some installed modules do harm.
    """
    known = _declared()
    return name in known or name in known.values()


def _declared() -> dict[str, str]:
    """Return all bonuses that have a name: module:Class by name."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)} | built_in()


def import_path(kind: type[Any]) -> str:
    """Return the module:Class of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _reason(error: Exception, module_name: str) -> str:
    """Return why a module could not be imported, with file and line."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
        if module_name.endswith(".py"):
            return "leave out .py: a module is named without it"
        return f"{error}, neither installed nor in {Path.cwd()}; run in the folder of its file"
    message = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    files = [frame.filename for frame in frames if frame.name == "<module>"]  # not those of libraries that it calls
    if not files or isinstance(error, SyntaxError):  # whose message has file and line
        return message
    return f"{message} ({files[-1]}, line {line_of(error, files[-1])})"


def line_of(error: Exception, file: str | None) -> int | None:
    """Return the last line of a file that an error came through, or None if it did not."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def build(config: BonusConfig, context: Context) -> Bonus | None:
    """Return the bonus of a run, or None where it has none."""
    if config.name == "none":
        return None
    kind, options = find(config.name), options_of(config)
    if missing := [name for name in _REQUIRED if not callable(getattr(kind, name, None))]:
        raise ConfigError(
            f"the bonus {config.name!r} has no method {' and no '.join(missing)}; a bonus has {', '.join(_REQUIRED)}"
        )
    with seeded_globals(int(context.generator.integers(2**63))):
        made: Bonus = kind(options, context)
    return made


def options_of(config: BonusConfig) -> Any:
    """Return the options of a run's bonus; raise `ConfigError` for one that it does not have."""
    form = options_class(find(config.name))
    if not (isinstance(form, type) and dataclasses.is_dataclass(form)):
        raise ConfigError(f"`Options` of the bonus {config.name!r} must be a frozen dataclass, got {kind_of(form)}")
    return from_dict(form, config.options, where="bonus.options.")


def source_file(name: str) -> str | None:
    """Return the source file of a bonus, if it has one."""
    return getattr(sys.modules[find(name).__module__], "__file__", None)


def source_digest(name: str) -> str | None:
    """Return the hash of the source of a bonus as this process imported it, however its file was changed since.

    None for a built-in one, which RESULTS_VERSION covers. What was imported before any bonus was asked for by name, as
    in a notebook, is taken for the file as it is at the first call.
    """
    if name == "none" or name in built_in():
        return None
    module = sys.modules[find(name).__module__]
    loader = getattr(module.__spec__, "loader", None)
    of, digest = _digests.get(module.__name__, (None, None))
    if digest is None or of is not loader:  # a module that is reloaded gets another loader
        file = getattr(module, "__file__", None)
        digest = _digest(Path(file).read_bytes()) if file else None
        _digests[module.__name__] = loader, digest
    return digest


_digests: dict[str, tuple[object, str | None]] = {}
"""By module, its loader and the hash of the source that it compiled."""


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


class _SourceLoader(SourceFileLoader):
    """Compiles a module from its source, never from a cached file that may be older, and notes the hash of that."""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        if _digests.get(fullname, (None, None))[0] is not self:  # later calls do not import
            _digests[fullname] = self, _digest(source)
        code: CodeType = self.source_to_code(source, self.path)
        return code


class _SourceFinder:
    """Finds the modules of one package as the other finders do, and has them compiled by `_SourceLoader`."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != self._package:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(name, spec.loader.path)
        return spec


@contextmanager
def _from_source(module_name: str) -> Iterator[None]:
    """Have the modules of this one's package that are imported within the block compiled from their source."""
    finder = _SourceFinder(module_name.partition(".")[0])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of torch, numpy and Python within the block, and restore them after it."""
    import torch  # here, for a bonus is found and its options are checked without it

    before: tuple[Any, ...] = (random.getstate(), np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
