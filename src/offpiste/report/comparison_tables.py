"""The tables of a report that compare: verdicts with the parts they are made of, and methods beside one another."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from offpiste.analysis.comparisons import STATISTICS, Aggregate, Contrast, Correlation
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import Part, Verdict
from offpiste.analysis.names import label, title
from offpiste.report.tables import Table, table_of

_COMPARED: dict[str, Callable[[Contrast], Any]] = {
    "method": lambda each: label(each.method),
    "pairs": lambda each: each.comparison.pairs,
    "share better": lambda each: each.comparison.probability,
    "exact interval": lambda each: each.comparison.probability_interval,
    "median difference": lambda each: each.comparison.difference,
    "its exact interval": lambda each: each.comparison.difference_interval,
    "p better": lambda each: each.comparison.p_better,
}
"""Columns of every table of methods beside ε-greedy."""
_CALLED: dict[str, Callable[[Contrast], Any]] = {
    "corrected among": lambda each: f"{each.family} methods" if each.family == "published" else each.family,
    "called": lambda each: _call(each),
}
_FAMILIES = (
    "Published methods with their published constants are one family and all others another, so that a method which is "
    "added moves no published call. Methods with too few pairs for any call are in neither."
)


def findings_table(evidence: Evidence) -> Table:
    """Return the verdict on each finding of each benchmark."""
    columns: dict[str, Callable[[Verdict], Any]] = {
        "finding": lambda each: each.finding.key,
        "sentence": lambda each: each.finding.sentence,
        "verdict": lambda each: each.verdict,
        "effect": lambda each: each.effect,
        "exact interval": lambda each: each.interval,
        "seeds": lambda each: each.seeds,
        "reason": lambda each: each.reason,
        "p for": lambda each: each.p_for,
        "p against": lambda each: each.p_against,
        "deciding comparison": lambda each: each.deciding.label,
    }
    return table_of("findings", _verdicts(evidence), columns)


def parts_table(evidence: Evidence) -> Table:
    """Return the comparisons of which the findings are made."""
    columns: dict[str, Callable[[tuple[str, Part]], Any]] = {
        "finding": lambda each: each[0],
        "comparison": lambda each: each[1].label,
        "seeds": lambda each: each[1].seeds,
        "pairs": lambda each: _of(each[1], "pairs"),
        "share better": lambda each: _of(each[1], "probability"),
        "exact interval of the share": lambda each: _of(each[1], "probability_interval"),
        "median difference": lambda each: _of(each[1], "difference"),
        "exact interval of the difference": lambda each: _of(each[1], "difference_interval"),
        "rank correlation": lambda each: each[1].correlation,
        "p for": lambda each: each[1].p_for,
        "p against": lambda each: each[1].p_against,
    }
    found = [(verdict.finding.key, leaf) for verdict in _verdicts(evidence) for leaf in _leaves(verdict.part)]
    return table_of("finding_parts", found, columns)


def contrast_table(found: Sequence[Contrast]) -> Table:
    """Return each method beside ε-greedy."""
    columns: dict[str, Callable[[Contrast], Any]] = {
        "games": lambda each: each.suite,
        **_COMPARED,
        "p worse": lambda each: each.comparison.p_worse,
        **_CALLED,
    }
    note = (
        "Pairs are of equal seeds. Differences are normalised, or in points on a game without reference scores. "
        "All intervals are exact at 95%, each by itself. A method is called better or worse only where that holds at "
        f"5% for the sign tests of its family in this table together (Holm’s correction). {_FAMILIES} A finding above, "
        "tested by itself, takes less."
    )
    return table_of("against_epsilon_greedy", found, columns, note)


def contrast_by_game_table(found: Sequence[Contrast]) -> Table:
    """Return each method beside ε-greedy on each world."""
    columns: dict[str, Callable[[Contrast], Any]] = {
        "world": lambda each: each.suite,
        **_COMPARED,
        **_CALLED,
        "area, median difference": lambda each: each.area.difference if each.area else None,
        "area, exact interval": lambda each: each.area.difference_interval if each.area else None,
    }
    note = (
        "Pairs are of equal seeds. Differences are normalised; scores within the margin of each other are equal. All "
        "intervals are exact at 95%, each by itself. A method is called better only where that holds at 5% for its "
        f"family on that world together (Holm’s correction). {_FAMILIES} Areas are those under the training curves; "
        "they only describe."
    )
    return table_of("against_epsilon_greedy_by_world", found, columns, note)


def aggregate_table(found: Sequence[Aggregate]) -> Table:
    """Return the aggregate scores."""
    columns: dict[str, Callable[[Aggregate], Any]] = {
        "method": lambda each: label(each.method),
        "runs": lambda each: each.runs,
    }
    for name in STATISTICS:
        columns[name] = lambda each, name=name: each.values[name][0]  # type: ignore[misc]
        columns[f"{name}, bootstrap"] = lambda each, name=name: each.values[name][1]  # type: ignore[misc]
    return table_of("aggregates", found, columns)


def correlation_table(found: Sequence[Correlation]) -> Table:
    """Return the rank correlations with Montezuma."""
    columns: dict[str, Callable[[Correlation], Any]] = {
        "game": lambda each: title(each.game) if each.game else "mean, other hard games",
        "methods": lambda each: each.methods,
        "rank correlation with Montezuma’s Revenge": lambda each: each.value,
        "bootstrap": lambda each: each.interval,
    }
    return table_of("rank_correlation", found, columns)


def _call(found: Contrast) -> str:
    pairs = found.comparison.pairs
    return f"not decidable with {pairs} pair{'s' * (pairs != 1)}" if found.call == "not decidable" else found.call


def _verdicts(evidence: Evidence) -> Iterator[Verdict]:
    for found in evidence.verdicts.values():
        yield from found


def _leaves(part: Part) -> Iterator[Part]:
    if not part.parts:
        yield part
    for inner in part.parts:
        yield from _leaves(inner)


def _of(part: Part, name: str) -> Any:
    found = part.comparison
    return getattr(found, name) if found is not None and found.pairs else None
