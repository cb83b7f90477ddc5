"""Agent and bonus learn: what no test of their parts can show."""

from dataclasses import replace

import pytest

from offpiste.methods import base_run
from offpiste.run.loop import Loop
from offpiste.run.process import prepare
from offpiste.worlds.scores import reference_scores

GAME = "deep_sea_12"
"""Random play reaches its goal once in 4,096 episodes."""


def last_score(method: str, scale: float, seed: int) -> float:
    """Return the normalised score of the last evaluation of a run."""
    config = base_run(GAME, method)
    config = replace(config, seed=seed, bonus=replace(config.bonus, scale=scale))
    prepare(config.machine)
    score, reference = float("nan"), reference_scores(GAME)
    loop = Loop(config)
    for step in loop.steps():
        if step.iteration is not None and step.iteration.phase == "evaluation":
            assert step.iteration.return_mean is not None
            score = (step.iteration.return_mean - reference.random) / reference.span
            if loop.tracker.training_steps >= config.frames:
                break
    return score


@pytest.mark.exhaustive
def test_deep_sea_is_solved_with_true_counts_and_not_without() -> None:
    with_counts = [last_score("oracle", 0.1, seed) for seed in (4000, 4001, 4002)]
    without = [last_score("epsilon_greedy", 0.0, seed) for seed in (4000, 4001, 4002)]
    assert sorted(with_counts)[1] > 0.8
    assert max(without) < 0.2
