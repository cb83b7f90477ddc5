"""The demo: what it counts, how it draws, and how it ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from offpiste.cli import main
from offpiste.cli.demo import BARS, CELLS, SIZE, Contender, plot


def test_the_demo_plays_both_agents_and_says_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "1"]) == 0
    out = capsys.readouterr().out
    for words in ("epsilon_greedy", "cts", "cells found", "offpiste train --game freeway", "◆", "demo --seconds 4"):
        assert words in out
    assert "\x1b" not in out  # no colour where nobody sees it


def test_no_time_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0"]) == 1
    assert "above 0" in capsys.readouterr().err


def arm(name: str, cells: list[int]) -> Contender:
    loop: Any = SimpleNamespace()
    return Contender(name, loop, np.zeros((SIZE + 1, SIZE + 1), np.int64), cells)


def test_the_plot_shows_the_share_of_cells_over_time() -> None:
    half, all_cells = CELLS // 2, CELLS
    lines = plot([arm("one", [0, half, all_cells]), arm("two", [half, half, half])])
    assert lines[1] == f"cells found, of {all_cells}, over 3 dives"
    assert lines[2].split() == ["one", BARS[4] + BARS[8]]
    assert lines[3].split() == ["two", BARS[4] * 3]


def test_a_long_story_is_shortened_to_the_width_of_the_plot() -> None:
    lines = plot([arm("one", list(range(1, 51)) * 4)])
    assert len(lines[2]) == 16 + 60
