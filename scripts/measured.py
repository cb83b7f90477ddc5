"""Measured figures: written by `--record` into results/measured, and quoted from there, so that each is typed once.

A figure is min and max over `n` runs of its program (null: not noted) on one processor with one set of libraries. Docs
quote it by a role, README.md and benchmarks/README.md, which a code host shows as they are, between markers that this
program compares with what was measured; `--write` renews them. Run as `python -m scripts.measured` from the
repository's root.

    {measured}`peers.dopamine:.1f`
    <!-- measured peers.dopamine:.1f -->2.0<!-- end -->
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "measured"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
_MARKED = re.compile(r"(<!-- measured (\S+) -->).*?(<!-- end -->)", re.DOTALL)


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


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options of the command line, `--record` among them, which goes without `--quick`."""
    parser.add_argument("--record", action="store_true", help="write the figures into results/measured, to be quoted")
    options = parser.parse_args()
    if options.record and options.quick:
        parser.error("--record needs the whole measurement; leave out --quick")
    return options


def record(program: str, figures: Mapping[str, float | Sequence[float]]) -> None:
    """Write what one run of a program measured; figures that were recorded before are widened to hold it.

    Those of another processor or other libraries are dropped: a range over machines says nothing.
    """
    from offpiste.config import MachineConfig
    from offpiste.run.process import about_this_process

    process = about_this_process(MachineConfig())
    about = {"program": program, "processor": process.hardware, "versions": process.versions}
    file = FOLDER / f"{program.rpartition('.')[2]}.json"
    old: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if {key: old.get(key) for key in about} != about:
        old = {}
    argv = ["PATH" if "/" in word else word for word in sys.argv[1:] if word != "--record"]
    merged = dict(old.get("figures", {}))
    for name, value in figures.items():
        merged[name] = _widened(merged.get(name), value if isinstance(value, Sequence) else [value])
    commands = sorted({*old.get("commands", []), shlex.join(["python", "-m", program, *argv])})
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = about | {"commands": commands, "figures": merged}
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"recorded in {file}; renew what quotes it by python -m scripts.measured --write")


def quote(reference: str) -> str:
    """Return a figure as text, `2.0` or `346 to 471`, by a reference such as `peers.dopamine:.1f`."""
    name, _, form = reference.partition(":")
    program, _, figure = name.partition(".")
    file = FOLDER / f"{program}.json"
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"] if file.exists() else {}
    if figure not in figures:
        known = ", ".join(figures) or ", ".join(sorted(each.stem for each in FOLDER.glob("*.json")))
        raise ValueError(f"no measured figure named {name!r}; there are {known}")
    low, high = (format(figures[figure][end], form) for end in ("min", "max"))
    return low if low == high else f"{low.removesuffix('%')} to {high}"


def renewed(text: str) -> str:
    """Return a text whose marked figures are those that were measured."""
    return _MARKED.sub(lambda match: match[1] + quote(match[2]) + match[3], text)


def _widened(old: Mapping[str, float] | None, values: Sequence[float]) -> dict[str, float]:
    ends = [*values, *([old["min"], old["max"]] if old else [])]
    return {"min": min(ends), "max": max(ends), "n": 1 + (int(old["n"]) if old else 0)}


if __name__ == "__main__":
    sys.exit(main())
