"""The commands of the documentation, typed as a reader would: those in ```console blocks that begin with `$ `.

Programs that `import offpiste` count too. All pages share one folder, in which the reader has saved the examples, the
studies, and every block of a page whose first line names a file (`# six.toml`). So that this takes minutes and not
weeks, commands are shortened by the rules in `shortened`, and studies by those in `shortened_study`; what cannot be run
here at all stands in `NOT_RUN`, with the reason.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tomli_w

ROOT = Path(__file__).parents[1]

NOT_RUN = {
    "pip install *": "needs a package index",
    "python -m pip install *": "needs a package index",
    "python -m venv *": "CI and whoever reads this have an environment already",
    ". .venv/bin/activate": "CI and whoever reads this have an environment already",
    "python -m build": "needs a package index; the release checklist has it",
    "offpiste try *": "takes minutes at least; its own tests stand in for the workers",
    "offpiste study run studies/which_beta/*": "takes hours; the tests of its studies read them",
    "python -m scripts.which_beta *": "needs the runs of the studies before; its tests make them up",
    "python -m scripts.which_beta_results *": "likewise",
    "offpiste study run studies/rnd_ablation*": "takes hours; the tests of its studies read them",
    "python -m scripts.rnd_ablation*": "needs the runs of the study before, or minutes; its tests make runs up",
    "scripts/check": "this test is part of it",
    "python -m benchmarks.*": "benchmarks take minutes to hours, and some a GPU; each has its own --quick",
    "*s3://bucket/*": "there is no such bucket; the tests of storage, studies and analysis use a real S3 server",
    "ray *": "starts a cluster; the tests of the engine do",
    "aws *": "there is no such bucket",
    "docker *": "needs a service; benchmarks/validation/container.py builds and runs the image",
    "export *": "sets up a cluster",
}
"""Commands that are not run, as patterns, and why."""

FRAMES, STUDY_FRAMES = "300", 300
FEWER = {
    "offpiste check-bonus": "--quick",
    "offpiste demo": "--episodes 3",
    "offpiste eval": "--episodes 1",
    "offpiste train": f"--frames {FRAMES}",
    "offpiste watch": "--steps 20",
}
"""What commands of this form are given in addition, unless they say it themselves."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each fenced block."""
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        yield match[1], match[2]


def commands(page: Path) -> list[str]:
    """Return the commands of a page; a line that ends in a backslash goes on on the next."""
    texts = (re.sub(r"\\\n\s*", "", text) for language, text in blocks(page) if language == "console")
    return [line.removeprefix("$ ") for text in texts for line in text.splitlines() if line.startswith("$ ")]


def programs(page: Path) -> list[str]:
    """Return the Python blocks of a page that can run by themselves, as commands."""
    return [f"python -c {shlex.quote(text)}" for _, text in blocks(page) if "\nimport offpiste\n" in text]


def reason_not_to_run(command: str) -> str | None:
    """Return why a command is not run here, or None."""
    return next((reason for pattern, reason in NOT_RUN.items() if fnmatch.fnmatch(command, pattern)), None)


def shortened(command: str) -> str:
    """Return a command that does the same for a shorter time."""
    command = re.sub(r"--frames \S+", f"--frames {FRAMES}", command)
    command = re.sub(r"--episodes \S+", "--episodes 1", command)
    command = re.sub(r"frames=[\d_]+", f"frames={FRAMES}", command)
    command = re.sub(r"for (\w+) in (\S+)[^;]*;", r"for \1 in \2;", command)
    for start, words in FEWER.items():
        if command.startswith(start) and words.split()[0] not in command:
            command += f" {words}"
    return command


def shortened_study(text: str) -> str:
    """Return a study of the last of its games, two of its methods, one value of a grid, one seed and few frames."""
    study = tomllib.loads(text)
    methods = study["methods"][0:3:2]
    for axis in [axis for method in methods if isinstance(method, dict) for axis in method.get("grid", {}).values()]:
        axis["values"] = axis["values"][:1]
    less = {"games": study["games"][-1:], "methods": methods, "seeds": study["seeds"][:1]}
    return tomli_w.dumps(study | less | {"frames": STUDY_FRAMES})


class Reader:
    """Somebody who types what the documentation says."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """Let the reader work in a folder, with the programs of an environment (its `bin`)."""
        self.folder = folder
        self.programs = programs
        self.done: set[str] = set()
        for example in (ROOT / "examples").glob("*.py"):
            shutil.copy(example, folder)
        (folder / "studies").mkdir()
        for study in (ROOT / "studies").glob("*.toml"):
            shutil.copy(study, folder / "studies")

    def open(self, page: Path) -> list[str]:
        """Save the files that a page shows, and return its commands that can be run here."""
        for language, text in blocks(page):
            if language != "console":
                self.save(text)
        return [command for command in [*commands(page), *programs(page)] if reason_not_to_run(command) is None]

    def save(self, text: str) -> None:
        """Save a block whose first line names a file."""
        match = re.match(r"# (\S+\.(?:toml|py))\n", text)
        if match:
            (self.folder / match[1]).write_text(text, encoding="utf-8")

    def type(self, command: str) -> str | None:
        """Run a command, unless that was done before, and return what was wrong."""
        command = shortened(command)
        if command in self.done and not command.startswith("offpiste report"):  # there may be more runs by now
            return None
        self.done.add(command)
        for name in re.findall(r"study run (\S+)", command):
            study = self.folder / name
            study.write_text(shortened_study(study.read_text(encoding="utf-8")), encoding="utf-8")
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        surroundings = {**os.environ, "PATH": path, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-euc", command], cwd=self.folder, env=surroundings, capture_output=True, text=True, timeout=3_600
        )
        return None if done.returncode == 0 else f"$ {command}\n{done.stdout}{done.stderr}"
