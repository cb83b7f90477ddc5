"""`offpiste try`: from a bonus to a table and a report, with a stand-in for the engine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.caveats import CLIPPED, Note
from offpiste.cli import try_bonus
from offpiste.cli.trial_view import warnings
from offpiste.config import BonusConfig
from offpiste.methods import METHODS, SMALL_WORLDS
from offpiste.store.storage import Folder
from offpiste.study import cost, here
from offpiste.study.driver import StudySummary
from offpiste.study.plan import Study
from offpiste.study.tuning import calibrated, rounded
from tests.analysis.small_store import write_run
from tests.cli.test_main import Output

NEW = "offpiste.bonuses.oracle:Oracle"
"""A bonus that is tried as one of a user's own, without constants."""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    """The studies that were run; every episode of theirs returned 0.6."""
    studies: list[Study] = []

    def run_here(study: Study, content: bytes, location: str, *_: Any, **__: Any) -> StudySummary:
        studies.append(study)
        for run in study.runs:
            short = replace(run, frames=2, schedule=replace(run.schedule, iteration_steps=1))
            write_run(Folder(location), short, [0.6, 0.6], evaluations=[0.6, 0.6])
        return StudySummary(len(study.runs), 0, 0)

    monkeypatch.setattr(here, "run_here", run_here)
    monkeypatch.setattr(try_bonus, "published", list)
    return studies


def test_a_quick_trial_uses_the_middle_of_the_grid_a_hard_world_and_three_seeds(
    ran: list[Study], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["try", NEW, "--quick", "--store", str(tmp_path / "trial")], capsys)
    assert output.code == 0, output.errors
    (study,) = ran
    assert [run.game for run in study.runs] == ["four_rooms"] * 3
    assert {run.bonus.scale for run in study.runs} == {rounded(calibrated(BonusConfig(NEW)))}
    rows = [line.split() for line in output.out.splitlines()]
    assert rows[1][:3] == ["Four", "Rooms", "0.57"]  # from 0.01 to 1.04
    assert Path(output.out.splitlines()[-1]).is_file()


def test_a_trial_tunes_the_bonus_before_it_runs_every_world(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    assert Output(["try", NEW, "--seeds", "1", "--store", str(tmp_path)], capsys).code == 0
    assert [len(study.runs) for study in ran] == [
        75,
        8,
    ]  # all settings tie, so the middle is best, and no edge is extended


def test_a_scale_leaves_out_the_tuning(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    argv = ["try", NEW, "--seeds", "1", "--bonus.scale", "0.5", "--worlds", "museum", "catch", "--store", str(tmp_path)]
    assert Output(argv, capsys).code == 0
    (study,) = ran
    assert [(run.game, run.bonus.scale) for run in study.runs] == [("museum", 0.5), ("catch", 0.5)]
    assert not any(run.variant for run in study.runs)


def test_worlds_may_be_suites_and_environments_of_others(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    own = "tests.worlds.broken:GoodPositions"
    argv = ["try", "oracle", "--seeds", "1", "--worlds", "small_easy", own, "--store", str(tmp_path)]
    output = Output(argv, capsys)
    assert output.code == 0
    (study,) = ran
    assert [run.game for run in study.runs] == ["catch", "rain", "museum", own, own]
    assert {run.method for run in study.runs if run.game == own} == {"oracle", "epsilon_greedy"}


def test_options_are_set_in_tuning_and_result(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    bonus, store = "offpiste.bonuses.simhash:SimHash", str(tmp_path)
    argv = ["try", bonus, "--seeds", "1", "--bonus.options.bits", "32", "--worlds", "catch", "--store", store]
    assert Output(argv, capsys).code == 0
    assert [len(study.runs) for study in ran] == [75, 1]
    assert {run.bonus.options["bits"] for study in ran for run in study.runs} == {32}


def seconds_of(*_: Any, **__: Any) -> float:
    """A rate, for the steps per second of this machine."""
    return 100.0


def test_with_sensitivity_seven_scales_are_tried_in_each_world_at_a_cost_that_is_said_before(
    ran: list[Study], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "measure", seconds_of)
    argv = ["try", NEW, "--quick", "--sensitivity", "--store", str(tmp_path / "trial")]
    output = Output(argv, capsys)
    assert output.code == 0, output.errors
    result, tried = ran
    assert (len(result.runs), len(tried.runs)) == (3, 14)
    middle = rounded(calibrated(BonusConfig(NEW)))
    scales = sorted({run.bonus.scale for run in tried.runs})
    assert scales[4] == middle
    assert [scale / middle for scale in scales] == pytest.approx([10 ** (k / 2) for k in range(-4, 3)], rel=0.05)
    assert {run.seed for run in tried.runs} == {100, 101}
    assert "seven β in each world are 14 runs besides: at most about" in output.errors
    lines = output.out.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("Score over k, in half-decades of β around"))
    assert lines[at + 1].split() == ["-4", "-3", "-2", "-1", "0", "1", "2", "β", "=", "0"]
    assert lines[at + 2] == "Four Rooms       0.57    0.57    0.57    0.57   [0.57]   0.57    0.57         –"
    assert max(map(len, lines[at:-1])) <= 80
    page = (tmp_path / "trial" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Score over β" in page
    assert (tmp_path / "trial" / "report" / "figures" / "score_over_beta.png").is_file()
    assert "tune constants" not in page  # what was tried besides gave it no better constant


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["cts", "--sensitivity"],
            "--sensitivity is for a bonus that nobody tuned, and cts has published constants",
        ),
        (
            ["cts", "--bonus.scale", "1"],
            "cts has constants of its own, got --bonus.scale; to try others, name the class",
        ),
        ([NEW, "--worlds", "catsh"], "no small world named 'catsh'; did you mean 'catch'?"),
        ([NEW, "--bonus.scale", "much", "--worlds", "catch"], "bonus.scale must be a"),
        ([NEW, "--bonus.options.bits", "1", "--worlds", "catch"], "no setting named 'bonus.options.bits'"),
    ],
)
def test_what_a_trial_cannot_do_is_refused(
    argv: list[str], message: str, ran: list[Study], tmp_path: Path, capsys: Any
) -> None:
    output = Output(["try", *argv, "--store", str(tmp_path)], capsys)
    assert output.code == 1
    assert message in output.errors
    assert not ran


def test_a_method_with_published_constants_is_not_tuned_again(ran: list[Study], tmp_path: Path, capsys: Any) -> None:
    assert Output(["try", "oracle", "--seeds", "1", "--store", str(tmp_path)], capsys).code == 0
    (study,) = ran
    assert all(run.bonus == METHODS["oracle"].constants[SMALL_WORLDS] for run in study.runs)
    assert len(study.runs) == 8


def test_the_exit_code_of_a_stopped_trial_is_75_and_it_can_be_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(here, "run_here", lambda *_, **__: StudySummary(1, 0, 5))
    output = Output(["try", "epsilon_greedy", "--quick", "--store", str(tmp_path)], capsys)
    assert output.code == 75
    assert "the same command continues" in output.errors


def test_if_runs_fail_the_error_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(here, "run_here", lambda *_, **__: StudySummary(1, 5, 0))
    output = Output(["try", "epsilon_greedy", "--quick", "--store", str(tmp_path)], capsys)
    assert output.code == 1
    assert "5 runs failed, for the reasons above. Mend the bonus and give the same command again" in output.errors


def test_a_trial_warns_where_the_bonus_is_clipped_too_often() -> None:
    notes = [
        Note(CLIPPED, "noisy_tv/mine", "clipped on 43% of the steps"),
        Note(CLIPPED, "catch/cts", "clipped"),
        Note("few seeds", "catch/mine", "3 seeds"),
    ]
    assert list(warnings("mine", notes)) == ["warning: in Noisy TV the bonus is clipped on 43% of the steps"]


def test_a_trial_of_a_bonus_that_pays_too_seldom_ends_with_advice(
    ran: list[Study], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["try", "tests.study.test_tuning:FirstVisit", "--quick", "--store", str(tmp_path)], capsys)
    assert (output.code, ran) == (1, [])
    assert "choose β in a study of your own" in output.errors
