"""Serialise a flat dictionary of arrays and JSON values in the safetensors format; never a pickle.

Arrays are restored writable and in native byte order, tuples as lists, numpy scalars as Python numbers.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

_JSON_KEY = "offpiste"


def pack(values: Mapping[str, Any]) -> bytes:
    """Return arrays and JSON values as the bytes of one safetensors file."""
    arrays = {key: np.asarray(value, order="C") for key, value in values.items() if isinstance(value, np.ndarray)}
    plain = {key: value for key, value in values.items() if not isinstance(value, np.ndarray)}
    return bytes(save(arrays, metadata={_JSON_KEY: json.dumps(plain, default=_plain)}))


def unpack(data: bytes) -> dict[str, Any]:
    """Return the dictionary that `pack` was given; ValueError for bytes that it cannot have written."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        plain: dict[str, Any] = json.loads(header.get("__metadata__", {}).get(_JSON_KEY, "{}"))
        return {**load(data), **plain}
    except (SafetensorError, AttributeError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not an object of offpiste: {error!r:.200}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a value must be an array or JSON, got {type(value).__name__}")
