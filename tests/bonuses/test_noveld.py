"""NovelD against cases worked by hand from max(n(s') - α n(s), 0) · [first in the episode]."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Product, Transition
from offpiste.bonuses.episodic_counts import EpisodicCounts
from offpiste.bonuses.noveld import NovelD, NovelDOptions
from offpiste.bonuses.registry import options_of
from offpiste.bonuses.rnd import FeatureNetwork, PixelStatistics
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.neural import load_module
from offpiste.seeding import stream
from tests.bonuses.played import PLAYED, made
from tests.sameness import assert_same

SIDE = 12
A, B, C = (np.full((SIDE, SIDE), shade, np.uint8) for shade in (10, 90, 170))


def bonus_of(novelty: dict[int, float] | None = None, alpha: float = 0.5) -> Any:
    """Return a bonus on frames of one shade; with `novelty`, the error of a frame is that of its shade."""
    options = NovelDOptions(learning_rate=1e-3, features=8, alpha=alpha, exact_frames=True)
    bonus: Any = NovelD(options, Context("four_rooms", 4, 1, (SIDE, SIDE), stream(0, "bonus")))
    if novelty is not None:
        bonus._pixels.normalise = lambda frame: frame
        bonus._distillation.learn_second = lambda *frames: tuple(novelty[int(each[0, 0])] ** 2 for each in frames)
    return bonus


def walk(frames: Sequence[NDArray[np.uint8]], truncated: bool = False) -> list[Transition]:
    """Return an episode from frame to frame, which ends with the last."""
    last = len(frames) - 2
    return [
        Transition(left[None], 0, 0.0, entered[None], at == last and not truncated, at == last and truncated, at, RAM)
        for at, (left, entered) in enumerate(pairwise(frames))
    ]


RAM = np.zeros(128, np.uint8)


def test_the_rise_of_novelty_is_paid_on_the_first_visit_of_an_episode() -> None:
    bonus = bonus_of({10: 1.0, 90: 3.0, 170: 0.25})
    # To B: 3 - 0.5. To C: 0.25 - 1.5 is below 0. To A, where the episode began: visited. To B again: visited.
    assert [bonus.observe(step) for step in walk([A, B, C, A, B])] == [2.5, 0.0, 0.0, 0.0]
    # In the next episode all but its own start pay anew: to A from B 1 - 1.5, to C 0.25 - 0.5, to A again, to B: start.
    assert [bonus.observe(step) for step in walk([B, C, A, B])] == [0.0, 1.0 - 0.125, 0.0]


def test_alpha_weighs_the_novelty_of_the_state_left() -> None:
    novelty = {10: 1.0, 90: 3.0}
    assert [bonus_of(novelty, alpha).observe(walk([A, B])[0]) for alpha in (0.0, 1.0, 4.0)] == [3.0, 2.0, 0.0]


def test_a_step_that_changes_nothing_pays_nothing() -> None:
    assert bonus_of({10: 2.0}).observe(walk([A, A])[0]) == 0.0


@pytest.mark.parametrize("truncated", [False, True])
def test_visits_are_forgotten_after_every_end(truncated: bool) -> None:
    bonus = bonus_of({10: 1.0, 90: 3.0, 170: 0.0})
    paid = [bonus.observe(step) for _ in range(2) for step in walk([A, B, C], truncated)]
    assert paid == [2.5, 0.0, 2.5, 0.0]


def test_both_factors_are_named() -> None:
    first, again = (bonus_of({10: 1.0, 90: 3.0}).observe(step) for step in (walk([A, B])[0], walk([A, A])[0]))
    assert isinstance(first, Product)
    assert first.factors == {"lifelong": 2.5, "episodic": 1.0}
    assert again.factors == {"lifelong": 0.5, "episodic": 0.0}


def test_novelty_is_the_norm_of_the_error_by_one_set_of_weights() -> None:
    bonus, steps = made("noveld"), PLAYED[:6]
    for step in steps[:5]:
        bonus.observe(step)
    before, step = bonus.state(), steps[5]
    target, predictor = (FeatureNetwork(step.frame.shape, 128, hidden, stream(0, "bonus")) for hidden in (0, 2))
    load_module(before, target, prefix="target/")
    load_module(before, predictor, prefix="predictor/")
    pixels = PixelStatistics(step.frame.shape)
    pixels.load_state(before)
    pixels.observe(step.next_state[-1])
    with torch.no_grad():
        norms = [
            float((predictor(x) - target(x)).norm())
            for frame in (step.frame, step.next_state[-1])
            for x in (torch.from_numpy(pixels.normalise(frame)[None, None]).float(),)
        ]
    assert bonus.observe(step).factors["lifelong"] == pytest.approx(max(norms[1] - 0.5 * norms[0], 0.0), rel=1e-4)


def test_the_predictor_learns_the_state_entered_and_not_the_one_left() -> None:
    bonus, twin = bonus_of(), bonus_of()
    left, entered = (np.random.default_rng(seed).normal(size=(SIDE, SIDE)) for seed in range(2))
    alone = twin._distillation.learn(entered)
    assert bonus._distillation.learn_second(left, entered)[1] == pytest.approx(alone, rel=1e-5)
    learned, expected = bonus._distillation.state(), twin._distillation.state()
    for name, values in expected.items():
        np.testing.assert_allclose(learned[name], values, rtol=1e-4, atol=1e-7, err_msg=name)


def test_frames_count_exactly_or_by_their_coarse_copy() -> None:
    frame = np.zeros((84, 84), np.uint8)
    frame[40:50, 40:50] = 200
    other = frame.copy()
    other[0, 0] = 1
    for exact, expected in ((True, [1, 1, 2]), (False, [1, 2, 3])):
        counts = EpisodicCounts(exact=exact)
        assert [counts.visit(each) for each in (frame, other, frame)] == expected
    moved = np.roll(frame, 20, axis=1)
    counts = EpisodicCounts(exact=False)
    assert [counts.visit(each) for each in (frame, moved)] == [1, 1]


def test_counts_of_an_episode_are_restored() -> None:
    counts, other = EpisodicCounts(exact=True), EpisodicCounts(exact=True)
    for frame in (A, B, A):
        counts.visit(frame)
    other.load_state(counts.state())
    assert_same(other.state(), counts.state())
    assert [other.visit(frame) for frame in (A, B, C)] == [3, 2, 1]


def test_what_it_declares() -> None:
    assert (NovelD.scope, NovelD.pays_for) == ("both", "next_state")
    assert options_of(BonusConfig("noveld")) == NovelDOptions(1e-4, 512, 0.5, False)
    with pytest.raises(ConfigError, match=r"bonus.options.alpha must be >= 0, got -1"):
        options_of(BonusConfig("noveld", {"alpha": -1.0}))


def test_small_worlds_count_the_exact_frame() -> None:
    bonus = made("noveld")
    step = replace(PLAYED[0], episode_step=0)
    bonus.observe(step)
    different = int((step.frame != step.next_state[-1]).any())
    assert bonus._visits.visit(step.next_state[-1]) == 3 - different
    assert different == 0 or bonus._visits.visit(step.frame) == 2
