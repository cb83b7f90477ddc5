"""The parts of a study hold each run once, whatever their number."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpiste.errors import ConfigError
from offpiste.store.storage import Folder
from offpiste.study.marks import Marks, read_status
from offpiste.study.parts import StudyPart, line, numbers_text, part_of, parts_left, put_count
from tests.study.small import leave_status, tiny_study

STUDY = replace(tiny_study(seeds=list(range(10)), keep="all"), bonus_sources={"none": None})


def test_ten_runs_in_four_parts_are_slices_of_two_or_three_in_order() -> None:
    assert [len(StudyPart(number, 4).of(STUDY.runs)) for number in (1, 2, 3, 4)] == [2, 3, 2, 3]
    assert StudyPart(2, 4).of(STUDY.runs) == STUDY.runs[2:5]


@given(st.integers(0, 3_000), st.integers(1, 1_200))
def test_each_run_is_in_one_part_and_sizes_differ_by_one_at_most(runs: int, count: int) -> None:
    parts = [StudyPart(number, count).of(range(runs)) for number in range(1, count + 1)]
    assert [index for part in parts for index in part] == list(range(runs))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_part_is_written_as_its_number_and_their_number() -> None:
    assert part_of("3/12") == StudyPart(3, 12)


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "a/b", "١/٣"])
def test_any_other_part_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--part must be I/N, from 1/N to N/N, got"):
        part_of(text)


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([4], "4"), ([1, 2, 3, 5, 7, 8], "1-3,5,7-8")])
def test_numbers_are_written_as_slurm_does(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text


def test_parts_are_done_at_work_or_not_by_the_runs_in_them(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    Marks(store, STUDY).mark_done(*(run.run_id for run in STUDY.runs[:5]))
    leave_status(store.below(STUDY.runs[5].run_id), STUDY.runs[5], "running", 100)
    store.below(STUDY.runs[8].run_id).put("quarantine.json", b"{}")
    store.below(STUDY.runs[9].run_id).put("quarantine.json", b"{}")
    found = read_status(store, STUDY)
    assert parts_left(STUDY, found, 5) == [3, 4]
    assert line(store, STUDY, found) == ""
    put_count(store, "tiny", 5)
    assert line(store, STUDY, found) == "5 parts: 3 done, 1 at work, 1 not: 4"
    for crooked in (b"[]", b"{", b'{"parts": 0}', b'{"parts": "x"}', b'{"parts": 99999999}'):
        store.put("studies/tiny/parts.json", crooked)
        assert line(store, STUDY, found) == ""
