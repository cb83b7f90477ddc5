"""Programs that measure offpiste, run from the repository's root: `python -m benchmarks.speed.throughput`."""
