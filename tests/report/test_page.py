"""The page: one file, the verdict first, everything that is wrong named, and no crash whatever the store holds."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from offpiste.analysis.comparisons import against_baseline
from offpiste.config import BonusConfig
from offpiste.errors import StoreError
from offpiste.report.page import Report, build
from offpiste.report.sentences import lead_sentences, scope, what_was_run
from offpiste.store.storage import Folder
from tests.analysis import fake_worlds
from tests.analysis.small_store import AGENT, config_of, write_run
from tests.analysis.small_study import evidence_of, import_curves, write_small_worlds, write_study

THREE = [1.0, 2.0, 3.0]
SECTIONS = ["games", "scores", "findings", "weak", "fairness", "protocol", "commands"]


class Page(HTMLParser):
    """What a reader of a page would find: its text, links, headings and ids."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self._skipping = 0
        self.feed(file.read_text(encoding="utf-8"))
        self.text = re.sub(r"\s+", " ", self.text.replace("\N{NON-BREAKING HYPHEN}", "-"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._skipping += tag in ("style", "title")
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in ("style", "title")

    def handle_data(self, data: str) -> None:
        self.text += f" {data}" if not self._skipping else ""


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Report, Page]]:
    """The report of a store with everything wrong that can be, beside runs that are right."""
    folder = tmp_path_factory.mktemp("broken")
    store = Folder(folder / "store")
    assert store.local_path is not None
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0, 4.0, 5.0, 6.0], ("freeway", "cts"): [3.0]})
    write_study(store, {("hero", "epsilon_greedy"): [7.0, 7.0, 7.0]})
    write_study(store, {("pong", "epsilon_greedy"): [1.0, 2.0], ("pong", "icm"): [1.0]})
    truncated = store.local_path / write_run(store, config_of(seed=20), THREE) / "iterations.parquet"
    truncated.write_bytes(truncated.read_bytes()[:-30])
    unreadable = store.local_path / write_run(store, config_of(seed=21), THREE) / "episodes.parquet"
    unreadable.write_bytes(unreadable.read_bytes()[:-30])
    (store.local_path / write_run(store, config_of(seed=22), THREE) / "run.json").unlink()
    (store.local_path / write_run(store, config_of(seed=23), THREE) / "run.json").write_text('{"config": {')
    write_run(store, config_of(seed=24), [1.0, float("nan"), 3.0])
    write_run(store, config_of(seed=25), [1.0], state="running")
    half = store.local_path / write_run(store, config_of(seed=26), THREE)
    (half / "iterations.parquet").unlink()
    write_run(store, config_of("hero", "mine<b>", bonus=BonusConfig(name="mine")), [None, None, None])
    store.put("published/bad.json", b"{}")
    import_curves(store, "freeway", [[1.0, 2.0], [3.0, 4.0]])
    report = build(store, folder / "report", banner="Synthetic & made up")
    yield report, Page(report.page)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("our reading", "icm"),
        ("damaged table", "freeway/epsilon_greedy/seed-20"),
        ("damaged table", "freeway/epsilon_greedy/seed-21"),
        ("missing run.json", "freeway/epsilon_greedy/seed-22"),
        ("damaged run.json", "freeway/epsilon_greedy/seed-23"),
        ("not a number", "freeway/epsilon_greedy/seed-24"),
        ("no score", "freeway/epsilon_greedy/seed-24"),
        ("unfinished run", "freeway/epsilon_greedy/seed-25"),
        ("no records", "freeway/epsilon_greedy/seed-26"),
        ("damaged import", "published/bad.json"),
        ("one seed", "freeway/cts"),
        ("equal scores", "hero/epsilon_greedy"),
        ("no score", "hero/mine<b>/seed-0"),
        ("no reference scores", "pong"),
        ("missing game", "venture"),
    ],
)
def test_whatever_is_wrong_stands_on_the_page_by_name(broken: tuple[Report, Page], kind: str, where: str) -> None:
    report, page = broken
    assert (kind, where) in {(note.kind, note.where) for note in report.notes}
    assert kind in page.text
    text = (report.page.parent / "tables" / "weak_points.csv").read_text()
    assert f"{kind},{where}," in text


def test_one_message_about_many_places_stands_once(broken: tuple[Report, Page]) -> None:
    _, page = broken
    assert "montezuma_revenge , gravitar , private_eye" in page.text
    assert "missing game 10" in page.text
    assert page.text.count(": no run") == 1


def test_runs_that_are_right_are_in_the_scores_of_a_broken_store(broken: tuple[Report, Page]) -> None:
    report, page = broken
    assert "3.60 1.00 to 6.00; 5" not in page.text  # seed 21 lacks its episodes only, and counts
    assert "3.33 1.00 to 6.00; 6" in page.text
    runs = (report.page.parent / "tables" / "runs.csv").read_text()
    assert runs.count("\n") == 1 + 5 + 1 + 3 + 2 + 1 + 5 + 1  # all that could be opened


def test_the_page_needs_nothing_but_itself(broken: tuple[Report, Page]) -> None:
    report, page = broken
    pages = [report.page, *(report.page.parent / "runs").iterdir()]
    assert len(pages) > 10
    for file in pages:
        found = Page(file)
        assert not {"script", "link", "img", "iframe", "object", "embed"} & set(found.tags)
        for link in found.links:
            if link.startswith("#"):
                assert link[1:] in found.ids
            else:
                assert (file.parent / link).is_file()
    text = report.page.read_text()
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert len(page.ids) == len(set(page.ids))


def test_what_was_run_stands_before_the_findings_and_the_rest_in_order(broken: tuple[Report, Page]) -> None:
    report, page = broken
    assert page.text.strip().startswith("Synthetic & made up")
    assert page.text.index(report.lead[0]) < page.text.index("Game by game") < page.text.index("The paper’s findings")
    sections = [name for name in page.ids if name in SECTIONS]
    assert sections == SECTIONS


def test_names_are_escaped(broken: tuple[Report, Page]) -> None:
    _, page = broken
    assert "mine<b>" in page.text
    assert "b" not in page.tags


def test_figures_and_tables_lie_beside_the_page(broken: tuple[Report, Page]) -> None:
    folder = broken[0].page.parent
    figures = {file.name for file in (folder / "figures").iterdir()}
    assert {"game_freeway.pdf", "game_freeway.png", "game_hero.pdf", "game_hero_cells.png"} <= figures
    tables = {file.stem for file in (folder / "tables").glob("*.csv")}
    assert {"findings", "final_scores", "published_scores", "runs", "tuning", "protocol", "seams"} <= tables
    assert "game_pong" in tables


def test_exact_commands_and_fingerprints_are_told(broken: tuple[Report, Page]) -> None:
    report, page = broken
    assert "for seed in 0 1 2; do offpiste train --game hero" in page.text
    assert f"offpiste report {report.page.parents[1] / 'store'} --out" in page.text
    assert "offpiste import dopamine freeway.json --store" in page.text
    runs = evidence_of(Folder(report.page.parents[1] / "store")).runs
    assert all(run.protocol in page.text and run.method_fingerprint in page.text for run in runs)
    assert (report.page.parent / "commands.txt").read_text().count("offpiste train") == len(runs)


def test_a_store_of_published_curves_alone_says_so(store: Folder, tmp_path: Path) -> None:
    import_curves(store, "montezumarevenge", [[0.0, 1.0]])
    report = build(store, tmp_path / "report")
    assert report.lead == [
        "There is nothing to judge yet: this store holds no run that can be read; what follows are published results "
        "that were imported."
    ]
    page = Page(report.page)
    assert "Dopamine TF, published" in page.text
    assert "not comparable" in page.text


def test_a_store_that_only_tunes_says_so_and_shows_what_was_tried(store: Folder, tmp_path: Path) -> None:
    bonus = BonusConfig(name="cts", scale=3.0)
    write_run(store, config_of(method_name="cts", bonus=bonus, variant="beta=3"), THREE)
    report = build(store, tmp_path / "report")
    assert "only runs that tune constants" in report.lead[0]
    assert "beta=3" in Page(report.page).text


def test_a_report_is_made_from_a_disk_and_from_s3(folder: Folder, tmp_path: Path) -> None:
    write_study(folder, {("pong", "epsilon_greedy"): [1.0, 2.0], ("pong", "cts"): [1.0, 2.0]})
    report = build(folder, tmp_path / "report")
    assert "4 runs, all complete: ε-greedy and CTS on Pong." in Page(report.page).text


def test_unlike_runs_are_each_shown_by_themselves_and_nothing_goes_across_them(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [0.0] * 9, ("freeway", "cts"): [20.0] * 9})
    write_study(store, {("hero", "epsilon_greedy"): [1.0]}, agent=replace(AGENT, hidden_units=64))
    report = build(store, tmp_path / "report")
    page = Page(report.page)
    assert report.lead == ["Nothing is compared here: these runs were not made alike."]
    assert "19 runs, all complete: ε-greedy and CTS on Freeway and Hero." in page.text
    assert "The runs on Freeway and Hero were not made alike." in page.text
    assert {"game_freeway_1", "game_freeway_2", "game_hero_3"} <= {*page.ids}
    for heading in ("Freeway: ε-greedy", "Freeway: CTS", "Hero: ε-greedy"):
        assert heading in page.text
    assert not {"findings", "comparisons", "across", "paper"} & {*page.ids}
    for name in ("final_scores", "against_epsilon_greedy", "findings", "aggregates"):
        assert len((report.page.parent / "tables" / f"{name}.csv").read_text().splitlines()) <= 1, name
    kinds = {note.kind for note in report.notes}
    assert "shown by itself" in kinds
    assert not {"mixed protocols", "missing game", "missing methods"} & kinds


def test_games_that_were_made_alike_are_compared_beside_others_that_were_not(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("deep_sea_6", "epsilon_greedy"): [0.0] * 9, ("deep_sea_6", "cts"): [20.0] * 9})
    for seed, scale in enumerate((0.1, 0.2)):
        write_run(store, config_of("pong", "rnd", seed, bonus=BonusConfig(name="cts", scale=scale)), THREE)
    report = build(store, tmp_path / "report")
    assert "CTS does better on Deep Sea" in " ".join(report.lead)
    rows = (report.page.parent / "tables" / "against_epsilon_greedy.csv").read_text()
    assert "RND" not in rows
    assert {"game_deep_sea_6", "game_pong_1", "game_pong_2"} <= {*Page(report.page).ids}


def test_unlike_runs_are_taken_together_where_that_is_allowed(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("pong", "cts"): [1.0]}, bonus=BonusConfig(name="cts", scale=0.1))
    write_run(store, config_of("pong", "cts", 1, bonus=BonusConfig(name="cts", scale=0.2)), THREE)
    report = build(store, tmp_path / "report", allow_mixed=True)
    page = Page(report.page)
    assert "Unlike runs were taken together" in page.text
    assert "bonus.scale is 0.1 in 1 and 0.2 in 1" in page.text
    assert "--allow-mixed" in page.text


def test_a_folder_that_cannot_be_written_to_is_an_error_that_says_so(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("pong", "cts"): [1.0]})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="may you write there"):
        build(store, tmp_path / "file" / "report")


def test_the_lead_tells_what_is_supported_and_what_holds_beside_the_baseline(store: Folder) -> None:
    bonuses = ("cts", "pixelcnn", "icm", "rnd")
    scores = {("montezuma_revenge", "epsilon_greedy"): [0.0] * 12}
    scores |= {("montezuma_revenge", bonus): [2500.0] * 12 for bonus in bonuses}
    write_study(store, scores)
    evidence = evidence_of(store)
    first, second = lead_sentences(evidence, against_baseline(evidence))
    assert first == "Of the paper’s seven findings these runs support two; for five they do not suffice."
    assert second == (
        "Of the 4 comparisons with ε-greedy, these hold after correction: CTS, PixelCNN, ICM and RND do "
        "better on Montezuma’s Revenge."
    )
    assert what_was_run(evidence) == "60 runs, all complete: 5 methods on Montezuma’s Revenge."
    assert "These are not the paper’s runs: they end at 1,200 frames, not 200,000,000" in " ".join(scope(evidence))


def test_what_was_run_says_how_much_of_it_is_complete(store: Folder) -> None:
    write_run(store, config_of(game="pong"), THREE[:1], state="running")
    assert what_was_run(evidence_of(store)) == "1 run, not complete: ε-greedy on Pong."
    write_run(store, config_of(game="pong", seed=1), THREE)
    assert what_was_run(evidence_of(store)) == "2 runs, 1 complete: ε-greedy on Pong."


def test_the_lead_says_when_there_are_too_few_seeds_for_anything(store: Folder) -> None:
    write_study(store, {("pong", "epsilon_greedy"): [0.0, 0.0], ("pong", "cts"): [1.0, 1.0]})
    evidence = evidence_of(store)
    (sentence,) = lead_sentences(evidence, against_baseline(evidence))
    assert sentence.endswith("that takes 6 pairs of seeds, and there are 2 at most.")


def test_findings_about_games_that_were_not_run_are_not_on_the_page(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("pong", "epsilon_greedy"): [1.0, 2.0]})
    page = Page(build(store, tmp_path / "report").page)
    assert [name for name in page.ids if name in SECTIONS] == [name for name in SECTIONS if name != "findings"]
    assert "the paper’s games follow its protocol" not in page.text
    assert (tmp_path / "report" / "figures" / "game_pong_cells.pdf").exists()


def test_findings_without_a_verdict_are_folded_away_and_figures_of_the_paper_are_there_once_one_can_be_drawn(
    store: Folder, tmp_path: Path
) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0]})
    page = Page(build(store, tmp_path / "first").page)
    assert "These runs do not suffice for a verdict on any of the 7" in page.text
    assert "paper" not in page.ids
    bonuses = ("epsilon_greedy", "cts", "pixelcnn", "icm", "rnd")
    write_study(store, {("montezuma_revenge", method): [float(method != "epsilon_greedy")] * 12 for method in bonuses})
    page = Page(build(store, tmp_path / "second").page)
    assert "These runs do not suffice for a verdict" not in page.text
    assert page.ids.index("findings") < page.ids.index("paper") < page.ids.index("weak")
    assert "Not drawn, for lack of curves: Montezuma’s Revenge beside three other hard games, " in page.text


def test_a_report_needs_neither_torch_nor_ray_and_embeds_fonts_since_journals_refuse_outlines(
    store: Folder, tmp_path: Path
) -> None:
    write_study(store, {("pong", "epsilon_greedy"): [1.0, 2.0]})
    program = (
        "import sys\n"
        "from offpiste.report.page import build\n"
        "build(sys.argv[1], sys.argv[2])\n"
        "print(sorted({'torch', 'ray', 'offpiste.run', 'offpiste.study', 'offpiste.cli'} & set(sys.modules)))\n"
    )
    words = [sys.executable, "-c", program, str(store.local_path), str(tmp_path / "report")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "[]"
    written = [file.read_bytes() for file in (tmp_path / "report" / "figures").glob("*.pdf")]
    assert written
    for content in written:
        assert b"/Subtype /CIDFontType2" in content
        assert b"/Subtype /Type3" not in content


def test_small_worlds_begin_with_a_profile_and_say_that_they_are_not_atari(
    store: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_worlds.use(monkeypatch)
    scores = {
        ("deep_sea_12", "epsilon_greedy"): [0.0] * 6,
        ("deep_sea_12", "cts"): [1.0] * 6,
        ("four_rooms", "epsilon_greedy"): [0.0] * 6,
        ("four_rooms", "cts"): [0.25, 0.75] * 3,
        ("museum", "epsilon_greedy"): [1.0] * 6,
        ("museum", "cts"): [1.0] * 6,
        ("museum", "oracle"): [1.0] * 6,
    }
    write_small_worlds(store, scores, returns={("museum", "cts"): 0.3, ("museum", "epsilon_greedy"): 0.6})
    report = build(store, tmp_path / "report")
    page = Page(report.page)
    assert "This is about eight small worlds, and not about Atari games." in page.text
    assert page.ids.index("profile") < page.ids.index("findings")
    assert "paper" not in page.ids
    assert "Published scores" not in page.text
    assert "The small worlds’ findings" in page.text
    assert "The paper’s findings" not in page.text
    assert "human" not in page.text
    assert report.lead == [
        "Of one other method, shown to beat ε-greedy: one on Deep Sea 12 and Four Rooms.",
        "To judge any of the small worlds’ five findings takes more runs.",
    ]
    assert "6 found, 6 learned, 6 kept of 6" in report.page.read_text()  # on museum
    assert "0.30" in page.text  # the area of CTS on museum
    assert page.text.count("▲") == 3  # two cells and the line that explains it
    text = (report.page.parent / "tables" / "profile.csv").read_text()
    assert "tuned,Deep Sea 12,CTS,6,1.0," in text
    assert {note.kind for note in report.notes} >= {"missing game"}
    assert "freeway" not in {note.where for note in report.notes}


def test_a_store_with_both_is_judged_by_both(store: Folder, tmp_path: Path) -> None:
    write_small_worlds(store, {("catch", "epsilon_greedy"): [1.0]})
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    report = build(store, tmp_path / "report")
    page = Page(report.page)
    assert page.text.index("2 runs, all complete: ε-greedy on Freeway and Catch.") < page.text.index(report.lead[0])
    assert report.lead == [
        "Nothing is compared yet: that takes ε-greedy and another method on the same game.",
        "To judge any of the paper’s seven and the small worlds’ five findings takes more runs.",
    ]
    assert [name for name in page.ids if name in ("profile", *SECTIONS)] == ["profile", *SECTIONS]
    assert len(page.ids) == len(set(page.ids))
    findings = (report.page.parent / "tables" / "findings.csv").read_text()
    assert findings.count("\n") == 1 + 7 + 5
