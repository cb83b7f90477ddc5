"""`offpiste methods`: the table of methods, and one method in detail."""

import re
from pathlib import Path

import pytest

from offpiste.cli import main
from offpiste.methods import METHODS

OWN = '''
from dataclasses import dataclass, field
from typing import Annotated

from offpiste import Range


@dataclass(frozen=True)
class Common:
    kept: Annotated[int, Range(min=1, max=9_000)] = 5
    """Documented in the
    parent."""


@dataclass(frozen=True, kw_only=True)
class OwnOptions(Common):
    rate: float
    """How fast."""
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    silent: bool = False


class Own:
    """Pays for nothing.

    And says so at length.
    """

    Options = OwnOptions


class Bare:
    Options = {}
'''


def output(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["methods", *argv])
    out, errors = capsys.readouterr()
    assert (code, errors) == (0, "")
    return out


def columns(line: str) -> list[str]:
    return re.split(r" {2,}", line)


def test_the_table_has_one_row_for_each_method_with_its_constants(capsys: pytest.CaptureFixture[str]) -> None:
    heading, *lines = output([], capsys).split("\n\n")[0].splitlines()
    rows = {columns(line)[0]: columns(line)[1:] for line in lines}
    assert columns(heading)[0] == "method"
    assert list(rows) == list(METHODS)
    assert {len(row) for row in rows.values()} == {4}
    assert rows["epsilon_greedy"] == ["–", "–", "–", "paper"]
    assert rows["icm"] == ["0.005", "forward_weight 0.005", "clipped to ±1", "paper"]
    assert rows["oracle"] == ["0.01", "–", "clipped to ±1", "not tuned"]
    assert rows["rnd_released"] == ["0.00005", "learning_rate 0.0001", "not clipped", "released code"]
    assert all(len(line) <= 120 for line in [heading, *lines])


def test_a_method_in_detail_lists_every_option_of_its_bonus(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(["pixelcnn"], capsys)
    assert re.match(r"pixelcnn\n  actions +ε 1 to 0.01\n  bonus +offpiste.bonuses.pixelcnn:PixelCnn\n", text)
    assert re.search(r"scale β +0\.1\n", text)
    assert "  decay (float > 0) = 1.0\n      c in the decayed prediction gain c·PG/√n, after n steps.\n" in text
    assert "  gate (Literal['sum', 'product']) = 'sum'\n      How a block joins tanh and sigmoid" in text
    assert "  The bonus has no options." in output(["cts"], capsys)


def test_a_method_without_a_bonus_shows_only_its_actions(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(["noisy_nets"], capsys)
    assert text == "noisy_nets\n  actions         noisy layers, σ0 0.5\n  constants from  the paper\n"


def test_a_constant_that_differs_from_the_default_of_its_bonus_is_shown_with_that_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(METHODS["pixelcnn"].bonus.options, "decay", 0.5)
    assert "  decay (float > 0) = 0.5, default of the bonus 1.0\n" in output(["pixelcnn"], capsys)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "a_bonus_in_this_folder"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_bonus_in_the_current_folder_is_shown_with_its_docstrings(
    own_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, about, options = output([f"{own_module}:Own"], capsys).partition("  Pays for nothing.")
    assert about
    assert options == (
        "\n  And says so at length.\n\n  --bonus.options.OPTION VALUE, where OPTION is\n"
        "\n  kept (int >= 1 and <= 9_000) = 5\n      Documented in the parent.\n"
        "\n  rate (float) must be set\n      How fast.\n"
        "\n  sizes (list[int]) = [1, 2]\n"
        "\n  silent (bool) = False\n"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("epsilon_gredy", "no method named 'epsilon_gredy'; did you mean 'epsilon_greedy'?"),
        ("rdn", "no method named 'rdn'; did you mean 'rnd'?"),
        ("a_bonus_in_this_folder:Onw", "cannot load the bonus 'a_bonus_in_this_folder:Onw'"),
        ("a_bonus_in_this_folder:Bare", "`Options` in the class of a bonus must be a frozen dataclass"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused_in_one_line(
    name: str, message: str, own_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["methods", name]) == 1
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(f"offpiste: {message}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("name", METHODS)
def test_one_method_fits_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", name]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
