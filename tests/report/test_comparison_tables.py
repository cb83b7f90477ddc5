"""Tables of verdicts and comparisons say all that there is, also where that is nothing."""

from pathlib import Path

import pytest

from offpiste.report.comparison_tables import findings_table, parts_table
from offpiste.report.tables import to_csv
from offpiste.store.storage import Folder
from tests.analysis.small_study import evidence_of, write_study


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def test_findings_and_their_parts_are_told_also_where_nothing_is_known(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    evidence = evidence_of(store)
    findings = findings_table(evidence)
    assert len(findings.rows) == 7
    assert {row[2] for row in findings.rows} == {"not enough evidence"}
    parts = parts_table(evidence)
    assert {row[0] for row in parts.rows} == {row[0] for row in findings.rows}
    assert to_csv(parts).count("\n") == 1 + len(parts.rows)
