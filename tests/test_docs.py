"""The documentation tells the truth: every command in it is run here, and its tables equal the code.

A command is a line of a ```console block that begins with `$ `; programs that `import offpiste` count too. All pages
share one folder, in which the reader has saved the examples, the studies, and every block of a page whose first line
names a file (`# six.toml`). So that this takes minutes and not weeks, commands are shortened by the rules in
`shortened`, and studies by those in `shortened_study`; what cannot be run here at all stands in `NOT_RUN`, with the
reason.
"""

import dataclasses
import fnmatch
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from offpiste.config import AgentConfig
from offpiste.methods import METHODS
from offpiste.store.records import EpisodeRow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *sorted(ROOT.glob("docs/*.md"))]

NOT_RUN = {
    "pip install *": "needs a package index",
    "python -m pip install *": "needs a package index",
    "python -m venv *": "CI and whoever reads this have an environment already",
    ". .venv/bin/activate": "CI and whoever reads this have an environment already",
    "python -m build": "needs a package index; the release checklist has it",
    "scripts/check": "this test is part of it",
    "python benchmarks/*": "benchmarks take minutes to hours, and some a GPU; each has its own --quick",
    "* s3://bucket/*": "there is no such bucket; the tests of storage, studies and analysis use a real S3 server",
    "ray *": "starts a cluster; the tests of the engine do",
    "aws *": "there is no such bucket",
    "export *": "sets up a cluster",
}
"""Commands that are not run, as patterns, and why."""

FRAMES, STUDY_FRAMES = "300", 300
FEWER = {
    "offpiste demo": "--seconds 1",
    "offpiste eval": "--episodes 1",
    "offpiste train": f"--frames {FRAMES}",
    "offpiste watch": "--steps 20",
}
"""What commands of this form are given in addition, unless they say it themselves."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each fenced block."""
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        yield match[1], match[2]


def commands(page: Path) -> list[str]:
    """Return the commands of a page; a line that ends in a backslash goes on on the next."""
    texts = (re.sub(r"\\\n\s*", "", text) for language, text in blocks(page) if language == "console")
    return [line.removeprefix("$ ") for text in texts for line in text.splitlines() if line.startswith("$ ")]


def programs(page: Path) -> list[str]:
    """Return the Python blocks of a page that can run by themselves, as commands."""
    return [f"python -c {shlex.quote(text)}" for _, text in blocks(page) if "\nimport offpiste\n" in text]


def reason_not_to_run(command: str) -> str | None:
    return next((reason for pattern, reason in NOT_RUN.items() if fnmatch.fnmatch(command, pattern)), None)


def shortened(command: str) -> str:
    """Return a command that does the same for a shorter time."""
    command = re.sub(r"--frames \S+", f"--frames {FRAMES}", command)
    command = re.sub(r"frames=[\d_]+", f"frames={FRAMES}", command)
    command = re.sub(r"for seed in (\d+)[ \d]*;", r"for seed in \1;", command)
    for start, words in FEWER.items():
        if command.startswith(start) and words.split()[0] not in command:
            command += f" {words}"
    return command


def shortened_study(text: str) -> str:
    """Return a study of the last of its games, two of its methods, one seed and few frames."""
    study = tomllib.loads(text)
    less = {"games": study["games"][-1:], "methods": study["methods"][0:3:2], "seeds": study["seeds"][:1]}
    return tomli_w.dumps(study | less | {"frames": STUDY_FRAMES})


class Reader:
    """Somebody who types what the documentation says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: set[str] = set()
        for example in (ROOT / "examples").glob("*.py"):
            shutil.copy(example, folder)
        (folder / "studies").mkdir()
        for study in (ROOT / "studies").glob("*.toml"):
            shutil.copy(study, folder / "studies")

    def save(self, text: str) -> None:
        """Save a block whose first line names a file."""
        match = re.match(r"# (\S+\.(?:toml|py))\n", text)
        if match:
            (self.folder / match[1]).write_text(text, encoding="utf-8")

    def type(self, command: str) -> str | None:
        """Run a command, unless that was done before, and return what was wrong."""
        command = shortened(command)
        if command in self.done and not command.startswith("offpiste report"):  # there may be more runs by now
            return None
        self.done.add(command)
        for name in re.findall(r"study run (\S+)", command):
            study = self.folder / name
            study.write_text(shortened_study(study.read_text(encoding="utf-8")), encoding="utf-8")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        surroundings = {**os.environ, "PATH": path, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-euc", command], cwd=self.folder, env=surroundings, capture_output=True, text=True, timeout=600
        )
        return None if done.returncode == 0 else f"$ {command}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_every_command_in_the_documentation_works(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    wrong = []
    for page in PAGES:
        for language, text in blocks(page):
            if language != "console":
                reader.save(text)
        for command in [*commands(page), *programs(page)]:
            fault = None if reason_not_to_run(command) else reader.type(command)
            if fault:
                wrong.append(f"{page.relative_to(ROOT)}: {fault}")
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
    assert shortened("offpiste demo") == "offpiste demo --seconds 1"
    assert shortened("offpiste eval RUN --episodes 3") == "offpiste eval RUN --episodes 3"
    assert shortened("for seed in 1 2 3; do x; done") == "for seed in 1; do x; done"
    assert reason_not_to_run("offpiste demo") is None
    assert reason_not_to_run("offpiste study run x.toml --store s3://bucket/x") is not None
    assert list(blocks(page))[1] == ("toml", "# a.toml\n$ no = 1\n")


def test_the_readme_has_every_method_with_its_constants() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    table = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in METHODS}
    assert list(table) == list(METHODS)
    for name, (_, scale, constants, total) in table.items():
        method = METHODS[name]
        if method.bonus.name == "none":
            assert (scale, constants, total) == ("", "", "")
        else:
            assert float(scale) == method.bonus.scale
            told = re.findall(r"`(\w+)` ([\d.]+)", constants)
            assert {key: float(value) for key, value in told} == method.bonus.options
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


def test_a_table_of_fields_has_a_row_for_each_with_its_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    table = importlib.import_module("fields").table
    rows = list(table(EpisodeRow))
    assert len(rows) == 2 + len(dataclasses.fields(EpisodeRow))
    assert rows[2] == "| `iteration` | int | Counted from 1. |"
    assert "| `bonus_max` | float, may be empty | Greatest unscaled bonus. |" in rows
    assert "| `batch_size` | `32` | Transitions per update. |" in list(table(AgentConfig, "default"))


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


def _rows(page: Path) -> Iterator[list[str]]:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
