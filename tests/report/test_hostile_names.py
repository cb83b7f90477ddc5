"""Names in a store are a stranger's: on the page, in a figure and in a file's name they are text and nothing else."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import matplotlib as mpl
import numpy as np
import pytest

from offpiste.analysis.names import title
from offpiste.config import BonusConfig
from offpiste.report.drawing import save
from offpiste.report.page import Report, build
from offpiste.report.panels import Axis, Dots, Drawing, Line, Panel, Word, fitted
from offpiste.report.svg import for_page
from offpiste.store.documents import signed, unsigned
from offpiste.store.identity import parse_run
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import attempt_row, config_of, write_run
from tests.analysis.small_study import import_curves
from tests.shell import calls

ATTACKS = {
    "tags": "</pre></style></title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover=alert(1) x='\" autofocus '",
    "octal": r"\042\076\074img src=x onerror=alert(1)\076",
    "group": r"\g<0>\g<name>\1\x3cimg\x3e\\",
    "jinja": "{{ evidence.store }}{% raw %}{# # #}",
    "mathtext": r"$\frac{1$ and $x_1$ \$",
    "entities": "&lt;img src=x&gt;&#60;b&#62;&amp;amp;",
    "link": "javascript:alert(1)//%22%3e#x?y",
    "svg": "--></text></svg><svg/onload=alert(1)><style>*{color:red}</style> id=\"x\" d=\"1.25\" #1b1d21 <!--",
    "shell": "$(touch PWNED)`touch PWNED`; touch PWNED #'\"",
    "path": "../../../escaped",
    "long": "a" * 300,
}  # fmt: skip
Called = Callable[[str], str]
"""What a field of the store is called."""


def write_store(store: Folder, called: Called) -> None:
    """Write a store in which a stranger has named all that can be named."""
    for number, seed in enumerate((0, 0, 1, 2)):
        method = "epsilon_greedy" if number == 0 else "mine"
        config = config_of("pong", method, seed, bonus=BonusConfig(name="mine", options={"option": 1}))
        name = write_run(store, config, [1.0, 2.0, 3.0 + seed], state="running" if seed == 2 else "finished")
        rename_run(store.below(name), called, variant="variant" if seed == 1 else "")
    store.put(f"published/{called('import').replace('/', '|')[:200]}.json", b"{}")
    published = import_curves(store, "pong", [[1.0, 2.0], [3.0, 4.0]])
    (file,) = (name for name in store.list("published") if "pong" in name)
    text = unsigned(json.loads(store.get(f"published/{file}") or b""))
    names = {key: called(key) for key in ("series", "agent", "file", "sha256", "fingerprint")}
    store.put(f"published/{file}", json.dumps(signed(text | names | {"game": called("game")})).encode())
    assert published.method is not None  # so that its series is drawn


def rename_run(folder: Folder, called: Called, variant: str) -> None:
    about = unsigned(json.loads(folder.get("run.json") or b""))
    config = about["config"]
    mine = config["method"] == "mine"
    config |= {"game": called("game"), "variant": variant and called(variant)}
    config["method"] = called("method") if mine else config["method"]
    config["bonus"] = config["bonus"] | {"name": called("bonus"), "options": {called("option"): called("value")}}
    config["world"][called("setting")] = called("value")
    about |= {"protocol_fingerprint": called("protocol"), "offpiste": called("version")}
    about["method_fingerprint"] = called(f"fingerprint of {mine}")
    folder.put("run.json", json.dumps(signed(about)).encode())
    if (folder.get("status.json") or b"").find(b"running") >= 0:
        status = parse_run(about).identity | {"state": called("state"), "target_frames": 2000}
        folder.put("status.json", json.dumps(signed(status)).encode())
    attempts = [vars(attempt_row()), vars(attempt_row("000002-abcdef")) | {"start_step": 100}]
    attempts[1] |= {name: called(name) for name in ("hardware", "versions", "host", "note")}
    folder.put("attempts.parquet", to_parquet("attempts", attempts))


class Marks(HTMLParser):
    """The tags of a page with the names of their attributes, where it links to, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.commands = ""
        self._in_commands = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_commands = tag == "pre"
        self.tags[tag, tuple(name for name, _ in attrs)] += 1
        self.links += [value or "" for name, value in attrs if name.endswith(("href", "src"))]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        self.commands += "\n" * self._in_commands
        self._in_commands = False

    def handle_data(self, data: str) -> None:
        self.text += data
        self.commands += data * self._in_commands


def report_of(folder: Path, called: Called) -> tuple[Report, Marks]:
    store = Folder(folder / "store")
    write_store(store, called)
    report = build(store, folder / "report", allow_mixed=True)
    return report, Marks(report.page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Marks]:
    return report_of(tmp_path_factory.mktemp("harmless"), str)


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_hostile_name_adds_neither_tag_nor_attribute_to_the_page(
    kind: str, harmless: tuple[Report, Marks], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attack = ATTACKS[kind]
    report, page = report_of(tmp_path, lambda field: f"{field} {attack}")
    assert page.tags == harmless[1].tags
    runs = [Marks(file.read_text(encoding="utf-8")) for file in (report.page.parent / "runs").iterdir()]
    plain = [Marks(file.read_text(encoding="utf-8")) for file in (harmless[0].page.parent / "runs").iterdir()]
    assert sum((each.tags for each in runs), Counter()) == sum((each.tags for each in plain), Counter())
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        else:
            assert (report.page.parent / unquote(link)).is_file()
    assert len(page.ids) == len(set(page.ids))
    for field in ("method", "bonus", "option", "value", "setting", "variant", "state", "hardware", "file", "protocol"):
        assert f"{field} {attack}" in page.text  # as it is: neither decoded nor escaped twice
    assert title(f"game {attack}") in page.text
    assert {file.name for file in tmp_path.iterdir()} == {"store", "report", "pong.json"}
    assert {file.name for file in report.page.parent.iterdir()} == {
        "index.html",
        "figures",
        "tables",
        "runs",
        "commands.txt",
    }
    trained, imported, reported = calls(page.commands, tmp_path / "shell")[-3:]
    assert trained[:3] == ["train", "--game", f"game {attack}"]
    assert imported[:3] == ["import", "dopamine", f"file {attack}"]
    assert reported[0] == "report"
    every = calls((report.page.parent / "commands.txt").read_text(), tmp_path / "shell")
    assert [words[2] for words in every] == [f"game {attack}"] * 4


@pytest.mark.parametrize("kind", ATTACKS)
def test_the_title_of_a_panel_is_read_aloud_as_it_is(kind: str) -> None:
    drawing = Drawing("figure", "title", "caption", (a_panel(ATTACKS[kind]),))
    found: list[Any] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value for name, value in attrs if (tag, name) == ("svg", "aria-label"))

    Reader().feed(for_page(drawing))
    assert found == [ATTACKS[kind]]


@pytest.mark.parametrize("kind", ATTACKS)
def test_text_in_a_panel_is_shown_as_it_is(kind: str, tmp_path: Path) -> None:
    drawing = Drawing("figure", "title", "caption", (a_panel(ATTACKS[kind]),))
    text = Marks(for_page(drawing)).text
    assert f"{fitted(ATTACKS[kind])}" in text
    assert text.count(ATTACKS[kind]) >= 2  # of a point and of a line, in full
    save(drawing, tmp_path)  # neither TeX nor MathText may fail on it


def a_panel(name: str) -> Panel:
    ends = np.array([0.0, 1.0])
    marks = (Line(ends, ends, "#1b1d21", title=name), Dots([0.5], [0.5], "#1b1d21", [name]), Word(0.5, 0.5, name))
    return Panel(name, marks, Axis(0.0, 1.0, ((0.0, name),)), Axis(0.0, 1.0), width=700.0)


def test_no_settings_of_matplotlib_but_ours_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mpl.rcParams, "text.usetex", True)  # as a matplotlibrc beside the store may say
    save(Drawing("figure", "title", "caption", (a_panel(r"\input{/etc/hostname}"),)), tmp_path)
    assert (tmp_path / "figure.png").is_file()
    assert mpl.rcParams["text.usetex"]  # it is put back


def test_a_browser_may_load_and_run_nothing_and_style_by_one_sheet_only(harmless: tuple[Report, Marks]) -> None:
    text = harmless[0].page.read_text(encoding="utf-8")
    (sheet,) = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert unescape(policy).split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"style-src-elem 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert text.index("http-equiv") < text.index("<title>")  # what stands before a policy is not held to it
