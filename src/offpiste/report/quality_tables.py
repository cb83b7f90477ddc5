"""The tables of a report that say how far to trust it: settings, tuning, seeds, unfinished runs, seams, caveats."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from offpiste.analysis.caveats import Note, Seams
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.fairness import Tuning, Variant
from offpiste.analysis.names import frames_text, label, seeds_text, title, unused
from offpiste.analysis.runs import PROTOCOL_KEYS, Run
from offpiste.report.tables import Table, table_of


def tuning_table(found: list[Tuning]) -> Table:
    """Return the tuning of each method as a table."""
    least = min((each.budget for each in found if each.budget is not None), default=0)

    def mark(each: Tuning) -> str:
        if each.budget is None:
            return "not known"
        return f"tuned more: {each.budget} settings beside {least}" if each.budget > least else "–"

    columns: dict[str, Callable[[Tuning], Any]] = {
        "method": lambda each: label(each.method),
        "settings tried here": lambda each: each.settings,
        "runs": lambda each: each.runs,
        "frames": lambda each: frames_text(each.frames) if each.frames else 0,
        "on": lambda each: ", ".join(map(title, each.games)) or "–",
        "tuning seeds": lambda each: seeds_text(each.tuning_seeds),
        "test seeds": lambda each: seeds_text(each.test_seeds),
        "disjoint": lambda each: ("no" if each.shared_seeds else "yes") if each.tuning_seeds else "–",
        "settings tried in the paper": lambda each: each.elsewhere,
        "mark": mark,
    }
    return table_of("tuning", found, columns)


def variants_table(tried: Sequence[Variant]) -> Table:
    """Return the settings that were tried, a row each."""
    columns: dict[str, Callable[[Variant], Any]] = {
        "method": lambda each: label(each.method),
        "game": lambda each: title(each.game),
        "variant": lambda each: each.name,
        "seeds": lambda each: each.seeds,
        "mean final score": lambda each: each.mean,
        "median final score": lambda each: each.median,
        "mean area": lambda each: each.area,
        "best in resamples": lambda each: each.chosen,
    }
    note = (
        "Settings that are tied with the best mean score, within the study’s margin of equality, stand first, ordered "
        "by mean area under the training curve. The last column is the share of bootstrap resamples of the seeds in "
        "which the setting is the best by this rule."
    )
    return table_of("variants", tried, columns, note)


def notes_table(found: list[Note]) -> Table:
    """Return the weak points as a table."""
    columns: dict[str, Callable[[Note], Any]] = {
        "kind": lambda note: note.kind,
        "where": lambda note: note.where,
        "what": lambda note: note.message,
    }
    return table_of("weak_points", found, columns)


def seeds_table(evidence: Evidence) -> Table:
    """Return the seeds of each method on each game that count, out of those begun."""
    begun = Counter((run.game, run.method) for run in evidence.together)

    def cell(game: str, method: str) -> str | None:
        all_of_them, done = begun[game, method], evidence.finals(game, method).size
        if not all_of_them:
            return None
        return str(done) if done == all_of_them else f"{done} of {all_of_them}"

    columns: dict[str, Callable[[str], Any]] = {"game": title}
    for method in evidence.methods:
        columns[unused(label(method), columns)] = lambda game, method=method: cell(game, method)  # type: ignore[misc]
    note = "A seed counts once it has come as far as runs are compared at, with a score that is a number."
    return table_of("seeds", [game for game in evidence.games if any(key[0] == game for key in begun)], columns, note)


def unfinished_table(evidence: Evidence) -> Table:
    """Return the runs that are not at their end."""
    columns: dict[str, Callable[[Run], Any]] = {
        "run": lambda run: run.name,
        "state": lambda run: run.state,
        "frames": lambda run: run.frames,
        "target frames": lambda run: run.target_frames,
        "share done": lambda run: run.frames / run.target_frames if run.target_frames else None,
    }
    return table_of("unfinished", [run for run in evidence.records.runs if not run.complete], columns)


def seams_table(found: list[Seams]) -> Table:
    """Return the seams as a table."""
    columns: dict[str, Callable[[Seams], Any]] = {
        "run": lambda each: each.run.name,
        "attempts": lambda each: each.attempts,
        "seams": lambda each: each.seams,
        "between unlike machines": lambda each: len(each.changes),
        "what changed": lambda each: "; ".join(each.changes) or "–",
    }
    note = (
        "A run that is resumed on a machine of the same kind, with the same versions and threads, is exact to the bit; "
        "one that is resumed elsewhere is the same experiment with other last digits."
    )
    return table_of("seams", found, columns, note)


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
