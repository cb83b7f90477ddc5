"""One attempt at a run: what it returns, and where it keeps compiled code."""

import os
import signal
import sys
from pathlib import Path

import pytest

from offpiste.run.digest import digest
from offpiste.run.train import Progress
from offpiste.store.storage import Folder
from offpiste.study import attempt as attempts
from offpiste.study.attempt import Outcome, Watch, attempt, attempt_of_study, outcome_of
from tests.study.small import tiny_study

RUN = tiny_study().runs[0]


def test_an_attempt_reports_its_last_progress_and_returns_it(tmp_path: Path) -> None:
    reported: list[Progress] = []
    last = attempt(RUN, Folder(tmp_path), reported.append)
    assert (last.state, last.frames, reported[-1]) == ("finished", 400, last)


def test_a_watch_stops_an_attempt_which_the_next_one_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.run.train.PROGRESS_SECONDS", 0.0)
    answers = iter(["", "", "enough"])
    watch = Watch(lambda: next(answers), 0.0)
    assert attempt_of_study(RUN, Folder(tmp_path / "stopped"), "all", watch) == Outcome("paused")
    assert watch.reason == "enough"
    assert attempt_of_study(RUN, Folder(tmp_path / "stopped"), "all", lambda _: None) == Outcome("finished")
    attempt(RUN, Folder(tmp_path / "alone"), lambda _: None)
    assert digest(Folder(tmp_path / "stopped")) == digest(Folder(tmp_path / "alone"))


def test_a_watch_asks_no_more_once_it_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    answers = iter(["enough"])
    watch = Watch(lambda: next(answers), 0.0)
    watch(None)
    watch(None)
    assert raised == [signal.SIGTERM]


def test_the_outcome_of_an_error_holds_its_traceback() -> None:
    def fail() -> Outcome:
        raise MemoryError("full")

    found = outcome_of(fail)
    assert (found.state, found.error) == ("failed", "MemoryError: full")
    assert "in fail" in found.details


def test_the_numba_cache_is_on_the_machine_and_in_a_folder_that_no_other_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    attempts._keep_compiled_code_on_this_machine()
    assert os.environ["NUMBA_CACHE_DIR"] == "elsewhere"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    attempts._keep_compiled_code_on_this_machine()
    (folder,) = tmp_path.iterdir()
    assert os.environ.pop("NUMBA_CACHE_DIR") == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)  # now anybody could put code there
    attempts._keep_compiled_code_on_this_machine()
    assert "NUMBA_CACHE_DIR" not in os.environ
