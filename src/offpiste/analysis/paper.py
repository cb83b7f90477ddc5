"""The paper's study as a benchmark: its three suites, its six methods and its seven findings."""

import numpy as np

from offpiste.analysis.findings import BASELINE, Benchmark, Finding, Part, Scores
from offpiste.analysis.statements import (
    BEATS,
    DOES_NOT_BEAT,
    DOES_NOT_LOSE_TO,
    LOSES_TO,
    at_least,
    bonuses_hurt_on_easy_games,
    compared,
    every_bonus_beats_baseline,
    paired,
    ranking_does_not_carry_over,
    weighed,
)
from offpiste.methods import METHODS, PAPER_METHODS
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import reference_scores

PSEUDO_COUNTS = ("cts", "pixelcnn")
BONUSES = tuple(name for name in PAPER_METHODS if METHODS[name].bonus.name != "none")
NEWER = tuple(name for name in BONUSES if name != "cts")
MONTEZUMA = SUITES["montezuma"][0]
HARD, EASY = SUITES["hard"], SUITES["training"]


def _newer_do_not_beat_cts(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    newer = [bonus for bonus in benchmark.bonuses if bonus != "cts"]  # in the form that is judged
    parts = [compared(benchmark, scores, margin, bonus, DOES_NOT_BEAT, "cts", benchmark.tuned) for bonus in newer]
    return at_least(len(parts), parts, "no newer bonus beats CTS")


def _baseline_on_par(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    games = []
    for game in benchmark.hard:
        parts = [
            compared(benchmark, scores, margin, bonus, DOES_NOT_BEAT, benchmark.baseline, game)
            for bonus in benchmark.bonuses
        ]
        games.append(at_least(len(parts), parts, f"no bonus beats ε-greedy on {game}"))
    return at_least(len(games) - 1, games, "on five of the six")


def _pseudo_counts_lose_but_on_seaquest(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    parts = [
        compared(
            benchmark,
            scores,
            margin,
            bonus,
            DOES_NOT_LOSE_TO if game == "seaquest" else LOSES_TO,
            benchmark.baseline,
            game,
        )
        for bonus in PSEUDO_COUNTS
        for game in benchmark.easy
    ]
    return at_least(len(parts), parts, "lose everywhere but on Seaquest")


def _noisy_nets_most_consistent(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    behind = []
    for game in GAMES:
        runs = paired(scores, game, (benchmark.baseline, "noisy_nets", *benchmark.bonuses))
        baseline, *others = runs / reference_scores(game).span
        behind.append(np.array(others) < baseline - margin)
    seeds = min(runs.shape[1] for runs in behind)
    noisy, *bonuses = np.sum([runs[:, :seeds] for runs in behind], axis=0).astype(float)  # games, seed by seed
    parts = []
    for bonus, games in zip(benchmark.bonuses, bonuses, strict=True):
        label = f"{bonus} falls behind ε-greedy on more games than noisy_nets"
        parts.append(weighed(games - noisy, 1.0, BEATS, label))
    return at_least(len(parts), parts, "falls behind ε-greedy on fewer games than every bonus")


FINDINGS = (
    Finding(
        "bonuses-beat-baseline",
        "On Montezuma's Revenge every bonus beats ε-greedy.",
        "final score of CTS, PixelCNN, ICM and RND beside ε-greedy's",
        "sign test for each; all four must hold",
        every_bonus_beats_baseline,
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
        ranking_does_not_carry_over,
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
        bonuses_hurt_on_easy_games,
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

PAPER = Benchmark(
    name="paper",
    whose="the paper’s",
    tuned=MONTEZUMA,
    hard=HARD,
    easy=EASY,
    bonuses=BONUSES,
    ranked=PAPER_METHODS,
    measure="final",
    findings=FINDINGS,
    published=(*PAPER_METHODS, "rnd_released", "simhash", "oracle", "oracle_episodic", "oracle_product"),
    forms=(("rnd", "rnd_released"),),
)
