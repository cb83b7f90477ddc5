"""Was every method given the same chance? What was tuned, on which game, with how many runs and which seeds."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpiste.analysis.choice import Point, best_first, points_of, shares_of_resamples
from offpiste.analysis.evidence import Evidence, benchmark_on
from offpiste.analysis.names import label, ordered_methods, seeds_text, title
from offpiste.analysis.runs import Run
from offpiste.analysis.scores import statistic_of
from offpiste.config import identity
from offpiste.methods import METHODS, PAPER_METHODS, RANDOM_PLAY, base_run
from offpiste.seeding import stream


@dataclass(frozen=True)
class Tuning:
    """How one method came by its constants."""

    method: str
    settings: int
    """Tried in this store."""
    runs: int
    frames: int
    games: tuple[str, ...]
    tuning_seeds: tuple[int, ...]
    test_seeds: tuple[int, ...]
    shared_seeds: tuple[int, ...]
    """Seeds that both tune and test, on the same game."""
    elsewhere: int | None
    """Settings that the paper's authors tried; None where the constants that are tested are not the paper's."""
    protocols: frozenset[str]
    """Of the tuning runs."""

    @property
    def budget(self) -> int | None:
        """The most settings that were tried for it, here or by the paper's authors, as far as is known."""
        return None if self.elsewhere is None and not self.settings else max(self.settings, self.elsewhere or 0)


@dataclass(frozen=True)
class Variant:
    """One setting that was tried in tuning."""

    method: str
    game: str
    name: str
    seeds: int
    mean: float | None
    """Of the final scores; None where no run counts."""
    median: float | None
    area: float | None
    """Mean area under the training curve, by which settings with equal scores are ordered."""
    chosen: float | None
    """In which share of resamples of the seeds this setting is the best; None where no seed is common to all."""


def tunings(evidence: Evidence) -> list[Tuning]:
    """Return the tuning of each method."""
    methods = ordered_methods(run.method for run in evidence.records.runs)
    return [_tuning(evidence, method) for method in methods if method != RANDOM_PLAY]


def statements(evidence: Evidence, found: list[Tuning], tried: list[Variant]) -> list[str]:
    """Return in sentences what a reader has to know about fairness; `tried` are the `variants`."""
    if not found:
        return ["There is no run of a method yet."]
    here = [each for each in found if each.settings]
    games = sorted({game for each in here for game in each.games})
    what = f"{', '.join(label(each.method) for each in here)}, on {', '.join(map(title, games))}"
    said = [f"Tuned in this store: {what}." if here else "No run in this store tunes anything."]
    from_paper = [f"{label(each.method)} {each.elsewhere}" for each in found if each.elsewhere is not None]
    if any(each.elsewhere for each in found):
        said.append(
            f"Settings tried for the constants that the paper gives: {', '.join(from_paper)}; its authors tuned on "
            "Montezuma’s Revenge, with five seeds a setting."
        )
    unknown = [label(each.method) for each in found if each.budget is None]
    if unknown:
        said.append(f"Not known is how the constants of {', '.join(unknown)} were chosen.")
    said += _alike(found)
    shared = [f"{label(each.method)} ({seeds_text(each.shared_seeds)})" for each in found if each.shared_seeds]
    if shared:
        said.append(
            f"Tuning and test seeds are not disjoint: {', '.join(shared)}. What was chosen for these seeds looks "
            "better on them than it is."
        )
    elif here:
        said.append("Tuning and test seeds are disjoint.")
    said += _sureness(tried)
    tested = {run.protocol for run in evidence.runs}
    if tested and any(each.protocols - tested for each in here):
        said.append("Some tuning was done under another protocol than the tests.")
    return said


def variants(evidence: Evidence) -> list[Variant]:
    """Return the settings that were tried, of each method and game in the order of `choice.best_first`."""
    groups: dict[tuple[str, str], dict[str, dict[int, tuple[float, float]]]] = defaultdict(lambda: defaultdict(dict))
    settings: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for run in evidence.tuning:
        settings[run.method, run.game][run.variant] = tuned_settings(run)
        found, own = evidence.summaries[run.name], groups[run.method, run.game][run.variant]
        if evidence.counts(found):
            own[run.seed] = evidence.score(found), found.area
    tried = []
    for (method, game), scores in sorted(groups.items()):
        tie, points = evidence.ties[game], tuned_points(method, game, settings[method, game])
        shares = shares_of_resamples(scores, tie, stream(0, f"report tuning {method} {game}"), points)
        for name in best_first({variant: by_seed.values() for variant, by_seed in scores.items()}, tie, points):
            finals, areas = zip(*scores[name].values(), strict=True) if scores[name] else ((), ())
            tried.append(
                Variant(
                    method=method,
                    game=game,
                    name=name,
                    seeds=len(finals),
                    mean=statistic_of(np.mean, finals),
                    median=statistic_of(np.median, finals),
                    area=statistic_of(np.mean, areas),
                    chosen=shares.get(name),
                )
            )
    return tried


def tuned_settings(run: Run) -> dict[str, Any]:
    """Return the settings of a run in which those that are tried may differ, by dotted key."""
    return {key: value for key, value in run.settings.items() if key.startswith(("agent.", "exploration.", "bonus."))}


def tuned_points(method: str, game: str, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Point] | None:
    """Return where the settings of a tuning lie on its grid; None where the first edition chose without smoothing."""
    benchmark = benchmark_on(game)
    early = benchmark is not None and benchmark.is_of_the_first_edition(method, game)
    return None if early else points_of(settings)


def _tuning(evidence: Evidence, method: str) -> Tuning:
    tuning = [run for run in evidence.tuning if run.method == method]
    tests = [run for run in evidence.runs if run.method == method]
    used = {(run.game, run.seed) for run in tuning}
    return Tuning(
        method=method,
        settings=len({run.variant for run in tuning}),
        runs=len(tuning),
        frames=sum(run.frames for run in tuning),
        games=tuple(sorted({run.game for run in tuning})),
        tuning_seeds=tuple(sorted({run.seed for run in tuning})),
        test_seeds=tuple(sorted({run.seed for run in tests})),
        shared_seeds=tuple(sorted({run.seed for run in tests if (run.game, run.seed) in used})),
        elsewhere=METHODS[method].paper_settings if tests and all(map(_has_the_papers_constants, tests)) else None,
        protocols=frozenset(run.protocol for run in tuning),
    )


def _alike(found: list[Tuning]) -> list[str]:
    known = {label(each.method): each.budget for each in found if each.budget is not None}
    if len(known) < 2:
        return []
    least, most = min(known.values()), max(known.values())
    if least == most:
        return [f"All methods were tuned alike: {most} settings each."]
    ahead = ", ".join(name for name, budget in known.items() if budget == most)
    behind = ", ".join(name for name, budget in known.items() if budget == least)
    return [
        f"The methods were not tuned alike: {ahead} had {most} settings to choose from, {behind} {least}. What a "
        "method gains by that is part of its score."
    ]


def _sureness(tried: list[Variant]) -> list[str]:
    """Return a sentence on how often the best settings would be chosen again."""
    groups: dict[tuple[str, str], list[Variant]] = defaultdict(list)
    for each in tried:
        groups[each.method, each.game].append(each)
    shares = [
        f"{label(method)} {best.chosen:.0%}"
        for (method, _), (best, *others) in groups.items()
        if others and best.chosen is not None
    ]
    if not shares:
        return []
    return [
        "How sure the choices are: with the tuning seeds drawn anew (bootstrap), the best setting stays so in this "
        f"share of the draws: {', '.join(shares)}."
    ]


_SCALED = "exploration.epsilon_decay_steps"
"""A length of time, which small studies shorten for all methods alike."""


def _has_the_papers_constants(run: Run) -> bool:
    """Whether a run chooses actions and is paid as its method is in the paper, constant by constant."""
    if run.method not in PAPER_METHODS:
        return False
    base = identity(replace(base_run(run.game, run.method), bonus=METHODS[run.method].bonus))
    here, there = (
        {key: value for key, value in settings.items() if key.startswith(("exploration.", "bonus.")) and key != _SCALED}
        for settings in (run.settings, base)
    )
    return here == there
