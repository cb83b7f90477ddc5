"""The progress of a run: a live view on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from offpiste.config import RunConfig
from offpiste.errors import printable

if TYPE_CHECKING:
    from offpiste.run.progress import Progress

LINE_SECONDS = 30.0


@contextmanager
def show_progress(config: RunConfig, location: str, *, quiet: bool = False) -> Iterator[Callable[["Progress"], None]]:
    """Yield a function that shows progress; if quiet, only notes, which report problems."""
    title = f"{config.run_id}, to {config.frames:,} frames, in {location}"
    if quiet:
        yield _note_printer(title)
        return
    if not sys.stderr.isatty():
        print(title, file=sys.stderr, flush=True)
        yield _line_printer(config.world.frame_skip)
        return
    console = Console(stderr=True)
    with Live(Text(title), console=console, refresh_per_second=4) as live:
        yield lambda progress: live.update(panel(title, progress, config.world.frame_skip))


def panel(title: str, progress: "Progress", frame_skip: int = 1) -> RenderableType:
    """Return the live view."""
    share = min(1.0, progress.frames / max(1, progress.target_frames))
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=1.0, completed=share, width=30, complete_style="cyan", finished_style="green"),
        f"{100 * share:5.1f}%",
        f"{progress.frames:,} / {progress.target_frames:,} frames",
        _rate(progress, frame_skip),
        f"ETA {_eta(progress)}",
    )
    rows: list[RenderableType] = [Text(title, style="bold"), bar, Text(_figures(progress))]
    if progress.note:
        rows.append(Text(printable(progress.note), style="bold red"))
    return Group(*rows)


def line(progress: "Progress", frame_skip: int = 1) -> str:
    """Return the progress as one line of plain text."""
    share = min(100.0, 100 * progress.frames / max(1, progress.target_frames))
    rate, eta = _rate(progress, frame_skip), _eta(progress)
    text = f"{progress.frames:,} frames ({share:.1f}%), {rate}, ETA {eta}, {_figures(progress)}"
    return f"{text}; {printable(progress.note)}" if progress.note else text


def _line_printer(frame_skip: int) -> Callable[["Progress"], None]:
    shown_at = -LINE_SECONDS
    shown_note = ""

    def show(progress: "Progress") -> None:
        nonlocal shown_at, shown_note
        now = time.monotonic()
        if now >= shown_at + LINE_SECONDS or progress.note != shown_note:
            print(line(progress, frame_skip), file=sys.stderr, flush=True)
            shown_at, shown_note = now, progress.note

    return show


def _note_printer(title: str) -> Callable[["Progress"], None]:
    shown_note = ""

    def show(progress: "Progress") -> None:
        nonlocal shown_note
        if progress.note and progress.note != shown_note:
            print(f"{title}: {printable(progress.note)}", file=sys.stderr, flush=True)
        shown_note = progress.note

    return show


def _rate(progress: "Progress", frame_skip: int) -> str:
    return f"{progress.steps_per_second * frame_skip:,.0f} frames/s" if progress.steps_per_second else "– frames/s"


def _eta(progress: "Progress") -> str:
    if progress.seconds_left is not None:
        return str(timedelta(seconds=round(progress.seconds_left)))
    return "–" if progress.learning or progress.state != "running" else "once it learns"


def _figures(progress: "Progress") -> str:
    parts = [f"iteration {progress.iteration}", f"episode {progress.episodes:,}", f"ε {progress.epsilon:.3f}"]
    if progress.last_return is not None:
        parts.append(f"last return {_score(progress.last_return)}")
    if progress.mean_return is not None:
        parts.append(f"mean {_score(progress.mean_return)}")
    if progress.rooms is not None and progress.rooms > 1:  # most worlds have one room
        parts.append(f"rooms {progress.rooms}")
    if progress.cells is not None:
        parts.append(f"cells {progress.cells:,}")
    return ", ".join(parts)


def _score(value: float) -> str:
    """Return a score with its significant digits: 12,345, 12.3, 0.99, -0.004."""
    size = abs(value)
    digits = 0 if value == int(value) or size >= 1_000 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"
