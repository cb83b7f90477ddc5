"""How far each bonus follows true visit counts along the same random episodes of Four Rooms, where no agent follows it.

Each method's bonus, with its constants for small worlds, is shown the same steps, and batches of them where it learns.
Printed and recorded are rank correlations with 1/√visits of the state that it pays for: over the run, as a mean among
500 steps in a row, where what merely falls with time shows nothing, and within the episode. The one bar is that the
oracles, over the run and within the episode, follow their counts exactly. `--quick` shows 500 steps. Names of bonuses
show these alone.
"""

import argparse
import math
import sys

from benchmarks.shared.bonuses import BONUSES
from offpiste.bonuses.contract.play import ROOMS
from offpiste.bonuses.contract.true_counts import STEPS, true_counts
from offpiste.methods import METHODS
from scripts import measured

EXACT = {"oracle": "lifelong", "oracle_episodic": "episodic"}


def main() -> int:
    """Print what each bonus follows, and return 0 if the oracles follow their counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 steps instead of 3,000")
    parser.add_argument("bonuses", nargs="*", default=BONUSES, help="methods whose bonuses are shown (default all)")
    options = measured.parse(parser)
    steps = 500 if options.quick else STEPS
    print(f"{f'{steps:,} steps':<18}{'pays for':>12}{'run':>8}{'500 steps':>11}{'episode':>9}")
    exact = True
    for name in options.bonuses:
        found = true_counts(METHODS[name].bonus_on(ROOMS), steps)
        values = {"lifelong": found.lifelong, "near_in_time": found.near_in_time, "episodic": found.episodic}
        cells = f"{found.lifelong:>8.2f}{found.near_in_time:>11.2f}{found.episodic:>9.2f}"
        print(f"{name:<18}{found.pays_for:>12}{cells}", flush=True)
        exact &= name not in EXACT or values[EXACT[name]] > 1 - 1e-9
        if options.record:
            figures = {f"{name}_{key}": value for key, value in values.items() if not math.isnan(value)}
            measured.record("benchmarks.validation.true_counts", figures)
    print(f"true counts{' (quick)' if options.quick else ''}: the oracles follow theirs: {exact}")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
