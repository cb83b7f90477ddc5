"""Write the studies of *Which β?* into studies/which_beta, each from the records of those before it.

    python -m scripts.which_beta stage-1 --part today
    python -m scripts.which_beta stage-2 --part today STORE
    python -m scripts.which_beta result --part today --seeds 0-9 STORE
    python -m scripts.which_beta bundle STORE
    python -m scripts.which_beta resume NEW_STORE
    python -m scripts.which_beta cost

STORE is any number of stores and bundles; the published results and the bundles below results/which_beta are read
beside them. Nothing is written while runs of the stages before are missing; with `--check`, files are compared and none
is written. `bundle` writes the finished runs that no bundle has as the next one; `resume` marks those that a bundle has
as done in a store, so that `offpiste study run` starts the others only. `cost` lists the files with their runs and
core-hours. The rules are those of offpiste.study.which_beta.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from offpiste.analysis.bundling import bundle_stores
from offpiste.analysis.results import load
from offpiste.analysis.runs import VERSION
from offpiste.analysis.summary import summarise
from offpiste.analysis.which_beta import tables
from offpiste.config import BonusConfig
from offpiste.errors import StoreError
from offpiste.methods import BY_RULE, METHODS, SMALL_WORLDS, base_run
from offpiste.store import layout
from offpiste.store.bundle import open_bundle
from offpiste.store.storage import Folder
from offpiste.study import which_beta
from offpiste.study.cost import all_steps
from offpiste.study.marks import Marks
from offpiste.study.plan import Study, read_study
from offpiste.study.tuning import RATE, calibrated
from offpiste.worlds.registry import SUITES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "studies" / "which_beta"
PUBLISHED = ROOT / "results" / "small_worlds"
BUNDLES = ROOT / "results" / "which_beta"
TUNING = tuple(ROOT / "studies" / f"small_worlds_tuning{part}.toml" for part in ("", "_extended"))
SECONDS = {"pixelcnn": 48.0} | dict.fromkeys(("icm", "rnd", "rnd_released", *which_beta.PARTS["zoo"]), 76.0)
"""Of a mean run of the suite on one core, as measured in the first edition; 24 for any other method. Bonuses of the zoo
are not measured and count as RND."""
COUNT_SECONDS = 24.0
HEAD = (
    "# Which β? {what}\n# Written by `python -m scripts.which_beta {command}`; the rules are in docs/which-beta.md.\n\n"
)


def main() -> int:
    """Write what was asked for and return 0, or 1 if runs are missing or a file differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("stage-1", "stage-2", "result", "bundle", "resume", "cost"))
    parser.add_argument("stores", nargs="*", help="stores and bundles with the runs of the stages before")
    parser.add_argument("--part", choices=which_beta.PARTS, default="today")
    parser.add_argument("--seeds", default="0-9", help="seeds of the result, as in 0-9")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_intermixed_args()
    if options.what == "cost":
        return cost()
    if options.what in ("bundle", "resume"):
        if not options.stores:
            parser.error(f"{options.what} needs the store of the studies")
        return bundle(options.stores) if options.what == "bundle" else resume(options.stores)
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
    methods = which_beta.PARTS[part]
    found = which_beta.stage_1(which_beta.grids_of(methods, tunings, middle), which_beta.keys_of(tunings))
    by_rule = {name: learning_rate(name) for name in methods if METHODS[name].source == BY_RULE}
    return {"0_tuning": which_beta.tuning(by_rule)} | found if by_rule else found


def middle(method: str) -> float:
    """Return β₀ of a method by calibration, from which a constant by rule is."""
    row = METHODS[method]
    bonus = row.constants.get(SMALL_WORLDS, row.bonus)
    return bonus.scale if row.source == BY_RULE else calibrated(bonus)


def learning_rate(method: str) -> float | None:
    """Return the default learning rate of a method's bonus, if it has one."""
    from offpiste.bonuses.registry import options_of

    return getattr(options_of(BonusConfig(METHODS[method].bonus.name)), RATE, None)


def read(stores: list[str], grids: which_beta.Grids) -> dict[str, Any]:
    """Return the finished runs of stores and of the published results, by method."""
    results = load(*stores, *bundles(), PUBLISHED)
    return tables(summarise(results), which_beta.places_of(grids))


def text(name: str, content: Mapping[str, Any], command: str) -> str:
    """Return the file of a study."""
    what = {
        "0_tuning": "β and step size on Deep Sea, of bonuses that nobody tuned.",
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


def bundles() -> list[Path]:
    """Return the bundles of the finished runs so far."""
    return sorted(manifest.parent for manifest in BUNDLES.glob(f"*/{layout.BUNDLE}"))


def bundle(stores: Sequence[str]) -> int:
    """Write the finished runs of stores that no bundle has as the next bundle."""
    earlier = [found for each in bundles() if (found := open_bundle(Folder(each)))]
    out = BUNDLES / f"{max([0, *(int(each.name) for each in bundles())]) + 1:03}"
    made = bundle_stores(stores, out, [run for found in earlier for run in found.manifest.runs], scalars=False).manifest
    size = sum(file.bytes for file in made.files)
    print(f"{out.name}: {len(made.runs)} runs, {size / 1e6:.2f} MB, {size / len(made.runs) / 1e3:.1f} KB a run")
    return 0


def resume(stores: Sequence[str]) -> int:
    """Mark the runs of all studies that a bundle has as done in stores."""
    found = [run for run in load(*bundles()).runs if run.complete and run.version == VERSION] if bundles() else []
    finished = {
        (run.game, run.seed, run.target_frames, run.method, run.protocol, run.method_fingerprint) for run in found
    }
    for file in sorted(FOLDER.glob("*.toml")):
        study = read_study(file)
        done = [
            run.run_id for run in study.runs if (run.game, run.seed, run.frames, *which_beta.key_of(run)) in finished
        ]
        for store in stores:
            marks = Marks(Folder(store), study)
            marks.mark_done(*done)
            if lost := {*done} - marks.done().keys():
                raise StoreError(f"{len(lost)} runs of {study.name} could not be marked in {store}; try again")
        print(f"{study.name:<24} {len(done):>5} of {len(study.runs):>5} runs are done")
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
