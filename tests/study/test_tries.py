"""Attempts at a run are counted in its folder, from one checkpoint to the next."""

from pathlib import Path

import pytest

from offpiste.store import layout
from offpiste.store.storage import Folder
from offpiste.study import status
from offpiste.study.tries import Tries, count_attempt, count_failure


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_three_failures_without_a_new_checkpoint_are_in_vain(run: Folder) -> None:
    found = [count_failure(run) for _ in range(3)]
    assert [tries.in_vain for tries in found] == [False, False, True]
    assert [tries.delay for tries in found[:2]] == [15.0, 60.0]


def test_a_new_checkpoint_resets_the_counts(run: Folder) -> None:
    count_attempt(run)
    count_failure(run)
    run.put("manifests/1.json", b"")
    assert count_failure(run) == Tries("1.json", 0, 0)
    assert count_attempt(run) == Tries("1.json", 1, 0)
    assert count_failure(run) == Tries("1.json", 1, 1)


def test_the_eleventh_attempt_without_a_checkpoint_is_in_vain_whatever_ended_the_others(run: Folder) -> None:
    found = [count_attempt(run) for _ in range(11)]
    assert [tries.in_vain for tries in found] == [False] * 10 + [True]


def test_a_failure_with_an_older_checkpoint_counts_from_one(run: Folder) -> None:
    run.put("manifests/1.json", b"")
    count_attempt(run)
    assert count_failure(run).failures == 1


@pytest.mark.parametrize("content", [b"", b"[]", b'{"manifest": 1}', b"not json"])
def test_unreadable_counts_begin_again(content: bytes, run: Folder) -> None:
    run.put(layout.TRIES, content)
    assert count_failure(run) == Tries("", 0, 1)


def test_lifting_a_quarantine_forgets_the_counts(run: Folder) -> None:
    count_failure(run)
    status.quarantine(run, "no", "")
    assert status.lift_quarantine(run)
    assert count_failure(run).failures == 1
