"""Whether two states are the same, and whether somebody drew from the global generators."""

import random
from typing import Any

import numpy as np
import torch


def global_generators() -> tuple[Any, ...]:
    """Return the states of all global generators, which compare equal if nobody drew from them in between."""
    legacy = np.random.get_state(legacy=False)  # noqa: NPY002 (to see that nobody used it)
    return random.getstate(), str(legacy), torch.get_rng_state().tolist()


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Compare two saved states, value by value."""
    assert one.keys() == two.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key], err_msg=key)
