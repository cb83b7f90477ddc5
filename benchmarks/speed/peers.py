"""How fast our training loop is beside other implementations of Rainbow, on the same work.

Pong with sticky actions, four frames per agent step, batches of 32, one update per four agent steps, 3-step returns,
prioritised replay, C51 with 51 atoms, replay with room for 100,000 entries, learning under way, every action chosen by
the network. All are held to the same two cores: the peers with the threads they choose themselves, we with two. Each is
a process of its own that plays a short block in turn while the others wait for input, round after round; the ratio
is taken within each round. A worker that cannot be installed or made more or fewer updates than one per four steps is
left out, and with it the bars count as missed. Excluded: installation, start-up, filling the replay, compilation and
the first 1,200 updates (without `--quick`): by then the means that Adam keeps of gradients which have stopped are
denormal numbers, with which a processor is slow, unless an implementation takes them for 0 as ours does; so it is in
all but the first minutes of a training. Bars: 2.5 times the fastest peer in fp32; 4.0 times in bf16, measured only
where the processor computes in bfloat16 (AMX or AVX512-BF16). Dopamine's libraries need Python 3.11 or 3.12.

What the peers do differently:

- Dopamine (JAX) is the form of Rainbow that ours follows: the same network (SAME padding, 7,744 to 512 units), one
  online and one target pass per update. It compresses whole stacks, state and next state, where we compress each
  frame once.
- tianshou: its C51 rather than its RainbowDQN, whose noisy and dueling layers we do not have and which cost more. Less
  work than ours in the network (no padding, 3,136 to 512 units: 9.5 million multiplications per state instead of 16.2);
  more in the update, where the online network also chooses the action of the next state, as in double DQN. Frames are
  not compressed, and divided by 255 as ours are. Collector and update are called directly, without the trainer.
- PFRL: its CategoricalDQN rather than the CategoricalDoubleDQN of its Rainbow example, again without noisy and dueling
  layers. Less work in the network (as tianshou); one online and one target pass, as ours. Whole stacks, not compressed.

tianshou and PFRL play twice, the second time with a network of our shape in plain torch, so that all have the same
layers.

tianshou and PFRL play gymnasium's AtariPreprocessing and FrameStackObservation; the games of all three peers fetch a
colour screen on every frame beside the grey ones, ours does not. Ours also keeps its records of coverage and episodes,
without checkpoints. Not measured: CleanRL, whose Rainbow is a script and no package.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.speed.peer_workers.serving import MARK
from scripts import measured

ROOT = Path(__file__).parents[2]
WORKERS = "benchmarks.speed.peer_workers"
MIN_RATIOS = {"fp32": 2.5, "bf16": 4.0}
CORES = 2
UPDATE_PERIOD_STEPS = 4
SETTLED_STEPS = 1_200 * UPDATE_PERIOD_STEPS
"""Steps before the first round, which do not count."""
SETTLE_SECONDS = 0.2
"""Pause before each block: threads of the block before may still spin for a moment."""
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}

PEERS = {
    "dopamine": [
        [
            *("dopamine-rl==4.1.2", "jax==0.4.35", "jaxlib==0.4.35", "flax==0.10.2", "tensorflow==2.18.0"),
            *("tensorflow-probability==0.25.0", "tf-keras==2.18.0", "numpy<2.1", "setuptools<80"),
        ]
    ],
    "tianshou": [["torch==2.13.0"], ["tianshou==2.0.1", "ale-py==0.12.1", "opencv-python-headless"]],
    "pfrl": [
        ["torch==2.13.0"],
        ["pfrl==0.4.0", "packaging", "gymnasium==1.4.0", "ale-py==0.12.1", "opencv-python-headless"],
    ],
}
"""What pip installs for each, one call after the other."""
NETWORKS = {"dopamine": ["own"], "tianshou": ["own", "same"], "pfrl": ["own", "same"]}
"""Which networks each plays with: its own, and where that differs from ours, one of our shape."""


class WorkerFailed(Exception):
    """A worker could not be installed, died, or did other work than it was asked for."""


def main() -> int:
    """Measure all and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small replay, and few and short blocks")
    parser.add_argument(
        "--environments",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the peers are installed, several GB; what is installed there already is used again",
    )
    parser.add_argument("--peer", choices=PEERS, action="append", help="default: all")
    options = measured.parse(parser)
    history, rounds, steps = (200, 3, 40) if options.quick else (5_000, 12, 200)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # all that is started from here inherits it
    precisions = list(MIN_RATIOS) if has_bfloat16() else ["fp32"]
    workers: list[Worker] = []
    try:
        for precision in precisions:
            arguments = [str(history), precision, str(CORES)]
            workers.append(Worker(f"offpiste {precision}", sys.executable, "offpiste_worker", arguments))
        for name in options.peer or PEERS:
            try:
                python = installed(options.environments / name, PEERS[name])
            except WorkerFailed as failure:
                print(f"left out: {name}: {failure}", flush=True)
                continue
            for network in NETWORKS[name]:
                label = name if network == "own" else f"{name}, our network"
                try:
                    workers.append(Worker(label, str(python), f"{name}_worker", [str(history), network]))
                except WorkerFailed as failure:
                    print(f"left out: {label}: {failure}", flush=True)
        blocks = measure(workers, rounds, steps, first=0 if options.quick else SETTLED_STEPS)
    except WorkerFailed as failure:
        raise SystemExit(f"our own loop failed: {failure}") from None
    finally:
        for worker in workers:
            worker.stop()
    wanted = sum(len(NETWORKS[name]) for name in options.peer or PEERS)
    if options.record:
        measured.record("benchmarks.speed.peers", figures_of(blocks, steps))
    return judge(blocks, precisions, steps, missing=len(precisions) + wanted - len(blocks))


@dataclass(frozen=True)
class Block:
    """What one block of agent steps took."""

    seconds: float
    processor_seconds: float
    """Of the worker, over all its threads."""
    busy_seconds: float
    """Of the cores, whoever used them."""


class Worker:
    """A process that is warm and waits for its next block."""

    def __init__(self, name: str, python: str, module: str, arguments: list[str]) -> None:
        self.name = name
        print(f"starting {name}", file=sys.stderr, flush=True)
        threads = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}  # each shall choose its own
        variables = {key: value for key, value in os.environ.items() if key not in threads}
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `stop`)
        self._process = subprocess.Popen(
            [python, "-m", f"{WORKERS}.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=variables,
            cwd=ROOT,
        )
        try:
            self._answer()
        except WorkerFailed:
            self.stop()
            raise

    def play(self, steps: int) -> Block:
        """Play a block and return what it took."""
        assert self._process.stdin is not None
        time.sleep(SETTLE_SECONDS)
        busy_before = busy_seconds()
        try:
            print(steps, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerFailed(self._last_words()) from None
        seconds, processor_seconds, updates = self._answer()
        busy = busy_seconds() - busy_before
        if abs(int(updates) - steps // UPDATE_PERIOD_STEPS) > 1:
            raise WorkerFailed(f"made {updates} updates in {steps} steps instead of {steps // UPDATE_PERIOD_STEPS}")
        return Block(float(seconds), float(processor_seconds), busy)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._complaints.close()

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                return line.removeprefix(MARK).split()
        raise WorkerFailed(self._last_words())

    def _last_words(self) -> str:
        self._process.wait()
        self._complaints.seek(0)
        lines = self._complaints.read().strip().splitlines()
        return lines[-1] if lines else f"ended with {self._process.returncode} and said nothing"


def installed(folder: Path, steps: list[list[str]]) -> Path:
    """Return the interpreter of an environment with these packages; make it unless an earlier call did."""
    python = folder / "bin" / "python"
    done = folder / "installed.json"
    wanted = json.dumps(steps)
    if done.exists() and done.read_text() == wanted:
        return python
    commands = [[str(python), "-m", "pip", "install", "--quiet", *packages] for packages in steps]
    if not python.exists():
        commands.insert(0, [sys.executable, "-m", "venv", str(folder)])
    for command in commands:
        print("$ " + " ".join(command[1:]), file=sys.stderr, flush=True)
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            lines = [line for line in result.stderr.splitlines() if "ERROR" in line] or [result.stderr.strip()[-200:]]
            raise WorkerFailed(f"cannot be installed: {lines[0]}")
    done.write_text(wanted)
    return python


def measure(workers: list[Worker], rounds: int, steps: int, first: int) -> dict[str, list[Block]]:
    """Let each play in turn, after first steps that do not count; a peer that fails is left out, ours may not fail."""
    blocks: dict[str, list[Block]] = {worker.name: [] for worker in workers}
    for length in ([first] if first else []) + [steps] * rounds:
        for worker in workers:
            if worker.name not in blocks:
                continue
            try:
                blocks[worker.name].append(worker.play(length))
            except WorkerFailed as failure:
                if worker.name.startswith("offpiste"):
                    raise
                print(f"left out: {worker.name}: {failure}", flush=True)
                del blocks[worker.name]
    return {name: own[-rounds:] for name, own in blocks.items()}


def judge(blocks: dict[str, list[Block]], precisions: list[str], steps: int, missing: int) -> int:
    """Print the figures and return 0 if the bars hold."""
    for name, own in blocks.items():
        speeds = sorted(steps / block.seconds for block in own)
        cores = median(block.processor_seconds / block.seconds for block in own)
        print(
            f"{name}: {median(speeds):.1f} agent steps/s ({speeds[0]:.1f} to {speeds[-1]:.1f}), using {cores:.2f} cores"
        )
    every = [block for own in blocks.values() for block in own]
    others = sum(block.busy_seconds - block.processor_seconds for block in every)
    share = max(0.0, others / (CORES * sum(block.seconds for block in every)))
    print(f"other programs took {share:.0%} of the cores meanwhile" + ("; trust the ratios little" * (share > 0.05)))
    if "bf16" not in precisions:
        print("this processor has neither AMX nor AVX512-BF16: bf16 pays nothing here, and only fp32 is measured")
    peers = [name for name in blocks if not name.startswith("offpiste")]
    if not peers:
        print("no peer is left to compare with")
        return 1
    good = not missing
    if missing:
        print(f"{missing} left out, as said above: whether the rest holds the bars says nothing of the fastest")
    for precision in precisions:
        ratios = {name: ratio(blocks[name], blocks[f"offpiste {precision}"]) for name in peers}
        fastest = min(ratios.values())
        good &= fastest >= MIN_RATIOS[precision]
        shown = "; ".join(f"{name} {value:.2f}" for name, value in ratios.items())
        print(f"ours in {precision} is faster by: {shown}; than the fastest {fastest:.2f}")
    return 0 if good else 1


def ratio(theirs: list[Block], ours: list[Block]) -> float:
    """Return how many times as fast as they we are, as the median over the rounds."""
    return median(other.seconds / own.seconds for other, own in zip(theirs, ours, strict=True))


def figures_of(blocks: dict[str, list[Block]], steps: int) -> dict[str, float]:
    """Return what is recorded: agent steps per second, and by how much ours is faster in fp32."""
    figures = {}
    for name, own in blocks.items():
        key = name.replace("offpiste fp32", "offpiste").replace(", our network", "_same_network").replace(" ", "_")
        figures[f"{key}_steps_per_second"] = median(steps / block.seconds for block in own)
        if not name.startswith("offpiste"):
            figures[key] = ratio(own, blocks["offpiste fp32"])
    return figures


def has_bfloat16() -> bool:
    """Return whether the processor multiplies in bfloat16."""
    processors = Path("/proc/cpuinfo")
    return processors.exists() and not BFLOAT16_FLAGS.isdisjoint(processors.read_text().split())


def busy_seconds() -> float:
    """Return how long the cores of this process have worked since the machine started, for whomever."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return 0.0
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in statistics.read_text().splitlines()]
    # user, nice, system, idle, waiting, interrupts (hard and soft), stolen by the host
    ticks = sum(int(value) for name, *values in lines if name in names for value in values[:3] + values[5:8])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
