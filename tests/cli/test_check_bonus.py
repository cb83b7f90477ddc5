"""`offpiste check-bonus`: its output and its exit code."""

from pathlib import Path
from typing import Any

import pytest
import torch

from offpiste.bonuses.contract.report import CheckReport
from offpiste.cli import check_bonus, main


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are wrapped at the width of the terminal, which other tests may have set."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def quick_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measured cost of an agent step by a constant."""
    monkeypatch.setattr(check_bonus, "agent_step_milliseconds", lambda: 1e9)


def test_the_exit_code_of_a_bonus_that_keeps_the_contract_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-bonus", "tests.bonuses.broken:Good"]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "tests.bonuses.broken:Good"
    assert lines[1] == "ok       options are a frozen dataclass"
    assert "FAILED" not in output.out
    assert lines[-1].startswith("ok       cost: ")
    assert "% of an agent step of " in output.out
    assert output.err.startswith("checking tests.bonuses.broken:Good")


def test_the_exit_code_of_a_broken_bonus_is_1_and_the_failure_is_explained(
    quick_agent: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-bonus", "tests.bonuses.broken:WithLooseOptions"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("FAILED   options are a frozen dataclass: LooseOptions must be frozen; ")
    assert "ok       bonuses are finite" in lines


def test_options_come_from_a_file(quick_agent: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["check-bonus", "tests.bonuses.broken:WithDemandingOptions"]
    assert main(argv) == 1
    assert "cannot be made from the options given" in capsys.readouterr().out
    file = tmp_path / "options.toml"
    file.write_text("noise = 0.2\n")
    assert main([*argv, "--options", str(file)]) == 0
    capsys.readouterr()
    assert main([*argv, "--options", "missing.toml"]) == 1
    assert capsys.readouterr().err == "offpiste: there is no file missing.toml\n"


def test_options_on_the_command_line_are_those_of_train_and_override_the_file(
    monkeypatch: pytest.MonkeyPatch, quick_agent: None, tmp_path: Path
) -> None:
    checked: list[Any] = []

    def check(kind: type[Any], options: Any, _: float, **_rest: object) -> CheckReport:
        checked.append((kind.__name__, options))
        return CheckReport("", ())

    monkeypatch.setattr("offpiste.bonuses.contract.check.check_bonus", check)
    file = tmp_path / "options.toml"
    file.write_text("learning_rate = 0.2\ngate = 'product'\n")
    argv = ["check-bonus", "pixelcnn", "--bonus.options.learning-rate", "0.5"]
    assert main([*argv, "--options", str(file)]) == main(argv) == 0
    assert checked == [
        ("PixelCnn", {"learning_rate": 0.5, "gate": "product"}),
        ("PixelCnn", {"learning_rate": 0.5}),
    ]


def test_a_missing_bonus_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-bonus", "nowhere:Bonus"]) == 1
    output = capsys.readouterr().err
    assert output.startswith(
        "offpiste: cannot load the bonus 'nowhere:Bonus': No module named 'nowhere', neither installed nor in "
        f"{Path.cwd()};"
    )
    assert output.count("\n") == 1


def test_measuring_the_cost_of_an_agent_step_restores_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    assert 0.1 < check_bonus.agent_step_milliseconds() < 10_000.0
    assert torch.get_num_threads() == before
