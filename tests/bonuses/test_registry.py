import compileall
import hashlib
import importlib
import os
import py_compile
import random
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from offpiste.bonuses.base import Context, NoOptions, Transition
from offpiste.bonuses.registry import build, find, source_digest
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.sameness import global_generators


@dataclass(frozen=True)
class CountOptions:
    start: int = 0


class Count:
    Options = CountOptions

    def __init__(self, options: CountOptions, context: Context) -> None:
        self.count = options.start
        self.weights = torch.nn.Linear(2, 2).weight.detach().numpy()
        self.numpy_draw = np.random.rand()  # noqa: NPY002
        self.python_draw = random.random()  # noqa: S311

    def observe(self, transition: Transition) -> float:
        self.count += 1
        return float(self.count)

    def state(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def context(seed: int = 0) -> Context:
    return Context("montezuma_revenge", 18, 4, (84, 84), stream(seed, "bonus"))


HERE = f"{__name__}:Count"


def test_none_is_no_bonus() -> None:
    assert build(BonusConfig(), context()) is None


def test_any_class_is_found_by_module_and_name_and_checks_its_options() -> None:
    bonus = build(BonusConfig(name=HERE, options={"start": 7}), context())
    assert isinstance(bonus, Count)
    assert bonus.count == 7
    with pytest.raises(
        ConfigError, match=r"no setting named 'bonus.options.strat'; did you mean 'bonus.options.start'\?"
    ):
        build(BonusConfig(name=HERE, options={"strat": 7}), context())


def test_a_class_that_is_no_bonus_is_refused_before_it_is_made() -> None:
    with pytest.raises(ConfigError, match="'builtins:dict' has no method observe and no state"):
        build(BonusConfig(name="builtins:dict"), context())


class Plain:
    def __init__(self, options: object, context: Context) -> None:
        self.options = options

    observe, state, load_state = Count.observe, Count.state, Count.load_state


def test_a_class_without_options_has_none() -> None:
    bonus = build(BonusConfig(name=f"{__name__}:Plain"), context())
    assert isinstance(bonus, Plain)
    assert bonus.options == NoOptions()
    with pytest.raises(ConfigError, match=r"no setting named 'bonus.options.bits'"):
        build(BonusConfig(name=f"{__name__}:Plain", options={"bits": 1}), context())


class Odd(Plain):
    Options = {"bits": 1}  # noqa: RUF012


def test_options_that_are_no_dataclass_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"`Options` of the bonus '.*:Odd' must be a frozen dataclass, got dict"):
        build(BonusConfig(name=f"{__name__}:Odd"), context())


class OnlyPays:
    Options = CountOptions
    state = None

    def __init__(self, options: CountOptions, context: Context) -> None:
        pass

    def observe(self, transition: Transition) -> float:
        return 1.0


def test_a_class_without_the_methods_of_a_bonus_is_refused_as_soon_as_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"OnlyPays' has no method state and no load_state; a bonus has observe, "):
        build(BonusConfig(name=f"{__name__}:OnlyPays"), context())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            f"{__name__}:Cuont",
            r"cannot load .*: Cuont is not a class of .*test_registry.py; classes there: Count, CountO",
        ),
        (f"{__name__}:context", "context is not a class of "),
        ("math:Bonus", "Bonus is not a class of .*math.*; classes there: none"),
        (":Count", "cannot load the bonus ':Count': name it module:Class"),
        (".mine:Count", "cannot load the bonus '.mine:Count': name it module:Class"),
        ("mine:", "cannot load the bonus 'mine:': name it module:Class"),
        ("rdn", "no bonus named 'rdn'.*module:Class"),
    ],
)
def test_a_bonus_that_is_not_there_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ndef f(:\n", r"SyntaxError: invalid syntax \(a_bonus_to_load.py, line 2\)$"),
        ("x = 1\n\nclass Mine:\n    y = z\n", r"NameError: .*'z'.* \(.*/a_bonus_to_load.py, line 4\)$"),
        ("import json\njson.loads('')\n", r"JSONDecodeError: .* \(.*/a_bonus_to_load.py, line 2\)$"),
        ("\nimport nowhere\n", r"No module named 'nowhere' \(.*/a_bonus_to_load.py, line 2\)$"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_with_file_and_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_bonus_to_load.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        find("a_bonus_to_load:Mine")


def test_a_module_that_is_not_there_is_refused_with_the_folder_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_bonus_in_a_file.py").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("nowhere", "nowhere.at_all"):
        with pytest.raises(
            ConfigError, match=f"No module named 'nowhere', neither installed nor in {tmp_path}; run in"
        ):
            find(f"{name}:Bonus")
    for name in ("a_bonus_in_a_file.py", "nowhere.py"):
        with pytest.raises(ConfigError, match=f"cannot load the bonus '{name}:Bonus': leave out .py"):
            find(f"{name}:Bonus")


def test_an_installed_package_offers_its_bonus_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = types.SimpleNamespace(name="mine", value=HERE)
    monkeypatch.setattr(sys.modules["offpiste.bonuses.registry"], "entry_points", lambda **_: [point])
    assert find("mine") is Count


def test_a_bonus_is_made_from_its_seed_alone_and_leaves_global_generators_as_they_were() -> None:
    torch.manual_seed(3)
    before = global_generators()
    one = build(BonusConfig(name=HERE), context())
    assert global_generators() == before
    torch.manual_seed(4)
    two, other = build(BonusConfig(name=HERE), context()), build(BonusConfig(name=HERE), context(seed=1))
    assert isinstance(one, Count)
    assert isinstance(two, Count)
    assert isinstance(other, Count)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert (one.numpy_draw, one.python_draw) == (two.numpy_draw, two.python_draw)
    assert not np.array_equal(one.weights, other.weights)


MINE = """
from dataclasses import dataclass

VALUE = {value}


@dataclass(frozen=True)
class Options:
    pass


class Mine:
    Options = Options
    measures_visits = False

    def __init__(self, options, context):
        pass

    def observe(self, transition):
        return VALUE

    def state(self):
        return {{}}

    def load_state(self, state):
        pass
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a bonus that pays 1, which can be imported by the name of the file, `mine`."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.format(value=1.0))
    yield tmp_path / "mine.py"
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mine", "theirs")]:
        del sys.modules[name]


def edit(file: Path, value: float) -> str:
    """Let the bonus in a file pay something else; return the hash of the file."""
    file.write_text(MINE.format(value=value))
    return hash_of(file)


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def paid(name: str = "mine:Mine") -> float:
    value: float = sys.modules[find(name).__module__].VALUE
    return value


def test_the_hash_of_a_bonus_is_that_of_the_code_that_was_imported(mine: Path) -> None:
    find("mine:Mine")
    imported = hash_of(mine)
    assert edit(mine, 2.0) != imported
    assert (paid(), source_digest("mine:Mine")) == (1.0, imported)
    del sys.modules["mine"]
    assert (paid(), source_digest("mine:Mine")) == (2.0, hash_of(mine))


def test_a_file_that_changes_while_it_is_imported_has_the_hash_of_what_was_compiled(mine: Path) -> None:
    mine.write_text(MINE.format(value=1.0) + "\nwith open(__file__, 'a') as file:\n    file.write('VALUE = 2.0')\n")
    compiled = hash_of(mine)
    assert (paid(), source_digest("mine:Mine")) == (1.0, compiled)
    assert hash_of(mine) != compiled


def test_compiled_code_that_only_looks_current_is_not_taken_for_the_file(mine: Path) -> None:
    compileall.compile_file(mine, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    written = mine.stat().st_mtime
    edit(mine, 2.0)  # of the same size
    os.utime(mine, (written, written))
    assert (paid(), source_digest("mine:Mine")) == (2.0, hash_of(mine))


def test_the_hash_of_a_class_is_that_of_the_module_of_its_package_that_defines_it(mine: Path) -> None:
    package = mine.with_name("theirs")
    package.mkdir()
    inner = mine.rename(package / "inner.py")
    (package / "__init__.py").write_text("from theirs.inner import Mine\n")
    find("theirs:Mine")
    imported = hash_of(inner)
    edit(inner, 2.0)
    assert (paid("theirs:Mine"), source_digest("theirs:Mine")) == (1.0, imported)


def test_a_module_that_was_imported_before_has_the_hash_of_the_first_look_until_it_is_reloaded(mine: Path) -> None:
    module = importlib.import_module("mine")
    first = source_digest("mine:Mine")
    assert first == hash_of(mine)
    mine.write_text(MINE.format(value=2.0) + "# another size\n")
    assert (paid(), source_digest("mine:Mine")) == (1.0, first)
    importlib.reload(module)
    assert (paid(), source_digest("mine:Mine")) == (2.0, hash_of(mine))


def test_modules_of_other_packages_are_imported_as_ever_and_the_search_path_is_left_as_it_was(mine: Path) -> None:
    mine.with_name("theirs.py").write_text("VALUE = 3.0\n")
    mine.write_text(f"import theirs\n{MINE.format(value=1.0)}")
    before = [*sys.meta_path]
    find("mine:Mine")
    assert sys.meta_path == before
    assert type(sys.modules["theirs"].__spec__.loader) is SourceFileLoader  # type: ignore[union-attr]
    mine.write_text("raise ValueError('no')\n")
    del sys.modules["mine"]
    with pytest.raises(ConfigError, match=rf"ValueError: no \({re.escape(str(mine))}, line 1\)"):
        find("mine:Mine")
    assert sys.meta_path == before
