"""The curves of a run by the tags under which TensorBoard and Weights & Biases show them."""

from collections.abc import Mapping
from typing import Any

_COLUMNS = {
    "episodes": ("game_return", "steps", "rooms_visited", "cells_new", "intrinsic_sum"),
    "iterations": ("return_mean", "epsilon", "rooms_total", "cells_total"),
}
"""The columns shown; `scalars` has the others, many times within an iteration."""


def tagged(table: str, row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers to show of a row of `episodes`, `iterations` or `scalars`, by tag, as in scalars/loss."""
    if table == "scalars":
        return {f"scalars/{row['name']}": row["value"]}
    if not row.get("complete", True):  # an iteration in which the run ended, or was stopped
        return {}
    group = f"{row['phase']}_{table}"
    return {f"{group}/{name}": row[name] for name in _COLUMNS[table] if row[name] is not None}
