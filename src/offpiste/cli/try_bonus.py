"""`offpiste try`: tune and run a bonus in the small worlds, within an hour or two."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import tyro

import offpiste
from offpiste.cli.bonus_options import set_options, take
from offpiste.cli.output import STOPPED_EARLY
from offpiste.cli.report import NEEDED, require
from offpiste.cli.study_arguments import log
from offpiste.errors import ConfigError, OffpisteError, did_you_mean
from offpiste.methods import METHODS
from offpiste.parsing import parse_value
from offpiste.study.plan import Study, load_bonuses
from offpiste.worlds.registry import SUITES, is_ours, load

RESULTS = Path("results") / "small_worlds"
_SCALE = "--bonus.scale"
BESIDE = "-sensitivity"
"""What the store of seven β in each world is called by, beside the trial's, in which a report would take them for more
tuning than others had."""
_SUITES = ("small_worlds", "small_hard", "small_easy", "minigrid_small")


@dataclass(frozen=True)
class Arguments:
    """Try a bonus in eight small worlds: tune it in the first, with fifteen settings and five seeds each; run it in
    all of them with ten seeds; and compare it with the published methods, in a table and a report. The same command
    resumes a trial. With --sensitivity it also tries seven β in each world, and shows the score over β. Options are set
    as in training, with --bonus.options.OPTION VALUE; --bonus.scale sets β and leaves out the tuning. Exit code 0: the
    trial is done; 75: stopped before that; 1: an error.
    """

    bonus: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BONUS")]
    """A class of yours as module:Class, or the name of any bonus or method."""
    store: str = "trial"
    """Folder for the runs, and for the report, in `report` below it."""
    seeds: int = 10
    """Seeds in each world."""
    worlds: tuple[str, ...] = ()
    """Worlds or suites by name, gymnasium:ID, or module:World of yours; the eight small ones by default."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """One hard world, Four Rooms, with three seeds and the middle of the grid, in minutes instead of half an hour."""
    sensitivity: tyro.conf.FlagCreatePairsOff[bool] = False
    """Also try seven β in each world, half a decade apart, and show the score over β in the table and the report."""
    taken: Annotated[dict[str, str], tyro.conf.Fixed, tyro.conf.Suppress] = field(default_factory=dict)
    """β and options of the bonus."""


def defaults(argv: Sequence[str]) -> tuple[list[str], Arguments]:
    """Return the arguments left to parse, and defaults with β and the options of the bonus."""
    argv, taken = take(argv, _SCALE)
    return argv, Arguments(bonus=tyro.MISSING, taken=taken)


class Stopped(OffpisteError):
    """The trial was stopped before its end."""


def main(arguments: Arguments) -> int:
    """Tune and run the bonus, then print the table and write the report."""
    require("a trial", NEEDED)
    from offpiste.analysis.results import load as load_runs
    from offpiste.cli.trial_view import beta_lines, lines, warnings
    from offpiste.report.beta_figures import beta_figure
    from offpiste.report.page import build
    from offpiste.study import sensitivity
    from offpiste.study.trial import QUICK_GAMES, QUICK_SEEDS, Trial, tune

    quick = arguments.quick
    games = _chosen(arguments.worlds) or (QUICK_GAMES if quick else SUITES["small_worlds"])
    taken = dict(arguments.taken)
    scale = taken.pop(_SCALE, None)
    trial = Trial(arguments.bonus, games, QUICK_SEEDS if quick else arguments.seeds)
    if arguments.taken and arguments.bonus in METHODS:
        raise ConfigError(
            f"{arguments.bonus} has constants of its own, got {', '.join(arguments.taken)}; to try others, name the "
            f"class, as in offpiste try {METHODS[arguments.bonus].bonus_class or 'module:Class'}"
        )
    if taken:
        options: dict[str, Any] = {}
        set_options(options, taken, trial.bonus_name)
        trial = replace(trial, options=options)
    setting: dict[str, Any] = {} if scale is None else {"scale": parse_value(scale, float)}
    if arguments.sensitivity and trial.is_tuned:
        raise ConfigError(
            f"--sensitivity is for a bonus that nobody tuned, and {arguments.bonus} has published constants or no β; "
            "docs/which-beta.md has scores over β of the published bonuses"
        )

    def run(study: Study, content: dict[str, Any]) -> None:
        run_to_end(study, content, arguments.store)

    try:
        tuned = not trial.is_tuned and not setting
        if tuned or arguments.sensitivity:
            grid = trial.grid()
            log(f"the middle of the grid is β = {grid.middle:g}, from the intrinsic rewards of a random policy")
        if arguments.sensitivity:
            scales = sensitivity.scales_of(grid)
            log(
                _cost(
                    sensitivity.studies_of(
                        trial, scales, trial.start.options, grid.scales if tuned and not quick else ()
                    )
                )
            )
        if tuned:
            setting = {"scale": grid.middle} if quick else tune(trial, grid, arguments.store, run)
            log(f"running with the setting {setting}")
        run(*trial.result(setting))
        options = setting.get("options", trial.start.options)
        if arguments.sensitivity:
            at_home = (
                sensitivity.tuned_scales(trial, load_runs(arguments.store), options) if tuned and not quick else ()
            )
            for planned in sensitivity.studies_of(trial, scales, options, at_home):
                run_to_end(*planned, f"{arguments.store}{BESIDE}")
    except Stopped:
        log("stopped; the same command continues")
        return STOPPED_EARLY
    beside = published()
    curves = []
    if arguments.sensitivity:
        transferred = setting["scale"] if tuned and not quick else None
        runs = load_runs(arguments.store, f"{arguments.store}{BESIDE}", *beside)
        curves = sensitivity.curves_of(trial, runs, scales, options, transferred)
    drawn = [beta_figure("score_over_beta", f"Score of {trial.method} over β", curves)] if curves else []
    report = build(arguments.store, f"{arguments.store}/report", beside=beside, about=trial.method, first=drawn)
    print("\n".join(lines(trial.method, report.profile, published=bool(beside))))
    if curves:
        print("", *beta_lines(curves, scales), "", sep="\n")
    for line in warnings(trial.method, report.notes):
        print(line)
    print(report.page)
    return 0


def _chosen(worlds: Sequence[str]) -> tuple[str, ...]:
    """Return worlds by their names, or those of suites, each checked; the code of others' worlds is imported."""
    known = (*SUITES["small_worlds"], *SUITES["minigrid_small"])
    found: list[str] = []
    for name in worlds:
        if name not in (*known, *_SUITES) and is_ours(name):
            raise ConfigError(
                f"no small world named {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}, and any "
                "environment as gymnasium:ID or module:World"
            )
        found += SUITES[name] if name in _SUITES else [load(name).name]
    return tuple(dict.fromkeys(found))


def _cost(planned: Sequence[tuple[Study, dict[str, Any]]]) -> str:
    """Return what trying seven β in each world costs, at a rate that is measured now."""
    from offpiste.study.cost import measure
    from offpiste.study.resources import max_needs_of, slots_on, this_machine
    from offpiste.study.sensitivity import minutes

    studies = [study for study, _ in planned]
    slots = max(1, slots_on(this_machine(), max_needs_of(studies[0])))
    count = sum(len(study.runs) for study in studies)
    time = minutes(studies, measure(studies[0].runs[0], seconds=5.0), slots)
    return (
        f"seven β in each world are {count} runs besides: at most about {max(1, round(time))} minutes, {slots} at once"
    )


def published() -> list[Path]:
    """Return the folder of the published results of the small worlds, if there is one."""
    package = Path(offpiste.__file__).parent
    paths = (package / RESULTS, package.parents[1] / RESULTS)  # as installed, and in a clone
    return [path for path in paths if (path / "manifest.json").is_file()][:1]


def run_to_end(study: Study, content: dict[str, Any], store: str) -> None:
    """Run a study until all runs are done; raise if some failed, or if it was stopped."""
    from offpiste.study.here import run_here

    summary = run_here(load_bonuses(study), tomli_w.dumps(content).encode(), store, log)
    if summary.failed:
        raise OffpisteError(
            f"{summary.failed} runs failed, for the reasons above. Mend the bonus and give the same command again; "
            "where runs have results of the old one, use another --store"
        )
    if summary.unfinished:
        raise Stopped
