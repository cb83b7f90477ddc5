"""What keeps the state of a bonus from being saved as a run saves it."""

from typing import Any

from offpiste import arrays
from offpiste.bonuses.contract.specimen import Specimen
from offpiste.errors import kind_of


def state_bytes(specimen: Specimen) -> bytes | None:
    """Return the state of a bonus as bytes, or None where it cannot be saved, which another check reports."""
    try:
        return arrays.pack(specimen.call("state"))
    except Exception:
        return None


def fault_of_state(state: Any) -> str | None:
    """Return what keeps a state from being saved and what to do about it, or None."""
    if not isinstance(state, dict):
        return f"state() must be a dictionary, got {kind_of(state)}; return arrays and JSON values by name"
    for key, value in state.items():
        name = f"state()[{key!r}]"
        try:
            arrays.pack({str(key): value})
        except Exception as error:
            return (
                f"{name}, {kind_of(value)}, cannot be saved ({error}); return numpy arrays, numbers, strings or lists"
            )
        if not isinstance(key, str) or not _has_str_keys(value):
            return f"{name} must have str keys only, since JSON makes them str; return two arrays, keys and values"
    return None


def _has_str_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_str_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_str_keys, value))
