"""Accidents of a store or a bundle, after which checksums differ; a part of `fuzz`."""

import shutil
from pathlib import Path

from benchmarks.faults.fuzz_change import Generator, files_of, pick


def damage(store: Path, generator: Generator) -> str:
    """Do what disks, copies and hands do to files of a store or a bundle, once to three times; return what was done."""
    done = []
    for _ in range(int(generator.integers(1, 4))):
        path = pick(generator, files_of(store) or [_lost(store)])
        act = pick(generator, ACCIDENTS)
        act(path, generator)
        done.append(f"{act.__name__} {path.relative_to(store)}")
    return ", ".join(done)


def _lost(store: Path) -> Path:
    """Return an empty file in a folder that has lost all its files."""
    path = store / "left"
    path.touch()
    return path


def flip(path: Path, generator: Generator) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    if data:
        data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
    path.write_bytes(data)


def cut(path: Path, generator: Generator) -> None:
    """Lose the end."""
    data = path.read_bytes()
    path.write_bytes(data[: int(generator.integers(len(data) + 1))])


def zero(path: Path, generator: Generator) -> None:
    """Overwrite a block with zeros."""
    data = bytearray(path.read_bytes())
    start = int(generator.integers(len(data) + 1))
    length = len(data[start : start + 512])
    data[start : start + length] = bytes(length)
    path.write_bytes(data)


def empty(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Leave no byte."""
    path.write_bytes(b"")


def lose(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Delete the file."""
    path.unlink()


def lose_folder(path: Path, generator: Generator) -> None:  # noqa: ARG001
    """Delete all files beside it."""
    for beside in path.parent.iterdir():
        if beside.is_file():
            beside.unlink()


def mix_up(path: Path, generator: Generator) -> None:
    """Copy another file of the same kind over it, of the same run or another."""
    root = path.parent
    while root.name not in ("store", "bundle"):
        root = root.parent
    alike = [other for other in files_of(root) if other.parent.name == path.parent.name and other != path]
    if alike:
        shutil.copyfile(pick(generator, alike), path)


def append(path: Path, generator: Generator) -> None:
    """Add bytes at the end."""
    path.write_bytes(path.read_bytes() + generator.bytes(20))


def clutter(path: Path, generator: Generator) -> None:
    """Leave files of other programs beside it."""
    for name in (".DS_Store", "Thumbs.db", "x.unfinished", "desktop.ini"):
        path.with_name(name).write_bytes(generator.bytes(30))


ACCIDENTS = (flip, flip, flip, cut, zero, empty, lose, lose_folder, mix_up, append, clutter)
