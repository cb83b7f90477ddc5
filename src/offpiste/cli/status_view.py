"""The status of a study on one screen: runs by state, then those that need attention."""

import dataclasses
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from offpiste.errors import ConfigError, printable
from offpiste.store.documents import MAX_BYTES
from offpiste.store.storage import Folder
from offpiste.study import parts, status
from offpiste.study.marks import read_status
from offpiste.study.plan import Study, make_study
from offpiste.study.status import RunStatus

REFRESH_SECONDS = 10.0
MAX_NOTE = 1_000
"""Characters of a note that are shown."""
_STYLES = {"running": "green", "stale": "yellow", "failed": "bold red"}


def watch(study: Study, store: Folder, asked_to_stop: str) -> None:
    """Show a study until all its runs are done, or until Ctrl-C; with this line while it is asked to stop."""
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            found = read_status(store, study)
            shown = list(lines(study.name, found, console.height - 3))
            shown[1:1] = filter(None, [parts.line(store, study, found)])
            shown += [asked_to_stop] * status.stop_requested(store, study.name)
            live.update(Text("\n").join(map(_styled, shown)), refresh=True)
            if all(seen.state == "done" for seen in found):
                return
            time.sleep(REFRESH_SECONDS)


def of_study(study: Study, store: Folder) -> Iterator[str]:
    """Yield the status of a study: totals, parts if it has some, and runs that need attention."""
    found = read_status(store, study)
    first, *rest = lines(study.name, found)
    yield from filter(None, [first, parts.line(store, study, found), *rest])


def studies(stores: Sequence[Folder]) -> Iterator[str]:
    """Yield the totals of every study in these stores, by the copies of their files."""
    for store in stores:
        yield f"in {store.location}:"
        for name in store.entries("studies")[1]:
            content = store.get(f"studies/{name}/study.toml", MAX_BYTES) or b""
            try:
                study = make_study(name, tomllib.loads(content.decode()))
            except (ConfigError, ValueError) as error:
                yield f"study {printable(name)} cannot be read: {printable(str(error))}"
                continue
            found = read_status(store, study)
            yield from filter(None, [summary(name, found), parts.line(store, study, found)])


def lines(name: str, found: Sequence[RunStatus], max_lines: int | None = None) -> Iterator[str]:
    """Yield the status of a study in at most `max_lines`: totals, then failed, stale, running and noted runs."""
    yield summary(name, found)
    shown = [seen for state in ("failed", "stale", "running") for seen in found if seen.state == state]
    noted = [seen for seen in found if seen.state == "waiting" and seen.note]
    listed = [*shown, *noted]
    count = len(listed) if max_lines is None or len(listed) < max_lines else max(0, max_lines - 2)
    width = max((len(seen.run_id) for seen in listed[:count]), default=0)
    for seen in listed[:count]:
        yield line(seen, width)
    if count < len(listed):
        yield f"… and {len(listed) - count} more; --json lists all"


def summary(name: str, found: Sequence[RunStatus]) -> str:
    """Return the runs by state, the share of frames done, and the total rate, as one line."""
    counts = Counter(seen.state for seen in found)
    states = ", ".join(f"{counts[state]:,} {state}" for state in status.STATES)
    done, target = frames(found)
    rate = sum(seen.steps_per_second or 0.0 for seen in found)
    text = f"study {name}: {len(found):,} runs: {states}; {100 * done / max(1, target):.1f}% of {target:,} frames"
    return f"{text}; {rate:,.0f} steps/s together" if rate else text


def frames(found: Sequence[RunStatus]) -> tuple[int, int]:
    """Return the frames done, and the frames of all runs."""
    return sum(min(seen.frames, seen.target_frames) for seen in found), sum(seen.target_frames for seen in found)


def line(seen: RunStatus, width: int) -> str:
    """Return the status of one run as a line."""
    share = 100 * min(1.0, seen.frames / max(1, seen.target_frames))
    text = f"{seen.state:<8}{seen.run_id:<{width}} {share:5.1f}%"
    if seen.steps_per_second:
        text += f"  {seen.steps_per_second:,.0f} steps/s"
    if seen.seconds_left is not None:
        text += f"  ETA {timedelta(seconds=round(seen.seconds_left))}"
    if seen.state == "stale" and seen.seconds_since_news is not None:
        text += f"  no news for {timedelta(seconds=round(seen.seconds_since_news))}"
    if seen.host:
        text += f"  on {printable(seen.host)}" + (f" (job {printable(seen.job)})" if seen.job else "")
    return f"{text}  {' '.join(printable(seen.note[:MAX_NOTE]).split())}" if seen.note else text


def as_json(name: str, found: Sequence[RunStatus]) -> dict[str, Any]:
    """Return the status of a study as JSON values."""
    counts = Counter(seen.state for seen in found)
    done, target = frames(found)
    return {
        "study": name,
        "counts": {state: counts[state] for state in status.STATES},
        "frames": done,
        "target_frames": target,
        "runs": [dataclasses.asdict(seen) for seen in found],
    }


def _styled(text: str) -> Text:
    return Text(text, style=_STYLES.get(text.split(" ", 1)[0], ""), no_wrap=True, overflow="ellipsis")
