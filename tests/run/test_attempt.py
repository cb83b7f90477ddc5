"""One attempt at a run: what it returns, and where it keeps compiled code."""

import os
import signal
import sys
from pathlib import Path

import pytest

from offpiste.cli import main
from offpiste.parsing import to_toml
from offpiste.run.attempt import attempt, keep_compiled_code_on_this_machine
from offpiste.run.digest import digest
from offpiste.run.progress import Progress
from offpiste.run.stopping import SIGNALS
from offpiste.store.storage import Folder
from tests.run.small import small_run


def test_an_attempt_reports_its_last_progress_and_returns_it(tmp_path: Path) -> None:
    reported: list[Progress] = []
    last = attempt(small_run(frames=400), Folder(tmp_path), reported.append)
    assert (last.state, last.frames, reported[-1]) == ("finished", 400, last)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_torch_is_imported_stops_the_run_before_its_first_step_and_the_same_command_resumes(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    settings = tmp_path / "settings.toml"
    settings.write_text(to_toml(small_run(frames=400)))
    command = ["train", "--config", str(settings), "--out", str(tmp_path)]
    with monkeypatch.context() as patched:
        module = sys.modules[attempt.__module__]
        patched.setattr(module, "keep_compiled_code_on_this_machine", lambda: signal.raise_signal(number))
        assert main(command) == 75
    assert "stopped at 0 of 400 frames; the same command continues" in capsys.readouterr().err
    assert signal.getsignal(number) is before
    assert main(command) == 0
    resumed, whole = (Folder(str(folder)) for folder in (tmp_path / small_run().run_id, tmp_path / "whole"))
    attempt(small_run(frames=400), whole, lambda _: None)
    assert digest(resumed) == digest(whole)


def test_the_numba_cache_is_on_the_machine_and_in_a_folder_that_no_other_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep_compiled_code_on_this_machine()
    assert os.environ["NUMBA_CACHE_DIR"] == "elsewhere"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    keep_compiled_code_on_this_machine()
    (folder,) = tmp_path.iterdir()
    assert os.environ.pop("NUMBA_CACHE_DIR") == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)  # now anybody could put code there
    keep_compiled_code_on_this_machine()
    assert "NUMBA_CACHE_DIR" not in os.environ
