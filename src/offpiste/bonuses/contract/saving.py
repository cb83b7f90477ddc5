"""Save a bonus under test as a run does, and find what keeps it from being saved."""

from typing import Any

from offpiste import arrays
from offpiste.bonuses.contract.report import Check
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen, Watch
from offpiste.errors import kind_of
from offpiste.seeding import generator_state


def saved_bonus(watch: Watch) -> SavedBonus | None:
    """Return the observed bonus as a run saves it, or None where it cannot be saved."""
    findings = watch.findings
    generator = generator_state(watch.specimen.generator)
    try:
        state = watch.specimen.call("state")
        fault = _fault_of_state(state)
    except Raised as raised:
        fault = str(raised)
    if fault is not None:
        findings.fail(Check.STATE, fault)
        findings.skip(Check.RESUME, "its state cannot be saved")
        return None
    return SavedBonus(arrays.pack(state), generator, watch.specimen.observed)


def state_bytes(specimen: Specimen) -> bytes | None:
    """Return the state of a bonus as bytes, or None where it cannot be saved, which another check reports."""
    try:
        return arrays.pack(specimen.call("state"))
    except Exception:
        return None


def _fault_of_state(state: Any) -> str | None:
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
