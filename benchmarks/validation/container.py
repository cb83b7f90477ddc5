"""Whether the Dockerfile builds, and whether its image trains: by buildah, which needs no service.

Builds the image, then in it, not as root: `doctor`, a short run that is stopped and resumed, and `verify`.

    python -m benchmarks.validation.container [--base IMAGE] [--volume FROM:TO:ro …] [--build-arg NAME=VALUE …]

Without a registry of images, --base names a local one that has Python with venv; Debian's debootstrap makes one. Where
containers cannot be isolated otherwise, set BUILDAH_ISOLATION=chroot. `--quick` builds nothing, and runs the image that
is there.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/offpiste"
_STOPPED = "timeout --preserve-status --signal TERM 15 offpiste train --game four_rooms --frames 50k --out runs"
STEPS = (
    "offpiste doctor",
    f"{_STOPPED}; test $? = 75",
    f"{_STOPPED}; test $? = 75",  # resumed, and stopped again
    "offpiste verify runs",
)


def main() -> int:
    """Return 0 if the image builds, and everything runs in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="image to build on; default: that of the Dockerfile")
    parser.add_argument("--volume", action="append", default=[], help="mounted while it builds, as for buildah")
    parser.add_argument("--build-arg", action="append", default=[], help="as for buildah")
    parser.add_argument("--storage-driver", default="overlay", help="as for buildah; vfs works everywhere")
    parser.add_argument("--quick", action="store_true", help="run the image that was built before")
    options = parser.parse_args()
    program = ["buildah", "--storage-driver", options.storage_driver]
    if not options.quick:
        arguments = [*options.build_arg, *([f"BASE={options.base}"] if options.base else [])]
        given = [word for each in arguments for word in ("--build-arg", each)]
        given += [word for each in options.volume for word in ("--volume", each)]
        start = time.monotonic()
        if subprocess.run([*program, "build", *given, "--tag", IMAGE, str(ROOT)], check=False).returncode:
            print("the image does not build")
            return 1
        print(f"built in {(time.monotonic() - start) / 60:.1f} min")
    container = output([*program, "from", "--pull-never", IMAGE])
    try:
        if output([*program, "run", container, "--", "id", "-u"]) == "0":
            print("the image runs as root")
            return 1
        for step in STEPS:
            print(f"$ {step}\n{output([*program, 'run', container, '--', 'sh', '-c', step])}", flush=True)
    finally:
        output([*program, "rm", container])
    print("the image builds, trains, resumes and verifies")
    return 0


def output(command: Sequence[str]) -> str:
    """Return what a command printed; end the program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
