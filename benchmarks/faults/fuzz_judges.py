"""What is wrong with how a command ended on a harmed store or bundle; a part of `fuzz`."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.faults.fuzz_change import SECRET
from benchmarks.faults.fuzz_workers import Ended

CONTROL = {*map(chr, (*range(9), *range(11, 32), *range(127, 160))), "\u202e"}

Judge = Callable[[Ended, Ended, set[str]], str]


def judge_same(ended: Ended, whole: Ended, _: set[str]) -> str:
    """Return what is wrong with an answer that differs without a warning."""
    silent = ended.code == 0 and not ended.err.strip()
    return f"silently wrong: {ended.out[:200]!r}" if silent and ended.out != whole.out else ""


def judge_training(ended: Ended, whole: Ended, _: set[str]) -> str:
    """Return what is wrong with a run that was resumed and ended otherwise."""
    return f"silently wrong: {ended.out[:200]!r}" if ended.code == 0 and ended.out != whole.out else ""


def judge_load(ended: Ended, whole: Ended, _: set[str]) -> str:
    """Return which run is read otherwise without a warning of it or its bundle; a state may be unknown.

    That is so once status.json is gone.
    """
    if ended.code:
        return ""
    said, expected = json.loads(ended.out), json.loads(whole.out)
    for name, run in expected["runs"].items():
        found = said["runs"].get(name)
        alike = found in (run, {**run, "state": "unknown"})
        if not alike and not {name, "bundle"} & {*said["warned"]}:
            return f"silently wrong: {name} is {'left out' if found is None else 'read otherwise'}"
    return ""


def judge_verify(ended: Ended, _: Ended, changed: set[str]) -> str:
    """Return what was changed and not found; nothing lists the mark of a first checkpoint."""
    signed = {name for name in changed if not name.endswith("checkpointed.json")}
    return f"did not find {min(signed)}" if signed and ended.code == 0 else ""


JUDGES: dict[str, Judge] = {
    "digest": judge_same,
    "eval": judge_same,
    "load": judge_load,
    "load bundle": judge_load,
    "train": judge_training,
    "verify": judge_verify,
    "verify bundle": judge_verify,
}


def leaks(lane: Path, name: str, ended: Ended) -> list[str]:
    """Return what came out that must not: secrets, imports, control characters, files."""
    found = []
    text = ended.out + ended.err
    with suppress(OSError):
        text += "".join(path.read_text(errors="replace") for path in sorted((lane / "report").rglob("*.*ml")))
    if SECRET in text:
        found.append("shows a secret")
    if not name.startswith("load") and CONTROL & {*ended.out, *ended.err}:
        found.append(f"control characters {CONTROL & {*ended.out, *ended.err}}")
    for path in (lane / "imported", lane / "store" / "imported", lane / "PWNED"):
        if path.exists():
            found.append(f"made {path.name}")
            path.unlink()
    return found
