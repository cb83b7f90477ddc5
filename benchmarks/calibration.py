"""Are the verdicts and intervals of the analysis right? Studies made up so that the truth is known, thousands of times.

Scores are normal; bimodal (one seed in five finds a treasure); or unequal: the method that others are held against
jumps between two values around theirs, which deceives tests that suppose equal spreads. At 3, 5, 10 and 20 seeds:

- coverage of every interval. Bar: exact ones at least 95%; bootstrap ones are printed as they are.
- for every finding, how often its verdict is wrong where the truth lies on the very edge of being the other way, and
  how often it is right where the effect is there, and where it is absent. Bars: wrong in 5% at most; right in 80% at
  least with 20 seeds, if the effect is large; and never a verdict from fewer seeds than it says it needs. How often
  small effects are seen is printed as it is, and so are small worlds in which a run solves its world or does not.

Frequencies of n studies may miss a bar by three standard errors. `--quick` takes a fraction of the studies.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpiste.analysis import stats
from offpiste.analysis.benchmarks import BENCHMARKS
from offpiste.analysis.findings import BASELINE, MARGIN, Benchmark, Finding, Scores, judge_one
from offpiste.analysis.paper import BONUSES, EASY, HARD, MONTEZUMA, NEWER, PAPER, PSEUDO_COUNTS
from offpiste.analysis.small_worlds import NOISY, ORACLE, QUIET, SMALL_WORLDS
from offpiste.seeding import stream
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

SEEDS = (3, 5, 10, 20)
KINDS = ("normal", "bimodal", "unequal")
ALIKE = KINDS[:2]
"""Kinds in which methods without an effect are alike; in the third the difference jumps across the margin."""
SOLVED = "solved"
"""A kind of its own: a run scores 1 with a chance, which then stands in the place of the effect, and else 0."""
BIG, SMALL = 0.6, 0.1
"""An effect that no seed hides, for it is more than a treasure; and one of twice the margin."""
LEVEL = stats.LEVEL
POWER = 0.8

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
    """Whether the right verdict must come, with the most seeds."""
    kinds: tuple[str, ...] = KINDS


def main() -> int:
    """Print the tables and the figure, and return 0 if all bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer studies, under a minute")
    parser.add_argument("--studies", type=int, help="made-up studies per truth, kind and number of seeds")
    options = parser.parse_args()
    studies = options.studies or (25 if options.quick else 400)
    missed = [*check_intervals(10 * studies, 40 if options.quick else 200), *check_rank_test(4 * studies)]
    errors: list[float] = []
    powers: list[float] = []
    judged = [(benchmark, finding) for benchmark in BENCHMARKS for finding in benchmark.findings]
    for benchmark, finding in judged:
        print(f"\n{finding.key}: how often the verdict is as named, with {', '.join(map(str, SEEDS))} seeds")
        for truth in TRUTHS[finding.key]:
            for kind in truth.kinds:
                shares = {seeds: verdict_shares(benchmark, finding, truth, kind, seeds, studies) for seeds in SEEDS}
                about = f"{finding.key} ({truth.name}, {kind})"
                for named, told in ((truth.right, "right"), (truth.wrong, "wrong")):
                    if named is not None:
                        row = {seeds: share[named] for seeds, share in shares.items()}
                        print(f"  {truth.name:<40} {kind:<8} {named:<12} {told}  {shown(row)}")
                if truth.wrong is not None:
                    wrong = max(share[truth.wrong] for share in shares.values())
                    errors.append(wrong)
                    if wrong > LEVEL + slack(LEVEL, studies):
                        missed.append(f"{about} is {truth.wrong} in {wrong:.1%}")
                if truth.right is not None and truth.barred:
                    right = shares[SEEDS[-1]][truth.right]
                    powers.append(right)
                    if right < POWER - slack(POWER, studies):
                        missed.append(f"{about} is {truth.right} in {right:.1%} only")
                if any(share["too early"] for share in shares.values()):
                    missed.append(f"{about} has a verdict from too few seeds")
    print()
    for line in missed:
        print(f"MISSED: {line}")
    print(
        f"{len(judged)} findings, {studies} studies each: wrong in {max(errors):.1%} at the worst edge of the truth, "
        f"right in {min(powers):.1%} at least with {SEEDS[-1]} seeds; {len(missed)} bars missed"
    )
    return 1 if missed else 0


# Findings


def made_up(
    generator: np.random.Generator, finding: Finding, effects: Effects, kind: str, seeds: int, jumping: str
) -> Scores:
    """Return the scores of one study, in points, of the games and methods that a finding is about."""
    cells = [(game, method) for games, methods in finding.needs for game in games for method in methods]
    jumps = np.array([[method == jumping] for _, method in cells])
    noise = draw(generator, kind, (len(cells), seeds), jumping=jumps)
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for (game, method), own in zip(cells, noise, strict=True):
        effect = effects.get((game, method), 0.0)
        shares = generator.random(seeds) < effect if kind == SOLVED else 0.5 + effect + own
        points = [reference_scores(game).score_at(float(share)) for share in shares]
        scores.setdefault(game, {})[method] = dict(enumerate(points))
    return scores


def draw(
    generator: np.random.Generator, kind: str, size: int | tuple[int, int], *, jumping: bool | NDArray[np.bool_]
) -> stats.Array:
    """Return the noise of runs, on the human-normalised scale."""
    if kind == "normal":
        return generator.normal(0.0, 0.03, size)
    fine = generator.normal(0.0, 0.005, size)
    if kind == "bimodal":
        return fine + 0.5 * (generator.random(size) < 0.2)
    return fine + jumping * np.where(generator.random(size) < 0.5, -0.25, 0.25)


def verdict_shares(
    benchmark: Benchmark, finding: Finding, truth: Truth, kind: str, seeds: int, studies: int
) -> dict[str, float]:
    """Return how often each verdict comes, and how often one comes from fewer seeds than it says it needs."""
    generator = stream(seeds, f"calibration {finding.key} {truth.name} {kind}")
    jumping = RIVALS.get(finding.key, BASELINE)
    counts = dict.fromkeys(("supported", "contradicted", "not enough evidence", "too early"), 0)
    for _ in range(studies):
        scores = made_up(generator, finding, truth.effects(generator), kind, seeds, jumping)
        verdict = judge_one(benchmark, finding, scores)
        counts[verdict.verdict] += 1
        fewest = {"supported": verdict.evidence.min_seeds_for, "contradicted": verdict.evidence.min_seeds_against}
        counts["too early"] += seeds < fewest.get(verdict.verdict, 0)
    return {name: count / studies for name, count in counts.items()}


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
    places = order or range(len(methods))
    return {(game, method): by * place for game in games for method, place in zip(methods, places, strict=True)}


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
        drawn = [int(place) for place in generator.permutation(len(methods))]
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


def tuned_by(chance: float) -> dict[tuple[str, str], float]:
    """Return the chances with which runs solve the tuned world, ε-greedy's in one run of twenty."""
    return everywhere((SMALL_WORLDS.tuned,), SMALL_WORLDS.bonuses, chance) | {(SMALL_WORLDS.tuned, BASELINE): 0.05}


def solved(name: str, chances: Effects, right: str) -> Truth:
    """Return a truth in which runs solve their worlds with these chances."""
    return Truth(name, fixed(chances), right, barred=False, kinds=(SOLVED,))


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


# Intervals


def check_intervals(draws: int, bootstraps: int) -> Iterator[str]:
    """Print the coverage of every interval and yield the exact ones that miss."""
    print(f"coverage of 95% intervals, with {', '.join(map(str, SEEDS))} seeds (– where so few give none)")
    for kind in KINDS:
        for name, cover in EXACT.items():
            found = {seeds: covered(cover, kind, seeds, draws, name) for seeds in SEEDS}
            print(f"  {name:<40} {kind:<8} exact      {shown(found)}")
            for seeds, share in found.items():
                if share is not None and share < 1 - LEVEL - slack(LEVEL, draws):
                    yield f"{name} ({kind}, {seeds} seeds) covers {share:.1%}"
    for kind in KINDS:
        for name in BOOTSTRAP:
            found = {seeds: bootstrap_covered(name, kind, seeds, bootstraps) for seeds in SEEDS}
            print(f"  {name:<40} {kind:<8} bootstrap  {shown(found)}")


def covered(
    cover: Callable[[np.random.Generator, str, int], bool | None], kind: str, seeds: int, draws: int, name: str
) -> float | None:
    """Return how often an interval holds the truth, or None where there is no interval."""
    generator = stream(seeds, f"calibration {name} {kind}")
    held = [cover(generator, kind, seeds) for _ in range(draws)]
    return None if None in held else sum(map(bool, held)) / draws


def proportion(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the chance of a score above a level holds it."""
    chance = {"normal": 0.5, "bimodal": 0.2, "unequal": 0.9}[kind]
    interval = stats.proportion_interval(int(generator.binomial(seeds, chance)), seeds)
    return interval.low <= chance <= interval.high


def median(generator: np.random.Generator, kind: str, seeds: int) -> bool | None:
    """Whether the interval of a median holds it; that of a two-valued score is anything between."""
    interval = stats.median_interval(draw(generator, kind, seeds, jumping=True))
    true = {"normal": 0.0, "bimodal": 0.005 * 0.31864, "unequal": 0.0}[kind]  # 0.2 of the mass lies far above
    return None if interval is None else interval.low <= true <= interval.high


def improvement(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the probability of improvement holds it, with ties."""
    first = draw(generator, kind, seeds, jumping=False).round(2)
    found = stats.compare([first - draw(generator, kind, seeds, jumping=True).round(2)], MARGIN)
    return found.probability_interval.low <= 0.5 <= found.probability_interval.high


def pooled_difference(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of the median difference over six unlike games, half of them above it, holds it."""
    groups = [
        draw(generator, kind, seeds, jumping=False) - draw(generator, kind, seeds, jumping=True) + shift
        for shift in (-0.3, -0.1, -0.02, 0.02, 0.1, 0.3)
    ]
    interval = stats.compare(groups, MARGIN).difference_interval
    return interval is not None and interval.low <= 0.0 <= interval.high


def bounded_mean(generator: np.random.Generator, kind: str, seeds: int) -> bool:
    """Whether the interval of a mean of scores between 0 and 1 holds it."""
    middle = {"normal": 0.85, "bimodal": 0.1, "unequal": 0.5}[kind]
    shares = middle + 0.8 * draw(generator, kind, seeds, jumping=True)
    interval = stats.mean_interval(shares, generator, draws=1000)
    return interval.low <= middle + 0.08 * (kind == "bimodal") <= interval.high


EXACT: dict[str, Callable[[np.random.Generator, str, int], bool | None]] = {
    "chance of a score above a level": proportion,
    "median score": median,
    "probability of improvement": improvement,
    "median difference over six games": pooled_difference,
    "mean of scores between 0 and 1": bounded_mean,
}


def bootstrap_covered(name: str, kind: str, seeds: int, draws: int) -> float:
    """Return how often a bootstrap interval over six games holds the truth."""
    statistic = BOOTSTRAP[name]
    generator = stream(seeds, f"calibration {name} {kind}")
    true = float(statistic(two_methods(stream(0, f"truth {name} {kind}"), kind, 4_000)))
    held = 0
    for _ in range(draws):
        interval = stats.bootstrap(two_methods(generator, kind, seeds), statistic, generator, resamples=400)
        held += interval.low <= true <= interval.high
    return held / draws


def two_methods(generator: np.random.Generator, kind: str, seeds: int) -> list[stats.Array]:
    """Return the runs of one method on six games, then those of another."""
    return [
        0.5 + 0.1 * game + draw(generator, kind, seeds, jumping=second) for second in (False, True) for game in range(6)
    ]


def probability_of_improvement(first: stats.Groups, second: stats.Groups) -> stats.Array:
    """Return the mean over games of the chance that a run of the first beats a run of the second, a tie being half."""
    chances = []
    for a, b in zip(first, second, strict=True):
        left, right = a[..., :, None], b[..., None, :]
        chances.append(((left > right) + 0.5 * (left == right)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(chances, axis=0))


BOOTSTRAP: dict[str, Callable[[stats.Groups], stats.Array]] = {
    "IQM": lambda groups: stats.iqm(groups[6:]),
    "median of means": lambda groups: stats.median_of_means(groups[6:]),
    "optimality gap": lambda groups: stats.optimality_gap(groups[6:]),
    "mean (band of a curve)": lambda groups: groups[6].mean(axis=-1),
    "improvement over six games": lambda groups: probability_of_improvement(groups[:6], groups[6:]),
    "gain over six games": lambda groups: stats.mean_gain(groups[:6], groups[6:]),
}


def check_rank_test(draws: int) -> Iterator[str]:
    """Print how often the rank test rejects at 5% where no method is better, and yield where it may not."""
    print("rank test of three games: how often it finds a difference at 5% where neither method is better")
    for kind in KINDS:
        alike = kind != "unequal"
        shares = {}
        for seeds in SEEDS:
            generator = stream(seeds, f"calibration rank test {kind}")
            rejected = 0
            for _ in range(draws):
                first = [draw(generator, kind, seeds, jumping=False) for _ in range(3)]
                second = [draw(generator, kind, seeds, jumping=True) for _ in range(3)]
                rejected += rank_test(first, second) <= LEVEL
            shares[seeds] = rejected / draws
            if alike and shares[seeds] > LEVEL + slack(LEVEL, draws):
                yield f"rank test rejects {shares[seeds]:.1%} ({kind}, {seeds} seeds)"
        note = "" if alike else "  (why verdicts do not use it)"
        print(
            f"  {'distributions alike' if alike else 'unequal spreads':<40} {kind:<8}            {shown(shares)}{note}"
        )


def rank_test(first: stats.Groups, second: stats.Groups) -> float:
    """Return the exact p-value of the first being greater, if both were alike within each game.

    The statistic is the sum over games of rank sums (Mann and Whitney's), its distribution that of all ways to deal the
    runs of each game to the two methods. It is not a test of medians: two methods of equal median and unequal spread
    differ, and are found to.
    """
    observed = 0
    chances = np.ones(1)
    for a, b in zip(first, second, strict=True):
        ranks = stats.doubled_ranks(np.concatenate([a, b]))
        observed += int(ranks[: a.size].sum())
        chances = np.convolve(chances, rank_sum_chances(ranks, a.size))
    return min(1.0, float(chances[observed:].sum()))


def rank_sum_chances(ranks: NDArray[np.int64], chosen: int) -> stats.Array:
    """Return the chance of each sum of that many ranks drawn without replacement."""
    ways = np.zeros((chosen + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return np.asarray(ways[chosen] / math.comb(ranks.size, chosen))


def shown(shares: Mapping[int, float | None]) -> str:
    """Return percentages in a row."""
    return "  ".join("     –" if share is None else f"{share:6.1%}" for share in shares.values())


def slack(share: float, studies: int) -> float:
    """Return three standard errors of a frequency."""
    return 3 * math.sqrt(share * (1 - share) / studies)


if __name__ == "__main__":
    sys.exit(main())
