"""The findings of *Which β?* on studies made up: how often an answer is wrong where nothing differs, and else right.

Runs solve their world with a probability, or have normal scores. Sign-flip tests suppose that where nothing differs D_s
is symmetric around 0; how often one is wrong where it is not, though its mean is 0, is printed as it is.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from benchmarks.validation.calibration_studies import LEVEL, shown, slack
from offpiste.analysis.findings import BASELINE, MARGIN
from offpiste.analysis.seed_tests import GAIN, gains_less, sign_flip
from offpiste.analysis.small_worlds import EASY, HARD, NOISY, ORACLE
from offpiste.analysis.which_beta import BLANK, PASSIVE
from offpiste.analysis.which_beta_findings import FINDINGS, NEEDS_DEPTH, PRIMARY, Edition, Scored, judge
from offpiste.seeding import stream

SEEDS = (10, 20)
Cell = tuple[str, str, str]
BY_KEY = {finding.key: finding for finding in FINDINGS}


@dataclass(frozen=True)
class Truth:
    """A made-up truth: the probability with which runs of each cell solve their world, or the mean of their scores."""

    key: str
    name: str
    edition: Edition
    cells: dict[Cell, float]
    kind: str = "solved"
    expected: tuple[float, float] | None = None
    """The power that was planned, at ten and at twenty seeds; None where nothing differs."""


def cells(bonuses: Collection[str], worlds: Collection[str], how: str, value: float) -> dict[Cell, float]:
    """Return cells of one value."""
    return {(bonus, world, how): value for bonus in bonuses for world in worlds}


def _half_gain(edition: Edition, base: float, gain: float) -> dict[Cell, float]:
    every = [*cells(PRIMARY[edition], HARD, "own", base)]
    gaining = {cell: base + gain * (index % 2) for index, cell in enumerate(every)}
    return gaining | cells(PRIMARY[edition], HARD, "transferred", base)


def _beside(worlds: Collection[str], value: float) -> dict[Cell, float]:
    return cells((BASELINE,), worlds, "default", value)


TODAY, LATER = PRIMARY["today"], PRIMARY["later"]
ON_LOOKS = tuple(bonus for bonus in TODAY if bonus != "icm")
SAME_ON_WALLPAPER = cells((*TODAY, *LATER), ("wallpaper",), "own", 0.5)
EPISODIC_BETTER = cells(TODAY, ("wallpaper",), "own", 0.4) | cells(LATER, ("wallpaper",), "own", 0.8)
NOISE = {BLANK: 0.9, NOISY: 0.1}
ALIKE = {
    "transferred-beats-baseline": cells(TODAY, NEEDS_DEPTH, "transferred", 0.5) | _beside(NEEDS_DEPTH, 0.5),
    "own-beats-transferred": _half_gain("today", 0.5, 0.0),
    "noise-blinds": cells((*ON_LOOKS, ORACLE), NOISE, "own", 0.5),
    "passive-noise-harms-less": cells(("icm",), (PASSIVE, NOISY), "own", 0.5),
    "episodic-beats-lifelong-on-wallpaper": SAME_ON_WALLPAPER,
}
TRUTHS = (
    Truth(
        "transferred-beats-baseline",
        "gain of 0.5 on average",
        "today",
        cells(TODAY, NEEDS_DEPTH, "transferred", 0.7) | _beside(NEEDS_DEPTH, 0.2),
        expected=(0.85, 1.0),
    ),
    Truth("own-beats-transferred", "half gain 0.25", "today", _half_gain("today", 0.4, 0.25), expected=(0.93, 1.0)),
    Truth(
        "noise-blinds",
        "0.9 on blank, 0.1 on noise",
        "today",
        {(bonus, world, "own"): p for bonus in (*ON_LOOKS, ORACLE) for world, p in NOISE.items()},
        expected=(0.85, 1.0),
    ),
    Truth(
        "passive-noise-harms-less",
        "0.7 v 0.3, ICM alone",
        "today",
        {("icm", PASSIVE, "own"): 0.7, ("icm", NOISY, "own"): 0.3},
        expected=(0.94, 1.0),
    ),
    Truth(
        "passive-noise-harms-less",
        "0.7 v 0.3, E3B and NGU",
        "later",
        cells(("e3b", "ngu"), (PASSIVE,), "own", 0.7) | cells(("e3b", "ngu"), (NOISY,), "own", 0.3),
        expected=(0.94, 1.0),
    ),
    Truth(
        "easy-worlds-cost-little",
        "areas lower by 0.01",
        "today",
        cells(TODAY, EASY, "transferred", 0.49) | _beside(EASY, 0.5),
        kind="normal",
        expected=(0.47, 0.98),
    ),
    Truth("episodic-beats-lifelong-on-wallpaper", "0.8 v 0.4", "later", EPISODIC_BETTER, expected=(0.95, 1.0)),
    *(
        Truth(key, "nothing differs", "later" if key.startswith("episodic") else "today", own, kind)
        for kind in ("solved", "normal")
        for key, own in ALIKE.items()
    ),
    Truth(
        "easy-worlds-cost-little",
        "areas lower by the margin",
        "today",
        cells(TODAY, EASY, "transferred", 0.5 - MARGIN) | _beside(EASY, 0.5),
        kind="normal",
    ),
)


def check_which_beta(studies: int) -> list[str]:
    """Print how often each finding is answered, and return what is wrong too often."""
    missed = []
    print(f"\nfindings of Which β?: answers, with {' and '.join(map(str, SEEDS))} seeds (planned power in brackets)")
    for truth in TRUTHS:
        shares = {seeds: _answered(truth, seeds, studies) for seeds in SEEDS}
        about = f"{truth.key} ({truth.name}, {truth.kind})"
        yes = {seeds: share[0] for seeds, share in shares.items()}
        wrong = {seeds: share[1] for seeds, share in shares.items()}
        if truth.expected is None:
            print(f"  {about:<72} any wrong {shown(wrong)}")
            if max(wrong.values()) > LEVEL + slack(LEVEL, studies):
                missed.append(f"{about} is answered wrongly in {max(wrong.values()):.1%}")
        else:
            planned = " and ".join(f"{share:.0%}" for share in truth.expected)
            print(f"  {about:<72} a hypothesis: yes {shown(yes)}  ({planned})")
    false = {seeds: _false_no_gain(seeds, studies) for seeds in SEEDS}
    print(f"  {f'no gain of {GAIN:g}, where there is one':<72} wrong     {shown(false)}")
    if max(false.values()) > LEVEL + slack(LEVEL, studies):
        missed.append(f"no gain is found where there is one in {max(false.values()):.1%}")
    none = {seeds: _no_gain_of_none(seeds, studies) for seeds in SEEDS}
    print(f"  {'no gain, where neither is ever solved':<72} yes       {shown(none)}")
    lopsided = {seeds: _lopsided(seeds, studies) for seeds in SEEDS}
    print(f"  {'sign-flip test of lopsided differences of mean 0 (not promised)':<72} wrong     {shown(lopsided)}")
    return missed


def _answered(truth: Truth, seeds: int, studies: int) -> tuple[float, float]:
    """Return the share of hypotheses answered by yes, and that of studies in which any is."""
    generator = stream(seeds, f"calibration which beta {truth.key} {truth.name} {truth.kind}")
    yes, any_answer = [], 0
    for _ in range(studies):
        answers = judge(BY_KEY[truth.key], _study(generator, truth, seeds), truth.edition, range(seeds)).values()
        yes += [answer == "yes" for answer in answers]
        any_answer += any(answer == "yes" for answer in answers)
    return sum(yes) / len(yes), any_answer / studies


def _study(generator: np.random.Generator, truth: Truth, seeds: int) -> Scored:
    found = {}
    for cell, value in truth.cells.items():
        if truth.kind == "solved":
            scores = (generator.random(seeds) < value).astype(float)
        else:
            scores = value + generator.normal(0.0, 0.02, seeds)
        found[cell] = {seed: (score, score) for seed, score in enumerate(scores.tolist())}
    return found  # type: ignore[return-value]


def _false_no_gain(seeds: int, studies: int) -> float:
    generator = stream(seeds, "calibration no gain")
    solved = [(generator.random(seeds) < GAIN, np.zeros(seeds, np.bool_)) for _ in range(10 * studies)]
    return float(np.mean([gains_less(first, second) <= LEVEL for first, second in solved]))


def _no_gain_of_none(seeds: int, studies: int) -> float:
    generator = stream(seeds, "calibration no gain of none")
    pairs = [generator.random((2, seeds)) < 0.05 for _ in range(studies)]
    return float(np.mean([gains_less(first, second) <= LEVEL for first, second in pairs]))


def _lopsided(seeds: int, studies: int) -> float:
    generator = stream(seeds, "calibration lopsided")
    drawn = [np.where(generator.random(seeds) < 0.2, -0.8, 0.2) for _ in range(10 * studies)]
    return float(np.mean([sign_flip(differences) <= LEVEL for differences in drawn]))
