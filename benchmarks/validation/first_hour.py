"""The first hour of a new user on a busy machine: install, type what the pages say, and look at what comes out.

In a new environment, while two other programs keep both cores busy, it installs offpiste, runs every command of README
and of the first run (shortened as in the tests; without --quick, those of two more pages), checks that the demo shows
its point, plays the video in Chromium and opens the report there, and prints how long each took. Bar: everything works.

    python -m benchmarks.validation.first_hour [--quick] [--keep FOLDER]
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.shared.chromium import Chromium
from tests.documented import ROOT, Reader, shortened

QUICK_PAGES = ("README.md", "docs/first-run.md")
PAGES = (*QUICK_PAGES, "docs/your-bonus.md", "docs/read-a-report.md")
DEMO_SEEDS = 5
BUSY_PROCESSES = 2
PLAYED_SECONDS = 0.3
"""How far a video must get to count as played."""
VIDEO, REPORT = "freeway.mp4", "report/index.html"


def main() -> int:
    """Be a new user, and return 0 if everything worked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two pages, and one seed of the demo")
    parser.add_argument("--keep", type=Path, help="write screenshots of the report into this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, busy(BUSY_PROCESSES):
        path = Path(folder)
        faults = timed("install", lambda: install(path / "environment"))
        work = path / "work"
        work.mkdir()
        reader = Reader(work, path / "environment" / "bin")
        for page in QUICK_PAGES if options.quick else PAGES:
            faults += read(reader, ROOT / page)
        for seed in range(1 if options.quick else DEMO_SEEDS):
            faults += timed(f"offpiste demo --seed {seed}", lambda seed=seed: demo(reader, seed))  # type: ignore[misc]
        faults += timed("offpiste report runs", lambda: typed(reader, "offpiste report runs --out report"))
        faults += timed("the video in Chromium", lambda: played(work / VIDEO))
        faults += timed("the report in Chromium", lambda: opened(work / REPORT, options.keep))
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many cores busy with something else."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def timed(what: str, work: Callable[[], list[str]]) -> list[str]:
    """Do something, print how long it took, and return what was wrong."""
    start = time.monotonic()
    faults = work()
    print(f"{time.monotonic() - start:7.1f} s  {what}{'  <- fails' if faults else ''}", flush=True)
    return faults


def install(environment: Path) -> list[str]:
    """Install offpiste as README says, into a new environment; torch first, in the version that CI has."""
    venv.create(environment, with_pip=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for what in ("torch==2.13.0", f"{ROOT}[report,cluster]"):
        done = subprocess.run([*pip, what], capture_output=True, text=True)
        if done.returncode:
            return [f"pip install {what}: {done.stderr[-1_000:]}"]
    return []


def read(reader: Reader, page: Path) -> list[str]:
    """Type every command of a page."""
    faults: list[str] = []
    for command in reader.open(page):
        if shortened(command) not in reader.done:
            name = f"{page.name}: {command.splitlines()[0][:90]}"
            faults += timed(name, lambda command=command: typed(reader, command))  # type: ignore[misc]
    return faults


def typed(reader: Reader, command: str) -> list[str]:
    """Type one command."""
    fault = reader.type(command)
    return [fault] if fault else []


def demo(reader: Reader, seed: int) -> list[str]:
    """Check that the bonus reaches the goal in the demo ten times as often as ε-greedy, or more."""
    program = [str(reader.programs / "offpiste"), "demo", "--seed", str(seed)]
    said = subprocess.run(program, capture_output=True, text=True).stdout
    found = re.search(r"ε-greedy (\d+) of \d+, CTS (\d+) of", said)
    shown = found is not None and int(found[2]) >= 10 * max(1, int(found[1]))
    return [] if shown else [f"demo --seed {seed} does not show the difference: {said[-300:]}"]


def played(video: Path) -> list[str]:
    """Play a video in a browser, muted."""
    page = video.with_suffix(".html")
    page.write_text(f"<!doctype html><title>video</title><video muted autoplay src={video.name}></video>")
    with Chromium() as browser:
        browser.open(page)
        end, state = time.monotonic() + 20.0, "not loaded"
        while time.monotonic() < end:
            browser.listen(0.5)
            at = browser.evaluate("document.querySelector('video').currentTime")
            state = browser.evaluate("document.querySelector('video').error?.message ?? 'no error'")
            if at > PLAYED_SECONDS:
                return []
    return [f"{video.name} does not play in Chromium: {state}"]


def opened(page: Path, keep: Path | None) -> list[str]:
    """Open the report in a browser, and keep pictures of it where asked."""
    with Chromium() as browser:
        browser.open(page)
        headings = browser.evaluate("document.querySelectorAll('h2').length")
        broken = browser.evaluate("[...document.images].filter(x => !x.complete || !x.naturalWidth).length")
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
                browser.screenshot(keep / f"report-{width}-{scheme}.png", width=width, height=1_600, scheme=scheme)
    faults = [] if headings else ["the report has no headings"]
    return faults + ([f"{broken} pictures of the report are broken"] if broken else [])


if __name__ == "__main__":
    sys.exit(main())
