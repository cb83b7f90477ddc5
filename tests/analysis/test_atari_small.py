"""Freeway in the small: the gate and the tests, on areas counted by hand, and the study as it is stated."""

from pathlib import Path

import pytest

from offpiste.analysis.atari_small import BONUSES, GAME, GATE, PILOT_SEEDS, SEEDS, areas_of, judge, missing, passes_gate
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.results import load
from offpiste.analysis.summary import summarise
from offpiste.config import RunConfig
from offpiste.methods import METHODS
from offpiste.store.storage import Folder
from offpiste.study.plan import read_study
from offpiste.study.tuning import calibrated, rounded
from tests.analysis.small_store import config_of, write_run

STUDIES = Path(__file__).parents[2] / "studies"
RESULT, PILOT = (read_study(STUDIES / f"atari_small{part}.toml") for part in ("", "_pilot"))


def areas(cts: list[float], rnd: list[float], pilot: float = 0.3) -> dict[str, dict[int, float]]:
    """ε-greedy has 0.3 on every seed; the bonuses differ from that by so much, seed by seed."""
    own = {"cts": cts, "rnd": rnd}
    found = {bonus: {seed: 0.3 + more for seed, more in zip(SEEDS, own[bonus], strict=True)} for bonus in BONUSES}
    return found | {BASELINE: dict.fromkeys(SEEDS, 0.3) | dict.fromkeys(PILOT_SEEDS, pilot)}


def test_a_bonus_slows_learning_if_all_six_pairs_are_lower() -> None:
    found = judge(areas(cts=[-0.1] * 6, rnd=[-0.1] * 5 + [0.01]))
    assert found == {
        "cts": {"slows learning": True, "costs little": False},
        "rnd": {"slows learning": False, "costs little": False},
    }


def test_a_bonus_costs_little_if_all_six_pairs_lose_less_than_the_margin() -> None:
    found = judge(areas(cts=[-0.04] * 6, rnd=[0.2] * 5 + [-0.05]))
    assert found == {
        "cts": {"slows learning": True, "costs little": True},  # a little, and for sure
        "rnd": {"slows learning": False, "costs little": False},  # as much as the margin is too much
    }
    assert judge(areas(cts=[0.0] * 6, rnd=[0.1] * 6))["cts"] == {"slows learning": False, "costs little": True}


def test_nothing_is_judged_where_the_baseline_hardly_learns_or_a_run_is_missing() -> None:
    assert judge(areas([-0.1] * 6, [-0.1] * 6, pilot=GATE))
    assert judge(areas([-0.1] * 6, [-0.1] * 6, pilot=GATE - 0.01)) == {}
    lacking = areas([-0.1] * 6, [-0.1] * 6)
    del lacking["rnd"][5]
    assert missing(lacking) == [("rnd", 5)]
    assert judge(lacking) == {}
    assert not passes_gate({})


def test_areas_are_on_the_scale_from_random_play_to_a_human(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_run(store, config_of("freeway", "cts", 3), [0.0, 29.6, 29.6])
    write_run(store, config_of("hero", "cts", 3), [1.0, 1.0, 1.0])
    write_run(store, config_of("freeway", "cts", 4), [1.0], state="running")
    assert areas_of(summarise(load(tmp_path))) == {"cts": {3: pytest.approx(2 / 3)}}


def test_the_study_is_as_stated() -> None:
    assert {(run.method, run.seed) for run in RESULT.runs} == {(m, s) for m in (BASELINE, *BONUSES) for s in SEEDS}
    assert {(run.method, run.seed) for run in PILOT.runs} == {(BASELINE, seed) for seed in PILOT_SEEDS}
    for run in (*RESULT.runs, *PILOT.runs):
        assert (run.game, run.frames, run.world.frame_size) == (GAME, 1_000_000, 42)
        assert (run.agent.convolution_channels, run.agent.hidden_units) == ((16, 32, 32), 256)
        assert (run.agent.learning_rate, run.agent.target_update_steps) == (2.5e-4, 2_000)
        assert run.exploration.epsilon_decay_steps == 50_000
    assert all(run.agent.learning_rate != RunConfig().agent.learning_rate for run in RESULT.runs)


@pytest.mark.slow  # 2,000 steps of random play of each bonus
@pytest.mark.parametrize("bonus", BONUSES)
def test_the_scales_are_those_of_calibration_on_the_game(bonus: str) -> None:
    runs = [run for run in RESULT.runs if run.method == bonus]
    assert {run.bonus.scale for run in runs} == {rounded(calibrated(METHODS[bonus].bonus, runs[0]))}
