"""`offpiste try`: from a bonus to a table and a page, with a stand-in for the workers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.cli import try_bonus
from offpiste.store.storage import Folder
from offpiste.study import engine
from offpiste.study.driver import StudySummary
from offpiste.study.plan import Study
from tests.analysis.small_store import write_run
from tests.cli.test_main import Said


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    """The studies that were run; every run of them earned 0.6 in each episode."""
    studies: list[Study] = []

    def run_study(study: Study, content: bytes, location: str, *_: Any, **__: Any) -> StudySummary:
        studies.append(study)
        for run in study.runs:
            short = replace(run, frames=2, schedule=replace(run.schedule, iteration_steps=1))
            write_run(Folder(location), short, [0.6, 0.6], evaluations=[0.6, 0.6])
        return StudySummary(len(study.runs), 0, 0)

    monkeypatch.setattr(engine, "run_study", run_study)
    monkeypatch.setattr(try_bonus, "published", list)
    return studies


def test_a_quick_trial_takes_the_middle_of_the_grid_two_worlds_and_three_seeds(
    ran: list[Study], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said(["try", "oracle", "--quick", "--store", str(tmp_path / "trial")], capsys)
    assert said.code == 0, said.errors
    (study,) = ran
    assert len(study.runs) == 6
    assert {run.bonus.scale for run in study.runs} == {0.09}
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[1][:4] == ["Deep", "Sea", "12", "0.61"]  # from -0.005 to 0.99
    assert rows[2][:2] == ["Catch", "0.50"]  # from 0.2 to 1
    assert Path(said.out.splitlines()[-1]).is_file()


def test_a_trial_tunes_before_it_runs_every_world(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    assert Said(["try", "oracle", "--seeds", "1", "--store", str(tmp_path)], capsys).code == 0
    assert [len(study.runs) for study in ran] == [75, 10, 8]  # all settings do alike, so the first is taken: an edge


def test_a_trial_that_was_told_to_stop_says_that_it_can_be_continued(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "run_study", lambda *_, **__: StudySummary(1, 0, 5))
    said = Said(["try", "epsilon_greedy", "--quick", "--store", str(tmp_path)], capsys)
    assert said.code == 75
    assert "the same command continues" in said.errors


def test_a_bonus_whose_runs_fail_is_told_where_to_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "run_study", lambda *_, **__: StudySummary(1, 5, 0))
    said = Said(["try", "epsilon_greedy", "--quick", "--store", str(tmp_path)], capsys)
    assert said.code == 1
    assert "5 runs failed; quarantine.json in the folder of each tells why" in said.errors
