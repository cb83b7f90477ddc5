"""Compare what README.md says of the small worlds with the results in results/small_worlds; tables for the docs.

Run as `python -m scripts.small_worlds` from the repository's root; `--write` renews the table and the verdicts, which
stand between two markers. STORE, if given, is read instead, and the part is printed. Until all runs of
studies/small_worlds.toml are there, the part says how many are: the tests of the findings are for ten seeds.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from benchmarks.shared.studies import unfinished
from offpiste.analysis.comparisons import against_baseline_by_game
from offpiste.analysis.fairness import variants
from offpiste.analysis.findings import Verdict
from offpiste.analysis.load import load
from offpiste.analysis.names import label, ordered_methods, spell_out, title
from offpiste.analysis.profile import Cell, cells, suites
from offpiste.analysis.results import Results
from offpiste.analysis.small_worlds import LADDER, SMALL_WORLDS
from offpiste.study.plan import read_study

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "small_worlds"
STUDY = ROOT / "studies" / "small_worlds.toml"
_MARKED = re.compile(r"(<!-- small worlds -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Return 0 if README says what was measured, or does now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", help="print the part for this store or bundle instead")
    parser.add_argument("--write", action="store_true", help="renew the part")
    options = parser.parse_args()
    if options.store:
        print(part(Path(options.store)))
        return 0
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    renewed = _MARKED.sub(lambda match: match[1] + part(RESULTS) + match[2], text)
    if renewed == text:
        return 0
    if options.write:
        page.write_text(renewed, encoding="utf-8")
        return 0
    print(f"README.md does not say what {RESULTS.name} holds; renew it by python -m scripts.small_worlds --write")
    return 1


def part(store: Path) -> str:
    """Return the table and the verdicts as Markdown, or how many runs there are as long as some are missing."""
    results = _results(store)
    study = read_study(STUDY)
    if missing := unfinished(study, results):
        return f"Under way: {len(study.runs) - len(missing)} of {len(study.runs)} runs are finished.\n"
    evidence = results.evidence()
    found = cells(evidence, SMALL_WORLDS, against_baseline_by_game(evidence, SMALL_WORLDS))
    verdicts = [each for each in results.verdicts() if each.finding in SMALL_WORLDS.findings]
    return "\n".join([*table(found), "", *listed(verdicts), ""])


def finished(store: Path) -> bool:
    """Return whether a store has all runs of the study."""
    return not unfinished(read_study(STUDY), _results(store))


def constants(store: Path) -> Iterator[str]:
    """Yield the lines of a table of the settings that the tuning chose, and how sure each choice is."""
    yield "| | setting | mean score of five seeds | best again, with the seeds drawn anew |"
    yield "|---|---|---|---|"
    tried = variants(_results(store).evidence())
    chosen = {each.method: each for each in reversed(tried)}
    for method in ordered_methods(chosen):
        each = chosen[method]
        if each.mean is None or each.chosen is None:
            continue
        setting = each.name.replace("beta=", "β ").replace(",lr=", ", learning rate ")
        yield f"| {label(method)} | {setting} | {_number(each.mean)} | {each.chosen:.0%} |"


def table(found: Sequence[Cell]) -> Iterator[str]:
    """Yield the lines of a table of methods and worlds: mean scores, in bold where ε-greedy is shown to be beaten."""
    by_pair = {(cell.method, cell.game): cell for cell in found}
    games = {
        suite: [game for game in names if any(cell.game == game for cell in found)]
        for suite, names in suites(SMALL_WORLDS).items()
    }
    heads = [f"{title(game)}<br>*{suite}*" for suite, names in games.items() for game in names]
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    methods = list(dict.fromkeys(cell.method for cell in found))
    for method in sorted(methods, key=lambda name: name in LADDER):  # the oracles, which no agent could use, come last
        row = [by_pair.get((method, game)) for names in games.values() for game in names]
        name = f"*{label(method)}*" if method in LADDER else label(method)
        yield f"| {name} | {' | '.join(map(_shown, row))} |"


def listed(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a line for each finding, with its verdict."""
    for each in verdicts:
        yield f"- {spell_out(each.finding.sentence)} **{each.verdict.capitalize()}**: {spell_out(each.reason)}"


@cache
def _results(store: Path) -> Results:
    """Return the runs of a store, read once: that takes seconds, and the docs need them three times."""
    return load(store)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return f"**{_number(cell.score)}**" if cell.better else _number(cell.score)


def _number(score: float) -> str:
    return f"{score:z.2f}".replace("-", "−")


if __name__ == "__main__":
    sys.exit(main())
