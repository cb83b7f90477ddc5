"""Tell errors of a bonus from those of its machine: another attempt at a run would raise the former again."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from offpiste.bonuses.registry import line_of, source_file
from offpiste.errors import BonusError, OffpisteError


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Raise `BonusError`, with file and line, for an error that comes from the code of a bonus.

    Not for what may pass: too little memory, and what the system refuses.
    """
    try:
        yield
    except (OffpisteError, OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        file = None if name == "none" else source_file(name)
        line = line_of(error, file)
        if line is None:
            raise
        raise BonusError(f"the bonus {name} failed in {file}, line {line}: {type(error).__name__}: {error}") from error
