"""How long `offpiste study status` takes."""

import json
import subprocess
import sys
import time
from pathlib import Path


def status_seconds(file: Path, location: str, runs: int, state: str) -> float:
    """Return how long the command takes, start of Python included, and see that it finds all runs in this state."""
    argv = [sys.executable, "-m", "offpiste", "study", "status", str(file), "--store", location, "--json"]
    start = time.perf_counter()
    found = json.loads(subprocess.check_output(argv))
    seconds = time.perf_counter() - start
    assert found["counts"][state] == runs, found["counts"]
    return seconds
