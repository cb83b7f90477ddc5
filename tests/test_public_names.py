"""What `import offpiste` promises: these names and no others, each loaded when it is first used."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import offpiste


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(offpiste.__all__) == [
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


def test_every_public_name_is_the_thing_it_says() -> None:
    for name in offpiste.__all__:
        found = getattr(offpiste, name)
        assert name in dir(offpiste)
        if name != "__version__":
            assert found.__name__ == name
            assert found.__doc__
    assert offpiste.__version__ == version("offpiste")


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'offpiste' has no attribute 'Rainbow'"):
        offpiste.Rainbow  # type: ignore[attr-defined] # noqa: B018


def test_importing_offpiste_loads_nothing_heavy() -> None:
    script = """
import sys
import offpiste
assert not {"numpy", "torch", "pyarrow", "duckdb", "ray"} & set(sys.modules)
offpiste.Bonus, offpiste.Context, offpiste.RunConfig, offpiste.Transition, offpiste.base_run, offpiste.Folder
offpiste.Range
assert not {"torch", "duckdb", "ray"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_name_whose_extra_is_missing_says_what_to_install() -> None:
    script = """
import sys
import offpiste
sys.modules["duckdb"] = None
try:
    offpiste.load
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "offpiste.load needs duckdb: pip install 'offpiste[report]'\n", done.stderr
