"""Compare two saved states, and the states of the global random generators."""

import random
from typing import Any

import numpy as np
import torch


def global_generators() -> tuple[Any, ...]:
    """Return the states of all global generators; they stay equal if nothing draws from them."""
    legacy = np.random.get_state(legacy=False)  # noqa: NPY002 (to check that nothing uses it)
    return random.getstate(), str(legacy), torch.get_rng_state().tolist()


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Assert that two saved states are equal, value by value."""
    assert one.keys() == two.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key], err_msg=key)
