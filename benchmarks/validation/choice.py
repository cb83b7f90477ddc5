"""How much a choice among settings loses: the rule of `analysis/choice.py` beside others, on bonuses made up.

A run solves its world with the probability p_k = h · exp(-(k - c)² / 2w²) at half-decade k of β: a peak of height h,
uniform in [0.3, 1], at c, uniform over the grid from -4 to 2, of width w, uniform in [0.7, 2] half-decades. Its score
is 1 if it does, else 0; the area under its training curve is then uniform in [0.2, 0.7], else 0. What a choice loses is
the p_k of the best of the seven settings minus that of the one chosen, on average:

- the best mean of three runs at each of five settings, k = -2 … 2;
- the best smoothed mean of two runs at each of seven, k = -4 … 2: the first stage of *own*;
- the same with three more runs of the best two, pooled: the second stage.

Bars: smoothing loses at most three quarters of the first, the second stage at most two thirds. `--quick` takes fewer.
"""

import argparse
import sys
from collections.abc import Collection

import numpy as np

from offpiste.analysis.choice import Point, best_first
from offpiste.analysis.findings import MARGIN
from offpiste.seeding import stream

POINTS = tuple(range(-4, 3))
FEW = (-2, -1, 0, 1, 2)
BARS = {"smoothed, 7 settings × 2 runs": 3 / 4, "with the second stage, 2 × 3 more": 2 / 3}
Runs = dict[Point, list[tuple[float, float]]]


def main() -> int:
    """Print what each choice loses and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bonuses")
    options = parser.parse_args()
    found = losses(2_000 if options.quick else 20_000)
    first, *_ = found.values()
    for name, (loss, error) in found.items():
        print(f"{name:<36} loses {loss:.3f} ± {error:.3f}, {loss / first[0]:.2f} of the first")
    missed = [name for name, share in BARS.items() if found[name][0] > share * first[0]]
    print(f"MISSED: {', '.join(missed)}" if missed else f"all of {len(BARS)} bars hold")
    return 1 if missed else 0


def losses(bonuses: int) -> dict[str, tuple[float, float]]:
    """Return by rule the mean loss and its standard error."""
    generator = stream(0, "choice of settings")
    lost = [_lost(generator) for _ in range(bonuses)]
    return {
        name: (float(np.mean(own)), float(np.std(own) / np.sqrt(bonuses)))
        for name, own in zip(("the best mean, 5 settings × 3 runs", *BARS), np.transpose(lost), strict=True)
    }


def _lost(generator: np.random.Generator) -> tuple[float, float, float]:
    peak, height, width = generator.uniform(-4, 2), generator.uniform(0.3, 1), generator.uniform(0.7, 2)
    truth: dict[Point, float] = {(k,): float(height * np.exp(-((k - peak) ** 2) / (2 * width**2))) for k in POINTS}
    best = max(truth.values())

    def runs(points: Collection[Point], count: int) -> Runs:
        return {point: [_run(generator, truth[point]) for _ in range(count)] for point in points}

    argmax, *_ = best_first(runs([(k,) for k in FEW], 3), 0.0)
    stage = runs(truth, 2)
    places = {point: point for point in truth}
    first, second, *_ = best_first(stage, MARGIN, places)
    more = runs((first, second), 3)
    pooled = {point: own + more.get(point, []) for point, own in stage.items()}
    chosen = next(point for point in best_first(pooled, MARGIN, places) if point in more)
    return best - truth[argmax], best - truth[first], best - truth[chosen]


def _run(generator: np.random.Generator, probability: float) -> tuple[float, float]:
    solved = bool(generator.random() < probability)
    return float(solved), float(generator.uniform(0.2, 0.7)) * solved


if __name__ == "__main__":
    sys.exit(main())
