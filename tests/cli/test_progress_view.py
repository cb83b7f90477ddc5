"""The progress of a run, worked out by hand."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from offpiste.cli import progress_view
from offpiste.cli.progress_view import line, panel, show_progress
from offpiste.config import RunConfig
from offpiste.run.progress import Progress

BEGUN = Progress(
    state="running",
    frames=0,
    target_frames=200_000_000,
    steps=0,
    iteration=1,
    episodes=0,
    epsilon=1.0,
    steps_per_second=None,
    seconds_left=None,
    learning=False,
    last_return=None,
    mean_return=None,
    rooms=None,
    cells=None,
    note="",
)
HALFWAY = Progress(
    state="running",
    frames=1_000_000,
    target_frames=2_000_000,
    steps=300_000,
    iteration=2,
    episodes=1_234,
    epsilon=0.0123,
    steps_per_second=1_250.4,
    seconds_left=200.4,
    learning=True,
    last_return=2_500.0,
    mean_return=1_033.26,
    rooms=3,
    cells=1_500,
    note="",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(progress: Progress, width: int = 160) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(panel("the title", progress))
    return console.export_text()


def test_the_line_of_a_run_at_half_its_frames() -> None:
    assert line(HALFWAY) == (
        "1,000,000 frames (50.0%), 1,250 frames/s, ETA 0:03:20, iteration 2, episode 1,234, ε 0.012, "
        "last return 2,500, mean 1,033, rooms 3, cells 1,500"
    )


def test_the_line_of_a_run_that_just_started_omits_what_is_unknown() -> None:
    assert line(BEGUN) == "0 frames (0.0%), – frames/s, ETA once it learns, iteration 1, episode 0, ε 1.000"


def test_a_note_ends_the_line() -> None:
    assert line(replace(BEGUN, note="checkpoint failed")).endswith("ε 1.000; checkpoint failed")


def test_a_long_eta_is_in_days() -> None:
    assert "ETA 2 days, 3:04:05," in line(replace(HALFWAY, seconds_left=2 * 86_400 + 3 * 3_600 + 4 * 60 + 5))


def test_a_run_of_zero_frames_can_be_shown() -> None:
    assert "(0.0%)" in line(replace(BEGUN, target_frames=0))
    assert "0.0%" in shown(replace(BEGUN, target_frames=0))


def test_the_live_view_shows_every_figure_and_the_note() -> None:
    text = shown(replace(HALFWAY, note="checkpoint failed, next try in 15 s"))
    for part in (
        "the title",
        "50.0%",
        "1,000,000 / 2,000,000 frames",
        "1,250 frames/s",
        "ETA 0:03:20",
        "iteration 2",
        "episode 1,234",
        "ε 0.012",
        "last return 2,500",
        "mean 1,033",
        "rooms 3",
        "cells 1,500",
        "checkpoint failed, next try in 15 s",
    ):
        assert part in text, text
    assert "failed" not in shown(HALFWAY)


def test_brackets_in_a_note_are_not_parsed_as_markup() -> None:
    assert "cannot write [bold]x[/bold]" in shown(replace(HALFWAY, note="cannot write [bold]x[/bold]"))


def test_without_a_terminal_a_line_is_printed_every_half_minute_and_at_every_new_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(progress_view, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with show_progress(RunConfig(frames=2_000_000), "runs/x") as report:
        for moment, note in [(0, ""), (1, ""), (29, ""), (30, ""), (31, "away"), (32, "away"), (33, ""), (62, "")]:
            now[0] = 1_000.0 + moment
            report(replace(HALFWAY, episodes=moment, note=note))
    out, errors = capsys.readouterr()
    assert out == ""
    lines = errors.splitlines()
    assert lines[0] == "montezuma_revenge/epsilon_greedy/seed-0, to 2,000,000 frames, in runs/x"
    assert [text.partition("episode ")[2].partition(",")[0] for text in lines[1:]] == ["0", "30", "31", "33"]


def test_if_quiet_only_notes_are_printed_and_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(RunConfig(frames=2_000_000), "runs/x", quiet=True) as report:
        for note in ("", "away", "away", "", "away", "full"):
            report(replace(HALFWAY, note=note))
    out, errors = capsys.readouterr()
    assert out == ""
    title = "montezuma_revenge/epsilon_greedy/seed-0, to 2,000,000 frames, in runs/x"
    assert errors.splitlines() == [f"{title}: away", f"{title}: away", f"{title}: full"]


def test_on_a_terminal_the_view_is_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with show_progress(RunConfig(frames=2_000_000), "runs/x") as report:
        report(HALFWAY)
        report(replace(HALFWAY, frames=1_500_000))
    text = terminal.getvalue()
    assert "montezuma_revenge/epsilon_greedy/seed-0, to 2,000,000 frames, in runs/x" in text
    assert "75.0%" in text
    assert "\x1b[?25h" in text  # the cursor is restored at the end


def test_there_is_no_eta_before_learning_starts() -> None:
    assert "ETA once it learns," in line(replace(BEGUN, steps_per_second=900.0))
    assert "ETA –," in line(replace(BEGUN, learning=True))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_345.6, "12,346"),
        (12.34, "12.3"),
        (21.0, "21"),
        (0.99, "0.99"),
        (-0.004, "-0.004"),
        (0.0, "0"),
        (1.5, "1.50"),
    ],
)
def test_a_score_has_its_significant_digits(value: float, text: str) -> None:
    assert progress_view._score(value) == text


def test_the_rate_counts_frames_as_the_rest_of_the_line_does() -> None:
    assert "5,002 frames/s" in line(HALFWAY, frame_skip=4)


def test_a_single_room_is_not_worth_a_word() -> None:
    assert "rooms" not in line(replace(HALFWAY, rooms=1))
    assert "rooms 2" in line(replace(HALFWAY, rooms=2))
