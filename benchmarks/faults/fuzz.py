"""Damaged and hostile stores and bundles, under every command that reads them or trains.

A store of real runs with imported curves, or the bundle of its runs, is copied, harmed at random (`fuzz_damage`,
`fuzz_attack`, `fuzz_bundle`), and read by each command in a process of its own, forked from one that has loaded
everything, with limits on memory and time. Bar, for every case and command:

- no traceback, no crash, and no more memory or time than the limits, but for a traceback of training from a checkpoint
  in which an attacker has replaced an object and its checksum;
- nothing silently wrong: of a damaged store, what `digest`, `eval`, `load` and resumed training say is what they say of
  the whole one, unless they warn of it; and `verify` finds what was changed;
- no module of the store or the current folder is imported, no file is written or deleted but where it should, and
  neither the secret in the environment nor that in a file beside the store is in any output;
- no control character on the terminal, and no live tag or attribute in any page that the page of the whole store lacks;
- and the pages of hostile stores do nothing in Chromium, without their Content-Security-Policy too, and have no other
  kind of tag there, but for the badge of a verdict. `--quick` does not open them.

A case follows from its number and --seed alone; `--only NUMBER` runs one, and `--keep FOLDER` leaves it there.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
import tomli_w

from benchmarks.faults.fuzz_attack import EVIL, PRECIOUS, attack, change_object
from benchmarks.faults.fuzz_bundle import attack_bundle
from benchmarks.faults.fuzz_change import SECRET
from benchmarks.faults.fuzz_damage import damage
from benchmarks.faults.fuzz_judges import JUDGES, leaks
from benchmarks.faults.fuzz_pages import Marks, open_pages
from benchmarks.faults.fuzz_workers import CRASHED, Ended, forked
from benchmarks.shared.chromium import chromium
from offpiste.cli import main as offpiste
from offpiste.config import RunConfig
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.seeding import stream
from offpiste.store import documents
from offpiste.store.parquet import read_parquet
from offpiste.store.records import schema

DAMAGED, HOSTILE, BUNDLES = 1_000, 300, 100
QUICK_DAMAGED, QUICK_HOSTILE, QUICK_BUNDLES = 8, 8, 2
METHODS = ("cts", "epsilon_greedy", "rnd")
FRAMES, LONGER = (260, 520), 540
RUNNING = 7
"""The seed of the run that is under way, of whose tables no checksum is recorded; readers take its checkpoint."""
SETTINGS = {
    "agent": {"replay_capacity": 100, "min_history_steps": 500},
    "schedule": {"iteration_steps": 260, "evaluation_steps": 9},
}
"""So that the runs learn, are evaluated, and have complete iterations and scalars."""


@dataclass(frozen=True)
class Case:
    """One harmed store or bundle."""

    number: int
    hostile: bool
    harmed: Literal["store", "bundle"] = "store"

    @property
    def name(self) -> str:
        """How it is called in the output."""
        return f"{'hostile' if self.hostile else 'damaged'} {self.harmed} {self.number}"


def main() -> int:
    """Run all cases and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_DAMAGED} damaged and {QUICK_HOSTILE} hostile stores, {QUICK_BUNDLES} bundles of each kind",
    )
    parser.add_argument("--damaged", type=int, help="how many damaged stores")
    parser.add_argument("--hostile", type=int, help="how many hostile stores")
    parser.add_argument("--bundles", type=int, help="how many damaged bundles, and how many hostile ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--keep", type=Path, help="leave stores and reports of cases that fail here")
    options = parser.parse_args()
    counts = (QUICK_DAMAGED, QUICK_HOSTILE, QUICK_BUNDLES) if options.quick else (DAMAGED, HOSTILE, BUNDLES)
    asked = (options.damaged, options.hostile, options.bundles)
    damaged, hostile, bundles = (
        count if wanted is None else wanted for count, wanted in zip(counts, asked, strict=True)
    )
    cases = [Case(number, number >= damaged) for number in range(damaged + hostile)]
    cases += [Case(damaged + hostile + number, number >= bundles, "bundle") for number in range(2 * bundles)]
    if options.only is not None:
        cases = [case for case in cases if case.number == options.only]
    if not options.quick:
        chromium()
    os.environ["AWS_SECRET_ACCESS_KEY"] = os.environ["OFFPISTE_FUZZ_SECRET"] = SECRET
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        tempfile.tempdir = scratch  # where a process that is killed leaves what it had there
        failures = fuzz(cases, options.seed, Path(scratch), options.processes, options.keep)
        if not options.quick:
            failures += open_pages(Path(scratch))
    minutes = (time.monotonic() - started) / 60
    for failure in failures:
        print(f"missed: {failure}")
    kinds = ", ".join(
        f"{count} {name}s" for name, count in Counter(case.name.rpartition(" ")[0] for case in cases).items()
    )
    print(f"{kinds} in {minutes:.1f} min: {len(failures)} misses")
    return 1 if failures or not cases else 0


def fuzz(cases: list[Case], seed: int, scratch: Path, processes: int = 1, keep: Path | None = None) -> list[str]:
    """Run cases in several processes and return what went wrong."""
    preload()
    whole = Whole(scratch / "whole")
    if processes == 1:
        return [failure for case in cases for failure in try_case(case, whole, seed, scratch / "lane", keep)]
    lanes = []
    for index in range(processes):
        lanes.append(os.fork())
        if lanes[-1] == 0:
            _lane(index, cases[index::processes], whole, seed, scratch, keep)
    found: list[str] = []
    for index, lane in enumerate(lanes):
        _, status = os.waitpid(lane, 0)
        result = scratch / f"lane-{index}.json"
        found += json.loads(result.read_text()) if result.exists() else [f"a process of ours ended with {status}"]
    return found


def _lane(index: int, cases: list[Case], whole: "Whole", seed: int, scratch: Path, keep: Path | None) -> None:
    """Run cases, write what went wrong, and end this process."""
    failures: list[str] = []
    try:
        for done, case in enumerate(cases, start=1):
            failures += try_case(case, whole, seed, scratch / f"lane-{index}", keep)
            if done % 50 == 0:
                print(f"process {index}: {done} of {len(cases)} cases, {len(failures)} misses", flush=True)
    except BaseException:
        failures.append(traceback.format_exc())
    (scratch / f"lane-{index}.json").write_text(json.dumps(failures))
    os._exit(0)


def preload() -> None:
    """Import all that commands import, once."""
    import duckdb  # noqa: F401
    import matplotlib.pyplot  # noqa: F401, ICN001
    import torch

    import offpiste.analysis.bundling
    import offpiste.cli.study
    import offpiste.cli.verify
    import offpiste.report.export
    import offpiste.report.page
    import offpiste.run.digest
    import offpiste.run.train
    import offpiste.run.video  # noqa: F401
    from offpiste.agent.sum_tree import SumTree
    from offpiste.run.loop import new_agent
    from offpiste.worlds.registry import open_world

    torch.set_num_threads(1)
    SumTree(4).set(np.array([1]), np.array([1.0]))  # loads compiled code
    SumTree(4).find(np.array([0.0]))
    run = config("cts", 0, 30)
    world = open_world(run.game, run.world, stream(0, "fuzz"), 0)
    new_agent(run, world).greedy_action(world.reset()[0])  # which imports much of torch


def config(method: str, seed: int, frames: int) -> RunConfig:
    """Return a tiny run, with evaluation, whose iterations take as long as its first part."""
    return from_dict(RunConfig, {"frames": frames, "seed": seed, **SETTINGS}, base=base_run("deep_sea_3", method))


class Whole:
    """The store that is harmed, and what commands say of it as long as it is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "store").mkdir(parents=True)
        ended = forked(self._make, folder)
        assert ended.code == 0, ended.err
        store = folder / "store"
        self.runs = sorted(str(path.parent.relative_to(store)) for path in store.rglob("run.json"))
        (folder / "case").mkdir()
        copied = folder / "case" / "store"
        shutil.copytree(folder / "store", copied)
        self.says: dict[str, Ended] = {}
        for name, words in {**commands(self.runs[0]), **BUNDLE_COMMANDS}.items():
            self.says[name] = forked(lambda words=words: run(words), folder / "case")  # type: ignore[misc]
            assert self.says[name].code == 0, (name, self.says[name].err)
            if name == "bundle":
                shutil.copytree(folder / "case" / "bundle", folder / "bundle")
        self.marks = Marks(folder / "case" / "report" / "index.html").found
        self.made = {path.name for path in (folder / "case").iterdir()}

    def _make(self) -> int:
        from offpiste.analysis.reference import Published, object_name
        from offpiste.run.train import train
        from offpiste.store import attempts
        from offpiste.store.storage import Folder

        attempts.secrets.token_hex = lambda _: "abcdef"  # type: ignore[attr-defined]
        store = self.folder / "store"
        for seed, method in enumerate(METHODS):
            for frames in FRAMES:
                train(config(method, seed, frames), Folder(store / config(method, seed, frames).run_id))
        running = config("cts", RUNNING, FRAMES[0])
        folder = store / running.run_id
        train(running, Folder(folder))
        for path in folder.glob("finished-*.json"):
            path.unlink()
        shutil.rmtree(folder / "tables")
        status = documents.unsigned(json.loads((folder / "status.json").read_text())) | {"state": "running"}
        del status["tables"]
        (folder / "status.json").write_text(json.dumps(documents.signed(status)))
        curves = Published("s", "freeway", "a", None, "f", "0", {}, "0", True, 1_000_000, ((1.0, 2.0), (3.0, None)))
        Folder(store).put(object_name(curves), json.dumps(documents.signed(vars(curves))).encode())
        return 0


def commands(run_name: str) -> dict[str, list[str]]:
    """Return the commands that are tried, by name."""
    run_path = f"store/{run_name}"
    return {
        "status": ["study", "status", "study.toml", "--store", "store"],
        "status --json": ["study", "status", "study.toml", "--store", "store", "--json"],
        "verify": ["verify", "store"],
        "eval": ["eval", run_path, "--episodes", "2"],
        "watch": ["watch", run_path, "--steps", "4", "--out", "watch.gif"],
        "digest": ["digest", run_path],
        "load": ["load", "store"],
        "bundle": ["bundle", "store", "--out", "bundle"],
        "report": ["report", "store", "--out", "report", "--allow-mixed"],
        "export --to csv": ["export", "store", "--to", "csv", "--out", "csv"],
        "train": ["train", "run.toml"],
        "retry": ["study", "retry", "study.toml", "--store", "store"],
        "stop": ["study", "stop", "study.toml", "--store", "store", "--no-wait"],
        "discard": ["study", "discard", "study.toml", run_name, "--store", "store"],
    }


BUNDLE_COMMANDS = {
    "verify bundle": ["verify", "bundle"],
    "load bundle": ["load", "bundle"],
    "bundle of a bundle": ["bundle", "bundle", "--out", "again"],
    "export --to csv": ["export", "bundle", "--to", "csv", "--out", "csv"],
    "export --to tensorboard": ["export", "bundle", "--to", "tensorboard", "--out", "tensorboard"],
    "report": ["report", "bundle", "--out", "report", "--allow-mixed"],
}


def run(words: list[str]) -> int:
    """Run one command in the current folder, in which the store is `store` and the bundle `bundle`."""
    if words[0] == "load":
        return load_all(words[1])
    if words[0] == "train":
        return train_on()
    if words[0] == "study":
        study = {"games": ["deep_sea_3"], "methods": [*METHODS], "seeds": [0, 1, 2], "frames": FRAMES[1]}
        Path("study.toml").write_text(tomli_w.dumps({**study, "settings": SETTINGS}))
    return offpiste(words)


def load_all(where: str) -> int:
    """Print what `offpiste.load` says of each run, and its warnings."""
    from offpiste.analysis.results import load
    from offpiste.errors import OffpisteError

    try:
        results = load(where)
        runs: dict[str, dict[str, Any]] = {
            each.name: {"about": [each.frames, each.game, each.method], "state": each.state, "rows": []}
            for each in results.runs
        }
        for table in ("iterations", "episodes", "scalars", "cells"):
            for row in results.query(f"FROM {table}").to_pylist():
                if row.get("name") != "steps_per_second":
                    runs[row["run"]]["rows"].append([repr(value) for value in row.values()])
    except OffpisteError as error:
        print(f"offpiste: {error!r}", file=sys.stderr)
        return 1
    print(json.dumps({"runs": runs, "warned": [each.where for each in results.warnings]}))
    return 0


def train_on() -> int:
    """Train the first run on, and print its digest."""
    from offpiste.errors import OffpisteError
    from offpiste.run.digest import digest
    from offpiste.run.train import train
    from offpiste.store.storage import Folder

    wanted = config(METHODS[0], 0, LONGER)
    folder = Folder("store").below(wanted.run_id)
    try:
        print(train(wanted, folder).state, digest(folder, lambda _: None))
    except OffpisteError as error:
        print(f"offpiste: {error!r}", file=sys.stderr)
        return 1
    return 0


def try_case(case: Case, whole: Whole, seed: int, lane: Path, keep: Path | None) -> list[str]:
    """Harm a copy of the store, run every command on it, and return what went wrong."""
    shutil.rmtree(lane, ignore_errors=True)
    lane.mkdir()
    shutil.copytree(whole.folder / case.harmed, lane / case.harmed)
    (lane / "secret").write_text(SECRET)
    (lane / PRECIOUS).mkdir()
    (lane / PRECIOUS / "file").write_text(PRECIOUS)
    for folder in (lane, lane / case.harmed):
        (folder / "evil.py").write_text(EVIL)
    generator = stream(seed, f"fuzz {case.number}")
    before = os.getcwd()  # noqa: PTH109
    os.chdir(lane)
    try:
        harm = _act(case)(lane / case.harmed, generator)
    finally:
        os.chdir(before)
    precious = _stamps(lane / PRECIOUS)  # now, since a harm may go through a link that another one made
    changed = _changed(whole.folder / case.harmed, lane / case.harmed) if not case.hostile else set()
    failures = []
    for name, words in (commands(whole.runs[0]) if case.harmed == "store" else BUNDLE_COMMANDS).items():
        ended = forked(lambda words=words: run(words), lane)  # type: ignore[misc]
        # Training restores what a checkpoint holds, and trusts it where its checksum is right (docs/security.md).
        trusted = name == "train" and change_object.__name__ in harm and ended.code == CRASHED
        wrong = ["" if trusted else ended.crash, *leaks(lane, name, ended)]
        if not ended.crash and not case.hostile:
            wrong += [JUDGES[name](ended, whole.says[name], changed)] if name in JUDGES else []
        if name == "report" and ended.code == 0:
            page = lane / "report" / "index.html"
            wrong += Marks(page).beyond(whole.marks)
            if case.hostile:
                (lane.parent / "pages").mkdir(exist_ok=True)
                shutil.copy(page, lane.parent / "pages" / f"{case.number}.html")
        failures += [f"{case.name}, {name}: {why} ({harm})" for why in wrong if why]
    if _stamps(lane / PRECIOUS) != precious:
        failures.append(f"{case.name}: changed what is outside of the store ({harm})")
    made = {path.name for path in lane.iterdir()} - whole.made - {"secret", "evil.py", "__pycache__", PRECIOUS}
    failures += [f"{case.name}: made {name} ({harm})" for name in sorted(made)]
    print("\n".join(failures), end="\n" * bool(failures), file=sys.stderr, flush=True)
    if failures and keep is not None:
        with suppress(shutil.Error):  # pipes cannot be copied
            shutil.copytree(lane, keep / str(case.number), symlinks=True, dirs_exist_ok=True)
    return failures


def _act(case: Case) -> Callable[[Path, np.random.Generator], str]:
    if not case.hostile:
        return damage
    return attack if case.harmed == "store" else attack_bundle


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file below a folder."""
    stats = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _changed(whole: Path, harmed: Path) -> set[str]:
    """Return the names of the files that were changed; none if files are missing, which may have listed the others."""
    files = [path for path in whole.rglob("*") if path.is_file()]
    pairs = [(path, harmed / path.relative_to(whole)) for path in files]
    if not all(other.is_file() for _, other in pairs):
        return set()
    return {str(path.relative_to(whole)) for path, other in pairs if not _alike(path, other)}


def _alike(path: Path, other: Path) -> bool:
    """Return whether files have the same bytes; for a table without a recorded checksum, the same rows."""
    if path.read_bytes() == other.read_bytes():
        return True
    if path.suffix != ".parquet" or path.parent.name != f"seed-{RUNNING}":
        return False
    with suppress(Exception):  # of any kind that damage leads to
        return bool(read_parquet(other.read_bytes(), schema(path.stem)).equals(pq.read_table(path)))
    return False


if __name__ == "__main__":
    sys.exit(main())
