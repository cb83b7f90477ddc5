"""A few damaged and hostile stores under every command; `benchmarks/faults/fuzz.py` tries a thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", [["--damaged", "4", "--hostile", "4", "--bundles", "1"], pytest.param([], marks=pytest.mark.exhaustive)]
)
def test_no_store_ends_a_command_in_a_traceback_or_is_silently_wrong(cases: list[str]) -> None:
    words = ["-m", "benchmarks.faults.fuzz", "--quick", "--processes", "1", *cases]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 0 misses" in done.stdout
