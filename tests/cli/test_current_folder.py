"""Code in the current folder is run only for a bonus given as module:Class.

Tested in real processes, by the console script and `python -m`, since their search paths differ.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from offpiste import arrays
from offpiste.bonuses.contract.new_process import Save, paid_in_new_process
from offpiste.bonuses.contract.play import FULL, WARM_UP_GAMES
from offpiste.bonuses.contract.specimen import SavedBonus
from offpiste.bonuses.registry import find
from offpiste.seeding import generator_state, stream
from tests.study.small import TINY

LAUNCHERS = {"script": [str(Path(sys.executable).with_name("offpiste"))], "module": [sys.executable, "-m", "offpiste"]}
TAKEN = (
    "csv",
    "duckdb",
    "email",
    "matplotlib",
    "numpy",
    "pyarrow",
    "ray",
    "rich",
    "tensorflow",
    "torch",
    "typing",
    "tyro",
)
"""Modules that offpiste or its libraries import: from the standard library, installed, and not installed."""
BONUS = """
from dataclasses import dataclass

from beside import PAID


@dataclass(frozen=True)
class Options:
    pass


class Mine:
    "Pays the same for everything."

    Options = Options
    measures_visits = False

    def __init__(self, options, context):
        pass

    def observe(self, transition):
        return PAID

    def state(self):
        return {}

    def load_state(self, state):
        pass
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a module for each taken name, which leaves a file if it is run."""
    for name in TAKEN:
        (tmp_path / f"{name}.py").write_text("open(f'{__file__}.ran', 'w').close()\nraise RuntimeError('it was run')\n")
    return tmp_path


def add_bonus(folder: Path) -> None:
    """Add a bonus; naming it trusts the folder with modules that are not installed, such as tensorflow."""
    (folder / "mine.py").write_text(BONUS)
    (folder / "beside.py").write_text("PAID = 0.5\n")
    (folder / "tensorflow.py").unlink()


def output(launcher: str, argv: list[str], folder: Path) -> str:
    """Return the output of a command, after asserting that it ran no module of the folder."""
    done = subprocess.run([*LAUNCHERS[launcher], *argv], cwd=folder, capture_output=True, text=True, timeout=900)
    assert not [path.name for path in folder.glob("*.ran")], done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["games"], "montezuma_revenge"),
        (["report", "."], "there is no run below ."),
        (["digest", "."], "holds no run"),
        (["methods", "cts"], "offpiste.bonuses.cts:Cts"),
        pytest.param(
            ["train", "--game", "deep_sea_3", "--frames", "9", "--out", "runs"],
            "9 frames are done",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda argv: argv[0] if isinstance(argv, list) else "",
)
def test_a_command_without_a_module_runs_nothing_in_the_current_folder(
    launcher: str, argv: list[str], expected: str, hostile: Path
) -> None:
    assert expected in output(launcher, argv, hostile)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_bonus_in_the_current_folder_is_found_and_installed_modules_come_first(launcher: str, hostile: Path) -> None:
    add_bonus(hostile)
    argv = ["train", "--game", "deep_sea_3", "--frames", "9", "--bonus", "mine:Mine", "--out", "runs"]
    assert "9 frames are done" in output(launcher, argv, hostile)


@pytest.mark.slow
def test_the_new_process_of_check_bonus_searches_the_current_folder_last(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_bonus(hostile)
    monkeypatch.chdir(hostile)
    monkeypatch.setattr(sys, "path", [*sys.path])
    saved = SavedBonus(arrays.pack({}), generator_state(stream(0, "bonus")), observed=FULL.compared - 2)
    try:
        saves = [Save(WARM_UP_GAMES[0], saved)]
        assert paid_in_new_process(find("mine:Mine"), {}, saves, FULL) == [[0.5, 0.5]]
    finally:
        del sys.modules["mine"], sys.modules["beside"]
    assert not list(hostile.glob("*.ran"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("by", [[], ["--ray"]])
def test_the_workers_of_a_study_search_the_current_folder_last(launcher: str, by: list[str], hostile: Path) -> None:
    add_bonus(hostile)
    (hostile / "tiny.toml").write_text(tomli_w.dumps(TINY | {"methods": [{"bonus": "mine:Mine"}], "seeds": [0]}))
    assert "1 done, 0 in flight, 0 waiting, 0 quarantined of 1 runs" in output(
        launcher, ["study", "run", "tiny.toml", "--store", "runs", *by], hostile
    )
