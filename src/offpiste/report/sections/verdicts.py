"""The sections that judge: findings, comparisons across games, and the paper's figures."""

from collections.abc import Iterator

from offpiste.analysis.findings import MARGIN, Benchmark
from offpiste.report import comparison_tables, figures, overviews
from offpiste.report.material import Material
from offpiste.report.section import Custom, Figure, Files, Fold, Heading, Part, Section, Shown, Words
from offpiste.worlds.scores import reference_scores


def findings(material: Material) -> Iterator[Section]:
    """Yield the verdict on each finding of each benchmark that the runs belong to."""
    evidence = material.evidence
    parts: list[Part] = []
    for benchmark in evidence.benchmarks:
        heading = f"{benchmark.whose[0].upper()}{benchmark.whose[1:]} findings"
        parts += [Heading(heading)] if len(evidence.benchmarks) > 1 else []
        parts += [Words([benchmark.caveat])] if benchmark.caveat else []
        shown: list[Part] = [
            Custom("verdicts", evidence.verdicts[benchmark.name]),
            Words([_explained(benchmark)], small=True),
            Fold("What each finding is tested by", [Custom("tests", evidence.verdicts[benchmark.name])]),
        ]
        if evidence.is_judged(benchmark):
            parts += shown
        else:
            count = len(benchmark.findings)
            parts.append(Fold(f"These runs do not suffice for a verdict on any of the {count}", shown))
    files = [comparison_tables.findings_table(evidence), comparison_tables.parts_table(evidence)]
    if parts:
        whose = evidence.benchmarks[0].whose
        name = "Findings" if len(evidence.benchmarks) > 1 else f"{whose[0].upper()}{whose[1:]} findings"
        yield Section("findings", name, [*parts, Files(files)])


def _explained(benchmark: Benchmark) -> str:
    top = reference_scores(benchmark.tuned).player or "the best policy"
    count = "; for consistency, a number of games" if benchmark.name == "paper" else ""
    tie = f"; scores of two runs that differ by no more than {benchmark.tie} are equal" if benchmark.tie else ""
    return (
        f"Effect: median difference of the comparison on which the verdict hangs, where random play is 0 and {top} "
        "is 1; "
        f"for rankings, the rank correlation{count}. Verdicts rest on exact tests only and are wrong with a chance "
        "of 5% at "
        f"most, each by itself, whatever the distribution of scores. A lead below {MARGIN} counts as none: showing "
        "that "
        f"contradicts a finding that one method beats another, and supports one that it does not{tie}."
    )


def across(material: Material) -> Iterator[Section]:
    """Yield the drawings that look across games."""
    evidence = material.evidence
    found = overviews.overview_figures(evidence, material.aggregates, material.correlations)
    whole = ("performance_profile", "gain_and_harm")
    parts: list[Part] = [Figure(each, size="whole" if each.name in whole else "rows") for each in found]
    numbers = [
        comparison_tables.aggregate_table(material.aggregates),
        comparison_tables.correlation_table(material.correlations),
    ]
    if numbers[0].rows:
        parts.append(Fold("In numbers", [Shown(each) for each in numbers]))
    if parts:
        yield Section("across", "Across games", parts)


def paper(material: Material) -> Iterator[Section]:
    """Yield the paper's figures, with the names of those that cannot be drawn yet."""
    drawn = figures.paper_figures(material.evidence) if material.is_about_paper else []
    if drawn:
        names = {each.name for each in drawn}
        undrawn = [heading for name, heading in figures.TITLES.items() if name not in names]
        missing = [Words([f"Not drawn, for lack of curves: {', '.join(undrawn)}."])] if undrawn else []
        yield Section("paper", "The paper’s figures", [*(Figure(each, size="rows") for each in drawn), *missing])
