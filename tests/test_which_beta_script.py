"""Each study of Which β? is written from the records of those before it, and from nothing less."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpiste.analysis.results import load
from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.methods import base_run
from offpiste.store.storage import Folder
from offpiste.study.marks import read_status
from offpiste.study.plan import load_bonuses, read_study
from offpiste.worlds.scores import reference_scores
from scripts import which_beta
from tests.analysis.small_store import write_run

STAGE_1 = which_beta.FOLDER


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first stage of NoisyNets, and a published result without a run of it."""
    folder = tmp_path / "studies"
    folder.mkdir()
    for file in STAGE_1.glob("noisy_nets_1_*.toml"):
        (folder / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(which_beta, "FOLDER", folder)
    monkeypatch.setattr(which_beta, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(which_beta, "BUNDLES", tmp_path / "bundles")
    write_finished(tmp_path / "published", base_run("museum", "epsilon_greedy"))
    return folder


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["which_beta", *words])
    return which_beta.main()


def finish(store: Path, *files: Path) -> None:
    """Write the runs of studies; those with σ0 of 1.6 solve their worlds, with the middle step size sooner."""
    for run in (run for file in files for run in read_study(file).runs):
        write_finished(store, run)


def write_finished(store: Path, run: RunConfig) -> None:
    scale = reference_scores(run.game)
    iterations = run.frames // run.schedule.iteration_steps
    value = scale.score_at(float(run.exploration.noise_scale == 1.6))
    area = scale.score_at(0.5 if run.agent.learning_rate == 3e-3 else 0.1)
    write_run(Folder(store), run, [area] * iterations, evaluations=[value] * iterations)


def test_the_first_stage_is_as_derived(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    words = ("stage-1", "--part", "noisy_nets", "--check")
    assert call(monkeypatch, *words) == 0
    file = folder / "noisy_nets_1_easy.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("0.16", "0.17"), encoding="utf-8")
    assert call(monkeypatch, *words) == 1


@pytest.mark.slow  # it calibrates a bonus
def test_the_first_stage_of_todays_methods_is_as_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(which_beta, "FOLDER", STAGE_1)
    assert call(monkeypatch, "stage-1", "--part", "today", "--check") == 0


@pytest.mark.slow  # it writes a hundred runs
def test_each_stage_follows_from_the_one_before_and_waits_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, part = tmp_path / "store", ("--part", "noisy_nets")
    finish(store, folder / "noisy_nets_1_hard.toml")
    assert call(monkeypatch, "stage-2", *part, str(store)) == 1
    assert "21 runs of the stages before are missing, as catch/noisy_nets/noise_scale=" in capsys.readouterr().out
    finish(store, folder / "noisy_nets_1_easy.toml")
    assert call(monkeypatch, "stage-2", *part, str(store)) == 0
    second = read_study(folder / "noisy_nets_2.toml")
    assert len(second.runs) == 4 * 2 * 3
    assert {run.seed for run in second.runs} == {102, 103, 104}
    assert {run.exploration.noise_scale for run in second.runs} == {1.6}
    assert call(monkeypatch, "result", *part, str(store)) == 1
    assert "24 runs of the stages before are missing" in capsys.readouterr().out
    finish(store, folder / "noisy_nets_2.toml")
    assert call(monkeypatch, "result", *part, "--seeds", "0-1", str(store)) == 0
    result = read_study(folder / "noisy_nets_result_0-1.toml")
    settings = {(run.exploration.noise_scale, run.agent.learning_rate) for run in result.runs if run.variant}
    assert settings == {(1.6, 3e-3)}
    assert {run.game for run in result.runs if not run.variant} == {run.game for run in result.runs}  # the default
    assert len(result.runs) == 2 * (7 * 2 + 1)
    assert {run.seed for run in result.runs} == {0, 1}
    first = result.runs[0]
    done = [run for run in result.runs if (run.game, run.variant) == (first.game, first.variant)]
    assert len(done) == 2
    for run in done:
        write_finished(store, run)
    assert call(monkeypatch, "result", *part, "--seeds", "0-1", str(store)) == 0
    assert len(read_study(folder / "noisy_nets_result_0-1.toml").runs) == len(result.runs) - len(done)
    assert call(monkeypatch, "cost") == 0
    assert "noisy_nets_2                24 runs" in capsys.readouterr().out


def test_a_new_store_continues_a_study_with_what_no_bundle_has(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, new = tmp_path / "store", tmp_path / "new"
    study = read_study(folder / "noisy_nets_1_easy.toml")
    first, second, begun, *rest = study.runs
    write_finished(store, first)
    assert call(monkeypatch, "bundle", str(store)) == 0
    write_finished(store, second)
    write_run(Folder(store), begun, [0.0], state="running")
    assert call(monkeypatch, "bundle", str(store)) == 0
    assert [[run.name for run in load(each).runs] for each in which_beta.bundles()] == [
        [first.run_id],
        [second.run_id],
    ]
    with pytest.raises(StoreError, match="all finished runs are in other bundles"):
        call(monkeypatch, "bundle", str(store))

    assert call(monkeypatch, "resume", str(new)) == 0
    assert "noisy_nets_1_easy            2 of    21 runs are done" in capsys.readouterr().out
    states = {one.run_id: one for one in read_status(Folder(new), load_bonuses(study))}
    assert [run_id for run_id, one in states.items() if one.is_complete(study.keep)] == [first.run_id, second.run_id]
    assert {states[run.run_id].state for run in (begun, *rest)} == {"waiting"}


def test_a_bundled_run_of_other_settings_or_frames_is_not_done(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    first, second, third, *_ = read_study(folder / "noisy_nets_1_easy.toml").runs
    write_finished(store, replace(first, seed=7))
    write_finished(store, replace(second, exploration=replace(second.exploration, noise_scale=0.7)))
    write_finished(store, replace(third, frames=third.frames - third.schedule.iteration_steps))
    assert call(monkeypatch, "bundle", str(store)) == 0
    assert call(monkeypatch, "resume", str(tmp_path / "new")) == 0
    assert "noisy_nets_1_easy            0 of    21 runs are done" in capsys.readouterr().out


def test_later_studies_are_written_from_bundles_and_stores_together(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = read_study(folder / "noisy_nets_1_easy.toml").runs
    for store, own in (("old", runs[:20]), ("new", runs[20:])):
        for run in own:
            write_finished(tmp_path / store, run)
    assert call(monkeypatch, "bundle", str(tmp_path / "old")) == 0
    assert call(monkeypatch, "stage-2", "--part", "noisy_nets", str(tmp_path / "new")) == 1
    assert "56 runs of the stages before are missing, as four_rooms" in capsys.readouterr().out
