"""Named, independent random streams from one seed.

A stream depends only on the seed and its own name, so adding one does not change the others. Nothing in offpiste draws
from a global generator.
"""

import hashlib
from typing import Any

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of this name and seed."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, key])))


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as JSON values."""
    return dict(generator.bit_generator.state)


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Restore from `generator_state()`."""
    generator.bit_generator.state = state
