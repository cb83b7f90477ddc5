"""What may be the case in a study, finding by finding, and which verdicts are then right and wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validation.calibration_studies import KINDS
from offpiste.analysis.findings import BASELINE, MARGIN, Benchmark
from offpiste.analysis.paper import BONUSES, EASY, HARD, MONTEZUMA, NEWER, PAPER, PSEUDO_COUNTS
from offpiste.analysis.small_worlds import NOISY, ORACLE, QUIET, SMALL_WORLDS
from offpiste.worlds.games import GAMES

ALIKE = KINDS[:2]
"""Kinds in which methods without an effect are alike; in the third the difference jumps across the margin."""
SOLVED = "solved"
"""A kind of its own: a run scores 1 with a probability, which then stands for the effect, and else 0."""
BIG, SMALL = 0.6, 0.1
"""An effect that no seed hides, for it is more than a bimodal one's jump; and one of twice the margin."""

Effects = Mapping[tuple[str, str], float]
"""By game and method, in normalised score; 0 where it says nothing."""


@dataclass(frozen=True)
class Truth:
    """What is the case in a made-up study, and which verdicts are then right and wrong."""

    name: str
    effects: Callable[[np.random.Generator], Effects]
    """May be drawn anew for each study."""
    right: str | None = None
    wrong: str | None = None
    barred: bool = True
    """Whether the right verdict must come, with the largest number of seeds."""
    kinds: tuple[str, ...] = KINDS


def everywhere(games: tuple[str, ...], methods: tuple[str, ...], effect: float) -> dict[tuple[str, str], float]:
    """Return the same effect for methods on games."""
    return {(game, method): effect for game in games for method in methods}


def fixed(effects: Effects) -> Callable[[np.random.Generator], Effects]:
    """Return effects that are the same in every study."""
    return lambda _: effects


def ranking(
    games: tuple[str, ...], methods: tuple[str, ...], by: float, order: Sequence[int] = ()
) -> dict[tuple[str, str], float]:
    """Return effects that rank the methods, so far apart: upwards, or in another order."""
    ranks = order or range(len(methods))
    return {(game, method): by * rank for game in games for method, rank in zip(methods, ranks, strict=True)}


def pseudo_counts_lose(by: float) -> dict[tuple[str, str], float]:
    """Return effects under which pseudo-counts lose, and win on Seaquest."""
    return everywhere(NOT_SEAQUEST, PSEUDO_COUNTS, -by) | everywhere(("seaquest",), PSEUDO_COUNTS, by)


def seen(name: str, effects: Callable[[float], Effects], right: str) -> tuple[Truth, Truth]:
    """Return a truth with a large effect, and with one so small that a rival who jumps would hide it."""
    return (
        Truth(f"{name}, by {BIG}", fixed(effects(BIG)), right),
        Truth(f"{name}, by {SMALL}", fixed(effects(SMALL)), right, barred=False, kinds=ALIKE),
    )


def beating_truths(benchmark: Benchmark) -> tuple[Truth, ...]:
    """Return truths about whether every bonus beats the baseline on the tuned game."""
    game, bonuses = (benchmark.tuned,), benchmark.bonuses
    return (
        *seen("all beat it", lambda by: everywhere(game, bonuses, by), "supported"),
        *seen("all lose to it", lambda by: everywhere(game, bonuses, -by), "contradicted"),
        Truth("none differs", fixed({}), right="contradicted", kinds=ALIKE),
        Truth("all but one beat it", fixed(everywhere(game, bonuses[1:], BIG)), wrong="supported"),
        Truth("all beat it by the margin", fixed(everywhere(game, bonuses, MARGIN)), wrong="contradicted"),
    )


def ranking_truths(benchmark: Benchmark) -> tuple[Truth, ...]:
    """Return truths about whether the ranking on the tuned game carries over to the hard ones."""
    game, hard, methods = (benchmark.tuned,), benchmark.hard, benchmark.ranked

    def unrelated(generator: np.random.Generator) -> Effects:
        drawn = [int(rank) for rank in generator.permutation(len(methods))]
        return ranking(game, methods, BIG, drawn) | ranking(hard, methods, BIG)

    return (
        *seen(
            "turned around",
            lambda by: ranking(game, methods, by) | ranking(hard, methods[::-1], by),
            "supported",
        ),
        *seen("the same everywhere", lambda by: ranking((*game, *hard), methods, by), "contradicted"),
        Truth("none elsewhere", fixed(ranking(game, methods, BIG)), wrong="supported"),
        Truth("none on the tuned one", fixed(ranking(hard, methods, BIG)), wrong="supported"),
        Truth("unrelated", unrelated, wrong="contradicted"),
    )


def hurting_truths(benchmark: Benchmark) -> tuple[Truth, ...]:
    """Return truths about whether bonuses hurt on easy games."""
    easy, bonuses = benchmark.easy, benchmark.bonuses
    return (
        *seen("all hurt", lambda by: everywhere(easy, bonuses, -by), "supported"),
        *seen("all help", lambda by: everywhere(easy, bonuses, by), "contradicted"),
        Truth("none differs", fixed({}), right="contradicted", wrong="supported", kinds=ALIKE),
        Truth("none differs", fixed({}), wrong="supported", kinds=KINDS[2:]),
        Truth("all hurt by the margin", fixed(everywhere(easy, bonuses, -MARGIN)), wrong="contradicted"),
    )


def tuned_by(probability: float) -> dict[tuple[str, str], float]:
    """Return the probabilities with which runs solve the tuned world, ε-greedy's in one run of twenty."""
    return everywhere((SMALL_WORLDS.tuned,), SMALL_WORLDS.bonuses, probability) | {(SMALL_WORLDS.tuned, BASELINE): 0.05}


def solved(name: str, probabilities: Effects, right: str) -> Truth:
    """Return a truth in which runs solve their worlds with these probabilities."""
    return Truth(name, fixed(probabilities), right, barred=False, kinds=(SOLVED,))


HALF = tuple(GAMES)[:6]
NOT_SEAQUEST = tuple(game for game in EASY if game != "seaquest")
MONTE = (MONTEZUMA,)
RIVALS = {"newer-do-not-beat-cts": "cts", "small-noise-costs-bonuses-more": ORACLE}
"""Whom a finding holds methods against, where that is not ε-greedy."""
SIX, SMALL_HARD = SMALL_WORLDS.bonuses, SMALL_WORLDS.hard
WITH_ORACLE = everywhere((QUIET, NOISY), (ORACLE,), 0.95) | everywhere((NOISY,), SIX, 0.1)
REVERSED = (
    everywhere((SMALL_WORLDS.tuned,), SIX, 0.6)
    | everywhere(SMALL_HARD, SIX, 0.5)
    | {(SMALL_WORLDS.tuned, "cts"): 0.9, (SMALL_WORLDS.tuned, "rnd"): 0.2}
    | everywhere(SMALL_HARD, ("cts",), 0.2)
    | everywhere(SMALL_HARD, ("rnd",), 0.9)
)
TRUTHS: dict[str, tuple[Truth, ...]] = {
    "bonuses-beat-baseline": beating_truths(PAPER),
    "newer-do-not-beat-cts": (
        *seen("all are worse", lambda by: everywhere(MONTE, NEWER, -by), "supported"),
        *seen("one is better", lambda by: {(MONTEZUMA, "rnd"): by}, "contradicted"),
        Truth("none differs", fixed({}), right="supported", wrong="contradicted", barred=False, kinds=ALIKE),
        Truth("none differs", fixed({}), wrong="contradicted", kinds=KINDS[2:]),
        Truth(
            "one is better by the margin",
            fixed(everywhere(MONTE, NEWER[:2], -BIG) | {(MONTEZUMA, "rnd"): MARGIN}),
            wrong="supported",
        ),
    ),
    "ranking-does-not-carry-over": ranking_truths(PAPER),
    "baseline-on-par": (
        *seen(
            "beaten on one game, best on five",
            lambda by: everywhere(HARD[1:], BONUSES, -by) | everywhere(HARD[:1], BONUSES, by),
            "supported",
        ),
        *seen("beaten on three games", lambda by: everywhere(HARD[:3], BONUSES, by), "contradicted"),
        Truth("none differs", fixed({}), right="supported", barred=False, kinds=ALIKE),
        Truth(
            "beaten by the margin on two games",
            fixed(everywhere(HARD[2:], BONUSES, -BIG) | everywhere(HARD[:2], BONUSES, MARGIN)),
            wrong="supported",
        ),
        Truth("beaten on one, none else differs", fixed(everywhere(HARD[:1], BONUSES, BIG)), wrong="contradicted"),
    ),
    "bonuses-hurt-on-easy-games": hurting_truths(PAPER),
    "pseudo-counts-lose-but-on-seaquest": (
        *seen("so it is", pseudo_counts_lose, "supported"),
        *seen("they win", lambda by: everywhere(EASY, PSEUDO_COUNTS, by), "contradicted"),
        Truth("none differs", fixed({}), right="contradicted", kinds=ALIKE),
        Truth("but for one game", fixed(pseudo_counts_lose(BIG) | {("hero", "cts"): 0.0}), wrong="supported"),
        Truth("by the margin", fixed(everywhere(NOT_SEAQUEST, PSEUDO_COUNTS, -MARGIN)), wrong="contradicted"),
    ),
    "noisy-nets-most-consistent": (
        *seen("bonuses fall behind", lambda by: everywhere(HALF, BONUSES, -by), "supported"),
        *seen("it falls behind", lambda by: everywhere(HALF, ("noisy_nets",), -by), "contradicted"),
        Truth("all but one fall behind", fixed(everywhere(HALF, BONUSES[1:], -BIG)), wrong="supported"),
        Truth("by one game", fixed(everywhere(HALF[:1], BONUSES, -BIG)), wrong="contradicted"),
    ),
    "small-bonuses-beat-baseline": (
        *beating_truths(SMALL_WORLDS),
        solved("solved by 7 bonus runs of 10", tuned_by(0.7), "supported"),
        solved("solved by 9 bonus runs of 10", tuned_by(0.9), "supported"),
        solved("by all but ICM", tuned_by(0.9) | {(SMALL_WORLDS.tuned, "icm"): 0.05}, "contradicted"),
    ),
    "small-ranking-does-not-carry-over": (
        *ranking_truths(SMALL_WORLDS),
        solved("CTS 9 of 10 there, 2 elsewhere; RND turned around", REVERSED, "supported"),
    ),
    "small-no-bonus-beats-baseline-everywhere": (
        *seen(
            "each loses on one world",
            lambda by: everywhere(SMALL_HARD[1:], SIX, by) | everywhere(SMALL_HARD[:1], SIX, -by),
            "supported",
        ),
        *seen("one beats it on all worlds", lambda by: everywhere(SMALL_HARD, SIX[:1], by), "contradicted"),
        Truth(
            "one beats it by the margin on all worlds",
            fixed(everywhere(SMALL_HARD, SIX[1:], -BIG) | everywhere(SMALL_HARD, SIX[:1], MARGIN)),
            wrong="supported",
        ),
        Truth("all beat it but on one world", fixed(everywhere(SMALL_HARD[1:], SIX, BIG)), wrong="contradicted"),
        solved("none solves Key Door", everywhere(("four_rooms", "wallpaper"), SIX, 0.8), "supported"),
        solved("one solves all, 8 runs of 10", everywhere(SMALL_HARD, SIX[:1], 0.8), "contradicted"),
    ),
    "small-bonuses-hurt-on-easy-worlds": hurting_truths(SMALL_WORLDS),
    "small-noise-costs-bonuses-more": (
        *seen("all lose, the oracle does not", lambda by: everywhere((QUIET,), SIX, by), "supported"),
        *seen(
            "all keep it, the oracle does not",
            lambda by: everywhere((QUIET, NOISY), SIX, by) | {(QUIET, ORACLE): by},
            "contradicted",
        ),
        Truth(
            "all but one lose",
            fixed(everywhere((QUIET,), SIX, BIG) | {(NOISY, "icm"): BIG}),
            wrong="supported",
        ),
        Truth(
            "all lose by the margin",
            fixed(everywhere((QUIET,), SIX, BIG + MARGIN) | everywhere((NOISY,), SIX, BIG)),
            wrong="contradicted",
        ),
        solved("from 8 runs of 10 to 1", WITH_ORACLE | everywhere((QUIET,), SIX, 0.8), "supported"),
        solved(
            "but for ICM, which keeps 9 of 10",
            WITH_ORACLE | everywhere((QUIET,), SIX, 0.8) | everywhere((QUIET, NOISY), ("icm",), 0.9),
            "contradicted",
        ),
    ),
}
