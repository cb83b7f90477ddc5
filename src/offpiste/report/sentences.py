"""What a report says in sentences, at its top."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from offpiste.analysis.comparisons import Contrast
from offpiste.analysis.evidence import PAPER_FRAMES, Evidence
from offpiste.analysis.findings import Benchmark
from offpiste.analysis.names import and_text, label, ordered_games, ordered_methods, title
from offpiste.analysis.paper import PAPER
from offpiste.analysis.small_worlds import LADDER, SMALL_WORLDS
from offpiste.analysis.stats import min_seeds

_FEW_NAMES = 4
"""So many methods or games are named; more are counted."""
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven")


def what_was_run(evidence: Evidence) -> str:
    """Return how many runs there are, and of what: by name, if these are few."""
    count = len(evidence.records.runs)
    if not evidence.runs:
        return f"{count_of(count, 'run')}."
    complete = sum(run.complete for run in evidence.records.runs)
    if count == 1:
        done = "complete" if complete else "not complete"
    else:
        done = f"{'all' if complete == count else complete} complete"
    methods = [label(method) for method in ordered_methods(run.method for run in evidence.runs)]
    games = [title(game) for game in ordered_games(run.game for run in evidence.runs)]
    return f"{count_of(count, 'run')}, {done}: {_named(methods, 'method')} on {_named(games, 'game')}."


def part_of(evidence: Evidence) -> tuple[str, str]:
    """Return the method of runs that are shown by themselves, and how they were made; nothing for all others."""
    if not evidence.part:
        return "", ""
    run = evidence.runs[0]
    return label(run.method), f"protocol {run.protocol}, method {run.method_fingerprint}"


def scope(evidence: Evidence) -> list[str]:
    """Return what else is to be known of the runs, and whether they are the paper's experiment at all."""
    said = []
    if evidence.tuning:
        said.append(f"{count_of(len(evidence.tuning), 'run')} of these tune constants and are in no comparison.")
    if evidence.chosen:
        count = count_of(len(evidence.chosen), "run")
        said.append(f"Of these, {count} with a β chosen for the world or for all worlds (Which β?): in no comparison.")
    series = sorted({found.series for found in evidence.records.published})
    if series:
        games = len({found.game for found in evidence.records.published})
        said.append(f"Published curves of {count_of(games, 'game')}: {', '.join(series)}.")
    said += [benchmark.caveat for benchmark in evidence.benchmarks if benchmark.caveat]
    departures = evidence.departures()
    if departures:
        what = f"differ in {count_of(len(departures), 'setting')}"
        if "frames" in departures:
            what = f"end at {departures['frames'][0]} frames, not {PAPER_FRAMES:,}"
        only = " A verdict on its findings is about them only." if PAPER in evidence.benchmarks else ""
        said.append(f"These are not the paper’s runs: they {what}.{only}")
    if evidence.apart:
        names = [title(game) for game in ordered_games(run.game for part in evidence.apart for run in part.runs)]
        said.append(
            f"The runs on {_named(names, 'game')} were not made alike. Each method is shown by itself, protocol by "
            "protocol, and no score, average or finding goes across them."
        )
    if evidence.mixed:
        said.append(f"Unlike runs were taken together (--allow-mixed): {'; '.join(evidence.mixed)}.")
    return said


def lead_sentences(evidence: Evidence, compared: Sequence[Contrast], by_world: Sequence[Contrast] = ()) -> list[str]:
    """Return the result in plain sentences: on each benchmark's findings, and what stands out beside ε-greedy.

    Benchmarks on none of whose findings there is a verdict come last.
    """
    if not evidence.runs:
        kind = "only runs that tune constants" if evidence.tuning else "no run that can be read"
        more = "; what follows are published results that were imported" if evidence.records.published else ""
        return [f"There is nothing to judge yet: this store holds {kind}{more}."]
    if not evidence.together:
        return ["Nothing is compared here: these runs were not made alike."]
    open_ones = [each for each in evidence.benchmarks if not evidence.is_judged(each)]
    sentences = [_verdicts_in_short(evidence, each) for each in evidence.benchmarks if each not in open_ones]
    if compared or PAPER in evidence.benchmarks or not evidence.benchmarks:
        sentences.append(_beside_baseline(compared))
    if beaten := _beaten_by_world(by_world):
        sentences.append(beaten)
    if open_ones:
        whose = and_text([f"{each.whose} {NUMBERS[len(each.findings)]}" for each in open_ones])
        sentences.append(f"To judge any of {whose} findings takes more runs.")
    return sentences


def _verdicts_in_short(evidence: Evidence, benchmark: Benchmark) -> str:
    verdicts = [each.verdict for each in evidence.verdicts[benchmark.name]]
    findings = f"of {benchmark.whose} {NUMBERS[len(verdicts)]} findings"
    supported, contradicted = verdicts.count("supported"), verdicts.count("contradicted")
    left = len(verdicts) - supported - contradicted
    counts = [f"support {NUMBERS[supported]}"] * bool(supported)
    counts += [f"contradict {NUMBERS[contradicted]}"] * bool(contradicted)
    more = f"; for {NUMBERS[left]} they do not suffice" if left else ""
    return f"O{findings[1:]} these runs {' and '.join(counts)}{more}."


def _beaten_by_world(by_world: Sequence[Contrast]) -> str:
    """Return how many methods beat ε-greedy on each world where that is not easy, without the references."""
    tested = [each for each in by_world if each.method not in LADDER]
    games = dict.fromkeys(game for each in tested for game in each.games if game not in SMALL_WORLDS.easy)
    by_count: dict[int, list[str]] = defaultdict(list)
    for game in games:
        by_count[sum(each.call == "better" for each in tested if each.games == (game,))].append(title(game))
    if not by_count:
        return ""
    methods = len({each.method for each in tested})
    counts = "; ".join(
        f"{_number(count)} on {and_text(names)}" for count, names in sorted(by_count.items(), reverse=True)
    )
    return f"Of {_number(methods)} other method{'s' * (methods != 1)}, shown to beat ε-greedy: {counts}."


def _beside_baseline(compared: Sequence[Contrast]) -> str:
    if not compared:
        return "Nothing is compared yet: that takes ε-greedy and another method on the same game."
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in compared:
        if each.is_shown:
            shown[each.call, each.suite].append(label(each.method))
    many = f"the {len(compared)} comparisons" if len(compared) > 1 else "the one comparison"
    if shown:
        parts = [
            f"{and_text(methods)} {'does' if len(methods) == 1 else 'do'} {call} on "
            f"{'' if suite[0].isupper() else 'the '}{suite}"
            for (call, suite), methods in shown.items()
        ]
        return f"Of {many} with ε-greedy, these hold after correction: {'; '.join(parts)}."
    families = Counter(each.family for each in compared)
    pairs = max(each.comparison.pairs for each in compared)
    needed = min(min_seeds(2 * size) for size in families.values())
    are = "is" if pairs == 1 else "are"
    why = f": that takes {needed} pairs of seeds, and there {are} {pairs} at most" if pairs < needed else ""
    return f"Of {many} with ε-greedy, none shows a difference after correction{why}."


def count_of(number: int, what: str) -> str:
    """Return a number of things, as a phrase."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _named(names: Sequence[str], what: str) -> str:
    return and_text(names) if len(names) <= _FEW_NAMES else count_of(len(names), what)


def _number(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else str(number)
