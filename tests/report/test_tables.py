"""Tables say the same in a file, with all digits, as on the page, with few."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste.analysis.scores import threshold_of
from offpiste.analysis.stats import Interval
from offpiste.config import RunConfig
from offpiste.report.quality_tables import seeds_table
from offpiste.report.tables import (
    Points,
    Spread,
    Table,
    game_table,
    imports_table,
    is_numeric,
    more_digits,
    published_table,
    runs_table,
    score_table,
    seeds_needed_table,
    shown,
    to_csv,
)
from offpiste.store.storage import Folder
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import evidence_of, import_curves, write_study


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def row_of(table: Table, key: str) -> dict[str, Any]:
    return dict(zip(table.columns, next(row for row in table.rows if row[0] == key), strict=True))


def test_an_interval_takes_two_columns_of_a_file() -> None:
    table = Table("x", ("name", "value", "interval"), [("a", 1 / 3, Interval(0.25, 0.5)), ("b,c", math.nan, None)])
    assert list(csv.reader(io.StringIO(to_csv(table)))) == [
        ["name", "value", "interval, low", "interval, high"],
        ["a", str(1 / 3), "0.25", "0.5"],
        ["b,c", "", "", ""],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "never"),
        (-12345, "−12,345"),
        (12345.6, "12,346"),
        (123.45, "123.5"),
        (0.5, "0.50"),
        (0.0, "0.00"),
        (-0.0123, "−0.012"),
        (3.2e-7, "3e−07"),
        (np.float64(2.5), "2.50"),
        (np.int64(7), "7"),
        (True, "yes"),
        (Interval(-0.5, 0.5), "−0.50 to 0.50"),
        ("text", "text"),
    ],
)
def test_cells_on_the_page(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_column_with_a_number_or_nothing_in_it_stands_to_the_right() -> None:
    table = Table("x", ("a", "b", "c"), [("text", None, None), (None, 1.5, None), ("more", "over 2,000", None)])
    assert [is_numeric(table, index) for index in range(3)] == [False, True, True]


def test_a_game_in_numbers(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [0.0, 0.0, 29.6]})
    row = row_of(game_table(evidence_of(store), "freeway"), "ε-greedy")
    assert threshold_of("freeway") == pytest.approx(2.96)
    assert row["seeds"] == "3 of 3"
    assert (row["mean"], row["max"]) == (pytest.approx(29.6 / 3), pytest.approx(29.6))
    assert (row["median"], row["min"]) == (0.0, 0.0)
    assert row["normalised"] == 0.0
    assert row["area"] == 0.0
    assert row["above 2.96"] == pytest.approx(1 / 3)
    assert (row["exact interval"].low, row["exact interval"].high) == (
        pytest.approx(0.0084, abs=1e-4),  # Clopper and Pearson of one in three
        pytest.approx(0.9057, abs=1e-4),
    )
    assert row["first reward"] == math.inf  # two of three never had one
    assert (row["rooms"], row["cells"]) == (3.0, 30.0)


def test_a_run_that_is_not_done_is_begun_but_has_no_score(store: Folder) -> None:
    write_run(store, config_of(seed=0), [1.0, 1.0, 1.0])
    write_run(store, config_of(seed=1), [9.0], state="paused")
    evidence = evidence_of(store)
    assert row_of(game_table(evidence, "freeway"), "ε-greedy")["seeds"] == "1 of 2"
    assert row_of(runs_table(evidence), "freeway/epsilon_greedy/seed-1")["counted"] is False


def test_final_scores_show_mean_range_and_seeds(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 3.0], ("pong", "cts"): [-21.0]})
    table = score_table(evidence_of(store))
    assert table.columns == ("game", "random", "human", "ε-greedy", "CTS")
    assert table.rows == [
        ("Freeway", 0.0, 29.6, Spread(2.0, 1.0, 3.0, 2), None),
        ("Pong", None, None, None, Spread(-21.0, -21.0, -21.0, 1)),
    ]
    assert to_csv(table).splitlines()[1:] == [
        "Freeway,0.0,29.6,2.00 (1.00 to 3.00; 2),",
        "Pong,,,,−21.00 (−21.00 to −21.00; 1)",
    ]


def test_a_method_of_a_store_takes_the_column_of_no_other_by_its_name(store: Folder) -> None:
    named = ("ε-greedy", "‘ε-greedy’", "human", "game")
    write_study(store, {("freeway", "epsilon_greedy"): [1.0], **{("freeway", name): [777.0] for name in named}})
    evidence = evidence_of(store)
    scores, seeds = score_table(evidence), seeds_table(evidence)
    methods = ("ε-greedy", "‘game’", "‘human’", "‘ε-greedy’", "‘‘ε-greedy’’")
    assert scores.columns == ("game", "random", "human", *methods)
    assert [cell.mean if isinstance(cell, Spread) else cell for cell in scores.rows[0]] == [
        *("Freeway", 0.0, 29.6, 1.0),
        *([777.0] * 4),
    ]
    assert seeds.columns == ("game", "ε-greedy", "‘game’", "human", "‘ε-greedy’", "‘‘ε-greedy’’")
    assert seeds.rows == [("Freeway", *(["1"] * 5))]


def test_what_rounding_leaves_of_nothing_is_shown_as_nothing() -> None:
    assert shown(1.1e-16) == shown(-1.1e-16) == "0.00"
    assert shown(2e-7) == "2e−07"


def test_a_score_of_next_to_nothing_has_no_exponent() -> None:
    assert [shown(Points(value)) for value in (-7e-6, 0.0004, 0.0012)] == ["0.00", "0.00", "0.001"]
    assert str(Spread(Points(-7e-6), Points(-3e-5), Points(0.25), 10)) == "0.00 (0.00 to 0.25; 10)"
    assert to_csv(Table("any", ("random",), [(Points(-7e-6),)])) == "random\n-7e-06\n"


def test_published_scores_are_comparable_only_beside_runs_of_the_same_protocol_and_length(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    short = published_table(evidence_of(store))
    row = row_of(short, "dopamine tf")
    assert (row["mark"], row["Freeway"]) == ("not comparable", 33.6)
    assert "frames is 1,200" in row["why"]

    full = Folder(str(store.location) + "-full")
    write_run(full, RunConfig(game="freeway"), [1.0] * 200)
    table = published_table(evidence_of(full))
    assert (row_of(table, "dopamine tf")["mark"], row_of(table, "dopamine jax")["mark"]) == ("comparable",) * 2
    assert {row[1] for row in table.rows if not row[0].startswith("dopamine")} == {"not comparable"}
    assert all(row[-1] for row in table.rows)  # each has its source


def test_published_scores_are_shown_without_any_run(store: Folder) -> None:
    import_curves(store, "freeway", [[1.0, 2.0], [3.0, 4.0]])
    evidence = evidence_of(store)
    assert row_of(published_table(evidence), "dopamine tf")["mark"] == "not comparable"
    row = row_of(imports_table(evidence), "dopamine tf")
    assert (row["runs"], row["iterations"], row["mean of the last ten"], row["file"]) == (2, 2, 2.5, "freeway.json")
    assert len(row["sha256"]) == 64


def test_seeds_needed_are_told_where_the_spread_is_known(store: Folder) -> None:
    """All scores alike: any difference is seen by as few seeds as a sign test can do with."""
    write_study(store, {("freeway", "epsilon_greedy"): [5.0, 5.0], ("hero", "epsilon_greedy"): [5.0]})
    table = seeds_needed_table(evidence_of(store))
    assert [row[:2] for row in table.rows] == [("Freeway", 2)]
    assert table.rows[0][2:] == (5, 5, 5, 5)


def test_a_column_has_as_many_digits_as_tell_its_numbers_apart() -> None:
    table = Table("x", ("a", "b", "c"), [(0.0051, 1.0, "x"), (0.0054, 2.0, "y"), (0.0051, math.nan, None)])
    assert [more_digits(table, index) for index in range(3)] == [1, 0, 0]
    assert [shown(row[0], more_digits(table, 0)) for row in table.rows] == ["0.0051", "0.0054", "0.0051"]
    assert shown(1234.56, 1) == "1,234.6"
    assert shown(Interval(0.0001, 0.5), 1) == "0.0001 to 0.500"
