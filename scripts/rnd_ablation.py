"""Write the studies of the ablation of RND (docs/rnd-ablation.md) into studies/.

    python -m scripts.rnd_ablation
    python -m scripts.rnd_ablation result --seeds 0-9 STORE
    python -m scripts.rnd_ablation findings STORE...
    python -m scripts.rnd_ablation calibrate

Without a word, rnd_ablation.toml and rnd_ablation_atari.toml; `result` writes rnd_ablation_result.toml from the
finished runs of the first, and nothing while some are missing. `findings` prints the answers, and how much each arm
hangs on its β. With `--check`, files are compared and none is written. `calibrate` prints β₀ of each arm, as they stand
in offpiste.study.rnd_ablation.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from offpiste.analysis.results import load
from offpiste.analysis.rnd_ablation import ARMS, CHOOSING_SEEDS, COMPARISONS, Scored, judge, over_beta, worlds_of
from offpiste.analysis.summary import summarise
from offpiste.analysis.which_beta import Table, tables
from offpiste.study import rnd_ablation
from offpiste.study.plan import make_study, read_study
from offpiste.study.which_beta import Content
from scripts.which_beta import hours

FOLDER = Path(__file__).parents[1] / "studies"
SECONDS_OVER_COUNTS = 76 / 24
"""`hours` knows methods by name, and counts an arm as a count; it costs what RND does."""
HEAD = "# {what}\n# Written by `python -m scripts.rnd_ablation`; the rules are in docs/rnd-ablation.md.\n\n"
WHAT = {
    "rnd_ablation": "The ablation of RND in small worlds: seven β of each arm.",
    "rnd_ablation_atari": "The ablation of RND on Atari: what pays as RND in full does.",
    "rnd_ablation_result": "The ablation of RND in small worlds: what was chosen, on seeds that chose nothing.",
}


def main() -> int:
    """Write what was asked for and return 0, or 1 if runs are missing or a file differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("studies", "result", "findings", "calibrate"), default="studies")
    parser.add_argument("stores", nargs="*", help="stores and bundles with finished runs")
    parser.add_argument("--seeds", default="0-9", help="seeds of the result, as in 0-9")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_intermixed_args()
    if options.what == "calibrate":
        return calibrate()
    low, high = map(int, options.seeds.split("-"))
    if options.what == "studies":
        return put({"rnd_ablation": rnd_ablation.first(), "rnd_ablation_atari": rnd_ablation.atari()}, options.check)
    found = tables(summarise(load(*options.stores)), rnd_ablation.places())
    lacking = missing(found)
    if lacking:
        print(f"{len(lacking)} runs of the first study are missing, as {lacking[0]}")
        return 1
    if options.what == "result":
        return put({"rnd_ablation_result": rnd_ablation.result(found, range(low, high + 1))}, options.check)
    answers = judge(chosen(found), range(low, high + 1))
    for each in COMPARISONS:
        print(f"{each.label:<44} {answers.get(each.label, 'runs are missing')}")
    for arm in ARMS:
        print(f"{arm:<20} over all β ", end="")
        print("  ".join(f"{world} {over_beta(found[arm][world]):.2f}" for world in worlds_of(arm)))
    return 0


def missing(found: Mapping[str, Table]) -> list[str]:
    """Return the runs of the first study that are not finished."""
    return [
        f"{world}/{arm}/seed-{seed} at k = {point[0]}"
        for arm in ARMS
        for world in worlds_of(arm)
        for point in rnd_ablation.grid(arm)
        for seed in CHOOSING_SEEDS
        if seed not in found.get(arm, {}).get(world, {}).get(point, {})
    ]


def chosen(found: Mapping[str, Table]) -> Scored:
    """Return the runs of each arm with each world's own β."""
    return {
        (arm, world): found[arm][world][rnd_ablation.own(found[arm][world])] for arm in ARMS for world in worlds_of(arm)
    }


def put(contents: Mapping[str, Content], check: bool) -> int:
    """Write studies, or return 1 if one differs."""
    wrong = []
    for name, content in contents.items():
        file = FOLDER / f"{name}.toml"
        written = HEAD.format(what=WHAT[name]) + tomli_w.dumps(dict(content))
        if check:
            wrong += [] if file.exists() and file.read_text(encoding="utf-8") == written else [file.name]
            continue
        file.write_text(written, encoding="utf-8")
        study = read_study(file)
        cost = "" if name.endswith("atari") else f", {SECONDS_OVER_COUNTS * hours(study):.0f} core-hours"
        print(f"{file.name}: {len(study.runs)} runs{cost}")
    if check:
        print(f"not as derived: {', '.join(wrong)}" if wrong else "as derived")
    return 1 if wrong else 0


def calibrate() -> int:
    """Print β₀ of each arm."""
    from offpiste.study.tuning import GAME, calibrated

    for arm in ARMS:
        content = {"games": [GAME], "seeds": [0], "methods": [rnd_ablation.entry(arm, [1.0], [GAME])]}
        (run,) = make_study("one", content).runs
        print(f"{arm:<20} {calibrated(run.bonus):.2g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
