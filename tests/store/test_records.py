"""The schema of each table is its dataclass, and rows are restored to the bit."""

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from offpiste import arrays, rows
from offpiste.rows import LOGGED, REPRODUCIBLE, TABLES, AttemptRow, EpisodeRow, IterationRow, TimingRow
from offpiste.store.parquet import from_parquet
from offpiste.store.records import RecordLog, schema, to_parquet

TIMING = TimingRow(
    iteration=1,
    attempt="000001-abcdef",
    finished_at="2024-05-06T07:08:09+00:00",
    seconds=0.1,
    steps=3,
    steps_per_second=30.0,
)


def episode(number: int, **settings: Any) -> EpisodeRow:
    row = EpisodeRow(
        iteration=1,
        phase="train",
        episode=number,
        end_step=10 * number,
        steps=10,
        game_return=100.0 / 3.0,
        clipped_return=1.0,
        ended="terminated",
        first_reward_step=None,
        rooms_visited=2,
        rooms_new=1,
        cells_visited=5,
        cells_new=4,
        intrinsic_sum=None,
        intrinsic_max=None,
        clipped_share=None,
    )
    return dataclasses.replace(row, **settings)


def iteration(number: int) -> IterationRow:
    fields = {field.name: None for field in dataclasses.fields(IterationRow)}
    given = {
        "iteration": number,
        "phase": "train",
        "complete": True,
        "end_step": 10,
        "end_frame": 40,
        "steps": 10,
        "episodes": 1,
        "return_mean": 0.1,
        "updates": 2,
    }
    return IterationRow(**(fields | given))  # type: ignore[arg-type]


def query(text: str) -> duckdb.DuckDBPyRelation:
    found = duckdb.sql(text)
    assert found is not None
    return found


def numbers(log: RecordLog, table: str = "episodes") -> list[int]:
    return [row["episode" if table == "episodes" else "iteration"] for row in log.rows(table)]


def test_the_schema_of_timing_follows_from_its_dataclass() -> None:
    assert schema("timing") == pa.schema(
        [
            pa.field("iteration", pa.int64(), nullable=False),
            pa.field("attempt", pa.string(), nullable=False),
            pa.field("finished_at", pa.string(), nullable=False),
            pa.field("seconds", pa.float64(), nullable=False),
            pa.field("steps", pa.int64(), nullable=False),
            pa.field("steps_per_second", pa.float64(), nullable=False),
        ]
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_column_is_nullable_exactly_if_its_type_allows_none(table: str) -> None:
    kinds = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}
    fields = dataclasses.fields(TABLES[table])
    assert schema(table).names == [field.name for field in fields]
    for field in fields:
        kind, _, none = inspect.formatannotation(field.type).partition(" | ")
        column = schema(table).field(field.name)
        assert column.type == kinds[kind], field.name
        assert column.nullable == (none == "None"), field.name


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_docstring(table: str) -> None:
    tree = ast.parse(inspect.getsource(TABLES[table]))
    body = tree.body[0].body  # type: ignore[attr-defined]
    documented = [
        line.target.id
        for line, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and str(after.value.value).endswith(".")
    ]
    assert documented == [field.name for field in dataclasses.fields(TABLES[table])]


def test_wall_clock_and_attempt_are_in_no_reproducible_table() -> None:
    columns = {"attempt", "finished_at", "started_at", "seconds", "steps_per_second", "host", "hardware", "threads"}
    for table in REPRODUCIBLE:
        assert columns.isdisjoint(schema(table).names)
    assert columns <= set(schema("timing").names) | set(schema("attempts").names)


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("episodes", episode(1)),
        ("episodes", episode(2, first_reward_step=0, intrinsic_sum=1e-300, intrinsic_max=0.1, clipped_share=0.0)),
        ("iterations", iteration(3)),
        ("timing", TIMING),
        ("attempts", AttemptRow("000001-ab", "2024-05-06", 7, "host", "cpu", 1, "torch 2", "a note: ε, –")),
    ],
)
def test_rows_survive_parquet_to_the_bit(table: str, row: Any) -> None:
    plain = dataclasses.asdict(row)
    assert from_parquet(to_parquet(table, [plain, plain])) == [plain, plain]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_without_rows_keeps_its_columns(table: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.parquet"
    file.write_bytes(to_parquet(table, []))
    assert query(f"select * from '{file}'").columns == schema(table).names  # noqa: S608
    assert from_parquet(file.read_bytes()) == []


def test_none_is_refused_in_a_required_column() -> None:
    row = dataclasses.asdict(episode(1)) | {"steps": None}
    with pytest.raises(ValueError, match="steps"):
        to_parquet("episodes", [row])


def test_rows_keep_their_order_across_parts_and_open_rows() -> None:
    log = RecordLog()
    number = 0
    for part in range(1, 12):  # past 10, where unpadded names would sort wrongly
        for _ in range(2):
            number += 1
            log.add("episodes", episode(number))
        log.add("iterations", iteration(part))
        log.seal(part)
    log.add("episodes", episode(number + 1))
    assert numbers(log) == list(range(1, 24))
    assert numbers(log, "iterations") == list(range(1, 12))
    assert log.rows("timing") == []


def test_the_key_of_a_part_is_table_and_number_and_empty_parts_are_not_made() -> None:
    log = RecordLog()
    log.add("episodes", episode(1))
    log.seal(1)
    log.seal(2)
    log.add("episodes", episode(2))
    log.add("timing", TIMING)
    log.seal(3)
    assert log.immutable().keys() == {"part/episodes/000001", "part/episodes/000003", "part/timing/000003"}
    assert from_parquet(log.immutable()["part/episodes/000003"]()) == [dataclasses.asdict(episode(2))]


def test_a_sealed_part_is_immutable() -> None:
    log = RecordLog()
    log.add("episodes", episode(1))
    log.seal(1)
    before = log.immutable()["part/episodes/000001"]()
    log.add("episodes", episode(2))
    log.seal(2)
    assert log.immutable()["part/episodes/000001"]() == before


def test_a_restored_log_continues_as_if_it_had_never_stopped() -> None:
    log, again = RecordLog(), RecordLog()
    log.add("episodes", episode(1))
    log.add("timing", TIMING)
    log.seal(1)
    log.add("episodes", episode(2, game_return=0.1 + 0.2))
    state = arrays.unpack(arrays.pack(log.state()))
    again.load_state(state, {key: make() for key, make in log.immutable().items()})
    for each in (log, again):
        each.add("episodes", episode(3))
        each.seal(2)
        each.add("episodes", episode(4))
    for table in LOGGED:
        assert again.rows(table) == log.rows(table)
    assert numbers(again) == [1, 2, 3, 4]
    assert {key: make() for key, make in again.immutable().items()} == {
        key: make() for key, make in log.immutable().items()
    }


def test_two_logs_share_no_rows() -> None:
    one, two = RecordLog(), RecordLog()
    one.add("episodes", episode(1))
    assert two.rows("episodes") == []


def test_duckdb_reads_a_table_with_the_right_types(tmp_path: Path) -> None:
    file = tmp_path / "iterations.parquet"
    file.write_bytes(to_parquet("iterations", [dataclasses.asdict(iteration(number)) for number in (1, 2)]))
    found = query(
        "select iteration, phase, complete, return_mean, intrinsic_mean, rooms_total "  # noqa: S608
        f"from '{file}' order by iteration desc"
    )
    assert [str(kind) for kind in found.types] == ["BIGINT", "VARCHAR", "BOOLEAN", "DOUBLE", "DOUBLE", "BIGINT"]
    assert found.fetchall() == [(2, "train", True, 0.1, None, None), (1, "train", True, 0.1, None, None)]


def test_every_row_class_of_the_module_is_a_table() -> None:
    found = {name for name, value in vars(rows).items() if inspect.isclass(value) and name.endswith("Row")}
    assert found == {kind.__name__ for kind in TABLES.values()}
    assert set(LOGGED) == set(TABLES) - {"attempts", "cells"}
