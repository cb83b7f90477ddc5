"""Any two methods beside one another, game by game and seed by seed."""

from dataclasses import dataclass

from offpiste.analysis.evidence import Evidence
from offpiste.analysis.statements import compare_methods, paired_keys
from offpiste.analysis.stats import Comparison


@dataclass(frozen=True, eq=False)
class Pairing:
    """Runs of one method beside runs of another on a game, by normalised score."""

    game: str
    first: str
    second: str
    comparison: Comparison
    """Its p-values are not corrected for other comparisons."""
    seeds: tuple[int, ...]
    """Of the differences: the seed of the first method's run."""

    def __repr__(self) -> str:
        """Say who is ahead, by how much and how surely."""
        found, interval = self.comparison, self.comparison.difference_interval
        exact = f" [{interval.low:+.3g}, {interval.high:+.3g}]" if interval is not None else ""
        return (
            f"<{self.game}: {self.first} − {self.second} = {found.difference:+.3g}{exact}, {found.pairs} pairs, "
            f"p better {found.p_better:.2g}, p worse {found.p_worse:.2g}>"
        )


def compare(evidence: Evidence, first: str, second: str) -> list[Pairing]:
    """Return the two methods beside one another on each game on which both have scores, in the order of games."""
    found = []
    for game in evidence.games:
        if evidence.finals(game, first).size and evidence.finals(game, second).size:
            benchmark = evidence.benchmark(game)
            comparison = compare_methods(
                evidence.scores, (game,), first, second, tie=benchmark.tie if benchmark else 0.0
            )
            keys, _ = paired_keys(evidence.scores, game, (first, second))
            found.append(Pairing(game, first, second, comparison, tuple(key[1] for key in keys)))  # type: ignore[index]
    return found
