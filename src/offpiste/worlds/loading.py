"""Import what somebody named as module:NAME; no name that a store holds comes here.

Only such a name is searched for in the current folder too, after all that is installed.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from offpiste.errors import ConfigError


def load_object(path: str, what: str) -> Any:
    """Return the object of a path module:NAME; `ConfigError` says why it cannot be had."""
    module_name, _, name = path.partition(":")
    module = import_module(module_name, f"{what} {path!r}")
    if not hasattr(module, name):
        public = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))) or "none"
        raise ConfigError(
            f"cannot load {what} {path!r}: {getattr(module, '__file__', module_name)} has no {name}; names there: "
            f"{public:.300}"
        )
    return getattr(module, name)


def import_module(module_name: str, wanted: str) -> Any:
    """Import a module; `ConfigError` says for what it was wanted and why it cannot be imported."""
    if "" not in sys.path:
        sys.path.append("")
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"cannot load {wanted}: it imports {error.name}, which is not installed") from error
        advice = (
            "leave out .py"
            if module_name.endswith(".py")
            else f"neither installed nor in {Path.cwd()}, where this runs"
        )
        raise ConfigError(f"cannot load {wanted}: no module named {error.name}; {advice}") from error
    except Exception as error:
        raise ConfigError(f"cannot load {wanted}: {type(error).__name__}: {error}") from error
