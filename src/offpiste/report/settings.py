"""The protocol and the methods of a store as tables: every setting, and the fingerprints that stand for them."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from offpiste.analysis.names import frames_text, label, title
from offpiste.analysis.runs import PROTOCOL_KEYS, Run
from offpiste.report.tables import Table, table_of


def protocol_table(runs: Sequence[Run]) -> Table:
    """Return the settings that all methods share, one column per protocol."""
    kinds: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        kinds[run.protocol].append(run)
    rows: dict[str, Callable[[list[Run]], Any]] = {
        "runs": len,
        "games": lambda found: ", ".join(sorted({title(run.game) for run in found})),
        "frames": lambda found: " or ".join(frames_text(end) for end in sorted({run.target_frames for run in found})),
    }
    for key in sorted({key for run in runs for key in run.settings if key.startswith(PROTOCOL_KEYS)}):
        rows[key] = lambda found, key=key: _text(found[0].settings.get(key))  # type: ignore[misc]
    cells = [(name, *(cell(found) for found in kinds.values())) for name, cell in rows.items()]
    return Table("protocol", ("setting", *kinds), cells if kinds else [])


def differing(table: Table) -> Table:
    """Return the rows of the protocol table in which the protocols differ."""
    rows = [row for row in table.rows if len({str(cell) for cell in row[1:]}) > 1]
    return Table("protocol_differences", table.columns, rows)


def methods_table(runs: Sequence[Run]) -> Table:
    """Return how each method explores, one row per distinct set of settings."""
    kinds: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        kinds[run.method, run.method_fingerprint].append(run)
    columns: dict[str, Callable[[list[Run]], Any]] = {
        "method": lambda found: label(found[0].method),
        "fingerprint": lambda found: found[0].method_fingerprint,
        "runs": len,
        "bonus": lambda found: _listed(found[0].settings, "bonus."),
        "exploration": lambda found: _listed(found[0].settings, "exploration."),
    }
    return table_of("methods", kinds.values(), columns)


def _listed(settings: Mapping[str, Any], prefix: str) -> str:
    own = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    return ", ".join(f"{key} {_text(value)}" for key, value in own.items() if value != {})


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
