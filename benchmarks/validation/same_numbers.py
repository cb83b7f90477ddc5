"""Digests of runs that really learn, to compare before and after a change that must leave every number as it was.

Every method on an Atari game and in Deep Sea, and one run in bf16 on a game whose rewards are clipped. Small networks,
real frames; each run makes at least 500 updates, wraps its replay, evaluates after each iteration, and is stopped in
the middle of an episode and resumed by a new process. `--out` writes the digests, `--expect` compares with them. They
hold for one machine and one set of libraries: make both on the same one.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from offpiste.methods import METHODS
from offpiste.run.digest import digest
from offpiste.store.parquet import from_parquet
from offpiste.store.storage import Folder

MIN_UPDATES = 500
TABLES = ("iterations", "episodes", "attempts")


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
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the run folders in this new or empty folder")
    options = parser.parse_args()
    cases = [case for case in CASES if fnmatch.fnmatch(case.name, options.only)]
    cases = [case for case in cases if case.name in QUICK or not options.quick]
    if not cases:
        parser.error(f"no run is named {options.only!r}; there are {', '.join(case.name for case in CASES)}")
    if options.keep is not None and options.keep.is_dir() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty; runs that lie there would be resumed instead of trained anew")
    expected = json.loads(options.expect.read_text()) if options.expect is not None else None
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as pool:
        store = options.keep or Path(temporary)
        digests: dict[str, str] = {}
        for case, found in zip(cases, pool.map(lambda case: train_and_digest(case, store), cases), strict=True):
            print(f"{case.name:40} {found}", flush=True)
            digests[case.name] = found
    if options.out is not None:
        options.out.write_text(json.dumps(digests, indent=2) + "\n")
    if expected is None:
        print(f"{len(digests)} digests, nothing to compare them with")
        return 0
    different = [name for name, found in digests.items() if expected.get(name) != found]
    for name in different:
        print(f"FAIL {name}: expected {expected.get(name, 'nothing, for it is not in the file')}")
    print(f"{len(digests) - len(different)} of {len(digests)} digests as expected")
    return 1 if different else 0


def train_and_digest(case: Case, store: Path) -> str:
    """Train a run in two processes, check that it did what a digest is wanted of, and return its digest."""
    out = store / case.precision
    settings = store / f"{case.name.replace('/', '-')}.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(case.settings)
    start = time.monotonic()
    for frames in case.frames:
        argv = ["train", "--game", case.game, "--method", case.method, "--agent.precision", case.precision, "--quiet"]
        argv += ["--config", str(settings), "--frames", str(frames), "--out", str(out)]
        subprocess.run([sys.executable, "-m", "offpiste", *argv], check=True)
    folder = out / case.game / case.method / "seed-0"
    print(f"{case.name}: {time.monotonic() - start:.0f} s, {check(case, folder)}", file=sys.stderr, flush=True)
    return digest(Folder(folder))


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
