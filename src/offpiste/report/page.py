"""Stores as one page: what was run, curves and scores; then findings, what they rest on, and what is wrong with it."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from offpiste.analysis import caveats
from offpiste.analysis.evidence import gather, gather_apart
from offpiste.analysis.names import label, ordered_methods, spell_out, title
from offpiste.analysis.results import load
from offpiste.analysis.scores import Cell
from offpiste.commands import shell_line, train_command
from offpiste.errors import OffpisteError
from offpiste.report import profile, tables
from offpiste.report.drawing import save
from offpiste.report.material import Material
from offpiste.report.panels import Drawing
from offpiste.report.run_pages import pages_of, write_pages
from offpiste.report.section import Figure, Files, Section, Shown, parts_of
from offpiste.report.sections import own, quality, results, verdicts
from offpiste.report.sentences import lead_sentences, scope, what_was_run
from offpiste.report.svg import legend_html, panel_svg
from offpiste.store.outputs import replacing
from offpiste.store.storage import Folder

SECTIONS = (
    own.own,
    results.glance,
    results.games,
    results.visits,
    results.scores,
    results.comparison,
    verdicts.findings,
    verdicts.across,
    verdicts.paper,
    quality.weak,
    quality.fair,
    quality.protocol,
    quality.commands,
)
"""What the page consists of, from top to bottom; each yields a section where there is something to show."""
_FOOTER = "Figures are in figures/ as PDF and PNG, tables in tables/ as CSV."


@dataclass(frozen=True)
class Report:
    """What was written."""

    page: Path
    lead: list[str]
    notes: list[caveats.Note]
    profile: list[Cell]
    """Every method in every small world; empty where there are none."""


def build(
    store: str | Path | Folder,
    out: str | Path,
    *,
    beside: Sequence[str | Path | Folder] = (),
    allow_mixed: bool = False,
    frames: int | None = None,
    heading: str = "Report",
    banner: str = "",
    about: str = "",
    first: Sequence[Drawing] = (),
    run_pages: bool = True,
) -> Report:
    """Write the report of a store, and of those beside it, into a folder: index.html, figures/, tables/, runs/.

    `frames` compares runs there and not at their end; `about` names a method with which the page begins, and `first`
    are its scores over β; `banner` stands above everything, for example that the data are made up.
    """
    folder = store if isinstance(store, Folder) else Folder(store)
    found = load(folder, *beside)
    if allow_mixed:
        evidence = gather(found, folder.location, allow_mixed=True, frames=frames)
    else:
        evidence = gather_apart(found, folder.location, frames=frames)
    out = Path(out)
    others = [location for location in found.stores if location != folder.location]
    command = ["offpiste", "report", evidence.store, *(["--beside", *others] if others else []), "--out", str(out)]
    command += [*(["--frames", str(frames)] if frames else []), *(["--about", about] if about else [])]
    command += ["--allow-mixed"] if allow_mixed else []
    if about and about not in {run.method for run in evidence.runs}:
        known = ", ".join(ordered_methods(run.method for run in evidence.runs))
        raise OffpisteError(f"there is no run of {about!r} to begin with; there are {known or 'none'}")
    pages = pages_of(evidence) if run_pages else frozenset()
    material = Material(evidence, shell_line(command), pages, about)
    with replacing(out) as new:
        for each in (new / "figures", new / "tables"):
            each.mkdir()
        report = _write(material, new, heading, banner, first)
        write_pages(material, new, render)
    return replace(report, page=out / report.page.name)


def _write(material: Material, out: Path, heading: str, banner: str, first: Sequence[Drawing]) -> Report:
    evidence = material.evidence
    lead = lead_sentences(evidence, material.compared, material.by_world)
    sections = [section for made in SECTIONS for section in made(material)]
    if first:
        over_beta = Section("beta", "Score over β", [Figure(drawing, heading=False) for drawing in first])
        sections.insert(bool(material.about), over_beta)
    written = list(material.tables)
    for part in parts_of(sections):
        if isinstance(part, Figure):
            save(part.drawing, out / "figures")
        elif isinstance(part, Shown | Files):
            written += [part.table] if isinstance(part, Shown) else part.tables
    for table in written:
        (out / "tables" / f"{table.name}.csv").write_text(tables.to_csv(table), encoding="utf-8")
    every_command = [train_command(run.settings, run.target_frames) for run in evidence.records.runs]
    (out / "commands.txt").write_text("".join(f"{line}\n" for line in every_command), encoding="utf-8")
    said = {"what_was_run": what_was_run(evidence), "lead": own.lead(material) + lead, "scope": scope(evidence)}
    methods = ordered_methods(run.method for run in evidence.runs)
    about = {"heading": heading, "banner": banner, "store": evidence.store, "footer": _FOOTER, "methods": methods}
    (out / "index.html").write_text(render(sections, about | said), encoding="utf-8")
    return Report(out / "index.html", lead, material.notes, material.cells)


def render(sections: Sequence[Section], about: Mapping[str, Any]) -> str:
    """Return a page of these sections."""
    given: dict[str, Any] = {"version": version("offpiste"), "made": f"{datetime.now(UTC):%d %B %Y}"}
    given |= {"back": [], "media": False, "sections": sections, **about}
    given |= {"notes_shown": quality.NOTES_SHOWN, "runs_shown": quality.RUNS_SHOWN}
    given["numbers"] = {method: number for number, method in enumerate(given["methods"])}
    page = _template().render(given)
    # A line may break after a hyphen, which tears the name of the yardstick apart.
    return page.replace("ε-greedy", "ε\N{NON-BREAKING HYPHEN}greedy")


def _policy(style: str, media: bool = False) -> str:
    """Return the Content-Security-Policy of the page: this sheet and style attributes, no script and no request.

    Figures are styled by attributes. Browsers from before 2023 know `style-src` alone, and take the sheet by that. A
    page with a video may load it from its own folder.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; style-src-elem 'sha256-{digest}'; "
        f"{'media-src file: ' + chr(39) + 'self' + chr(39) + '; ' if media else ''}base-uri 'none'; form-action 'none'"
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    @jinja2.pass_context
    def number_of(context: jinja2.runtime.Context, method: str) -> int:
        return int(context["numbers"].get(method, -1))

    environment.filters |= {
        "shown": tables.shown,
        "title": title,
        "label": label,
        "right": tables.is_numeric,
        "more_digits": tables.more_digits,
        "spell_out": spell_out,
        "policy": _policy,
        "number_of": number_of,
        "kind": lambda part: type(part).__name__,
        "svg": lambda panel: Markup(panel_svg(panel)),  # noqa: S704 (ours, and escaped)
        "legend": lambda looks: Markup(legend_html(looks)),  # noqa: S704 (likewise)
        "dots": lambda cell: Markup(profile.dots(cell)),  # noqa: S704 (numbers)
        "dot": lambda kind: Markup(profile.dot(kind)),  # noqa: S704 (ours)
        "rounded": lambda value: f"{value:z.2f}".replace("-", "−"),
    }
    environment.tests["spread"] = lambda cell: isinstance(cell, tables.Spread)
    return environment.get_template("page.html")
