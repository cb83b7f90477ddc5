"""What *Which β?* asks of its runs: findings with their tests, written before the first run of a result.

Ten seeds are described; verdicts are given once, at twenty. Transferred constants and ε-greedy on seeds 0 to 9 were
published before these findings were written, so what rests on them alone is judged by seeds 10 to 19. The bonuses of
the first edition are one family, those that join later another: neither moves a verdict of the other. Each direction of
a question is tested by itself, at 5%, corrected for the hypotheses of its family (Holm).

How often each finding is shown if it is so, and never wrongly in more than 5%: benchmarks/validation/calibration.py.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from offpiste.analysis.findings import BASELINE, MARGIN
from offpiste.analysis.seed_tests import above, gains_less, holm, mcnemar, sign_flip
from offpiste.analysis.small_worlds import EASY, HARD, NOISY, ORACLE
from offpiste.analysis.stats import Array
from offpiste.analysis.summary import LEARNED
from offpiste.analysis.which_beta import BLANK, PASSIVE, Kind, Runs

Edition = Literal["today", "later"]
PRIMARY: Mapping[Edition, tuple[str, ...]] = {
    "today": ("cts", "pixelcnn", "icm", "rnd", "simhash"),
    "later": ("e3b", "noveld", "ngu"),
}
"""Bonuses under test, by family."""
ON_INVERSE_DYNAMICS = ("icm", "e3b", "ngu")
"""Of these, whose features are learned by predicting actions; the others pay for what a frame looks like."""
ON_APPEARANCE = ("cts", "pixelcnn", "rnd", "rnd_released", "simhash", "noveld", ORACLE)
"""Methods that Noisy TV is held beside its blank form for, the oracle among them; for those on inverse dynamics, beside
its passive form."""
WITHIN_EPISODES = ("e3b", "noveld", "ngu")
"""Of these, which pay within an episode, alone or among others."""
NEEDS_DEPTH = ("four_rooms", "key_door", "wallpaper")
NEW_SEEDS, ALL_SEEDS = range(10, 20), range(20)

Scored = Mapping[tuple[str, str, Kind], Runs]
"""By method, world and the way in which its constant was chosen."""
Answer = Literal["yes", "no", "inconclusive"]


@dataclass(frozen=True)
class Hypothesis:
    """One statement of a finding, with the p-values of it and of its contrary."""

    label: str
    effect: float
    """Mean difference over seeds."""
    p_for: float
    p_against: float
    beside: float = float("nan")
    """What the same difference is for the oracle, where that is to be seen beside it."""


@dataclass(frozen=True)
class BetaFinding:
    """A question about bonuses, asked of every seed."""

    key: str
    question: str
    test: str
    seeds: range
    hypotheses: Callable[[Scored, Edition, Collection[int]], Iterator[Hypothesis]]
    tests: Callable[[Edition], int] = lambda _: 1
    """How many hypotheses of an edition are corrected together."""


def judge(
    finding: BetaFinding, scored: Scored, edition: Edition, seeds: Collection[int] | None = None
) -> dict[str, Answer]:
    """Return the answer to each hypothesis of a finding; those whose runs are missing are not answered."""
    hypotheses = [*finding.hypotheses(scored, edition, finding.seeds if seeds is None else seeds)]
    return _answers(
        {hypothesis.label: (hypothesis.p_for, hypothesis.p_against) for hypothesis in hypotheses},
        finding.tests(edition),
    )


def gains(scored: Scored, edition: Edition, world: str, kind: Kind, seeds: Collection[int]) -> dict[str, Answer]:
    """Return by bonus whether it solves a hard world more often than ε-greedy; corrected within its edition.

    No means that a gain of 0.25 is excluded, which takes more than ten seeds.
    """
    found = {}
    for bonus in PRIMARY[edition]:
        keys = ((bonus, world, kind), (BASELINE, world, "default"))
        if _there(scored, keys):
            own, baseline = (_scores(scored, key, seeds) >= LEARNED for key in keys)
            found[bonus] = mcnemar(own, baseline), gains_less(own, baseline)
    return _answers(found, len(PRIMARY[edition]))


def _transferred_beats_baseline(scored: Scored, edition: Edition, seeds: Collection[int]) -> Iterator[Hypothesis]:
    for bonus in PRIMARY[edition]:
        differences = [
            _scores(scored, (bonus, world, "transferred"), seeds) - _scores(scored, (BASELINE, world, "default"), seeds)
            for world in NEEDS_DEPTH
            if _there(scored, ((bonus, world, "transferred"), (BASELINE, world, "default")))
        ]
        if len(differences) == len(NEEDS_DEPTH):
            yield _flipped(f"{bonus} beats ε-greedy", np.mean(differences, axis=0))


def _own_beats_transferred(scored: Scored, edition: Edition, seeds: Collection[int]) -> Iterator[Hypothesis]:
    pairs = [((bonus, world, "own"), (bonus, world, "transferred")) for bonus in PRIMARY[edition] for world in HARD]
    if all(_there(scored, pair) for pair in pairs):
        differences = [_scores(scored, first, seeds) - _scores(scored, second, seeds) for first, second in pairs]
        yield _flipped("own beats transferred", np.mean(differences, axis=0))


def _noise_blinds(scored: Scored, edition: Edition, seeds: Collection[int]) -> Iterator[Hypothesis]:
    oracle = ((ORACLE, BLANK, "own"), (ORACLE, NOISY, "own"))
    for bonus in PRIMARY[edition]:
        keys = ((bonus, BLANK, "own"), (bonus, NOISY, "own"))
        if bonus not in ON_INVERSE_DYNAMICS and _there(scored, (*keys, *oracle)):
            blank, noisy = (_scores(scored, key, seeds) >= LEARNED for key in keys)
            lost = float(np.mean(blank) - np.mean(noisy))
            by_oracle = float(np.mean(_scores(scored, oracle[0], seeds) - _scores(scored, oracle[1], seeds)))
            label = f"{bonus} solves {BLANK} more often than {NOISY}"
            yield Hypothesis(label, lost, mcnemar(blank, noisy), mcnemar(noisy, blank), by_oracle)


def _passive_noise_harms_less(scored: Scored, edition: Edition, seeds: Collection[int]) -> Iterator[Hypothesis]:
    bonuses = [bonus for bonus in PRIMARY[edition] if bonus in ON_INVERSE_DYNAMICS]
    pairs = [((bonus, PASSIVE, "own"), (bonus, NOISY, "own")) for bonus in bonuses]
    if pairs and all(_there(scored, pair) for pair in pairs):
        differences = [_scores(scored, first, seeds) - _scores(scored, second, seeds) for first, second in pairs]
        yield _flipped("passive noise harms less than noise on demand", np.mean(differences, axis=0))


def _easy_worlds_cost_little(scored: Scored, edition: Edition, seeds: Collection[int]) -> Iterator[Hypothesis]:
    for world in EASY:
        for bonus in PRIMARY[edition]:
            keys = ((bonus, world, "transferred"), (BASELINE, world, "default"))
            if _there(scored, keys):
                area, baseline = (np.array([scored[key][seed][1] for seed in seeds]) for key in keys)  # type: ignore[index]
                lower = area - baseline
                label = f"{bonus} lowers the area on {world} by less than {MARGIN:g}"
                yield Hypothesis(label, float(lower.mean()), above(lower, -MARGIN), above(-lower, MARGIN))


def _episodic_bonuses_beat_lifelong_ones(
    scored: Scored, edition: Edition, seeds: Collection[int]
) -> Iterator[Hypothesis]:
    lifelong = [(bonus, "wallpaper", "own") for bonus in PRIMARY["today"]]
    episodic = [(bonus, "wallpaper", "own") for bonus in WITHIN_EPISODES]
    if edition == "later" and _there(scored, (*lifelong, *episodic)):
        first, second = (
            np.mean([_scores(scored, key, seeds) for key in keys], axis=0) for keys in (episodic, lifelong)
        )
        yield _flipped("episodic bonuses beat lifelong ones", first - second)


FINDINGS = (
    BetaFinding(
        "transferred-beats-baseline",
        "Does a bonus that was tuned on Deep Sea beat ε-greedy elsewhere?",
        "D_s of each bonus: its mean gain over Four Rooms, Key and Door, and Wallpaper; sign-flip test, Holm",
        NEW_SEEDS,
        _transferred_beats_baseline,
        tests=lambda edition: len(PRIMARY[edition]),
    ),
    BetaFinding(
        "own-beats-transferred",
        "Do bonuses score more with a β of the world's own?",
        "one D_s: the mean gain over all bonuses and the four hard worlds; sign-flip test",
        ALL_SEEDS,
        _own_beats_transferred,
    ),
    BetaFinding(
        "noise-blinds",
        "Does noise on demand keep bonuses on appearance from the goal, even with a β of its own?",
        "seeds solved on Blank TV alone and on Noisy TV alone; McNemar's test of each bonus, Holm",
        ALL_SEEDS,
        _noise_blinds,
        tests=lambda edition: len(set(PRIMARY[edition]) - set(ON_INVERSE_DYNAMICS)),
    ),
    BetaFinding(
        "passive-noise-harms-less",
        "Does noise that no action controls harm bonuses on inverse dynamics less than noise on demand?",
        "one D_s: the mean of their scores on the passive form minus those on Noisy TV; sign-flip test",
        ALL_SEEDS,
        _passive_noise_harms_less,
    ),
    BetaFinding(
        "easy-worlds-cost-little",
        "Do bonuses cost less than 0.05 of the area under the training curve where exploration is easy?",
        "area minus ε-greedy's; sign test at the margin of each bonus on each easy world, Holm",
        NEW_SEEDS,
        _easy_worlds_cost_little,
        tests=lambda edition: len(EASY) * len(PRIMARY[edition]),
    ),
    BetaFinding(
        "episodic-beats-lifelong-on-wallpaper",
        "Do bonuses that pay within an episode beat lifelong ones where every episode looks new?",
        "one D_s: the mean own score of E3B, NovelD and NGU on Wallpaper minus that of the five others; sign-flip test",
        ALL_SEEDS,
        _episodic_bonuses_beat_lifelong_ones,
    ),
)


def _answers(values: Mapping[str, tuple[float, float]], tests: int) -> dict[str, Answer]:
    """Return the answers by their p-values for and against, each direction corrected for all tests."""
    shown, refuted = (holm({name: pair[way] for name, pair in values.items()}, tests) for way in (0, 1))
    return {name: "yes" if shown[name] else "no" if refuted[name] else "inconclusive" for name in values}


def _there(scored: Scored, keys: Collection[tuple[str, str, str]]) -> bool:
    return all(key in scored for key in keys)


def _scores(scored: Scored, key: tuple[str, str, str], seeds: Collection[int]) -> Array:
    return np.array([scored[key][seed][0] for seed in seeds])  # type: ignore[index]


def _flipped(label: str, differences: Array) -> Hypothesis:
    return Hypothesis(label, float(differences.mean()), sign_flip(differences), sign_flip(-differences))
