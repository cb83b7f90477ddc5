"""Workers that share only the store divide the runs of a study between them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offpiste.store.storage import Folder
from offpiste.study import claims
from offpiste.study.claims import LEASE_SECONDS, Claims, has_ended, new_worker_id
from offpiste.study.marks import Marks
from tests.study.small import tiny_study

STUDY = tiny_study(seeds=list(range(8)))
RUNS = [run.run_id for run in STUDY.runs]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do while a worker waits for their leases."""
    todo: list[Callable[[], object]] = []

    def sleep(_: float) -> None:
        for action in todo:
            action()

    monkeypatch.setattr("offpiste.study.claims.time.sleep", sleep)
    return todo


@pytest.fixture
def marks(tmp_path: Path, between: object) -> Marks:
    return Marks(Folder(tmp_path), STUDY)


def age(marks: Marks, run_id: str, worker: str, seconds: float) -> None:
    """Make a lease this old."""
    path = marks._folder.local_path
    assert path is not None
    then = time.time() - seconds
    os.utime(path / f"{marks.keys[run_id]}.lease.{worker}", (then, then))


def test_a_worker_alone_gets_what_it_asks_for_and_no_more(marks: Marks) -> None:
    mine = Claims(marks, "a", in_order=True)
    assert mine.claim(RUNS, 2) == RUNS[:2]
    assert mine.claim(RUNS[2:], 3) == RUNS[2:5]
    assert len(marks.read().leases) == 5


def test_runs_that_are_done_quarantined_or_leased_are_not_claimed(marks: Marks) -> None:
    marks.mark_done(RUNS[0])
    marks.mark_quarantined(RUNS[1])
    marks.put_lease(RUNS[2], "other")
    assert sorted(Claims(marks, "a").claim(RUNS, 9)) == RUNS[3:]
    assert Claims(marks, "b").claim(RUNS, 9) == []


def test_of_two_workers_at_the_same_moment_the_lower_id_wins(marks: Marks, between: list[Callable[[], object]]) -> None:
    first, second = Claims(marks, "a", in_order=True), Claims(marks, "b", in_order=True)
    between.append(lambda: marks.put_lease(RUNS[0], "b"))
    assert first.claim(RUNS[:1], 1) == RUNS[:1]
    first.release(RUNS[0])
    marks.delete_lease(RUNS[0], "b")
    between[:] = [lambda: marks.put_lease(RUNS[0], "a")]
    assert second.claim(RUNS[:1], 1) == []
    assert list(marks.read().leases[marks.keys[RUNS[0]]]) == ["a"]  # the loser has deleted its own


def test_one_that_has_begun_is_not_beaten_by_a_lower_id(marks: Marks, between: list[Callable[[], object]]) -> None:
    def older_lease_appears() -> None:
        marks.put_lease(RUNS[0], "b")
        age(marks, RUNS[0], "b", 3.0)

    between.append(older_lease_appears)
    assert Claims(marks, "a").claim(RUNS[:1], 1) == []


def test_a_run_finished_in_the_meantime_is_not_won(marks: Marks, between: list[Callable[[], object]]) -> None:
    between.append(lambda: marks.mark_done(RUNS[0]))
    assert Claims(marks, "a").claim(RUNS[:1], 1) == []
    assert marks.read().leases == {}


def test_a_lease_is_void_after_five_minutes_without_renewal(marks: Marks) -> None:
    marks.put_lease(RUNS[0], "gone")
    age(marks, RUNS[0], "gone", LEASE_SECONDS - 5)
    mine = Claims(marks, "z")
    assert mine.claim(RUNS[:1], 1) == []
    age(marks, RUNS[0], "gone", LEASE_SECONDS + 5)
    assert mine.claim(RUNS[:1], 1) == RUNS[:1]
    assert mine.void_leases(RUNS[0]) == {"gone"}
    mine.delete_void_leases(RUNS[0])
    assert list(marks.read().leases[marks.keys[RUNS[0]]]) == ["z"]


@pytest.mark.parametrize("ahead", [3_600, -3_600])
def test_the_clock_of_the_store_decides_not_that_of_the_machine(
    ahead: float, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr("offpiste.study.claims.time.time", lambda: real() + ahead)
    marks.put_lease(RUNS[0], "other")
    age(marks, RUNS[0], "other", ahead + 60.0)
    marks.put_lease(RUNS[1], "gone")
    age(marks, RUNS[1], "gone", ahead + 400.0)
    assert Claims(marks, "a").claim(RUNS[:2], 2) == RUNS[1:2]
    assert list(marks.read().leases[marks.keys[RUNS[0]]]) == ["other"]


def test_the_share_of_a_worker_comes_first(marks: Marks) -> None:
    shares = [Claims(marks, f"w{index}", (index, 4)) for index in range(4)]
    by_key = sorted(RUNS, key=lambda run_id: marks.keys[run_id])
    own = [sorted(by_key[index::4]) for index in range(4)]
    for index, mine in enumerate(shares):
        assert sorted(mine.claim(RUNS, len(own[index]))) == own[index]
    for mine, runs in zip(shares, own, strict=True):
        for run_id in runs:
            mine.release(run_id)
    assert sorted(shares[0].claim(RUNS, len(RUNS))) == RUNS  # then those of others


def test_of_a_share_and_of_the_rest_runs_that_were_begun_come_first(marks: Marks) -> None:
    by_key = sorted(RUNS, key=lambda run_id: marks.keys[run_id])
    own, others = by_key[0::2], by_key[1::2]
    begun = [own[0], others[0], others[1]]
    for run_id in begun:
        marks.mark_begun(run_id)
    mine = Claims(marks, "w", (0, 2))
    assert mine.claim(RUNS, 1) == own[:1]
    rest = [run_id for run_id in RUNS if run_id != own[0]]
    assert sorted(mine.claim(rest, len(own) - 1)) == sorted(own[1:])
    assert sorted(mine.claim(others, 2)) == sorted(others[:2])


def test_a_worker_of_this_machine_that_has_ended_leaves_no_valid_lease(marks: Marks) -> None:
    script = "from offpiste.study.claims import new_worker_id; print(new_worker_id())"
    ended = subprocess.check_output([sys.executable, "-c", script], text=True).strip()
    me = new_worker_id()
    elsewhere = "-".join([ended.split("-")[0], "00000000", *ended.split("-")[2:]])
    assert [has_ended(worker) for worker in (ended, me, elsewhere, "x")] == [True, False, False, False]
    marks.put_lease(RUNS[0], ended)
    marks.put_lease(RUNS[1], elsewhere)
    assert Claims(marks, me).claim(RUNS[:2], 2) == RUNS[:1]


def test_a_process_id_that_was_given_to_another_process_is_not_the_worker() -> None:
    me = new_worker_id()
    assert has_ended(f"{me}0")
    assert claims._start_time(os.getpid()) == me.split("-")[3]
