"""Digests of runs that really learn, to compare before and after a change that must leave every number as it was.

Every method on an Atari game and in Deep Sea, and one run in bf16 on a game whose rewards are clipped. Small networks,
real frames; each run makes at least 500 updates, wraps its replay, evaluates after each iteration, and is stopped in
the middle of an episode and resumed by a new process. `--out` writes the digests of all parts, `--expect` compares with
them part by part, and `--compare` does so for the runs of two folders that `--keep` kept. They hold for one machine and
one set of libraries: make both on the same one.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from offpiste.methods import METHODS
from offpiste.run.digest import digests
from offpiste.store.parquet import from_parquet
from offpiste.store.records import one_digest
from offpiste.store.storage import Folder

MIN_UPDATES = 500
TABLES = ("iterations", "episodes", "attempts")

Digests = Mapping[str, str]
"""Of the parts of a run, by name."""


@dataclass(frozen=True)
class Case:
    """One run, trained by two processes."""

    game: str
    method: str
    settings: str
    frames: tuple[int, int]
    """Where the first process stops and where the second does, each in the middle of an iteration."""
    precision: str = "fp32"

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"{self.game}/{self.method}/{self.precision}"

    def folder(self, store: Path) -> Path:
        """Return its folder below one that `--keep` kept."""
        return store / self.precision / self.game / self.method / "seed-0"


ATARI = """
world = { episode_frames = 1_600 }
schedule = { iteration_steps = 700, evaluation_steps = 100 }
exploration = { epsilon_decay_steps = 1_000 }

[agent]
replay_capacity = 1_000
min_history_steps = 200
target_update_steps = 200
convolution_channels = [8, 8, 8]
hidden_units = 64
"""
DEEP_SEA = """
agent = { replay_capacity = 500, min_history_steps = 200 }
schedule = { iteration_steps = 300, evaluation_steps = 30 }
exploration = { epsilon_decay_steps = 500 }
"""
ATARI_FRAMES, DEEP_SEA_FRAMES = (5_000, 9_600), (445, 1_000)
CASES = [
    *(Case("montezuma_revenge", method, ATARI, ATARI_FRAMES) for method in METHODS),
    *(Case("deep_sea_10", method, DEEP_SEA, DEEP_SEA_FRAMES) for method in METHODS),
    Case("space_invaders", "epsilon_greedy", ATARI, ATARI_FRAMES, "bf16"),
]
QUICK = ("montezuma_revenge/epsilon_greedy/fp32", "deep_sea_10/cts/fp32")


def main() -> int:
    """Make the digests and return 0 if they are the expected ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="runs by name, as in 'deep_sea_10/*'")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the digests as JSON")
    parser.add_argument("--expect", type=Path, metavar="FILE", help="compare with digests that --out wrote")
    parser.add_argument(
        "--compare", type=Path, nargs=2, metavar="FOLDER", help="compare what --keep kept, train nothing"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the run folders in this new or empty folder")
    options = parser.parse_args()
    cases = [case for case in CASES if fnmatch.fnmatch(case.name, options.only)]
    cases = [case for case in cases if case.name in QUICK or not options.quick]
    if not cases:
        parser.error(f"no run is named {options.only!r}; there are {', '.join(case.name for case in CASES)}")
    if options.compare is not None:
        old, new = ({case.name: kept(case, store) for case in cases} for store in options.compare)
        if not any(old.values()):
            parser.error(f"{options.compare[0]} holds none of these runs; name a folder that --keep kept")
        return report({name: parts for name, parts in old.items() if parts}, new)
    if options.keep is not None and options.keep.is_dir() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty; runs that lie there would be resumed instead of trained anew")
    expected = json.loads(options.expect.read_text()) if options.expect is not None else None
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as pool:
        store = options.keep or Path(temporary)
        made: dict[str, Digests] = {}
        for case, found in zip(cases, pool.map(lambda case: train_and_digest(case, store), cases), strict=True):
            print(f"{case.name:40} {one_digest(found)}", flush=True)
            made[case.name] = found
    if options.out is not None:
        options.out.write_text(json.dumps(made, indent=2) + "\n")
    if expected is None:
        print(f"{len(made)} digests, nothing to compare them with")
        return 0
    return report({name: expected.get(name, {}) for name in made}, made)


def report(expected: Mapping[str, Digests], made: Mapping[str, Digests]) -> int:
    """Print which parts of which runs are not as expected, and return 1 if any are."""
    wrong = {name: differing(parts, made[name]) for name, parts in expected.items()}
    for name, parts in wrong.items():
        for part in parts:
            print(f"FAIL {name}: {part}")
    runs, parts_count = len(expected), sum(map(len, expected.values()))
    print(f"{sum(not parts for parts in wrong.values())} of {runs} runs as expected, in {parts_count:,} parts")
    return 1 if any(wrong.values()) else 0


def differing(expected: Digests, made: Digests) -> list[str]:
    """Return the names of the parts that differ, or that only one of the two has."""
    found = [f"{part} differs" for part in expected.keys() & made.keys() if expected[part] != made[part]]
    found += [f"{part} is new" for part in made.keys() - expected.keys()]
    return sorted(found + [f"{part} is missing" for part in expected.keys() - made.keys()])


def kept(case: Case, store: Path) -> Digests:
    """Return the digests of a run that was kept; none if it was not."""
    folder = case.folder(store)
    return digests(Folder(folder)) if folder.exists() else {}


def train_and_digest(case: Case, store: Path) -> Digests:
    """Train a run in two processes, check that it did what a digest is wanted of, and return its digests."""
    out = store / case.precision
    settings = store / f"{case.name.replace('/', '-')}.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(case.settings)
    start = time.monotonic()
    for frames in case.frames:
        argv = ["train", "--game", case.game, "--method", case.method, "--agent.precision", case.precision, "--quiet"]
        argv += ["--config", str(settings), "--frames", str(frames), "--out", str(out)]
        subprocess.run([sys.executable, "-m", "offpiste", *argv], check=True)
    folder = case.folder(store)
    print(f"{case.name}: {time.monotonic() - start:.0f} s, {check(case, folder)}", file=sys.stderr, flush=True)
    return digests(Folder(folder))


def check(case: Case, folder: Path) -> str:
    """Return what the run did; stop where that was too little for its digest to guard anything."""
    rows = {table: from_parquet((folder / f"{table}.parquet").read_bytes()) for table in TABLES}
    trained = [row for row in rows["iterations"] if row["phase"] == "train"]
    evaluations, processes = len(rows["iterations"]) - len(trained), len(rows["attempts"])
    updates, steps = sum(row["updates"] for row in trained), trained[-1]["end_step"]
    capacity = tomllib.loads(case.settings)["agent"]["replay_capacity"]
    ends = " and ".join(sorted({row["ended"] for row in rows["episodes"]}))
    done = (
        f"{updates} updates in {steps:,} steps with a replay of {capacity:,}, {evaluations} evaluations, "
        f"{processes} processes, episodes {ends}"
    )
    if updates < MIN_UPDATES or steps <= capacity or evaluations < 2 or processes != 2:
        raise SystemExit(f"{case.name} did too little: {done}")
    return done


if __name__ == "__main__":
    sys.exit(main())
