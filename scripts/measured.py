"""Compare the figures that README.md and benchmarks/README.md quote with those in results/measured.

Run as `python -m scripts.measured` from the repository's root; `--write` renews the quotes.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.shared.measured import renewed

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")


def main() -> int:
    """Return 0 if every page quotes what was measured, or does now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the quotes")
    options = parser.parse_args()
    stale = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := renewed(text)) == text:
            continue
        if options.write:
            page.write_text(new, encoding="utf-8")
            continue
        stale += 1
        for old_line, new_line in zip(text.splitlines(), new.splitlines(), strict=True):
            if old_line != new_line:
                print(f"{page.relative_to(ROOT)} says\n  {old_line}\nand measured was\n  {new_line}")
    if stale:
        print("renew by python -m scripts.measured --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
