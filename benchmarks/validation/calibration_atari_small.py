"""Freeway in the small on studies made up: how often a bonus is said to slow learning or to cost little, and wrongly.

Areas are normal around their means; all bonuses share ε-greedy's runs, so that their claims hang together.
"""

from benchmarks.validation.calibration_studies import LEVEL, slack
from offpiste.analysis.atari_small import BONUSES, PILOT_SEEDS, SEEDS, judge
from offpiste.analysis.findings import BASELINE, MARGIN
from offpiste.seeding import stream

BASE, DEVIATION = 0.4, 0.03
"""Mean area of ε-greedy, and the deviation of seeds."""
CLAIMS = ("slows learning", "costs little")
GAINS = {"as ε-greedy": 0.0, "lower by 0.05": -MARGIN, "lower by 0.1": -0.1, "lower by 0.15": -0.15}
WRONG = {("as ε-greedy", CLAIMS[0]), ("lower by 0.05", CLAIMS[1])}
"""Where a claim is not so."""


def check_atari_small(studies: int) -> list[str]:
    """Print how often each claim is made, and return what is said wrongly too often."""
    missed = []
    print(f"\nFreeway in the small: claims of each bonus and of any, six seeds, deviation {DEVIATION:g}")
    for about, gain in GAINS.items():
        each, any_of_both = _claimed(gain, studies)
        for claim in CLAIMS:
            share = any_of_both[claim]
            print(f"  {about + ': ' + claim:<72} each {each[claim]:6.1%}  any {share:6.1%}")
            if (about, claim) in WRONG and share > LEVEL + slack(LEVEL, studies):
                missed.append(f"Freeway: {claim} is claimed wrongly in {share:.1%}")
    return missed


def _claimed(gain: float, studies: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return by claim in which share of bonuses it is made, and in which share of studies of any."""
    generator = stream(0, f"calibration atari small {gain}")
    each, any_of_both = dict.fromkeys(CLAIMS, 0.0), dict.fromkeys(CLAIMS, 0.0)
    for _ in range(studies):
        areas = {
            method: dict(zip(SEEDS, (mean + generator.normal(0.0, DEVIATION, len(SEEDS))).tolist(), strict=True))
            for method, mean in ((BASELINE, BASE), *((bonus, BASE + gain) for bonus in BONUSES))
        }
        areas[BASELINE] |= dict.fromkeys(PILOT_SEEDS, BASE)
        found = judge(areas).values()
        for claim in CLAIMS:
            each[claim] += sum(own[claim] for own in found) / len(BONUSES) / studies
            any_of_both[claim] += any(own[claim] for own in found) / studies
    return each, any_of_both
