"""The demo: its output and its plot."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from offpiste.cli import main
from offpiste.cli.demo import BARS, CELLS, SIZE, Contender, plot


def test_the_demo_trains_both_agents_and_suggests_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--episodes", "3"]) == 0
    out = capsys.readouterr().out
    for text in ("epsilon_greedy", "cts", "cells found", "offpiste train --game freeway", "◆", "demo --episodes 12"):
        assert text in out
    assert "\x1b" not in out  # no colour without a terminal


@pytest.mark.slow
def test_the_demo_shows_its_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "episode 50: " in out
    assert "epsilon_greedy: did not reach the goal" in out
    assert "cts: reached the goal in episode" in out


def test_zero_episodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--episodes", "0"]) == 1
    assert "--episodes must be > 0, got 0" in capsys.readouterr().err


def contender(name: str, cells: list[int]) -> Contender:
    loop: Any = SimpleNamespace()
    return Contender(name, loop, np.zeros((SIZE + 1, SIZE + 1), np.int64), cells)


def test_the_plot_shows_the_share_of_cells_over_the_episodes() -> None:
    half, all_cells = CELLS // 2, CELLS
    lines = plot([contender("one", [0, half, all_cells]), contender("two", [half, half, half])])
    assert lines[1] == f"cells found, of {all_cells}, over 3 episodes"
    assert lines[2].split() == ["one", BARS[4] + BARS[8]]
    assert lines[3].split() == ["two", BARS[4] * 3]


def test_many_episodes_are_shortened_to_the_width_of_the_plot() -> None:
    lines = plot([contender("one", list(range(1, 51)) * 4)])
    assert len(lines[2]) == 16 + 60
