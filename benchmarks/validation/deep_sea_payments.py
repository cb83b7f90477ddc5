"""What each bonus pays in Deep Sea, beside the true visits of the cell it pays for, where no agent follows it.

Distinguishes a bonus that does not follow the counts from an agent that makes nothing of it: each bonus is shown the
same random episodes. Printed is what it pays in the median, by how often the cell had been visited, and the
rank correlation (Spearman) with 1/√(true visits, this one included), over all steps and as a mean over blocks of 500: a
bonus that merely falls with time has the former and not the latter, and gives an agent no reason to go one way rather
than another.

For PixelCNN three things more. -log ρ, from whose fall under a learning step its bonus is made: does the density know
what the bonus does not show? A table with one logit per cell, under the same optimiser and paid by the same formula: a
density that cannot mistake one cell for another, and has nothing of our network in it; what it does not show either is
the method's doing. And both with a hundred times the step size.

There is no bar but for the oracle, which must follow the counts exactly. `--quick` shows 50 episodes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from statistics import mean, median
from typing import Any

import torch
from scipy.stats import spearmanr

from benchmarks.shared.recording import random_play
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pixelcnn import decayed_gain, descend, log_likelihood, symbols
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.bonuses.registry import build
from offpiste.config import BonusConfig, MachineConfig
from offpiste.methods import METHODS, base_run
from offpiste.run.process import prepare
from offpiste.seeding import stream

SIZE = 10
GAME = f"deep_sea_{SIZE}"
EPISODES, SEED = 300, 100
BLOCK_STEPS = 500
VISITS = {"1st visit": (1, 1), "2 to 9": (2, 9), "10 to 99": (10, 99), "100 on": (100, 10**9)}
EXACT = "oracle"
SHOWN = [name for name, row in METHODS.items() if row.bonus_class]
PROBES: dict[str, Callable[[BonusConfig, Context], Any]] = {
    "pixelcnn -log ρ": lambda pixelcnn, context: Surprise(build(pixelcnn, context)),
    "pixelcnn, step 0.01": lambda pixelcnn, context: build(replace(pixelcnn, options={"learning_rate": 0.01}), context),
    "table, step 0.0001": lambda *_: Table(1e-4),
    "table, step 0.01": lambda *_: Table(1e-2),
}
"""What else is shown the episodes; PixelCNN's own step size is 0.0001."""


def main() -> int:
    """Print what each bonus pays, and return 0 if the oracle follows the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50 episodes instead of 300")
    options = parser.parse_args()
    prepare(MachineConfig())
    episode_steps = SIZE + 1
    transitions = list(islice(random_play(GAME, SEED), episode_steps * (50 if options.quick else EPISODES)))
    visits = "".join(f" {label:>10}" for label in VISITS)
    print(f"{f'{len(transitions):,} steps':<19}{visits} {'rank corr.':>11} {'in a block':>11}")
    correlations = {}
    for name in [*SHOWN, *PROBES]:
        watched = Watched(made(name), pays_for_arrival=name.startswith("oracle"))
        for transition in transitions:
            watched.observe(transition)
        paid = "".join(f" {watched.median(*span):>10.3g}" for span in VISITS.values())
        correlations[name] = watched.correlation()
        print(f"{name:<19}{paid} {correlations[name]:>11.2f} {watched.correlation_at_one_time():>11.2f}", flush=True)
    exact = correlations[EXACT] > 1 - 1e-9
    print(f"deep sea payments{' (quick)' if options.quick else ''}: the oracle follows the counts: {exact}")
    return 0 if exact else 1


def made(name: str) -> Any:
    """Make a bonus, or what else goes by this name."""
    config = base_run(GAME, "pixelcnn" if name in PROBES else name)
    context = Context(config.game, 2, config.world.stack_frames, config.world.state_shape[1:], stream(SEED, "bonus"))
    return PROBES.get(name, build)(config.bonus, context)


class Watched:
    """A bonus, and beside each of its payments how often the cell it pays for had been visited."""

    def __init__(self, bonus: Any, *, pays_for_arrival: bool) -> None:
        self._bonus = bonus
        self._pays_for_arrival = pays_for_arrival
        self._visits: Counter[bytes] = Counter()
        self._bonuses: list[float] = []
        self._counts: list[int] = []

    def observe(self, transition: Transition) -> None:
        """Ask the bonus and note down the true count: a cell is its frame."""
        cell = (transition.next_state[-1] if self._pays_for_arrival else transition.frame).tobytes()
        self._visits[cell] += 1
        self._bonuses.append(float(self._bonus.observe(transition)))
        self._counts.append(self._visits[cell])

    def median(self, min_visits: int, max_visits: int) -> float:
        """Return what was paid in the median for so many visits."""
        pairs = zip(self._bonuses, self._counts, strict=True)
        return median([bonus for bonus, count in pairs if min_visits <= count <= max_visits] or [float("nan")])

    def correlation(self) -> float:
        """Return the rank correlation of bonus and 1/√count."""
        return self._correlation(slice(None))

    def correlation_at_one_time(self) -> float:
        """Return the same among steps that are near in time: the mean over the full blocks of so many steps."""
        starts = range(0, len(self._counts) - BLOCK_STEPS + 1, BLOCK_STEPS)
        return mean(self._correlation(slice(start, start + BLOCK_STEPS)) for start in starts)

    def _correlation(self, steps: slice) -> float:
        return float(spearmanr(self._bonuses[steps], [count**-0.5 for count in self._counts[steps]]).statistic)


class Surprise:
    """What a PixelCNN's density says of a frame by itself: -log ρ, before the bonus learns it."""

    def __init__(self, pixelcnn: Any) -> None:
        self._pixelcnn = pixelcnn

    def observe(self, transition: Transition) -> float:
        """Return the surprise in nats, then let the bonus learn."""
        network = self._pixelcnn.network
        inputs, target = network.read(symbols(transition.frame))
        surprise = -float(log_likelihood(network.log_probabilities(inputs), target))
        self._pixelcnn.observe(transition)
        return surprise


class Table:
    """One logit per cell, and a bonus made of them as PixelCNN makes it of its network."""

    def __init__(self, learning_rate: float) -> None:
        cells = (SIZE + 1) * (SIZE + 2) // 2
        self._logits, self._momenta = torch.zeros(2, cells, dtype=torch.float64)
        self._mean_squares = torch.ones(cells, dtype=torch.float64)
        self._learning_rate = learning_rate
        self._cells: dict[bytes, int] = {}
        self._observed = 0

    def observe(self, transition: Transition) -> float:
        """Take one step on the cell and return the bonus for what that changed."""
        cell = self._cells.setdefault(transition.frame.tobytes(), len(self._cells))
        before = self._logits.log_softmax(0)
        gradient = before.exp()
        gradient[cell] -= 1
        descend(self._logits, gradient, self._mean_squares, self._momenta, self._learning_rate)
        gain = float(self._logits.log_softmax(0)[cell] - before[cell])
        self._observed += 1
        return intrinsic_of_gain(decayed_gain(gain, self._observed, 1.0))


if __name__ == "__main__":
    sys.exit(main())
