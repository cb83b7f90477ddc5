"""The findings of the paper as code: a sentence, a quantity, a test, and a verdict on given scores.

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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from offpiste.analysis.stats import (
    LEVEL,
    Array,
    Comparison,
    Interval,
    compare,
    fewest_seeds,
    mean_ranks,
    rank_correlation,
)
from offpiste.methods import METHODS, PAPER_METHODS
from offpiste.worlds.games import GAMES, SUITES
from offpiste.worlds.scores import reference_scores

MARGIN = 0.05
"""What counts as a difference, as a share of the way from random play to a human or the best policy."""
BASELINE = "epsilon_greedy"
PSEUDO_COUNTS = ("cts", "pixelcnn")
NEWER = ("pixelcnn", "icm", "rnd")
BONUSES = tuple(name for name in PAPER_METHODS if METHODS[name].bonus.name != "none")
MONTEZUMA = SUITES["montezuma"][0]
HARD, EASY = SUITES["hard"], SUITES["training"]

Scores = Mapping[str, Mapping[str, Mapping[Any, float]]]
"""Game, method, key of a run (its seed) -> score in the game's own points."""


@dataclass(frozen=True)
class Part:
    """A statement with the evidence for and against it; a statement may be made of others."""

    label: str
    p_for: float
    p_against: float
    seeds: int
    """The fewest in any comparison."""
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
    def fewest_for(self) -> int:
        """Seeds below which it cannot be shown."""
        return fewest_seeds(self.shares_for, self.games)

    @property
    def fewest_against(self) -> int:
        """Seeds below which its contrary cannot be shown."""
        return fewest_seeds(self.shares_against, self.games)


@dataclass(frozen=True)
class Finding:
    """One finding of the paper."""

    key: str
    sentence: str
    quantity: str
    test: str
    evidence: Callable[[Scores, float], Part]
    needs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """Games and methods whose runs it is about."""


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
    evidence: Part

    @property
    def effect(self) -> float:
        """The deciding comparison's median difference, or the rank correlation."""
        found = self.deciding.comparison
        return found.difference if found is not None else _or_nan(self.deciding.correlation)

    @property
    def interval(self) -> Interval | None:
        """The exact interval of the median difference, where there are enough pairs for one."""
        found = self.deciding.comparison
        return found.difference_interval if found is not None else None


def judge(scores: Scores, margin: float = MARGIN) -> list[Verdict]:
    """Return the verdict on each finding."""
    return [judge_one(finding, scores, margin) for finding in FINDINGS]


def judge_one(finding: Finding, scores: Scores, margin: float = MARGIN) -> Verdict:
    """Return the verdict on one finding."""
    part = finding.evidence(scores, margin)
    wanted = [(game, method) for games, methods in finding.needs for game in games for method in methods]
    missing = tuple(f"{method} on {game}" for game, method in wanted if not scores.get(game, {}).get(method))
    shown, refuted = part.p_for <= LEVEL, part.p_against <= LEVEL
    deciding = _deciding(part, against=refuted and not shown)
    verdict: Literal["supported", "contradicted", "not enough evidence"] = "not enough evidence"
    if shown and not refuted:
        verdict, reason = "supported", f"p = {part.p_for:.3g}; weakest: {deciding.label}"
    elif refuted and not shown:
        verdict, reason = "contradicted", f"p = {part.p_against:.3g}; fails: {deciding.label}"
    elif shown:
        reason = "the evidence points both ways: the difference is too small, or too mixed, to call"
    elif missing:
        reason = f"no finished run of {', '.join(missing)}"
    elif part.seeds < min(part.fewest_for, part.fewest_against):
        reason = (
            f"needs at least {part.fewest_for} seeds to support it and {part.fewest_against} to contradict it, "
            f"and has {part.seeds}"
        )
    else:
        reason = f"shown neither way with {part.seeds} seeds (p = {part.p_for:.2g} for, {part.p_against:.2g} against)"
        if part.seeds < max(part.fewest_for, part.fewest_against):
            word, fewest = max(("support", part.fewest_for), ("contradict", part.fewest_against), key=lambda x: x[1])
            reason += f"; to {word} it takes at least {fewest} seeds"
    return Verdict(finding, verdict, reason, part.p_for, part.p_against, deciding, part.seeds, missing, part)


def compare_methods(
    scores: Scores, games: Sequence[str], first: str, second: str = BASELINE, margin: float = MARGIN
) -> Comparison:
    """Compare any two methods over games, in normalised score (in points on a game without reference scores)."""
    return compare([_differences(scores, game, first, second) for game in games], margin)


def paired(scores: Scores, game: str, methods: Sequence[str]) -> Array:
    """Return the runs of methods on a game, [methods, pairs]: equal seeds side by side, then the rest in order."""
    runs = [scores.get(game, {}).get(method, {}) for method in methods]
    common: set[Hashable] = set.intersection(*(set(run) for run in runs))
    keys = [sorted(common) + sorted(set(run) - common) for run in runs]  # type: ignore[type-var]
    count = min(len(run) for run in runs)
    return np.array([[run[key] for key in own[:count]] for run, own in zip(runs, keys, strict=True)], dtype=np.float64)


def _bonuses_beat_baseline(scores: Scores, margin: float) -> Part:
    parts = [
        _leaf(scores, MONTEZUMA, bonus, BASELINE, margin, "p_better", "p_not_better", "beats") for bonus in BONUSES
    ]
    return _at_least(len(parts), parts, "every bonus beats ε-greedy")


def _newer_do_not_beat_cts(scores: Scores, margin: float) -> Part:
    parts = [
        _leaf(scores, MONTEZUMA, newer, "cts", margin, "p_not_better", "p_better", "does not beat") for newer in NEWER
    ]
    return _at_least(len(parts), parts, "no newer bonus beats CTS")


def _ranking_does_not_carry_over(scores: Scores, margin: float) -> Part:
    """Look for two methods in one order on Montezuma and in the other over the other hard games.

    The contrary, that the rankings are alike, is shown as if the methods were drawn at random from some larger set.
    """
    label = "mean rank correlation of Montezuma with the other hard games"
    seeds = min(len(scores.get(game, {}).get(method, {})) for game in (MONTEZUMA, *HARD) for method in PAPER_METHODS)
    if not seeds:
        return Part(label, 1.0, 1.0, 0)
    runs = {game: paired(scores, game, PAPER_METHODS) for game in (MONTEZUMA, *HARD)}
    reversals = []
    for a, b in combinations(range(len(PAPER_METHODS)), 2):
        there = compare([runs[MONTEZUMA][a] - runs[MONTEZUMA][b]], margin)
        elsewhere = compare([runs[game][a] - runs[game][b] for game in HARD], margin)
        reversals += [max(there.p_better, elsewhere.p_worse), max(there.p_worse, elsewhere.p_better)]
    ranks = [mean_ranks([_runs(scores, game, method) for method in PAPER_METHODS]) for game in (MONTEZUMA, *HARD)]
    correlation, p_against = rank_correlation(ranks[0], np.array(ranks[1:]))
    return Part(
        label,
        p_for=min(1.0, len(reversals) * min(reversals)),
        p_against=p_against,
        seeds=seeds,
        correlation=correlation,
        shares_for=len(reversals),
        shares_against=2 * LEVEL,  # exchanging methods takes one run of each
    )


def _baseline_on_par(scores: Scores, margin: float) -> Part:
    games = []
    for game in HARD:
        parts = [
            _leaf(scores, game, bonus, BASELINE, margin, "p_not_better", "p_better", "does not beat")
            for bonus in BONUSES
        ]
        games.append(_at_least(len(parts), parts, f"no bonus beats ε-greedy on {game}"))
    return _at_least(len(games) - 1, games, "on five of the six")


def _bonuses_hurt_on_easy_games(scores: Scores, margin: float) -> Part:
    """Ask of each seed whether three bonuses of four are below ε-greedy: no more than chance if all are alike."""
    third, second, middle = [], [], []
    for game in EASY:
        baseline, *bonuses = paired(scores, game, (BASELINE, *BONUSES)) / reference_scores(game).span
        ordered = np.sort(bonuses, axis=0) - baseline
        third.append(ordered[2])
        second.append(ordered[1])
        middle.append(np.median(ordered, axis=0))
    label = "three bonuses of four are below ε-greedy"
    seeds = min(group.size for group in middle)
    p_for, p_against = (compare(third, margin).p_worse, compare(second, margin).p_not_worse) if seeds else (1.0, 1.0)
    return Part(label, p_for, p_against, seeds, games=len(EASY), comparison=compare(middle, margin))


def _pseudo_counts_lose_but_on_seaquest(scores: Scores, margin: float) -> Part:
    parts = []
    for bonus in PSEUDO_COUNTS:
        for game in EASY:
            if game == "seaquest":
                leaf = _leaf(scores, game, bonus, BASELINE, margin, "p_not_worse", "p_worse", "does not lose to")
            else:
                leaf = _leaf(scores, game, bonus, BASELINE, margin, "p_worse", "p_not_worse", "loses to")
            parts.append(leaf)
    return _at_least(len(parts), parts, "lose everywhere but on Seaquest")


def _noisy_nets_most_consistent(scores: Scores, margin: float) -> Part:
    behind = []
    for game in GAMES:
        baseline, *others = paired(scores, game, (BASELINE, "noisy_nets", *BONUSES)) / reference_scores(game).span
        behind.append(np.array(others) < baseline - margin)
    seeds = min(runs.shape[1] for runs in behind)
    noisy, *bonuses = np.sum([runs[:, :seeds] for runs in behind], axis=0).astype(float)  # games, seed by seed
    parts = []
    for bonus, games in zip(BONUSES, bonuses, strict=True):
        label = f"{bonus} falls behind ε-greedy on more games than noisy_nets"
        parts.append(_weigh(games - noisy, 1.0, "p_better", "p_not_better", label))
    return _at_least(len(parts), parts, "falls behind ε-greedy on fewer games than every bonus")


FINDINGS = (
    Finding(
        "bonuses-beat-baseline",
        "On Montezuma's Revenge every bonus beats ε-greedy.",
        "final score of CTS, PixelCNN, ICM and RND beside ε-greedy's",
        "sign test for each; all four must hold",
        _bonuses_beat_baseline,
        (((MONTEZUMA,), (BASELINE, *BONUSES)),),
    ),
    Finding(
        "newer-do-not-beat-cts",
        "On Montezuma's Revenge no newer bonus (PixelCNN, ICM, RND) beats CTS.",
        "final score of the three beside that of CTS",
        "sign test at the margin for each; all three must hold",
        _newer_do_not_beat_cts,
        (((MONTEZUMA,), BONUSES),),
    ),
    Finding(
        "ranking-does-not-carry-over",
        "How methods rank on Montezuma's Revenge is not how they rank on the other hard games.",
        "order of each two of the six methods on Montezuma and over the other six hard games; rank correlation",
        "for: two sign tests in opposite directions, corrected for 30; against: exchange of the methods",
        _ranking_does_not_carry_over,
        (((MONTEZUMA, *HARD), PAPER_METHODS),),
    ),
    Finding(
        "baseline-on-par",
        "On five of the six other hard games ε-greedy is on par: no bonus beats it.",
        "final score of the four bonuses beside ε-greedy's, game by game",
        "sign tests at the margin; all four in a game, and five games of six, must hold",
        _baseline_on_par,
        ((HARD, (BASELINE, *BONUSES)),),
    ),
    Finding(
        "bonuses-hurt-on-easy-games",
        "On easy games bonuses hurt.",
        "how many of the four bonuses end below ε-greedy, seed by seed over the five training games",
        "one sign test over all games that three of the four do",
        _bonuses_hurt_on_easy_games,
        ((EASY, (BASELINE, *BONUSES)),),
    ),
    Finding(
        "pseudo-counts-lose-but-on-seaquest",
        "Pseudo-counts (CTS, PixelCNN) lose to ε-greedy on every easy game but Seaquest.",
        "final score of the two beside ε-greedy's, game by game",
        "sign tests, on Seaquest at the margin; all ten must hold",
        _pseudo_counts_lose_but_on_seaquest,
        ((EASY, (BASELINE, *PSEUDO_COUNTS)),),
    ),
    Finding(
        "noisy-nets-most-consistent",
        "NoisyNets is the most consistent: it falls behind ε-greedy on fewer of the twelve games than any bonus.",
        "number of games on which a seed's score lies below ε-greedy's by more than the margin",
        "sign test of that number beside each bonus's; all four must hold",
        _noisy_nets_most_consistent,
        ((tuple(GAMES), PAPER_METHODS),),
    ),
)


def _runs(scores: Scores, game: str, method: str) -> Array:
    return np.array(list(scores.get(game, {}).get(method, {}).values()), dtype=np.float64)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _differences(scores: Scores, game: str, first: str, second: str) -> Array:
    runs = paired(scores, game, (first, second))
    return np.asarray((runs[0] - runs[1]) / reference_scores(game).span)


def _leaf(scores: Scores, game: str, first: str, second: str, margin: float, show: str, refute: str, verb: str) -> Part:
    label = f"{first} {verb} {second} on {game}"
    return _weigh(_differences(scores, game, first, second), margin, show, refute, label)


def _weigh(differences: Array, margin: float, show: str, refute: str, label: str) -> Part:
    found = compare([differences], margin)
    p_for, p_against = (getattr(found, show), getattr(found, refute)) if differences.size else (1.0, 1.0)
    return Part(label, p_for, p_against, differences.size, comparison=found)


def _at_least(needed: int, parts: Sequence[Part], label: str) -> Part:
    """Join parts of which so many must hold: as many as that hold, or so many fail that they cannot."""
    count = len(parts)
    spare = count - needed + 1
    p_for = sorted(part.p_for for part in parts)[needed - 1]
    p_against = sorted(part.p_against for part in parts)[spare - 1]
    return Part(
        label,
        min(1.0, spare * p_for),
        min(1.0, needed * p_against),
        min(part.seeds for part in parts),
        spare * max(part.shares_for for part in parts),
        needed * max(part.shares_against for part in parts),
        min(part.games for part in parts),
        parts=tuple(parts),
        needed=needed,
    )


def _deciding(part: Part, *, against: bool) -> Part:
    """Return the comparison on which a verdict hangs: the weakest, or the strongest against."""
    while part.parts:
        place = len(part.parts) - part.needed if against else part.needed - 1
        part = sorted(part.parts, key=lambda x: x.p_against if against else x.p_for)[place]
    return part
