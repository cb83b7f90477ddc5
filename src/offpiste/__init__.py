"""A fair test of exploration bonuses on the Arcade Learning Environment."""

# The public names, and nothing else: docs/api.md documents them, and a test pins them. Each is imported on first use:
# `import offpiste` is quick, needs no extra and does not import torch. Only modules that Python itself has loaded are
# imported here: under `python -m offpiste` the current folder still comes first (see __main__.py).

import importlib

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` is not needed
if TYPE_CHECKING:
    from offpiste.analysis.results import load
    from offpiste.bonuses.base import Batch, Bonus, Context, Product, Transition
    from offpiste.bonuses.contract.check import check_bonus
    from offpiste.config import RunConfig
    from offpiste.errors import OffpisteError
    from offpiste.methods import base_run
    from offpiste.neural import load_module, save_module
    from offpiste.parsing import Range
    from offpiste.run.train import train
    from offpiste.store.storage import Folder
    from offpiste.worlds.contract import check_world
    from offpiste.worlds.games import Game

    __version__: str

__all__ = [
    "Batch",
    "Bonus",
    "Context",
    "Folder",
    "Game",
    "OffpisteError",
    "Product",
    "Range",
    "RunConfig",
    "Transition",
    "__version__",
    "base_run",
    "check_bonus",
    "check_world",
    "load",
    "load_module",
    "save_module",
    "train",
]
_HOMES = {
    "Batch": "offpiste.bonuses.base",
    "Bonus": "offpiste.bonuses.base",
    "Context": "offpiste.bonuses.base",
    "Folder": "offpiste.store.storage",
    "Game": "offpiste.worlds.games",
    "OffpisteError": "offpiste.errors",
    "Product": "offpiste.bonuses.base",
    "Range": "offpiste.parsing",
    "RunConfig": "offpiste.config",
    "Transition": "offpiste.bonuses.base",
    "base_run": "offpiste.methods",
    "check_bonus": "offpiste.bonuses.contract.check",
    "check_world": "offpiste.worlds.contract",
    "load": "offpiste.analysis.results",
    "load_module": "offpiste.neural",
    "save_module": "offpiste.neural",
    "train": "offpiste.run.train",
}

if not TYPE_CHECKING:  # otherwise a type checker accepts every name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("offpiste")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            found = getattr(importlib.import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:  # only reading results needs an extra
            raise ImportError(f"offpiste.{name} needs {error.name}: pip install 'offpiste[report]'") from None
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
