"""The small worlds as a benchmark: the paper's question asked where a run is over in minutes, and one of our own.

Stated before the first run of the result. A run's score is its last evaluation, and scores within the margin of each
other are equal: what moves cost in Deep Sea, and an ε-greedy action among fifty episodes, are no differences. The
oracle's ladder is not under test: it distinguishes a poor bonus from a learner's limit.

Seeds below which a finding cannot be supported or contradicted whatever the scores, and how often a plausible effect
decides it with 10 and with 20 (benchmarks/validation/calibration.py, 200 studies each, which also shows that verdicts
keep their level at 10 seeds):

finding                        for  against  e.g. where runs solve a world                          10      20
bonuses-beat-baseline            5        7  bonuses in 9 runs of 10, ε-greedy in 1 of 20           97%    100%
                                             all bonuses but one                                    59%    100%
ranking-does-not-carry-over     10        1  CTS in 9 of 10 on Deep Sea, 2 elsewhere; RND in 2, 9    1%     78%
no-bonus-beats-...-everywhere    7        7  none on one of the hard worlds                        100%    100%
                                             one bonus in 8 of 10, on each of them                  64%    100%
bonuses-hurt-on-easy-worlds      2        2  areas smaller by a tenth of the scale                 100%    100%
noise-costs-bonuses-more         5        7  bonuses in 8 of 10, with noise in 1                    37%     99%
                                             but one bonus in 9 of 10 both times                    24%     91%
"""

from dataclasses import replace

from offpiste.analysis.findings import BASELINE, MARGIN, Benchmark, Finding, Part, Scores
from offpiste.analysis.statements import (
    BEATS,
    DOES_NOT_BEAT,
    at_least,
    bonuses_hurt_on_easy_games,
    compared,
    every_bonus_beats_baseline,
    paired,
    ranking_does_not_carry_over,
    weighed,
    without_ties,
)
from offpiste.worlds.registry import SUITES
from offpiste.worlds.scores import reference_scores

(TUNED,) = SUITES["small_tuned"]
HARD, EASY = SUITES["small_hard"], SUITES["small_easy"]
BONUSES = ("cts", "pixelcnn", "icm", "rnd", "rnd_released", "simhash")
"""Under test; every one of them sees nothing of the world but frames."""
ORACLE = "oracle"
LADDER = (ORACLE, "oracle_episodic", "oracle_product")
"""Counts of true states, lifelong, within an episode, and their product: what a bonus could do at best."""
QUIET, NOISY = "four_rooms", "noisy_tv"
"""The same field without and with a panel of noise on demand."""


def _no_bonus_beats_baseline_everywhere(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    bonuses = []
    for bonus in benchmark.bonuses:
        parts = [
            compared(benchmark, scores, margin, bonus, DOES_NOT_BEAT, benchmark.baseline, game)
            for game in benchmark.hard
        ]
        bonuses.append(at_least(1, parts, f"{bonus} does not beat ε-greedy on one of the hard worlds"))
    return at_least(len(bonuses), bonuses, "no bonus beats ε-greedy on all hard worlds")


def _noise_costs_bonuses_more(benchmark: Benchmark, scores: Scores, margin: float) -> Part:
    """Hold what each bonus loses between the two fields beside what the oracle loses, seed by seed.

    A bonus that scores nothing in the quiet field has nothing to lose, which says nothing about noise. So the contrary
    is shown only by one that beats ε-greedy there, too.
    """
    parts = []
    for bonus in benchmark.bonuses:
        quiet, noisy = (paired(scores, game, (bonus, ORACLE)) / reference_scores(game).span for game in (QUIET, NOISY))
        pairs = min(quiet.shape[1], noisy.shape[1])
        lost, lost_by_oracle = quiet[:, :pairs] - noisy[:, :pairs]
        label = f"{bonus} loses more than {ORACLE} between {QUIET} and {NOISY}"
        more = weighed(without_ties(lost - lost_by_oracle, benchmark.tie), margin, BEATS, label)
        scored = compared(benchmark, scores, margin, bonus, BEATS, benchmark.baseline, QUIET)
        parts.append(replace(more, p_against=max(more.p_against, scored.p_for)))
    return at_least(len(parts), parts, "every bonus loses more than the oracle")


FINDINGS = (
    Finding(
        "small-bonuses-beat-baseline",
        "On Deep Sea, where constants were tuned, every bonus beats ε-greedy (partly by construction).",
        "evaluation of the six bonuses beside ε-greedy's; their constants were chosen on this world, by other seeds",
        "sign test for each; all six must hold",
        every_bonus_beats_baseline,
        (((TUNED,), (BASELINE, *BONUSES)),),
    ),
    Finding(
        "small-ranking-does-not-carry-over",
        "How bonuses rank on Deep Sea is not how they rank on the hard worlds.",
        "order of each two of the six bonuses on Deep Sea and over the four hard worlds; rank correlation. Without "
        "ε-greedy, against which the hard worlds were chosen",
        "for: two sign tests in opposite directions, corrected for 30; against: exchange of the bonuses",
        ranking_does_not_carry_over,
        (((TUNED, *HARD), BONUSES),),
    ),
    Finding(
        "small-no-bonus-beats-baseline-everywhere",
        "No bonus beats ε-greedy on all of the hard worlds.",
        "evaluation of the six bonuses beside ε-greedy's, world by world",
        "sign tests at the margin; of each bonus, one world of four must hold",
        _no_bonus_beats_baseline_everywhere,
        ((HARD, (BASELINE, *BONUSES)),),
    ),
    Finding(
        "small-bonuses-hurt-on-easy-worlds",
        "On the easy worlds bonuses lower the area under the training curve.",
        "how many of the six bonuses have a smaller area than ε-greedy, seed by seed over the three easy worlds",
        "one sign test over all worlds that four of the six do",
        bonuses_hurt_on_easy_games,
        ((EASY, (BASELINE, *BONUSES)),),
        measure="area",
    ),
    Finding(
        "small-noise-costs-bonuses-more",
        "Every bonus that pays for what the frame looks like loses more of its Four Rooms score on Noisy TV than the "
        "oracle does.",
        "evaluation on Four Rooms minus that on Noisy TV, of the six bonuses beside the oracle of true counts",
        "sign test for each; all six must hold. Contradicted only by a bonus that beats ε-greedy on Four Rooms",
        _noise_costs_bonuses_more,
        (((QUIET, NOISY), (*BONUSES, ORACLE)), ((QUIET,), (BASELINE,))),
    ),
)

SMALL_WORLDS = Benchmark(
    name="small_worlds",
    whose="the small worlds’",
    tuned=TUNED,
    hard=HARD,
    easy=EASY,
    bonuses=BONUSES,
    ranked=BONUSES,
    measure="evaluation",
    findings=FINDINGS,
    noun="worlds",
    tie=MARGIN,
    caveat="This is about eight small worlds, and not about Atari games.",
    published=(BASELINE, "noisy_nets", *BONUSES, *LADDER),
)
