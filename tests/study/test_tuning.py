"""The grid of a bonus and the choice from it, worked out by hand."""

import math
import statistics
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from offpiste.analysis.evidence import gather
from offpiste.analysis.fairness import variants
from offpiste.analysis.results import Results, load
from offpiste.analysis.small_worlds import BONUSES, LADDER
from offpiste.bonuses.base import Batch, Context, Transition
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.methods import METHODS, SMALL_WORLDS, base_run
from offpiste.run.loop import build_bonus
from offpiste.seeding import stream
from offpiste.study.plan import read_study
from offpiste.study.trial import Trial, best_of
from offpiste.study.tuning import GAME, SEEDS, Grid, calibrated, half_decades, rounded, typical_intrinsic
from offpiste.worlds.play import play, random_policy
from offpiste.worlds.registry import open_world

STUDIES = Path(__file__).parents[2] / "studies"


def test_settings_are_half_a_decade_apart_around_the_middle() -> None:
    assert half_decades(0.1, 5) == (0.01, 0.032, 0.1, 0.32, 1.0)
    assert rounded(0.031622) == 0.032


def test_a_bonus_with_a_learning_rate_has_five_betas_and_three_rates_and_any_other_fifteen_betas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("offpiste.study.trial.calibrated", lambda _: 0.1)
    counts, learns = Trial("oracle", (GAME,), 1).grid(), Trial("rnd", (GAME,), 1).grid()
    assert (len(counts.scales), counts.rates) == (15, ())
    assert (len(learns.scales), learns.rates) == (5, (0.0002, 0.00063, 0.002))
    assert counts.axes() == {"beta": {"setting": "bonus.scale", "values": list(counts.scales)}}
    assert learns.axes()["lr"] == {"setting": "bonus.options.learning_rate", "values": [0.0002, 0.00063, 0.002]}


def test_the_middle_beta_scales_the_median_intrinsic_reward_of_random_play_to_three_hundredths() -> None:
    typical = typical_intrinsic(BonusConfig(name="oracle"))
    assert typical == pytest.approx(1 / math.sqrt(25), rel=0.1)  # two thousand steps through some eighty cells
    assert Trial("oracle", (GAME,), 1).grid().middle == rounded(0.03 / typical)


class Every:
    """Pays -2 on every so many steps, and a thousand on the first 500."""

    @dataclass(frozen=True)
    class Options:
        steps: int = 1

    def __init__(self, options: Options, _: Context) -> None:
        self.options, self.steps = options, 0

    def observe(self, _: Transition) -> float:
        self.steps += 1
        if self.steps <= 500:
            return 1_000.0
        return -2.0 if self.steps % self.options.steps == 0 else 0.0

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


class FirstVisit(Every):
    """Pays 1 for a frame that was never seen before."""

    def __init__(self, options: Every.Options, context: Context) -> None:
        super().__init__(options, context)
        self.seen: set[bytes] = set()

    def observe(self, transition: Transition) -> float:
        frame = transition.frame.tobytes()
        new = frame not in self.seen
        self.seen.add(frame)
        return float(new)


class Learner(Every):
    """Pays 1 until it has learned from 50 batches, and 20 from then on."""

    batches: ClassVar[list[tuple[int, ...]]] = []

    def observe(self, _: Transition) -> float:
        return 1.0 if len(self.batches) < 50 else 20.0

    def learn(self, batch: Batch) -> None:
        self.batches.append(batch.frames.shape)


class Settling(Every):
    """Pays 1,000 on the 500 steps after a warm-up of 300 that its run does not pay, then 4."""

    warm_up_steps = 300

    def observe(self, _: Transition) -> float:
        self.steps += 1
        return 1_000.0 if self.steps <= self.warm_up_steps + 500 else 4.0


def test_steps_count_after_the_warm_up_of_a_bonus() -> None:
    assert typical_intrinsic(BonusConfig(f"{__name__}:Settling")) == 4.0


class Knowing(Every):
    """Pays the warm-up that it was told of."""

    def __init__(self, options: Every.Options, context: Context) -> None:
        super().__init__(options, context)
        self.told = context.min_history_steps

    def observe(self, _: Transition) -> float:
        return float(self.told)


class KnowingLearner(Knowing):
    def learn(self, _: Batch) -> None:
        pass


@pytest.mark.parametrize(("kind", "told"), [("Knowing", 3_000), ("KnowingLearner", 500)])
def test_learning_begins_earlier_than_in_a_run_only_for_what_learns(kind: str, told: int) -> None:
    run = base_run("catch")
    run = replace(run, agent=replace(run.agent, min_history_steps=3_000))
    assert typical_intrinsic(BonusConfig(f"{__name__}:{kind}"), run) == told


def test_a_bonus_that_mostly_pays_nothing_is_calibrated_by_what_it_pays() -> None:
    """The median of all steps would be zero; the first 500 do not count."""
    assert typical_intrinsic(BonusConfig(f"{__name__}:Every", {"steps": 5})) == 2.0
    assert Trial(f"{__name__}:Every", (GAME,), 1, {"steps": 5}).grid().middle == 0.015


def test_a_bonus_that_pays_on_fewer_than_a_tenth_of_the_steps_is_refused_with_advice() -> None:
    assert typical_intrinsic(BonusConfig(f"{__name__}:Every", {"steps": 10})) == 2.0
    message = r"must pay on >= 10% of the steps of random play, got 136 of 1,500 with .*:Every; let it pay on more"
    with pytest.raises(ConfigError, match=message):
        typical_intrinsic(BonusConfig(f"{__name__}:Every", {"steps": 11}))
    with pytest.raises(ConfigError, match=r"got \d+ of 1,500 with .*:FirstVisit"):
        calibrated(BonusConfig(f"{__name__}:FirstVisit"))


def test_a_bonus_that_learns_is_calibrated_on_what_it_has_learned_from_the_replay() -> None:
    """The replay holds more than 200 steps at the 204th, the first after them that is a multiple of four."""
    Learner.batches.clear()
    assert typical_intrinsic(BonusConfig(f"{__name__}:Learner")) == 20.0
    assert len(Learner.batches) == len(range(204, 2_000, 4))
    assert {shape[0] for shape in Learner.batches} == {64}


def test_a_grid_is_extended_by_two_values_if_the_best_is_at_its_edge() -> None:
    grid = Grid((0.01, 0.032, 0.1, 0.32, 1.0), (1e-4,))
    assert grid.extended(0.1) is None
    assert grid.extended(1.0) == Grid((3.2, 10.0), (1e-4,))
    assert grid.extended(0.01) == Grid((0.001, 0.0032), (1e-4,))


@pytest.mark.exhaustive
def test_the_grids_in_the_published_tuning_follow_the_earlier_rule() -> None:
    for arm in read_study(STUDIES / "small_worlds_tuning.toml").arms:
        config = BonusConfig(arm.bonus, arm.settings.get("bonus", {}).get("options", {}))
        middle = 0.03 / earlier_median(config)
        beta = arm.grid["beta"]["values"]
        assert beta == list(half_decades(middle, len(beta))), arm.name


def earlier_median(config: BonusConfig) -> float:
    """Return the median of the first 1,000 steps, zeros included, of a bonus that is never asked to learn."""
    world = open_world(GAME, base_run(GAME).world, stream(0, "tuning game"), 0)
    bonus = build_bonus(replace(base_run(GAME), bonus=config), world, stream(0, "tuning bonus"))
    assert bonus is not None
    played = islice(play(world, random_policy(world, stream(0, "tuning actions"))), 1_000)
    return statistics.median(abs(bonus.observe(transition)) for transition in played)


def test_the_tuning_study_has_fifteen_settings_and_five_seeds_per_method() -> None:
    study = read_study(STUDIES / "small_worlds_tuning.toml")
    runs = Counter(run.method for run in study.runs)
    assert runs == dict.fromkeys((*BONUSES, *LADDER), 75)
    assert {run.game for run in study.runs} == {GAME}
    assert {run.seed for run in study.runs} == set(SEEDS)
    assert {run.frames for run in study.runs} == {5_000}


@pytest.fixture(scope="module")
def results() -> Results:
    return load(Path(__file__).parents[2] / "results" / "small_worlds")


@pytest.mark.parametrize("method", [*BONUSES, *LADDER])
def test_published_constants_are_those_that_the_tuning_chose(method: str, results: Results) -> None:
    published = METHODS[method].constants[SMALL_WORLDS]
    assert best_of(Trial(method, (), 0), results) == {"scale": published.scale, "options": published.options}


def test_a_report_lists_first_what_the_tuning_chose(results: Results) -> None:
    first: dict[str, tuple[float, float | None]] = {}
    for each in variants(gather(results, "tuning")):
        axes = dict(part.split("=") for part in each.name.split(","))
        first.setdefault(each.method, (float(axes["beta"]), float(axes["lr"]) if "lr" in axes else None))
    published = {method: METHODS[method].constants[SMALL_WORLDS] for method in (*BONUSES, *LADDER)}
    assert first == {method: (bonus.scale, bonus.options.get("learning_rate")) for method, bonus in published.items()}


def test_three_settings_of_the_oracle_are_equal_and_the_largest_area_is_chosen(results: Results) -> None:
    oracle = [each for each in variants(gather(results, "tuning")) if each.method == "oracle"]
    assert [each.name for each in oracle[:3]] == ["beta=0.09", "beta=0.28", "beta=0.028"]
    assert [each.mean for each in oracle[:3]] == pytest.approx([0.98201] * 3, abs=1e-5)  # 0.99 is the best policy's
    assert [each.area for each in oracle[:3]] == pytest.approx([0.2156, 0.2078, 0.1645], abs=1e-4)
    assert oracle[3].mean == pytest.approx(0.787, abs=1e-3)
