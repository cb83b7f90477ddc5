"""The documentation is true: every command in it is run here, and its tables equal the code."""

import dataclasses
import fnmatch
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpiste.config import AgentConfig, RunConfig
from offpiste.methods import METHODS
from offpiste.rows import EpisodeRow
from offpiste.study import plan
from offpiste.study.cost import cost
from offpiste.study.plan import make_study, read_study
from tests.documented import (
    NOT_RUN,
    ROOT,
    Reader,
    blocks,
    commands,
    reason_not_to_run,
    shortened,
)
from tests.prepared import prepared

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *sorted(ROOT.glob("docs/*.md"))]


@pytest.mark.slow
def test_every_command_in_the_documentation_works(tmp_path: Path) -> None:
    installed = Path(sys.executable).parent
    wrong = []
    with prepared() as programs:
        reader = Reader(tmp_path, installed)
        for page in PAGES:
            reader.programs = installed if page.name == "README.md" else programs
            faults = filter(None, map(reader.type, reader.open(page)))
            wrong += [f"{page.relative_to(ROOT)}: {fault}" for fault in faults]
        assert "no command named" in (reader.type("offpiste nothing") or "")
        assert "ZeroDivisionError" in (reader.type('python -c "1 / 0"') or "")
    assert not wrong, "\n\n".join(wrong)
    assert len(reader.done) > 20
    for made in ("runs/freeway/epsilon_greedy/seed-0/run.json", "freeway.mp4", "report/index.html"):
        assert (tmp_path / made).exists(), made


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    every = [command for page in PAGES for command in commands(page)]
    for pattern in NOT_RUN:
        assert any(fnmatch.fnmatch(command, pattern) for command in every), pattern


def test_commands_are_found_joined_and_shortened(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ offpiste train --game freeway \\\n    --frames 1M\nwhat it prints\n$ offpiste demo\n```\n"
        "```toml\n# a.toml\n$ no = 1\n```\n",
        encoding="utf-8",
    )
    found = commands(page)
    assert found == ["offpiste train --game freeway --frames 1M", "offpiste demo"]
    assert shortened(found[0]).endswith("--frames 300")
    assert shortened("offpiste demo") == "offpiste demo --episodes 3"
    assert shortened("offpiste eval RUN --episodes 3") == "offpiste eval RUN --episodes 1"
    assert shortened("for seed in 1 2 3; do x; done") == "for seed in 1; do x; done"
    assert (
        shortened("for a in 0.1 2; do for b in x y; do z; done; done")
        == "for a in 0.1; do for b in x; do z; done; done"
    )
    assert reason_not_to_run("offpiste demo") is None
    assert reason_not_to_run("offpiste study run x.toml --store s3://bucket/x") is not None
    assert reason_not_to_run("offpiste study run x.toml --store 's3://bucket/x?region=y'") is not None
    assert list(blocks(page))[1] == ("toml", "# a.toml\n$ no = 1\n")


def test_the_page_on_methods_has_every_one_with_its_constants() -> None:
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    table = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in METHODS}
    assert list(table) == list(METHODS)
    for name, (_, scale, constants, total) in table.items():
        method = METHODS[name]
        if method.bonus.name == "none":
            assert (scale, constants, total) == ("", "", "")
        else:
            assert float(scale) == method.bonus.scale
            stated = re.findall(r"`(\w+)` ([\d.]+)", constants)
            assert {key: float(value) for key, value in stated} == method.bonus.options
            assert total == ("clipped to ±1" if method.bonus.clip_sum else "not clipped")
    exploration = METHODS["epsilon_greedy"].exploration
    assert f"ε from {exploration.epsilon_start:g} to {exploration.epsilon_final:g}" in table["epsilon_greedy"][0]
    assert f"σ0 {METHODS['noisy_nets'].exploration.noise_scale:g}" in table["noisy_nets"][0]


def test_costs_on_the_page_that_reproduces_are_those_of_the_page_on_performance() -> None:
    reproduce, performance = (
        {tuple(row[-4:]) for row in _rows(ROOT / "docs" / name) if len(row) == 5 and row[1] in ("60", "360", "1,020")}
        for name in ("reproduce.md", "performance.md")
    )
    assert len(reproduce) == 4
    assert {tuple(cell.partition(" (")[0] for cell in row) for row in performance} == reproduce


def test_what_a_study_costs_on_gpus_follows_from_the_rates_that_the_page_gives() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    alone, shared = (float(_said(text, rf"{words} (\d+) (?:agent )?steps a second")) for words in ("At", "seventh, to"))
    studies = {name: read_study(ROOT / "studies" / f"{name}.toml") for name in ("paper", "tuning", "first_million")}
    paper, first = len(studies["paper"].runs), studies["first_million"].runs
    rows = {row[0]: row for row in _rows(ROOT / "docs" / "performance.md") if len(row) == 5}
    for beginning, runs, frames in (
        ("one new bonus", paper // 6, RunConfig().frames),
        ("the paper's comparison", paper, RunConfig().frames),
        ("with its tuning", paper + len(studies["tuning"].runs), RunConfig().frames),
        ("`first_million.toml`", len(first), first[0].frames),
    ):
        row = next(row for name, row in rows.items() if name.startswith(beginning))
        assert row[1] == f"{runs:,}"
        for gpus, stated in zip((1, 10, 100), row[2:], strict=True):
            rounds, rest = divmod(runs, 3 * gpus)  # what is left in the end has a GPU, or nearly, to itself
            seconds = frames / 4 * (rounds / shared + bool(rest) / alone)
            _assert_rounded(stated, seconds)


def test_what_the_comparison_costs_on_processors_follows_from_the_tables_of_the_page() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    table = {row[0]: row[1].split(" to ") for row in _table(ROOT / "docs" / "performance.md", "bonus")}
    step = 1 / float(_said(text, r"reckon with (\d+) agent steps"))
    bonus = {name: sum(map(float, spans)) / len(spans) / 1e3 for name, spans in table.items()}
    assert len(bonus) == 5
    all_six = 6 * step + sum(bonus.values())
    steps = RunConfig().frames / 4
    for words, seconds in (
        (r"frames\s+takes (\d+ days)", steps * step),
        (r"run of RND\s+takes (\d+ days)", steps * (step + bonus["RND"])),
        (r"about (\d+ core-years)", 60 * steps * all_six),
        (r"about (\d+ core-days)", 60 * 250_000 * all_six),
    ):
        _assert_rounded(_said(text, words), seconds)
    reproduce = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    ends = (_said(reproduce, r"takes (\d+) \(ε-greedy\)"), _said(reproduce, r"to (\d+) days \(RND\)"))
    assert ends == (_said(text, r"frames\s+takes (\d+) days"), _said(text, r"run of RND\s+takes (\d+) days"))
    assert _said(reproduce, r"about (\d+) core-years") == _said(text, r"about (\d+) core-years")


def test_what_the_comparison_keeps_is_what_its_plan_prints() -> None:
    kept = [cost(run, "results").kept_gb for run in read_study(ROOT / "studies" / "paper.toml").runs]
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert f"{round(1e3 * min(kept), -1):.0f} to {round(1e3 * max(kept), -1):.0f} MB" in text
    assert f"{sum(kept):.0f} GB in all" in text


def test_other_pages_give_the_costs_of_the_page_on_performance() -> None:
    rows = {row[1]: row for row in _rows(ROOT / "docs" / "performance.md") if len(row) == 5 and "frames" not in row[0]}
    status = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
    stated = re.search(r"(\d+) days on one GPU, (\d+) on ten, ([\d.]+) on a hundred", status)
    assert stated is not None
    assert [f"{number} days" for number in stated.groups()] == [cell.partition(" (")[0] for cell in rows["360"][2:]]
    bonus = (ROOT / "docs" / "your-bonus.md").read_text(encoding="utf-8")
    assert f"{rows['60'][2]} on one GPU or {rows['60'][4].partition(' (')[0]} on a hundred" in bonus


def test_the_layers_are_those_that_the_imports_are_checked_by() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    stated = [re.findall(r"`(\w+)`", row[0]) for row in _table(ROOT / "docs" / "architecture.md", "layer")]
    assert stated == [layer.replace("offpiste.", "").split(" | ") for layer in layers]


def test_every_study_in_the_documentation_makes_sense() -> None:
    found = [tomllib.loads(text) for page in PAGES for language, text in blocks(page) if language == "toml"]
    studies = [make_study("of the page", content) for content in found if "games" in content]
    assert {len(study.runs) for study in studies} >= {9, 35, 60}
    assert {run.bonus.name for study in studies for run in study.runs} >= {"simhash:SimHash", "rnd"}


def test_the_keys_of_a_study_are_those_that_it_may_have() -> None:
    for heading, kind in (("key", plan._File), ("key of `[[methods]]`", plan.Arm)):
        keys = {row[0].strip("`[]") for row in _table(ROOT / "docs" / "cluster.md", heading)}
        assert keys == {field.name for field in dataclasses.fields(kind)}


def test_a_table_of_fields_has_a_row_for_each_with_its_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    table = importlib.import_module("fields").table
    rows = list(table(EpisodeRow))
    assert len(rows) == 2 + len(dataclasses.fields(EpisodeRow))
    assert rows[2] == "| `iteration` | int | Counted from 1. |"
    assert "| `intrinsic_max` | float, may be empty | Max unscaled intrinsic reward. |" in rows
    assert "| `batch_size` | `32` | >= 1 and <= 4_096 | Transitions per update. |" in list(
        table(AgentConfig, "default")
    )
    assert any(row.startswith("| `agent` | see below | | ") for row in table(RunConfig, "default"))


@pytest.mark.parametrize("example", ["simhash.py", "distillation.py"])
def test_the_page_on_bonuses_shows_the_examples_as_they_are(example: str) -> None:
    shown = [text for language, text in blocks(ROOT / "docs" / "your-bonus.md") if language == "python"]
    assert (ROOT / "examples" / example).read_text(encoding="utf-8") in shown


def test_every_public_name_is_on_its_page() -> None:
    import offpiste

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in offpiste.__all__:
        assert name == "__version__" or f"offpiste.{name}" in page or f"offpiste.config.{name}" in page, name


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "benchmarks" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_version_that_is_cited_is_the_one_that_is_built() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {built}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_dependency_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    for requirement in wanted:
        name = re.split(r"[\[>=<]", requirement)[0]
        assert name == "offpiste" or f"`{name}`" in page, name


def _said(text: str, pattern: str) -> str:
    """Return what the one group of a pattern matches."""
    match = re.search(pattern, text)
    assert match is not None, pattern
    return match[1]


def _assert_rounded(stated: str, seconds: float) -> None:
    """Check that a time such as 3.1 days or 17 core-years is right to the last digit that is given."""
    match = re.match(r"([\d.]+) (?:core-)?(minute|hour|day|year)s?", stated)
    assert match is not None, stated
    number, unit = match.groups()
    digits = len(number.partition(".")[2])
    exact = seconds / {"minute": 60, "hour": 3_600, "day": 86_400, "year": 365.25 * 86_400}[unit]
    assert round(exact, digits) == float(number), f"{stated}, and it is {exact:.3f} {unit}s"


def _table(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of the table whose first column is called so."""
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    (text,) = [text for text in tables if text.startswith(f"| {heading} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def _rows(page: Path) -> Iterator[list[str]]:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
