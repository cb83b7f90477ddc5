"""Write the studies of *Which β?* into studies/which_beta, each from the records of those before it.

    python -m scripts.which_beta stage-1 --part today
    python -m scripts.which_beta stage-2 --part today STORE
    python -m scripts.which_beta result --part today --seeds 0-9 STORE
    python -m scripts.which_beta cost

STORE is any number of stores and bundles; the published results are read beside them. Nothing is written while runs of
the stages before are missing; with `--check`, files are compared and none is written. `cost` lists the files with their
runs and core-hours. The rules are those of offpiste.study.which_beta.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from offpiste.analysis.results import load
from offpiste.analysis.summary import summarise
from offpiste.analysis.which_beta import tables
from offpiste.methods import METHODS, SMALL_WORLDS, base_run
from offpiste.study import which_beta
from offpiste.study.cost import all_steps
from offpiste.study.plan import Study, read_study
from offpiste.study.tuning import grid_of
from offpiste.worlds.registry import SUITES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "studies" / "which_beta"
PUBLISHED = ROOT / "results" / "small_worlds"
TUNING = tuple(ROOT / "studies" / f"small_worlds_tuning{part}.toml" for part in ("", "_extended"))
SECONDS = {"pixelcnn": 48.0, "icm": 76.0, "rnd": 76.0, "rnd_released": 76.0}
"""Of a mean run of the suite on one core, as measured in the first edition; 24 for any other method."""
COUNT_SECONDS = 24.0
HEAD = (
    "# Which β? {what}\n# Written by `python -m scripts.which_beta {command}`; the rules are in docs/which-beta.md.\n\n"
)


def main() -> int:
    """Write what was asked for and return 0, or 1 if runs are missing or a file differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("stage-1", "stage-2", "result", "cost"))
    parser.add_argument("stores", nargs="*", help="stores and bundles with the runs of the stages before")
    parser.add_argument("--part", choices=which_beta.PARTS, default="today")
    parser.add_argument("--seeds", default="0-9", help="seeds of the result, as in 0-9")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_intermixed_args()
    if options.what == "cost":
        return cost()
    part = options.part
    if options.what == "stage-1":
        written = stage_1(part)
    else:
        first = {file: read_study(file) for file in sorted(FOLDER.glob(f"{part}_1_*.toml"))}
        grids = which_beta.read_grids(first[FOLDER / f"{part}_1_hard.toml"])
        records = read(options.stores, grids)
        earlier = [*first.values()]
        if options.what == "result":
            earlier.append(read_study(FOLDER / f"{part}_2.toml"))
        missing = [name for study in earlier for name in which_beta.unfinished(study, grids, records)]
        if missing:
            print(f"{len(missing)} runs of the stages before are missing, as {missing[0]}")
            return 1
        if options.what == "stage-2":
            written = {"2": which_beta.stage_2(grids, records)}
        else:
            low, high = map(int, options.seeds.split("-"))
            published = which_beta.published_points(grids)
            content = which_beta.result(grids, records, published, range(low, high + 1))
            written = {f"result_{options.seeds}": content}
    command = " ".join([options.what, "--part", part, *["--seeds", options.seeds] * (options.what == "result")])
    return put(
        {FOLDER / f"{part}_{name}.toml": text(name, own, command) for name, own in written.items()}, options.check
    )


def stage_1(part: str) -> dict[str, dict[str, Any]]:
    """Return the studies of the first stage of a part."""
    tunings = [read_study(file) for file in TUNING]
    grids = which_beta.grids_of(which_beta.PARTS[part], tunings, middle)
    return which_beta.stage_1(grids, which_beta.keys_of(tunings))


def middle(method: str) -> float:
    """Return β₀ of a method by calibration."""
    row = METHODS[method]
    bonus = row.constants.get(SMALL_WORLDS, row.bonus)
    return grid_of(bonus.name, bonus.options).middle


def read(stores: list[str], grids: which_beta.Grids) -> dict[str, Any]:
    """Return the finished runs of stores and of the published results, by method."""
    results = load(*stores, PUBLISHED)
    return tables(summarise(results), which_beta.places_of(grids))


def text(name: str, content: Mapping[str, Any], command: str) -> str:
    """Return the file of a study."""
    what = {
        "1_hard": "First stage: seven settings of each method on two seeds.",
        "1_easy": "First stage: seven settings of each method on one seed.",
        "1_tuned": "What the published tuning on Deep Sea lacks of the seven settings.",
        "1_controls": "First stage on Noisy TV without noise, and with noise that no action controls.",
        "2": "Second stage: the two finalists of each method and world on three more seeds.",
    }.get(name, "What was chosen, on seeds that chose nothing.")
    on_lines = tomli_w.dumps(dict(content))
    one_line = re.sub(r"\[\n(.*?),\n\]", lambda found: f"[{' '.join(found[1].split())}]", on_lines, flags=re.DOTALL)
    return HEAD.format(what=what, command=command) + one_line


def put(files: Mapping[Path, str], check: bool) -> int:
    """Write files, or return 1 if one differs."""
    wrong = [file.name for file, text in files.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    if check:
        print(f"not as derived: {', '.join(wrong)}" if wrong else "as derived")
        return 1 if wrong else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        file.write_text(content, encoding="utf-8")
        study = read_study(file)
        print(f"{file.name}: {len(study.runs)} runs, {hours(study):.1f} core-hours")
    return 0


def cost() -> int:
    """List every file with its runs and core-hours."""
    studies = [read_study(file) for file in sorted(FOLDER.glob("*.toml"))]
    for study in studies:
        print(f"{study.name:<24} {len(study.runs):>5} runs  {hours(study):>5.1f} core-hours")
    print(
        f"{'all':<24} {sum(len(study.runs) for study in studies):>5} runs  {sum(map(hours, studies)):>5.1f} core-hours"
    )
    return 0


def hours(study: Study) -> float:
    """Return the core-hours of a study, from measured means and the length of its runs."""
    worlds = SUITES["small_worlds"]
    mean = sum(all_steps(base_run(world)) for world in worlds) / len(worlds)
    return sum(SECONDS.get(run.method, COUNT_SECONDS) * all_steps(run) / mean for run in study.runs) / 3_600


if __name__ == "__main__":
    sys.exit(main())
