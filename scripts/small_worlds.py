"""Compare README.md and the pictures of the small worlds with the results in results/small_worlds; tables for the docs.

Run as `python -m scripts.small_worlds` from the repository's root; `--write` renews the pictures, and the parts of
README that stand between markers. STORE, if given, is read instead, and its answers and scores are printed. Until all
runs of studies/small_worlds.toml are there, a part says how many are: the tests of the findings are for ten seeds.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmarks.shared.studies import unfinished
from offpiste.analysis.comparisons import against_baseline_by_game
from offpiste.analysis.fairness import variants
from offpiste.analysis.findings import MARGIN, Verdict
from offpiste.analysis.names import label, ordered_methods, spell_out, title
from offpiste.analysis.results import Results, load
from offpiste.analysis.scores import Cell, cells, suites
from offpiste.analysis.small_worlds import HARD, LADDER, SMALL_WORLDS, TUNED
from offpiste.cli.trial_view import lines
from offpiste.study.plan import read_study
from scripts import hero

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "small_worlds"
STUDY = ROOT / "studies" / "small_worlds.toml"
DIFFER = (TUNED, *HARD)
"""The worlds in which methods differ; README shows their scores alone."""
QUESTIONS = {
    "small-bonuses-beat-baseline": (
        "Does every bonus beat ε-greedy in Deep Sea, where all were tuned?",
        ("Yes", "the least certain is that {weakest}"),
        ("No", "{counterexample}"),
    ),
    "small-no-bonus-beats-baseline-everywhere": (
        "Does any bonus beat ε-greedy in all four hard worlds?",
        ("No", "each fails in one of them; the least certain is that {weakest}"),
        ("Yes", "{counterexample}"),
    ),
    "small-bonuses-hurt-on-easy-worlds": (
        "Do bonuses cost much where exploration is easy?",
        ("Yes", "most lower the area under the training curve"),
        ("No", f"most lower the area under the training curve by less than {MARGIN:g}, if at all"),
    ),
    "small-ranking-does-not-carry-over": (
        "Does the ranking in Deep Sea carry over to the hard worlds?",
        ("No", "two bonuses change places"),
        ("Yes", "the rankings are alike"),
    ),
    "small-noise-costs-bonuses-more": (
        "Does noise cost every bonus more than it costs the oracle?",
        ("Yes", "the least certain is that {weakest}"),
        ("No", "{counterexample}"),
    ),
}
"""Each finding as a question, with its answer where the finding is supported, and where it is contradicted."""
FIRST_QUESTIONS = 3
"""Those that README answers."""
_PART = r"(<!-- {} -->\n).*?(<!-- end -->)"


def main() -> int:
    """Return 0 if README and pictures show what was measured, or do now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", help="print answers and scores of this store or bundle instead")
    parser.add_argument("--write", action="store_true", help="renew what differs")
    options = parser.parse_args()
    if options.store:
        print(f"{answers(Path(options.store))}\n{scores(Path(options.store))}")
        return 0
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    new = renewed(text, RESULTS)
    maps = hero.read(_results(RESULTS))
    if options.write:
        page.write_text(new, encoding="utf-8")
        hero.draw_all(maps)
        return 0
    wrong = [file.name for file in hero.stale(maps)] + ["README.md"] * (new != text)
    if wrong:
        print(f"not as in {RESULTS.name}: {', '.join(wrong)}; renew by python -m scripts.small_worlds --write")
    return 1 if wrong else 0


def renewed(text: str, store: Path) -> str:
    """Return a page with each of its parts as the results have it."""
    parts: dict[str, Callable[[], str]] = {
        "hero": lambda: f"*{hero.caption(hero.read(_results(store)))}*\n",
        "answers": lambda: answers(store, FIRST_QUESTIONS),
        "scores": lambda: scores(store, DIFFER),
    }
    for name, part in parts.items():
        if match := re.search(_PART.format(name), text, re.DOTALL):
            text = text[: match.end(1)] + part() + text[match.start(2) :]
    return text


def answers(store: Path, count: int | None = None) -> str:
    """Return the first questions with their answers as Markdown, or how many runs there are while some are missing."""
    if missing := _missing(store):
        return missing
    verdicts = {each.finding.key: each for each in _results(store).verdicts()}
    return "".join(f"- {answer(verdicts[key])}\n" for key in list(QUESTIONS)[:count])


def answer(found: Verdict) -> str:
    """Return a finding as a question and its answer, with its evidence."""
    question, supported, contradicted = QUESTIONS[found.finding.key]
    if found.verdict == "not enough evidence":
        return f"{question} **Inconclusive** with {found.seeds} seeds."
    word, why = supported if found.verdict == "supported" else contradicted
    p = found.p_for if found.verdict == "supported" else found.p_against
    says = spell_out(found.deciding.label)
    why = why.format(weakest=says, counterexample=_denied(says)).replace(title(TUNED), _short(TUNED))
    return f"{question} **{word}:** {why} ({'p < 0.001' if p < 0.001 else f'p = {p:.1g}'})."


def scores(store: Path, games: Sequence[str] = SMALL_WORLDS.games) -> str:
    """Return a table of scores in these worlds as Markdown, or how many runs there are while some are missing."""
    if missing := _missing(store):
        return missing
    evidence = _results(store).evidence()
    found = cells(evidence, SMALL_WORLDS, against_baseline_by_game(evidence, SMALL_WORLDS))
    return "\n".join([*table([cell for cell in found if cell.game in games]), ""])


def finished(store: Path) -> bool:
    """Return whether a store has all runs of the study."""
    return not unfinished(read_study(STUDY), _results(store))


def trial(store: Path) -> Iterator[str]:
    """Yield what `offpiste try` prints for examples/simhash.py, which is the package's `simhash`."""
    evidence = _results(store).evidence()
    found = cells(evidence, SMALL_WORLDS, against_baseline_by_game(evidence, SMALL_WORLDS))
    mine = [replace(cell, method="sim_hash") for cell in found if cell.method == "simhash"]
    yield from lines("sim_hash", [*found, *mine], published=True)


def minutes(store: Path, method: str, cores: int = 2) -> float:
    """Return how long a method trained in tuning and results together, spread over some cores."""
    found = _results(store).query(
        "WITH rates AS (SELECT run, avg(value) AS rate FROM scalars WHERE name = 'steps_per_second' GROUP BY run), "
        "ends AS (SELECT run, max(end_step) AS steps FROM iterations GROUP BY run) "
        "SELECT method, sum(steps / rate) AS seconds FROM runs JOIN ends USING (run) JOIN rates USING (run) "
        "GROUP BY method"
    )
    seconds: dict[str, float] = {row["method"]: row["seconds"] for row in found.to_pylist()}
    return seconds[method] / 60.0 / cores


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
    heads = [f"{_short(game)}<br>*{suite}*" for suite, names in games.items() for game in names]
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    methods = list(dict.fromkeys(cell.method for cell in found))
    for method in sorted(methods, key=lambda name: name in LADDER):  # the oracles, which no agent could use, come last
        row = [by_pair.get((method, game)) for names in games.values() for game in names]
        name = f"*{label(method)}*" if method in LADDER else label(method)
        yield f"| {name} | {' | '.join(map(_shown, row))} |"


def _missing(store: Path) -> str:
    study = read_study(STUDY)
    missing = unfinished(study, _results(store))
    return f"Under way: {len(study.runs) - len(missing)} of {len(study.runs)} runs are finished.\n" if missing else ""


def _denied(statement: str) -> str:
    """Return the contrary of a statement about two methods."""
    if " does not beat " in statement:
        return statement.replace(" does not beat ", " beats ")
    return statement.replace(" beats ", " does not beat ").replace(" loses more ", " does not lose more ")


def _short(game: str) -> str:
    """Return the name of a world without its size."""
    return title(game).rstrip(" 0123456789")


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
