"""The demo: its output and its grids."""

import re

import pytest
from rich.console import Console

from offpiste.cli import main
from offpiste.cli.demo import CELLS, GOALS, NEXT, SCALES, SIZE, Contender, grids, punchline


def test_the_demo_trains_both_agents_and_suggests_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--episodes", "3"]) == 0
    out = capsys.readouterr().out
    for text in ("Watch how far", "ε-greedy 0 of 3, CTS 0 of 3 episodes.", "◆", "demo --episodes 12"):
        assert text in out
    assert out.rstrip().endswith(NEXT)
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out  # no colour without a terminal


@pytest.mark.slow
def test_the_demo_shows_its_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "episode 50: " in out
    assert re.search(rf"ε-greedy 0 of (\d+), CTS {GOALS} of \1 episodes\.", out)


def test_zero_episodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--episodes", "0"]) == 1
    assert "--episodes must be > 0, got 0" in capsys.readouterr().err


def test_both_grids_are_there_before_the_first_episode() -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(grids([Contender(method) for method in SCALES]))
    lines = captured.get().splitlines()
    assert lines[0].split() == ["ε-greedy", "CTS"]
    assert lines[-2].count(f"episode 0, 0 of {CELLS} cells") == 2
    assert lines[-1].count("goal reached 0 times") == 2


def test_visits_and_goals_are_shown_under_each_agent() -> None:
    one, two = (Contender(method) for method in SCALES)
    one.visits[:, 0], one.episodes = 4, 7
    two.visits[SIZE, SIZE], two.episodes, two.goals = 1, 7, 2
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(grids([one, two]))
    shown = captured.get()
    assert shown.count("·") == SIZE + 1
    assert f"episode 7, {SIZE + 1} of {CELLS} cells" in shown
    assert "goal reached 2 times" in shown
    assert punchline([one, two]).strip() == "Goal reached: ε-greedy 0 of 7, CTS 2 of 7 episodes."
