"""Calls of methods beside ε-greedy: how often a family of methods has a wrong one where no method differs.

All methods of a study are held against the same runs of ε-greedy, so their tests are not independent. The worst case is
that none differs; then any call is wrong. In each study there are ten published methods and three others with as many
seeds, and one other with three seeds.
"""

import numpy as np

from benchmarks.validation.calibration_studies import KINDS, LEVEL, SEEDS, draw, shown, slack
from benchmarks.validation.calibration_truths import SOLVED
from offpiste.analysis.comparisons import Call, Contrast, Family, with_calls
from offpiste.analysis.findings import MARGIN
from offpiste.analysis.stats import compare
from offpiste.seeding import stream

_METHODS: tuple[tuple[Family, int, int | None], ...] = (("published", 10, None), ("others", 3, None), ("others", 1, 3))
"""Family, how many methods, and how many seeds of each; None for as many as ε-greedy has."""


def check_calls(studies: int) -> list[str]:
    """Print how often each family has a wrong call, and return those that have one too often."""
    missed = []
    print("\nany wrong call beside ε-greedy in a family, with", f"{', '.join(map(str, SEEDS))} seeds")
    for calls in (("better",), ("better", "worse")):
        for kind in (*KINDS, SOLVED):
            wrong = {seeds: _wrong(calls, kind, seeds, studies) for seeds in SEEDS}
            for family in ("published", "others"):
                shares = {seeds: found[family] for seeds, found in wrong.items()}
                about = f"{' or '.join(calls)}, {kind}, {family}"
                print(f"  {about:<40} {shown(shares)}")
                if max(shares.values()) > LEVEL + slack(LEVEL, studies):
                    missed.append(f"calls ({about}) are wrong in {max(shares.values()):.1%}")
    return missed


def _wrong(calls: tuple[Call, ...], kind: str, seeds: int, studies: int) -> dict[str, float]:
    generator = stream(seeds, f"calibration calls {calls} {kind}")
    counts = {"published": 0, "others": 0}
    for _ in range(studies):
        found = with_calls(_study(generator, kind, seeds), calls)  # type: ignore[arg-type]
        for family in {each.family for each in found if each.is_shown}:
            counts[family] += 1
    return {family: count / studies for family, count in counts.items()}


def _study(generator: np.random.Generator, kind: str, seeds: int) -> list[Contrast]:
    def runs(*, baseline: bool) -> np.ndarray:
        if kind == SOLVED:
            return (generator.random(seeds) < 0.5).astype(np.float64)
        return draw(generator, kind, seeds, jumping=baseline)

    beside, rows = runs(baseline=True), list[Contrast]()
    for family, methods, own in _METHODS:
        for _ in range(methods):
            difference = (runs(baseline=False) - beside)[:own]
            rows.append(Contrast("made up", f"{family} {len(rows)}", ("game",), compare([difference], MARGIN), family))
    return rows
