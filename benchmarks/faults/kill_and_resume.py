"""A run that is killed at any moment and started again ends bit-identical to one that never was.

Real training on a real game, through the command line, with a replay so small that it wraps around several times,
evaluation phases, and a checkpoint every second or two. The digest covers weights, optimiser, decoded replay,
priorities, generators, the emulator and the record rows. Compared with undisturbed runs: killed with SIGKILL at random
moments; a checkpoint object truncated after a kill; stopped at half the frames and continued; and another seed, which
must differ.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from offpiste.run.digest import digest
from offpiste.store.storage import Folder
from scripts import measured

SETTINGS = """
[world]
episode_frames = {episode_frames}

[agent]
replay_capacity = {replay_capacity}
min_history_steps = {min_history_steps}
target_update_steps = 200
convolution_channels = [16, 32, 32]
hidden_units = 128

[schedule]
iteration_steps = {iteration_steps}
evaluation_steps = 100

[exploration]
epsilon_decay_steps = 1000

[machine]
checkpoint_minutes = 0.03
"""

FULL = {"episode_frames": 2_000, "replay_capacity": 1_200, "min_history_steps": 400, "iteration_steps": 900}
QUICK = {"episode_frames": 800, "replay_capacity": 400, "min_history_steps": 200, "iteration_steps": 300}
KILLS, QUICK_KILLS = 20, 3


def main() -> int:
    """Run all cases and return 0 if every digest is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 kills, and a quarter of everything")
    parser.add_argument("--method", action="append", help="may be repeated; default: epsilon_greedy")
    parser.add_argument("--game", default="montezuma_revenge")
    parser.add_argument("--kills", type=int, help=f"of each method; default: {KILLS}, quick {QUICK_KILLS}")
    parser.add_argument("--chance", type=int, default=0, help="seed of the moments at which to kill")
    options = measured.parse(parser)
    kills = options.kills or (QUICK_KILLS if options.quick else KILLS)
    cases = [
        exact_cases(method, options.game, kills, random.Random(options.chance), quick=options.quick)  # noqa: S311
        for method in options.method or ["epsilon_greedy"]
    ]
    if options.record:
        happened = [count for _, count in cases]
        spread = [min(happened), max(happened)]
        figures = {"methods": [len(cases)], "kills": [sum(happened)], "kills_per_method": spread}
        measured.record("benchmarks.faults.kill_and_resume", figures)
    return 0 if all(exact for exact, _ in cases) else 1


def exact_cases(method: str, game: str, kills: int, generator: random.Random, *, quick: bool) -> tuple[bool, int]:
    """Run all cases of one method, print how each ends; return whether all are as they should be, and the kills."""
    short, frames, settings = (2_000, 2_000, QUICK) if quick else (8_000, 32_000, FULL)
    print(f"{method} on {game}", flush=True)
    verdicts: list[bool] = []

    def judge(what: str, holds: bool) -> None:
        verdicts.append(holds)
        print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), game, method, SETTINGS.format(**settings))
        left_alone = case.finish("left alone", short)
        left_alone_longer = left_alone if frames == short else case.finish("left alone longer", frames)
        judge("the same seed once more", case.finish("again", short) == left_alone)
        judge("another seed differs", case.finish("other seed", short, seed=1) != left_alone)
        case.finish("stopped", short // 2)
        stopped = case.finish("stopped", short)
        judge(f"stopped at {short // 2:,} frames, continued to {short:,}", stopped == left_alone)
        truncated, noted = case.truncate("truncated", frames, generator)
        what = "an object truncated, the older checkpoint used, and said so"
        judge(what, truncated == left_alone_longer and noted)
        killed, happened = case.kill_often("killed", frames, kills, generator)
        judge(f"SIGKILL at {happened} random moments, of {kills}", killed == left_alone_longer and happened == kills)
    print(f"{method} on {game}: {sum(verdicts)} of {len(verdicts)} cases exact, {happened} kills", flush=True)
    return all(verdicts), happened


class Case:
    """Runs below one folder, each in a folder of its own by name."""

    def __init__(self, folder: Path, game: str, method: str, settings: str) -> None:
        self._folder = folder
        self._game = game
        self._method = method
        self._settings = folder / "settings.toml"
        self._settings.write_text(settings)

    def start(self, name: str, frames: int, seed: int = 0) -> subprocess.Popen[bytes]:
        """Start training, or continue it."""
        argv = ["train", "--game", self._game, "--method", self._method, "--seed", str(seed)]
        argv += ["--config", str(self._settings), "--frames", str(frames), "--out", str(self._folder / name)]
        return subprocess.Popen([sys.executable, "-m", "offpiste", *argv], stderr=subprocess.DEVNULL)

    def run_folder(self, name: str, seed: int = 0) -> Path:
        """Return the folder of a run."""
        return self._folder / name / self._game / self._method / f"seed-{seed}"

    def finish(self, name: str, frames: int, seed: int = 0) -> str:
        """Train to the end and return the digest."""
        if self.start(name, frames, seed).wait() != 0:
            raise SystemExit(f"training of {name!r} failed")
        return digest(Folder(self.run_folder(name, seed)))

    def kill_often(self, name: str, frames: int, kills: int, generator: random.Random) -> tuple[str, int]:
        """Kill training so many times, mostly once it has got further, and return digest and kills that hit."""
        happened = 0
        while happened < kills:
            process = self.start(name, frames)
            if generator.random() < 0.8:
                self._wait_for_checkpoint(name, process)
            time.sleep(generator.uniform(0.0, 2.5))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            happened += 1
            print(f"killed {happened} of {kills} times", end="\r" if sys.stdout.isatty() else "\n", flush=True)
        return self.finish(name, frames), happened

    def truncate(self, name: str, frames: int, generator: random.Random) -> tuple[str, bool]:
        """Kill training, cut an object only the newest checkpoint names; return digest and if that was noted."""
        process = self.start(name, frames)
        while len(self._manifests(name)) < 2:
            self._wait_for_checkpoint(name, process)
        process.kill()
        process.wait()
        older, newest = (json.loads(path.read_text())["objects"] for path in self._manifests(name)[-2:])
        shared = {entry["name"] for entry in older.values()}
        alone = sorted(entry["name"] for entry in newest.values() if entry["name"] not in shared)
        victim = self.run_folder(name) / generator.choice(alone)
        victim.write_bytes(victim.read_bytes()[:-1])
        result = self.finish(name, frames)
        attempts = sorted((self.run_folder(name) / "attempts").iterdir())
        return result, victim.name in json.loads(attempts[-1].read_text())["note"]

    def _wait_for_checkpoint(self, name: str, process: subprocess.Popen[bytes]) -> None:
        before = self._manifests(name)[-1:]
        while self._manifests(name)[-1:] == before and process.poll() is None:
            time.sleep(0.02)

    def _manifests(self, name: str) -> list[Path]:
        return sorted((self.run_folder(name) / "manifests").glob("*.json"))


if __name__ == "__main__":
    sys.exit(main())
