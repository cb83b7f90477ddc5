"""A page for each run: its curves, intrinsic reward, maps over time, settings and command, and a video beside it."""

import hashlib
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from offpiste.analysis.curves import Thinned
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import label, title
from offpiste.analysis.runs import Run
from offpiste.analysis.stats import Array
from offpiste.analysis.visits import Visits, lays_out_rooms
from offpiste.commands import train_command
from offpiste.config import later_defaults
from offpiste.report import maps
from offpiste.report.figures import left_of, returns_axis
from offpiste.report.look import looks
from offpiste.report.material import Material
from offpiste.report.panels import Axis, Band, Dots, Line, Mark, Panel, frames_axis, number, numbers
from offpiste.report.section import Code, Custom, Fold, Part, Section, Words
from offpiste.report.tables import shown
from offpiste.store.storage import Folder
from offpiste.worlds.scores import reference_scores

Render = Callable[[Sequence[Section], Mapping[str, Any]], str]
Points = Mapping[str, tuple[Array, Array]]
"""By name of a scalar, frames and values."""
_OVERSHOOT = 1.05
"""How far beyond the frames of a run its last episode may end, as a factor."""
POINTS = 100
"""Of one curve."""
MAX_VIDEO_BYTES = 64 * 2**20
_VIDEOS = (".mp4", ".webm")
_SCALARS = ("return", "intrinsic/mean", "intrinsic/q05", "intrinsic/q95", "intrinsic/max", "cells", "loss", "max_q")
_PLAIN = {"cells": "Cells found", "loss": "Loss", "max_q": "Highest Q"}
_MAPS = (
    "First: steps spent in each cell, the brighter the more. Then, quarter by quarter of the time in which new cells "
    "were found: new ones bright, known ones dim."
)
_FOOTER = "Its records are in the store; the report is one folder up."


def pages_of(evidence: Evidence) -> frozenset[str]:
    """Return the names of the runs that get a page: those of the report's own store that test a method.

    Those that tune are many and alike, and those of stores beside it have pages in a report of their own.
    """
    return frozenset(run.name for run in evidence.runs if run.store == evidence.store)


def page_name(run: Run) -> str:
    """Return the file name of the page of a run; a run may be called anything in a store."""
    kept = re.sub(r"[^a-z0-9_]+", "-", run.name.lower())[:80].strip("-")
    return f"{kept}-{hashlib.sha256(run.name.encode()).hexdigest()[:8]}.html"


def write_pages(material: Material, out: Path, render: Render) -> None:
    """Write the page of each run into the folder runs."""
    runs = [run for run in material.evidence.runs if run.name in material.pages]
    if not runs:
        return
    (out / "runs").mkdir()
    evidence = material.evidence
    scalars, evaluations = _scalars(evidence), _iterations(evidence, "evaluation")
    trained = _iterations(evidence, "train")
    thinned = {
        name: left
        for group in evidence.groups
        for curves in group.curves.values()
        for name, left in curves.thinned.items()
    }
    for run in runs:
        found, left = scalars.get(run.name, {}), thinned.get(run.name)
        if (left is not None or "return" not in found) and run.name in trained:
            found = {**found, "return": trained[run.name]}
        sections = list(_sections(run, found, evaluations.get(run.name), material.visits.get(run.name), left))
        video = _copied_video(material, run, out / "runs")
        if video:
            sections.insert(1, Section("video", "Video", [Custom("video", video)]))
        about = {
            "heading": f"{title(run.game)}, {label(run.method)}, seed {run.seed}",
            "banner": "",
            "store": run.store,
            "what_was_run": f"{run.name}: {run.state}, {run.frames:,} of {run.target_frames:,} frames.",
            "lead": [_in_short(evidence, run)],
            "scope": [],
            "methods": [],
            "back": [("Report", "../index.html")],
            "media": bool(video),
            "footer": _FOOTER,
        }
        (out / "runs" / page_name(run)).write_text(render(sections, about), encoding="utf-8")


def _sections(
    run: Run, found: Points, evaluations: tuple[Array, Array] | None, visits: Visits | None, left: Thinned | None
) -> Iterator[Section]:
    panels = [_return_panel(run, found, evaluations, left)]
    panels += [panel] if (panel := intrinsic_panel(run, found)) else []
    panels += [_plain_panel(run, heading, *found[name]) for name, heading in _PLAIN.items() if name in found]
    caption = "Over frames of training."
    caption += " Rings: evaluations." if evaluations is not None else ""
    caption += (
        " Intrinsic reward before β, on a scale of powers of ten."
        if len(panels) > 1 and "intrinsic/mean" in found
        else ""
    )
    caption += f" {left_of([left], 'this run')}" if left is not None else ""
    yield Section("curves", "Curves", [Custom("sheet", ("rows", panels)), Words([caption], small=True)])
    if visits is not None:
        rooms = lays_out_rooms(run.game)
        whole = maps.map_panel("whole run", run.game, visits.counts)
        size = "large" if rooms else "maps"
        said = _MAPS + (f" {maps.rooms_caption(run.game)}" if rooms else "")
        parts: list[Part] = [
            Custom("sheet", (size, [whole, *maps.time_panels(run.game, visits)])),
            Words([said], small=True),
        ]
        yield Section("visits", "Where it went", parts)
    later = later_defaults()
    own: list[tuple[str, str]] = []
    rest: list[tuple[str, str]] = []
    for key, value in run.settings.items():
        is_own = key.startswith(("bonus.", "exploration.")) and value != later.get(key)
        (own if is_own else rest).append((key, str(value)))
    yield Section("settings", "Settings", [Custom("settings", own), Fold("All others", [Custom("settings", rest)])])
    yield Section("command", "Command", [Code([train_command(run.settings, run.target_frames)])])


def _in_short(evidence: Evidence, run: Run) -> str:
    """Return what came of a run, in a sentence."""
    found = next((group.summaries[run.name] for group in evidence.groups if run.name in group.summaries), None)
    if found is None:
        return "This run has no numbers yet."
    parts = [f"last evaluation {shown(found.evaluation)}"] * math.isfinite(found.evaluation)
    training = "final training return" if evidence.measures.get(run.game) == "evaluation" else "final score"
    parts += [f"{training} {shown(found.final)}"] * math.isfinite(found.final)
    parts += [f"{found.cells:,.0f} cells"] * math.isfinite(found.cells)
    parts += [f"{found.rooms:,.0f} rooms"] * (math.isfinite(found.rooms) and lays_out_rooms(run.game))
    first = found.first_reward_frame
    parts += ["no reward" if math.isinf(first) else f"first reward after {first:,.0f} frames"] * (not math.isnan(first))
    said = ", ".join(parts) or "no numbers yet"
    return f"{said[0].upper()}{said[1:]}."


def _return_panel(
    run: Run, found: Points, evaluations: tuple[Array, Array] | None, left: Thinned | None = None
) -> Panel:
    look = looks([run.method])[run.method]
    marks: list[Mark] = []
    values = []
    if "return" in found:
        frames, returns = found["return"]
        marks += [Line(frames, returns, look.colour), *_spoken(frames, returns, look.colour)]
        values.append(returns)
    if evaluations is not None:
        frames, returns = evaluations
        said = [f"evaluation at {at:,.0f} frames: {number(each)}" for at, each in zip(frames, returns, strict=True)]
        marks.append(Dots(frames, returns, look.colour, said, radius=4.0, filled=False, opacity=1.0))
        values.append(returns)
    if left is not None and left.rewarded:
        frames, returns = (np.array(each) for each in zip(*left.rewarded, strict=True))
        said = [f"an episode at {at:,.0f} frames: {number(each)}" for at, each in left.rewarded]
        marks.append(Dots(frames, returns, look.colour, said))
        values.append(returns)
    y = returns_axis(values, reference_scores(run.game))
    return Panel("Return", tuple(marks), _frames_axis(run, marks), y, width=360.0, height=200.0)


def intrinsic_panel(run: Run, found: Points) -> Panel | None:
    """Return the intrinsic reward over frames, mean and 5% to 95% quantiles, on a logarithmic scale; None without "
    "any.
    """
    if "intrinsic/mean" not in found:
        return None
    look = looks([run.method])[run.method]

    def powers(name: str) -> tuple[Array, Array]:
        frames, values = found.get(name, (np.zeros(0), np.zeros(0)))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log10(values)
        return frames, np.where(np.isfinite(logs), logs, np.nan)

    (frames, mean), (_, low), (_, high) = (
        powers(name) for name in ("intrinsic/mean", "intrinsic/q05", "intrinsic/q95")
    )
    marks: list[Mark] = [Band(frames, low, high, look.colour)] if low.size == high.size == frames.size else []
    said = [f"{at:,.0f} frames: {10**each:.3g}" for at, each in zip(frames, mean, strict=True) if np.isfinite(each)]
    marks.append(Line(frames, mean, look.colour))
    known = np.isfinite(mean)
    if not known.any():
        return None
    marks.append(Dots(frames[known], mean[known], look.colour, said, radius=2.0, opacity=1.0))
    spread = np.concatenate([each[np.isfinite(each)] for each in (mean, low, high)])
    bottom, top = math.floor(spread.min() + 1e-9), math.ceil(spread.max() - 1e-9)
    step = max(1, (top - bottom) // 3)
    ticks = tuple((float(power), f"1e{power}".replace("-", "−")) for power in range(bottom, top + 1, step))
    y = Axis(float(bottom), float(max(top, bottom + 1)), ticks, lines=True)
    return Panel("Intrinsic reward", tuple(marks), _frames_axis(run, marks), y, width=360.0, height=200.0)


def _plain_panel(run: Run, heading: str, frames: Array, values: Array) -> Panel:
    look = looks([run.method])[run.method]
    low, high = min(0.0, float(np.nanmin(values))), max(float(np.nanmax(values)), 1e-9)
    y = Axis(low, high, numbers(low, high), lines=True)
    marks = (Line(frames, values, look.colour), *_spoken(frames, values, look.colour))
    return Panel(heading, marks, _frames_axis(run, marks), y, width=360.0, height=200.0)


def _frames_axis(run: Run, marks: Sequence[Mark]) -> Axis:
    """Return an axis to the last frame that is drawn, which in a run that goes on may be beyond its last iteration.

    Its tick stays at the frames of the run where only the end of an episode is beyond.
    """
    frames = float(run.frames or 1)
    last = max([frames, *(float(mark.xs[-1]) for mark in marks if isinstance(mark, Line | Dots) and len(mark.xs))])
    axis = frames_axis(frames if last < _OVERSHOOT * frames else last)
    return replace(axis, high=last)


def _spoken(frames: Array, values: Array, colour: str) -> list[Mark]:
    """Return points of a curve that say their numbers."""
    known = np.flatnonzero(np.isfinite(values))
    known = known[:: max(1, known.size // 12)]
    said = [f"{frames[at]:,.0f} frames: {number(float(values[at]))}" for at in known]
    return [Dots(frames[known], values[known], colour, said, radius=2.0, opacity=1.0)]


def _scalars(evidence: Evidence) -> dict[str, dict[str, tuple[Array, Array]]]:
    """Return by run and name the mean of a scalar in so many equal parts of the run, at the end of each."""
    names = ", ".join(f"'{name}'" for name in _SCALARS)
    table = evidence.records.query(
        f"SELECT run, name, max(end_step) AS step, avg(value) AS value FROM scalars "  # noqa: S608 (names of ours)
        f"JOIN (SELECT run AS own, max(end_step) AS last FROM scalars GROUP BY run) ON run = own "
        f"WHERE name IN ({names}) AND isfinite(value) AND end_step > 0 "
        f"GROUP BY run, name, ceil(end_step * {POINTS}.0 / last) ORDER BY run, name, step"
    )
    skip = {run.name: run.settings["world.frame_skip"] for run in evidence.runs}
    found: dict[str, dict[str, tuple[Array, Array]]] = {}
    runs, names_of = table.column("run").to_pylist(), table.column("name").to_pylist()
    steps, values = (table.column(name).to_numpy().astype(np.float64) for name in ("step", "value"))
    keys = list(zip(runs, names_of, strict=True))
    starts = [index for index, key in enumerate(keys) if not index or keys[index - 1] != key]
    for start, end in pairwise([*starts, len(keys)]):
        run, name = keys[start]
        if run in skip:
            found.setdefault(run, {})[name] = steps[start:end] * skip[run], values[start:end]
    return found


def _iterations(evidence: Evidence, phase: str) -> dict[str, tuple[Array, Array]]:
    """Return by run the frames at the end of each iteration, and the mean return of its episodes."""
    table = evidence.records.query(
        "SELECT run, end_frame, return_mean FROM iterations "  # noqa: S608 (ours)
        f"WHERE phase = '{phase}' AND return_mean IS NOT NULL AND isfinite(return_mean) ORDER BY run, end_frame"
    )
    runs = table.column("run").to_pylist()
    frames, returns = (table.column(name).to_numpy().astype(np.float64) for name in ("end_frame", "return_mean"))
    starts = [index for index, run in enumerate(runs) if not index or runs[index - 1] != run]
    return {runs[start]: (frames[start:end], returns[start:end]) for start, end in pairwise([*starts, len(runs)])}


def _copied_video(material: Material, run: Run, folder: Path) -> str:
    """Copy a video that lies beside a run into the report and return its name; "" without one, or with one too "
    "large.
    """
    stores = material.evidence.records.stores
    if stores.get(run.store) != "store":
        return ""
    first = run.store == next(iter(stores))
    path = (Folder(run.store).below(run.name) if first and run.name != "." else Folder(run.name)).local_path
    if path is None or not path.is_dir():
        return ""
    for file in sorted(path.iterdir()):
        if (
            file.suffix in _VIDEOS
            and file.is_file()
            and not file.is_symlink()
            and file.stat().st_size <= MAX_VIDEO_BYTES
        ):
            name = f"{page_name(run).removesuffix('.html')}{file.suffix}"
            shutil.copyfile(file, folder / name)
            return name
    return ""
