"""The doctor: its diagnosis of this machine, and its advice if something is wrong."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from offpiste.cli import doctor
from offpiste.cli.doctor import Arguments, main


def examine(capsys: pytest.CaptureFixture[str], out: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and mark and message of each diagnosis."""
    code = main(Arguments(out=out))
    lines = [re.fullmatch(r"(\w+) +(\w+) +(.+)", line) for line in capsys.readouterr().out.splitlines()]
    return code, {found[2]: (found[1], found[3]) for found in lines if found}


def test_a_machine_that_runs_the_tests_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examine(capsys, str(tmp_path / "runs"))
    assert code == 0
    assert {"python", "games", "torch", "bf16", "gpu", "memory", "store", "cluster", "report"} <= set(found)
    assert found["games"][0] == "ok"
    assert "GB free" in found["store"][1]
    assert not (tmp_path / "runs").exists()


def test_an_unreachable_store_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examine(capsys, "s3://bucket/runs?endpoint_override=127.0.0.1:1&scheme=http")
    assert code == 1
    assert found["store"][0] == "FAILED"
    assert "cannot write" in found["store"][1]


def test_a_reachable_store_passes(new_s3_location: Callable[[], str], capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examine(capsys, new_s3_location())
    assert (code, found["store"][0]) == (0, "ok")


def test_too_little_memory_fails_with_the_setting_to_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "available_gigabytes", lambda: 1.0)
    code, found = examine(capsys, str(tmp_path))
    assert code == 1
    assert "lower --agent.replay-capacity" in found["memory"][1]


@pytest.mark.parametrize(("flags", "mark"), [({"amx_bf16"}, "ok"), ({"avx2"}, "note"), (set(), "note")])
def test_bfloat16_is_recommended_only_if_the_processor_supports_it(
    flags: set[str], mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "processor_flags", lambda: flags)
    assert examine(capsys, str(tmp_path))[1]["bf16"][0] == mark


def test_a_check_that_raises_is_reported_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> float:
        raise RuntimeError("no idea")

    monkeypatch.setattr(doctor, "available_gigabytes", broken)
    code, found = examine(capsys, str(tmp_path))
    assert code == 1
    assert found["memory"] == ("FAILED", "RuntimeError: no idea")
    assert "report" in found
