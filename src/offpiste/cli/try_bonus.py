"""`offpiste try`: from a bonus to a verdict, in small worlds, within an hour or two."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import tyro

import offpiste
from offpiste.cli.report import NEEDED
from offpiste.cli.study import tell
from offpiste.cli.train import STOPPED_EARLY
from offpiste.errors import OffpisteError
from offpiste.study.plan import Study, load_bonuses
from offpiste.worlds.registry import SUITES

RESULTS = Path("results") / "small_worlds"


@dataclass(frozen=True)
class Arguments:
    """Try a bonus in eight small worlds: it is tuned in the first by fifteen settings with five seeds each, then run in
    all of them with ten seeds, and shown beside the published methods, as a table and a page. The same command goes on
    after any stop. Exit code 0: all is done; 75: told to stop before that; 1: an error.
    """

    bonus: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BONUS")]
    """A class of yours as module:Class, or the name of any bonus or method."""
    store: str = "trial"
    """Folder for the runs, and for the page, which lies in `report` there."""
    seeds: int = 10
    """Runs in each world."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Two worlds, three seeds and the middle of the grid instead of a tuning: minutes instead of hours."""


class Stopped(OffpisteError):
    """The trial was told to stop."""


def main(arguments: Arguments) -> int:
    """Tune, run, and tell."""
    missing = [name for name in (*NEEDED, "ray") if importlib.util.find_spec(name) is None]
    if missing:
        needed = ", ".join(missing)
        raise OffpisteError(f"a trial needs {needed}; install them with: pip install 'offpiste[report,cluster]'")
    from offpiste.cli.trial_view import lines
    from offpiste.report.page import build
    from offpiste.study.trial import QUICK_GAMES, QUICK_SEEDS, Trial, tune
    from offpiste.study.tuning import grid_of

    quick = arguments.quick
    games, seeds = (QUICK_GAMES, QUICK_SEEDS) if quick else (SUITES["small_worlds"], arguments.seeds)
    trial = Trial(arguments.bonus, tuple(games), seeds)
    setting: dict[str, Any] = {}

    def run(study: Study, content: dict[str, Any]) -> None:
        see_through(study, content, arguments.store)

    try:
        if not trial.is_tuned:
            grid = grid_of(trial.bonus_name)
            tell(f"what random play is paid puts the middle of the grid at β = {grid.middle:g}")
            setting = {"scale": grid.middle} if quick else tune(trial, grid, arguments.store, run)
            tell(f"the bonus is tried with {setting}")
        run(*trial.result(setting))
    except Stopped:
        tell("stopped; the same command continues")
        return STOPPED_EARLY
    beside = published()
    report = build(arguments.store, f"{arguments.store}/report", beside=beside)
    print("\n".join(lines(trial.method, report.profile, published=bool(beside))))
    print(report.page)
    return 0


def published() -> list[Path]:
    """Return where the published results of the small worlds lie, if they do."""
    package = Path(offpiste.__file__).parent
    places = (package / RESULTS, package.parents[1] / RESULTS)  # as installed, and in a clone
    return [place for place in places if (place / "manifest.json").is_file()][:1]


def see_through(study: Study, content: dict[str, Any], store: str) -> None:
    """Run all that is left of a study; refuse to go on without it."""
    from offpiste.study.engine import run_study

    summary = run_study(load_bonuses(study), tomli_w.dumps(content).encode(), store, tell)
    if summary.failed:
        raise OffpisteError(
            f"{summary.failed} runs failed; quarantine.json in the folder of each tells why. Mend the bonus, and take "
            "another --store"
        )
    if summary.left:
        raise Stopped
