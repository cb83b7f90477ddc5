"""One method among the others, for whoever wrote it: whom to hold it beside, how it was tuned, and a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from offpiste.analysis.comparisons import Contrast
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.names import and_text, label, title
from offpiste.analysis.small_worlds import BONUSES, ORACLE
from offpiste.worlds.scores import reference_scores

RATE = "bonus.options.learning_rate"
BETA = "bonus.scale"


@dataclass(frozen=True)
class Tried:
    """One setting of a tuning."""

    beta: float
    rate: float | None
    """The learning rate, where several were tried."""
    scores: dict[int, float]
    """Normalised, by seed."""


@dataclass(frozen=True)
class Own:
    """One method, and what it is held beside."""

    method: str
    games: tuple[str, ...]
    """On which it has scores."""
    roles: dict[str, str]
    """By method, why it stands beside: the baseline, the best published one, the oracle, the nearest neighbour."""
    tuned_on: str
    """The game of the tuning; "" where there was none."""
    tried: tuple[Tried, ...]
    chosen: float | None
    """β of the runs that count."""
    sentence: str


def about(evidence: Evidence, method: str, by_world: Sequence[Contrast]) -> Own | None:
    """Return what is to be said of a method first; None where it has no score."""
    games = tuple(game for game in evidence.games if evidence.finals(game, method).size)
    if not games:
        return None
    roles = _roles(evidence, method, games)
    tuning = [run for run in evidence.tuning if run.method == method]
    chosen = {run.settings[BETA] for run in evidence.runs if run.method == method}
    return Own(
        method,
        games,
        roles,
        tuning[0].game if tuning else "",
        _tried(evidence, method),
        chosen.pop() if len(chosen) == 1 else None,
        _sentence(evidence, method, games, roles, by_world),
    )


def _roles(evidence: Evidence, method: str, games: Sequence[str]) -> dict[str, str]:
    """Return whom to hold a method beside; a method that has two roles has both."""
    others = [name for name in BONUSES if name != method and _has_all(evidence, name, games)]
    found: dict[str, list[str]] = {}
    for name, role in ((BASELINE, "the baseline"), (ORACLE, "counts of true states")):
        if name != method and _has_all(evidence, name, games):
            found.setdefault(name, []).append(role)
    if others:
        best = _best(evidence, others, games)
        nearest = min(others, key=lambda name: _distance(evidence, games, method, name))
        found.setdefault(best, []).append("best published")
        found.setdefault(nearest, []).append("nearest neighbour")
    return {name: " and ".join(roles) for name, roles in found.items()}


def _best(evidence: Evidence, methods: Sequence[str], games: Sequence[str]) -> str:
    """Return the method that is first on most games, or level with the first; of several, that with the larger areas.

    Scores of unlike games are not averaged: hard worlds were chosen against ε-greedy, and easy ones for it.
    """

    def standing(method: str) -> tuple[int, float]:
        firsts, areas = 0, []
        for game in games:
            top = max(_mean(evidence, game, each) for each in methods)
            firsts += _mean(evidence, game, method) >= top - _tie(evidence, game)
            own = evidence.normalised_areas(game, method)
            areas.append(float(own.mean()) if own.size else 0.0)
        return firsts, fmean(areas)

    return max(methods, key=standing)


def _mean(evidence: Evidence, game: str, method: str) -> float:
    return float(evidence.normalised(game, method).mean())


def _tie(evidence: Evidence, game: str) -> float:
    benchmark = evidence.benchmark(game)
    return benchmark.tie if benchmark else 0.0


def _has_all(evidence: Evidence, method: str, games: Sequence[str]) -> bool:
    return all(evidence.finals(game, method).size for game in games)


def _distance(evidence: Evidence, games: Sequence[str], first: str, second: str) -> float:
    """Return how unlike two methods did: the mean difference of mean scores, and of areas under training curves."""
    parts = []
    for game in games:
        for values in (evidence.normalised, evidence.normalised_areas):
            one, other = values(game, first), values(game, second)
            parts.append(abs(float(one.mean() - other.mean())) if one.size and other.size else 1.0)
    return fmean(parts)


def _tried(evidence: Evidence, method: str) -> tuple[Tried, ...]:
    found: dict[tuple[float, float | None], dict[int, float]] = {}
    for run in evidence.tuning:
        summary = evidence.summaries.get(run.name)
        beta, rate = run.settings.get(BETA), run.settings.get(RATE)
        if run.method != method or summary is None or not evidence.counts(summary) or not isinstance(beta, int | float):
            continue
        scale = reference_scores(run.game)
        score = (evidence.score(summary) - scale.random) / scale.span
        known = float(rate) if isinstance(rate, int | float) else None
        found.setdefault((float(beta), known), {})[run.seed] = score
    return tuple(
        Tried(beta, rate, scores) for (beta, rate), scores in sorted(found.items(), key=lambda item: str(item[0][1]))
    )


def _sentence(
    evidence: Evidence, method: str, games: Sequence[str], roles: dict[str, str], by_world: Sequence[Contrast]
) -> str:
    """Return the verdict on a method in one sentence."""
    own = [each for each in by_world if each.method == method]
    better = [title(each.games[0]) for each in own if each.call == "better"]
    undecided = bool(own) and all(each.call == "not decidable" for each in own)
    worlds = f"{len(own)} world{'s' * (len(own) != 1)}"
    name = label(method)
    if not own:
        verdict = f"{name} has no runs of {label(BASELINE)} beside it"
    elif better:
        verdict = f"{name} is shown to beat {label(BASELINE)} on {len(better)} of {worlds}, {and_text(better)}"
    elif undecided:
        pairs = max(each.comparison.pairs for each in own)
        verdict = f"{name} has {pairs} seeds, too few to show anything beside {label(BASELINE)} on {worlds}"
    else:
        verdict = f"{name} is not shown to beat {label(BASELINE)} on any of {worlds}"
    best = next((other for other, role in roles.items() if "best published" in role), None)
    if best is None:
        return f"{verdict}."
    leads = [_mean(evidence, game, method) - _mean(evidence, game, best) for game in games]
    ties = [_tie(evidence, game) for game in games]
    above = sum(lead > tie for lead, tie in zip(leads, ties, strict=True))
    below = sum(lead < -tie for lead, tie in zip(leads, ties, strict=True))
    said = f"its mean score is above on {above}, below on {below} and level on {len(games) - above - below}"
    return f"{verdict}; beside {label(best)}, the best published bonus here, {said}."
