"""How much memory a full replay of real frames takes, and what drawing a batch from it costs.

A recording of random play is repeated until the replay is full, every frame compressed anew. Bars: resident memory
grows by less than 600 MB per million entries (7,056 MB raw), and `sample(32)` takes less than 5% of an fp32 update in
the same run.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch

from benchmarks.shared.memory import resident_megabytes
from benchmarks.shared.recording import fill, record
from offpiste.agent.mixing import targets
from offpiste.agent.rainbow import Rainbow
from offpiste.agent.replay import Replay
from offpiste.config import AgentConfig, BonusConfig, WorldConfig
from offpiste.seeding import stream
from scripts import measured

STATE_SHAPE = WorldConfig().state_shape
MAX_MEGABYTES = 600
MAX_SHARE = 0.05
ALLOWANCE_MEGABYTES = 40
"""Buffers that do not grow with the entries, which a quick run cannot separate from the replay."""
ROUNDS = 15


@dataclass(frozen=True)
class Result:
    """What one game showed."""

    game: str
    megabytes: float
    sample_seconds: float
    share: float
    """Of an fp32 update."""


def main() -> int:
    """Measure on two games and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the entries, and of the memory bar")
    options = measured.parse(parser)
    entries, recorded = (50_000, 6_000) if options.quick else (1_000_000, 100_000)
    results = []
    for game in ("montezuma_revenge", "freeway"):
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # memory that one game frees would serve the next
            results.append(fresh.submit(measure, game, entries, recorded).result())
    limit = MAX_MEGABYTES * entries / 1_000_000 + (ALLOWANCE_MEGABYTES if options.quick else 0)
    print("; ".join(f"{one.game} {one.megabytes:.0f} MB, sample {one.share:.1%} of an update" for one in results))
    if options.record:
        figures = {
            "megabytes": [one.megabytes for one in results],
            "sample_milliseconds": [1e3 * one.sample_seconds for one in results],
        }
        measured.record("benchmarks.speed.replay_memory", figures)
    return 0 if all(one.megabytes < limit and one.share < MAX_SHARE for one in results) else 1


def measure(game: str, entries: int, recorded: int) -> Result:
    """Fill a replay with one game and draw from it."""
    torch.set_num_threads(1)
    recording = record(game, recorded)
    config = AgentConfig(replay_capacity=entries)
    fill(Replay(config, STATE_SHAPE, stream(0, "warm-up")), recording, 100)  # compiles what a replay calls
    gc.collect()
    before = resident_megabytes()
    replay = Replay(config, STATE_SHAPE, stream(0, "replay"))
    fill(replay, recording, entries + entries // 10)  # so that it has wrapped around
    grown = resident_megabytes() - before
    agent = Rainbow(config, STATE_SHAPE, 18, stream(0, "weights"))
    batch = replay.sample(32)
    wanted = targets(batch, BonusConfig(), config.discount, factor=1.0)
    sample, update = interleaved(lambda: replay.sample(32), lambda: agent.learn(batch, wanted))
    raw = entries * STATE_SHAPE[1] * STATE_SHAPE[2] / 1e6
    print(
        f"{game}: {entries:,} entries take {grown:.0f} MB instead of {raw:,.0f} MB raw; "
        f"sample(32) {sample * 1e3:.2f} ms, fp32 update {update * 1e3:.1f} ms"
    )
    return Result(game, grown, sample, sample / update)


def interleaved(*work: Callable[[], object]) -> list[float]:
    """Return the median seconds of each piece of work, taken in turns."""
    seconds = np.zeros((ROUNDS, len(work)))
    for turn in seconds:
        for index, do in enumerate(work):
            start = time.perf_counter()
            do()
            turn[index] = time.perf_counter() - start
    medians: list[float] = np.median(seconds, axis=0).tolist()
    return medians


if __name__ == "__main__":
    sys.exit(main())
