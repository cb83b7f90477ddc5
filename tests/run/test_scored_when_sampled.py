"""With `bonus.when = "sample"` the agent learns from what a bonus says of a batch now, not from what it paid then."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from offpiste.agent.rainbow import Rainbow
from offpiste.bonuses.base import scores
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError, NotFinite
from offpiste.run.loop import Loop
from offpiste.types import Batch, Transition
from tests.run.small import small_run

SAMPLED = BonusConfig(name="stub", when="sample", clip_sum=False, scale=0.5)


class Scorer:
    """Pays 100 on entry; scores the k-th step of a row as k."""

    def observe(self, transition: Transition) -> float:
        return 100.0

    def score(self, batch: Batch) -> Any:
        return np.tile(np.arange(1.0, 1.0 + batch.actions.shape[1]), (len(batch.actions), 1))

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


def test_the_agent_learns_from_the_scores_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, learn = [], Rainbow.learn

    def recorded(self: Rainbow, batch: Batch, targets: Any, *rest: Any) -> Any:
        learned.append((batch, targets[0].returns))
        return learn(self, batch, targets, *rest)

    monkeypatch.setattr(Rainbow, "learn", recorded)
    loop = Loop(small_run(bonus=SAMPLED), Scorer())
    steps = [*islice(loop.steps(), 100)]
    assert len(learned) > 5
    for batch, returns in learned:
        bonuses = 0.5 * (1.0 + 0.99 * 2.0 + 0.99**2 * 3.0) - np.zeros(len(returns))
        whole = batch.steps == 3
        extrinsic = (batch.extrinsic * 0.99 ** np.arange(3)).sum(axis=1)
        np.testing.assert_allclose(returns[whole], (bonuses + extrinsic)[whole], rtol=1e-5)
    assert loop.replay.intrinsic.max() == 100.0  # what was paid is still recorded
    assert steps


def test_beyond_the_end_of_an_episode_nothing_is_scored() -> None:
    loop = Loop(small_run(bonus=SAMPLED), Scorer())
    for _ in islice(loop.steps(), 90):
        pass
    batch = replace(loop.replay.sample(2), steps=np.array([1, 3]))
    assert scores(Scorer(), batch).tolist() == [[1.0, 0.0, 0.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda batch: np.zeros(len(batch.actions)),
            r"numbers of shape \(2, 3\), one for each step .*, got float64 of",
        ),
        (lambda batch: np.full(batch.actions.shape, np.nan), r"score must return finite numbers"),
    ],
)
def test_scores_that_cannot_be_are_refused(made: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(small_run(bonus=SAMPLED), Scorer())
    for _ in islice(loop.steps(), 90):
        pass
    monkeypatch.setattr(Scorer, "score", lambda _, batch: made(batch))
    with pytest.raises(NotFinite, match=message):
        scores(Scorer(), loop.replay.sample(2))


def test_a_bonus_without_scores_and_a_return_that_goes_on_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"when must be entry for the bonus 'simhash', which has no method score"):
        Loop(small_run(bonus=BonusConfig(name="simhash", when="sample")))
    with pytest.raises(ConfigError, match=r"when must be entry with bonus\.ends_with_episode = false"):
        replace(SAMPLED, heads=2, ends_with_episode=False)
