"""Tables of which a bit was changed: each is refused or read as it was, and none ends the process that reads it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLIPS = """
import pyarrow as pa

from offpiste.store.parquet import read_parquet
from offpiste.store.records import schema, to_parquet

rows = [{"end_step": 7 * number, "name": f"n{number % 3}", "value": 0.37 * number} for number in range(6)]
data, wanted = to_parquet("scalars", rows), schema("scalars")
whole, changed = read_parquet(data, wanted), []
for bit in range(8 * len(data)):
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        changed += [] if read_parquet(bytes(flipped), wanted).equals(whole) else [bit // 8]
    except (ValueError, OSError, pa.ArrowException):
        pass
footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
print(len([byte for byte in changed if byte < footer]), len(changed), len(data))
"""


def test_no_bit_of_a_table_can_change_its_values_unseen_or_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", FLIPS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    in_pages, anywhere, size = map(int, done.stdout.split())
    assert size > 500
    assert in_pages == 0  # pages have checksums of their own
    assert anywhere <= 8  # the footer has none: kinds of encodings
