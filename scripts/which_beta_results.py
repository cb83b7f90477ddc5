"""What *Which β?* found, as figures, tables and answers for README and the docs.

    python -m scripts.which_beta_results [STORE ...] [--figures OUT] [--write]

All is made from the published results, the bundles below results/which_beta and the stores that are named. Without
`--write` README is compared; with it, its part between markers is renewed, which is empty until all runs of the three
scores are there. Nothing is judged while a run is missing; what is there is counted.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from offpiste.analysis.beta_curves import BetaCurve, ThreeScores, curve_of, three_scores
from offpiste.analysis.names import label, ordered_methods, spell_out, title
from offpiste.analysis.small_worlds import BONUSES, HARD, LADDER, ORACLE, SMALL_WORLDS, TUNED
from offpiste.analysis.which_beta import CONTROLS, WITHOUT_BONUS, Kind, one_for_all, score
from offpiste.analysis.which_beta_findings import FINDINGS, PRIMARY, BetaFinding, Edition
from offpiste.analysis.which_beta_progress import (
    Answered,
    Collected,
    Count,
    answered,
    choosing,
    score_keys,
    scoring,
    settled,
    worlds_of,
)
from offpiste.report.beta_figures import beta_figure, three_scores_figure
from offpiste.report.drawing import save
from offpiste.study import which_beta as studies
from offpiste.study.plan import read_study
from scripts import which_beta

ROOT = Path(__file__).parents[1]
EDITIONS: dict[Edition, tuple[str, ...]] = {"today": ("today", "noisy_nets"), "later": ("zoo",)}
"""Parts of the findings, with the studies of each."""
CURVES = (*BONUSES, ORACLE)
"""Methods with a β, in the figures."""
SCORED_SEEDS = range(10)
QUESTIONS = ("transferred-beats-baseline", "", "own-beats-transferred")
"""The three that the three scores ask, in order; that of one for all is described, and no finding."""
ONE_FOR_ALL = "Is there one β that works in all worlds?"
COLUMNS: dict[str, tuple[Kind, ...]] = {
    "tuned on Deep Sea": ("transferred", "default"),
    "one β for all": ("one for all",),
    "a β of its own": ("own",),
}
_PART = r"(<!-- which-beta -->\n).*?(<!-- end -->)"


def main() -> int:
    """Print what was found; return 0 if README says the same, or does now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", help="stores and bundles to read beside what is published")
    parser.add_argument("--figures", type=Path, help="write the figures as PNG and PDF into this folder")
    parser.add_argument("--write", action="store_true", help="renew README")
    options = parser.parse_intermixed_args()
    found = collected(*options.stores)
    print(f"{progress(found)}\n\n{answers(found)}\n{constants(found)}\n{table(found)}", end="")
    if options.figures:
        for drawing in (
            *[beta_figure(f"beta_{method}", label(method), curves(found, method)) for method in CURVES],
            beta_figure("beta_deep_sea", "Deep Sea", deep_sea(found)),
            three_scores_figure(three(found)),
        ):
            save(drawing, options.figures)
    if options.stores:
        return 0  # README is about what is published
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    new = renewed(text, found)
    if options.write:
        page.write_text(new, encoding="utf-8")
    elif new != text:
        print("README.md is not as in the results; renew it by python -m scripts.which_beta_results --write")
    return int(new != text and not options.write)


@cache
def collected(*stores: str) -> Collected:
    """Return the runs of stores, of the bundles and of the published results, with the grids of the first stage."""
    grids: dict[str, studies.Grid] = {}
    for part in studies.PARTS:
        if (file := which_beta.FOLDER / f"{part}_1_hard.toml").exists():
            grids |= studies.read_grids(read_study(file))
    points = {method: tuple(grid) for method, grid in grids.items()}
    return Collected(which_beta.read(list(stores), grids), points, studies.published_points(grids))


def renewed(text: str, found: Collected) -> str:
    """Return a page with its part as the runs have it."""
    return re.sub(_PART, lambda part: part[1] + table(found) + part[2], text, flags=re.DOTALL)


def progress(found: Collected) -> str:
    """Return how many of the runs are there that choose constants: first today's methods, then those that join."""
    lines = []
    for edition, names in EDITIONS.items():
        methods = [method for name in names for method in studies.PARTS[name] if method in found.points]
        if not methods:
            continue
        count = sum((choosing(found, method, world) for method in methods for world in worlds_of(method)), Count(0, 0))
        whose = "today’s methods" if edition == "today" else ", ".join(map(label, methods))
        share = f"{count.there:,} of {count.wanted:,}"
        lines.append(f"Of the runs that choose constants of {whose}, {'all' if count.complete else share} are there.")
    return "\n".join(lines)


def curves(found: Collected, method: str) -> list[BetaCurve]:
    """Return the score of a bonus over k in every world."""
    return [curve_of(found, method, world) for world in worlds_of(method)]


def deep_sea(found: Collected) -> list[BetaCurve]:
    """Return the score over k of every bonus on Deep Sea."""
    return [curve_of(found, method, TUNED, label(method)) for method in CURVES]


def three(found: Collected) -> list[ThreeScores]:
    """Return the three scores of every method, world by world."""
    return [three_scores(found, world, ordered(found), SCORED_SEEDS) for world in SMALL_WORLDS.games]


def ordered(found: Collected) -> list[str]:
    """Return the methods, the oracles last."""
    return sorted(ordered_methods(found.points), key=lambda method: method in (*LADDER, "oracle_left"))


def table(found: Collected) -> str:
    """Return the table of README: in how many hard worlds each method does what is asked; "" while a run is missing."""
    methods = [method for method in ordered(found) if method in SMALL_WORLDS.published]
    keys = [key for world in HARD for key in score_keys(methods, world)]
    if not scoring(found, keys, SCORED_SEEDS).complete:
        return ""
    return "\n".join([*_table(found, methods), ""])


def _table(found: Collected, methods: Sequence[str]) -> Iterator[str]:
    seeds = f"at least half of {len(SCORED_SEEDS)} seeds"
    yield f"How many of {len(HARD)} hard worlds a method solves on {seeds}, by how its β"
    yield "was chosen ([which β?](docs/which-beta.md)):"
    yield ""
    yield f"| | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for method in methods:
        name = f"*{label(method)}*" if method in LADDER else label(method)
        yield f"| {name} | {' | '.join(str(solved(found, method, kinds, HARD)) for kinds in COLUMNS.values())} |"


def solved(found: Collected, method: str, kinds: Sequence[Kind], worlds: Sequence[str]) -> int:
    """Return how many worlds at least half of a method's runs solve, with a constant chosen in one way."""
    count = 0
    for world in worlds:
        points = settled(found, method, world)
        point = next((points[kind] for kind in kinds if kind in points), None)
        own = score(found.table(method), world, point, SCORED_SEEDS)
        count += own is not None and 2 * own.solved >= len(own.runs)
    return count


def answers(found: Collected) -> str:
    """Return the three questions and then the others, with their answers, as Markdown."""
    by_key = {finding.key: _answer_all(found, finding) for finding in FINDINGS}
    asked = [by_key[key] if key else described(found) for key in QUESTIONS]
    asked += [line for key, line in by_key.items() if key not in QUESTIONS and line]
    return "".join(f"- {line}\n" for line in asked)


def _answer_all(found: Collected, finding: BetaFinding) -> str:
    """Return a finding with its answers for today's bonuses and for those that join, where it is about them."""
    asked = {edition: answered(found, finding, edition) for edition in EDITIONS}
    asked = {edition: each for edition, each in asked.items() if each.runs.wanted and _is_asked(found, edition)}
    said = [(f"{_bonuses(edition)}: " if edition == "later" else "") + answer(each) for edition, each in asked.items()]
    return f"{finding.question} {' '.join(said)}" if said else ""


def _is_asked(found: Collected, edition: Edition) -> bool:
    """Whether there is any run of the bonuses of an edition."""
    return any(found.table(bonus) for bonus in PRIMARY[edition])


def _bonuses(edition: Edition) -> str:
    return ", ".join(map(label, PRIMARY[edition]))


def answer(found: Answered) -> str:
    """Return the answer to a finding, or how many of its runs there are."""
    if not found.answers:
        return f"Not judged yet: {found.runs}."
    groups: dict[str, list[str]] = defaultdict(list)
    for name, word in found.answers.items():
        groups[word].append(_said(found, name))
    parts = [
        f"**{word.capitalize()}:** {'; '.join(groups[word])}."
        for word in ("yes", "no", "inconclusive")
        if word in groups
    ]
    return " ".join(parts)


def _said(found: Answered, name: str) -> str:
    hypothesis = found.hypotheses[name]
    p = {"yes": hypothesis.p_for, "no": hypothesis.p_against}.get(found.answers[name])
    evidence = [f"by {_number(hypothesis.effect)} on average"]
    evidence += [f"the oracle by {_number(hypothesis.beside)}"] if hypothesis.beside == hypothesis.beside else []
    evidence += [] if p is None else ["p < 0.001" if p < 0.001 else f"p = {p:.1g}"]
    return f"{_spelled(name)} ({', '.join(evidence)})"


def described(found: Collected) -> str:
    """Return the question of one β for all, which is described and not tested."""
    worlds = (TUNED, *HARD)
    keys = [key for world in worlds for key in score_keys(BONUSES, world) if key[2] == "one for all"]
    count = scoring(found, keys, SCORED_SEEDS)
    if not count.complete:
        return f"{ONE_FOR_ALL} Not described yet: {count}."
    works = ", ".join(f"{label(method)} {solved(found, method, ('one for all',), worlds)}" for method in BONUSES)
    what = f"worlds of {len(worlds)}, Deep Sea and the hard ones, that it solves on at least half of the seeds"
    return f"{ONE_FOR_ALL} Described, not tested: {what}: {works}."


def constants(found: Collected) -> str:
    """Return the k of each bonus as a table, once any is settled; a dash where runs are missing."""
    worlds = (*HARD, *CONTROLS)
    lines = [f"| | Deep Sea | all worlds | {' | '.join(map(title, worlds))} |", "|---" * (len(worlds) + 3) + "|"]
    for method in (method for method in ordered(found) if method not in WITHOUT_BONUS):
        ready = all(choosing(found, method, world).complete for world in SMALL_WORLDS.games)
        everywhere = one_for_all(found.table(method), on_deep_sea=method != "oracle_episodic") if ready else None
        own = [settled(found, method, world).get("own") if world in worlds_of(method) else None for world in worlds]
        row = [settled(found, method, TUNED).get("transferred"), everywhere, *own]
        lines.append(f"| {label(method)} | {' | '.join('–' if point is None else _k(point[0]) for point in row)} |")
    if all(line.count("–") >= len(worlds) + 1 for line in lines[2:]):
        return "No k is settled yet but that of Deep Sea.\n"
    return "\n".join([*lines, ""])


def _k(step: int) -> str:
    return str(step).replace("-", "−")


def _number(value: float) -> str:
    return f"{value:z.2f}".replace("-", "−")


def _spelled(text: str) -> str:
    for world in CONTROLS:
        text = text.replace(world, title(world)) if world != "noisy_tv_passive" else text
    return spell_out(text).replace("Deep Sea 12", "Deep Sea")


if __name__ == "__main__":
    sys.exit(main())
