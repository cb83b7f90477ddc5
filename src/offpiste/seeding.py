"""One seed gives any number of named, independent random streams.

A stream depends on the seed and its own name only, so adding one leaves all others as they were.
Nothing in offpiste draws from a global generator.
"""

import hashlib
from typing import Any

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of this name under this seed."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, key])))


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as JSON values."""
    return dict(generator.bit_generator.state)


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Set a generator to a state that `generator_state` returned."""
    generator.bit_generator.state = state
