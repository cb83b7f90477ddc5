"""Findings as code: a sentence, a quantity, a test, and a verdict on given scores.

A benchmark is data: it says on which games, of which methods and by which number of a run its findings are judged.

Runs are compared seed by seed, for the runs of a seed share their random streams. A method *beats* another when it does
better in significantly more than half of the pairs; it is shown *not to* when the median difference lies significantly
below a margin, a twentieth of the way from random play to the top of the game's scale. Each verdict is wrong with a
chance of 5% at most, whatever the distributions, if only seeds and games are independent: a finding is not called
supported where it fails (for example at no difference), nor contradicted where it holds by the margin. Between nothing
and the margin either may come. A finding with several parts is supported when all the parts are, which takes no
correction, and contradicted when one of them is, which takes Bonferroni's; likewise for five parts out of six
(Benjamini and Heller, 2008). The verdicts do not share their levels.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from offpiste.analysis.stats import LEVEL, Comparison, Interval, min_seeds
from offpiste.worlds.scores import reference_scores

MARGIN = 0.05
"""What counts as a difference, as a share of the way from random play to the top of a game's scale."""
BASELINE = "epsilon_greedy"

Scores = Mapping[str, Mapping[str, Mapping[Any, float]]]
"""Game, method, key of a run (its seed) -> score in the game's own points."""


@dataclass(frozen=True)
class Part:
    """A statement with the p-values for it and against it; a statement may be made of others."""

    label: str
    p_for: float
    p_against: float
    seeds: int
    """The minimum over all comparisons."""
    shares_for: float = 1.0
    """By how many tests the level is shared in showing it, and in showing its contrary."""
    shares_against: float = 1.0
    games: int = 1
    """Games that one comparison pools."""
    comparison: Comparison | None = None
    correlation: float | None = None
    parts: tuple["Part", ...] = ()
    needed: int = 0
    """How many of the parts must hold."""

    @property
    def min_seeds_for(self) -> int:
        """Seeds below which it cannot be shown."""
        return min_seeds(self.shares_for, self.games)

    @property
    def min_seeds_against(self) -> int:
        """Seeds below which its contrary cannot be shown."""
        return min_seeds(self.shares_against, self.games)


@dataclass(frozen=True)
class Finding:
    """One finding of a benchmark."""

    key: str
    sentence: str
    quantity: str
    test: str
    weigh: Callable[["Benchmark", Scores, float], Part]
    """Weighs its statement by the benchmark, its scores and the margin."""
    needs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """Games and methods whose runs it is about."""
    measure: str = ""
    """The number of a run (`Summary`) that it is about; empty for the benchmark's own."""


@dataclass(frozen=True)
class Benchmark:
    """Games, methods and findings: all that differs between the paper's study and another."""

    name: str
    whose: str
    """Whose findings they are, as a sentence says it."""
    tuned: str
    """The game on which constants were chosen."""
    hard: tuple[str, ...]
    easy: tuple[str, ...]
    bonuses: tuple[str, ...]
    """Those under test."""
    ranked: tuple[str, ...]
    """Methods whose order on the tuned game is held beside that on the hard ones."""
    measure: str
    """The number of a run (`Summary`) that is its score."""
    findings: tuple[Finding, ...]
    published: tuple[str, ...]
    """The methods of its published study (`Evidence.is_published`); a method that joins moves no call of theirs."""
    noun: str = "games"
    tie: float = 0.0
    """Normalised scores of two runs that differ by no more are equal."""
    caveat: str = ""
    """What its verdicts are not about; stands on every page with them."""
    baseline: str = BASELINE
    forms: tuple[tuple[str, str], ...] = ()
    """A method whose form its sources leave open, and its other form: a finding about it must hold of both."""

    @property
    def games(self) -> tuple[str, ...]:
        """All of its games; those of different suites are never averaged together."""
        return (self.tuned, *self.hard, *self.easy)

    def tie_on(self, game: str) -> float:
        """Return by how much two scores on a game may differ and be equal, in the game's own points."""
        return self.tie * reference_scores(game).span

    def is_of_the_first_edition(self, method: str, game: str) -> bool:
        """Return whether the constants of a method were tuned on a game for the published study, without smoothing."""
        return game == self.tuned and method in self.published

    def with_form(self, method: str, form: str) -> "Benchmark":
        """Return the benchmark with another form of a method in its place."""
        bonuses, ranked = (
            tuple(form if name == method else name for name in names) for names in (self.bonuses, self.ranked)
        )
        return replace(self, bonuses=bonuses, ranked=ranked)


@dataclass(frozen=True)
class Verdict:
    """What the scores say about a finding."""

    finding: Finding
    verdict: Literal["supported", "contradicted", "not enough evidence"]
    reason: str
    p_for: float
    p_against: float
    deciding: Part
    """The comparison on which it hangs."""
    seeds: int
    missing: tuple[str, ...]
    """What the finding is about and the scores lack."""
    part: Part
    """The whole statement."""

    @property
    def effect(self) -> float:
        """The deciding comparison's median difference, or the rank correlation."""
        found, correlation = self.deciding.comparison, self.deciding.correlation
        if found is not None:
            return found.difference
        return math.nan if correlation is None else correlation

    @property
    def interval(self) -> Interval | None:
        """The exact interval of the median difference, where there are enough pairs for one."""
        found = self.deciding.comparison
        return found.difference_interval if found is not None else None


def judge(benchmark: Benchmark, scores: Mapping[str, Scores], margin: float = MARGIN) -> list[Verdict]:
    """Return the verdict on each finding of a benchmark, from the scores by each of its measures."""
    return [
        judge_one(benchmark, finding, scores[finding.measure or benchmark.measure], margin)
        for finding in benchmark.findings
    ]


def judge_one(benchmark: Benchmark, finding: Finding, scores: Scores, margin: float = MARGIN) -> Verdict:
    """Return the verdict on one finding, from the scores by its measure."""
    wanted = [(game, method) for games, methods in finding.needs for game in games for method in methods]
    missing = tuple(f"{method} on {game}" for game, method in wanted if not scores.get(game, {}).get(method))
    parts, note = [finding.weigh(benchmark, scores, margin)], ""
    for method, form in benchmark.forms:
        played = [game for game, needed in wanted if needed == method and scores.get(game, {}).get(method)]
        if played and all(scores[game].get(form) for game in played):
            parts.append(finding.weigh(benchmark.with_form(method, form), scores, margin))
            note += f"; {method} is judged in both of its forms, by the larger p"
        elif played:
            note += f"; of the two forms of {method}, {form} is not here, and one alone supports no claim about it"
    p_for, p_against = max(part.p_for for part in parts), max(part.p_against for part in parts)
    shown, refuted = p_for <= LEVEL, p_against <= LEVEL
    against = refuted and not shown
    part = max(parts, key=lambda part: part.p_against if against else part.p_for)
    deciding = _deciding(part, against=against)
    verdict: Literal["supported", "contradicted", "not enough evidence"] = "not enough evidence"
    if shown and not refuted:
        verdict, reason = "supported", f"p = {p_for:.3g}; weakest: {deciding.label}"
    elif refuted and not shown:
        verdict, reason = "contradicted", f"p = {p_against:.3g}; does not hold: {deciding.label}"
    elif shown:
        reason = "the evidence points both ways: the difference is too small, or too mixed, to call"
    elif missing:
        reason = f"no finished run of {', '.join(missing)}"
    elif part.seeds < min(part.min_seeds_for, part.min_seeds_against):
        reason = (
            f"needs at least {part.min_seeds_for} seeds to support it and {part.min_seeds_against} to contradict it, "
            f"and has {part.seeds}"
        )
    else:
        seeds = "1 seed" if part.seeds == 1 else f"{part.seeds} seeds"
        reason = f"shown neither way with {seeds} (p = {p_for:.2g} for, {p_against:.2g} against)"
        if part.seeds < max(part.min_seeds_for, part.min_seeds_against):
            word, needed = max(
                ("support", part.min_seeds_for), ("contradict", part.min_seeds_against), key=lambda x: x[1]
            )
            reason += f"; to {word} it takes at least {needed} seeds"
    return Verdict(finding, verdict, reason + note, p_for, p_against, deciding, part.seeds, missing, part)


def _deciding(part: Part, *, against: bool) -> Part:
    """Return the comparison on which a verdict hangs: the weakest, or the strongest against."""
    while part.parts:
        index = len(part.parts) - part.needed if against else part.needed - 1
        part = sorted(part.parts, key=lambda x: x.p_against if against else x.p_for)[index]
    return part
